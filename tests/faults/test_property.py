"""One account of loss: whatever the fault between rig and recorder, every figure that covers a missing record says so."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from wattbell.capture import open_capture

from tests.faults.faultline import ONE_RUN, RESTARTS
from tests.faults.faultoracle import judge
from tests.faults.faultstream import make, parse
from tests.faults.faulttrial import CLASSES, arrange, record, scratch, trial

TRIALS, GROUPS = 400, 4


@pytest.fixture
def folder() -> Iterator[Path]:
    made = scratch()
    yield made
    shutil.rmtree(made)


@pytest.mark.long  # the short soak, which CI runs too, has the same trials
@pytest.mark.parametrize("group", range(GROUPS))
def test_no_fault_changes_a_figure_without_a_mark(group: int, folder: Path) -> None:
    """CI tries 1000 (``make soak SOAK=--short``), a soak 100 000. ``trial(n, folder)`` runs trial n alone."""
    silent, lost = [], Counter[str]()
    for seed in range(group * TRIALS // GROUPS, (group + 1) * TRIALS // GROUPS):
        done = trial(seed, folder)
        lost[done.fault] += done.verdict.lost > 0
        silent += [f"trial {seed}, {done.fault}: {text}" for text in done.verdict.silent]
    assert not silent, "\n".join(silent[:20])
    harmless = {fault.name for fault in ONE_RUN if fault.harmless}
    seldom = {"blocks in another order", *RESTARTS}
    assert all(lost[name] for name in CLASSES if name not in harmless | seldom)


def test_the_judge_sees_what_is_silent(folder: Path) -> None:
    """The judge gets records that were never on the line, and misses one that was."""
    rng = np.random.default_rng(7)
    blocks = parse(make(rng))
    sent = [record for block in blocks for record in block.records]
    record([b"".join(block.data for block in blocks)], folder / "capture")
    capture = open_capture(folder / "capture")
    whole = judge(sent, capture, harmless=True)
    assert (whole.lost, whole.silent) == (0, [])
    extra = [one for block in parse(make(np.random.default_rng(8), run=1)) for one in block.records]
    found = judge([*sent, *extra], capture)
    assert found.lost == len(extra)
    assert any(text.startswith("lossless, but") for text in found.silent)
    assert any("figures unmarked" in text for text in found.silent)
    phantom = judge(sent[:-1], capture)
    assert any("never sent" in text for text in phantom.silent)


def test_trials_are_what_their_number_says() -> None:
    first, again = arrange(5), arrange(5)
    assert first[2] == again[2]
    assert [block.data for block in first[1]] == [block.data for block in again[1]]
