"""The study of verdicts: each injector changes the drive's evidence by the stated amount; its counts; and a handful of drives."""

from __future__ import annotations

import ast
import math
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from studies import faults, verdicts
from studies.faults import bustrace, inject, kinds, oracles, pages
from studies.faults.bustrace import MS, S
from studies.faults.kinds import KINDS, Faulty, Kind, Shown
from studies.verdicts import Outcome

BY_NAME = {kind.name: kind for kind in KINDS}
SEED = 3


def put_in(name: str, folder: Path, size: float = 6.0) -> tuple[Shown, Faulty]:
    """Return a drive's evidence without and with a fault of a kind."""
    kind, before = BY_NAME[name], []

    def kept(shown: Shown, _: float, random: np.random.Generator) -> Faulty:
        before.append(shown)
        return kind.inject(shown, size, random)

    made, _ = verdicts.made(replace(kind, inject=kept), SEED, good=False, folder=folder)
    return before[0], made


def test_faults_share_no_code_with_the_judge() -> None:
    for file in Path(faults.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else [getattr(node, "module", None) or ""]
            if isinstance(node, ast.Import | ast.ImportFrom):
                assert not any(name.startswith(("wattbell", "studies.verdicts", "tests")) for name in names), file.name


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_an_injector_changes_what_the_drive_shows(kind: Kind, tmp_path: Path) -> None:
    """Trace or page differ, all in order of time; and a fault that has a size has the size that was asked for."""
    before, made = put_in(kind.name, tmp_path)
    assert made.shown.trace.records != before.trace.records or made.shown.logs != before.logs
    bustrace.write(made.shown.trace, tmp_path / "again.wbt")  # refuses records out of order
    if kind.u is not None:
        assert made.excess == pytest.approx(6.0 * kind.u(before), rel=0.25)
    assert made.shown.profile == before.profile and made.what


def _rail_joules(shown: Shown) -> float:
    """Energy of the whole trace, step by step."""
    steps = [one for one in shown.trace.records if one.kind == bustrace.RAIL]
    total = 0
    for one, after in zip(steps, [*steps[1:], shown.trace.records[-1]], strict=True):
        current, volts = struct.unpack("<qq", one.body)
        total += current * volts * (after.time - one.time)
    return total * 1e-30


def test_power_above_the_maximum_lasts_for_1100_ms(tmp_path: Path) -> None:
    before, made = put_in("power above maximum", tmp_path)
    limit = before.declared("max_w")
    times, watts = made.shown.trace.rail
    above = watts > limit
    assert float(np.diff(np.append(times, made.shown.trace.end_ps))[above].sum()) / MS == pytest.approx(1100, abs=0.001)
    assert _rail_joules(made.shown) - _rail_joules(before) > 0.5 * 1.1 * limit / 2


def test_a_late_entry_keeps_the_power_from_before(tmp_path: Path) -> None:
    """The rail goes down once later, so the drive draws more by the delay times its idle power; no TLP moves."""
    before, made = put_in("late entry", tmp_path, size=60.0)
    more_j = _rail_joules(made.shown) - _rail_joules(before)
    late_s = made.excess + before.declared("entry_us") * 1e-6 + kinds.LINK_S - kinds.longest_entry_s(before)
    assert 0.2 * late_s < more_j < 3.0 * late_s + 0.01
    others = [[one for one in shown.trace.records if one.kind != bustrace.RAIL] for shown in (before, made.shown)]
    assert others[0] == others[1]


def test_a_late_exit_delays_all_behind_it(tmp_path: Path) -> None:
    before, made = put_in("late exit", tmp_path)
    assert len(made.shown.trace.records) == len(before.trace.records)
    moved = {after.time - one.time for one, after in zip(before.trace.records, made.shown.trace.records, strict=True)}
    assert len(moved) == 2 and min(moved) == 0 and made.shown.trace.end_ps - before.trace.end_ps == max(moved) > 0
    assert len(list(oracles.exits(before.trace))) == 500


def test_a_right_account_is_the_models_own(tmp_path: Path) -> None:
    """The drive's seconds from the rail of the trace give the page of the model, to a digit of the mean and of the largest."""
    before, made = put_in("meter gain", tmp_path)
    seconds = kinds.seconds_of(before)
    page = before.logs[kinds.POWER_PAGE]
    right = pages.MeterAccount.of(seconds).page(page)
    assert pages.page_figures(right)[0::3] == pages.page_figures(page)[0::3]
    assert pages.page_figures(right)[1:3] == pytest.approx(pages.page_figures(page)[1:3], abs=2e-4)
    wrong = pages.page_figures(made.shown.logs[kinds.POWER_PAGE])
    assert abs(wrong[1] / pages.page_figures(page)[1] - 1) == pytest.approx(0.05 + 6 * 2e-3, abs=2e-4)


def test_a_histogram_that_the_claim_explains_is_no_fault() -> None:
    """1.01 W in the bin below 1 W is within 5 %; 1.2 W there is 0.14 W beyond."""
    assert kinds.beyond_claim_w([1.01], [0, 0, 0, 1]) == pytest.approx(0.01 - 0.0505, abs=1e-3)
    assert kinds.beyond_claim_w([1.2], [0, 0, 0, 1]) == pytest.approx(0.2 - 0.06, abs=1e-3)
    assert kinds.beyond_claim_w([1.2, 1.01], [0, 0, 0, 1, 1]) < 0, "the other one may be there"


def test_events_move_or_lose_their_cause(tmp_path: Path) -> None:
    before, late = put_in("event late", tmp_path / "late")
    cqes = [
        [one.time for one in shown.trace.records if one.kind == bustrace.TLP_UP and len(one.body) in (28, 32)]
        for shown in (before, late.shown)
    ]
    gone, new = set(cqes[0]) - set(cqes[1]), set(cqes[1]) - set(cqes[0])
    assert len(gone) == len(new) == 1 and (new.pop() - gone.pop()) / S == pytest.approx(late.excess + 1.0, abs=1e-9)
    before, false = put_in("event false", tmp_path / "false")
    words = [kinds.admin.features(shown.trace, 0x24)[0].cdw11 for shown in (before, false.shown)]
    assert pages.watts_of(words[1]) > 2 * pages.watts_of(words[0]) and words[1] >> 31 == 1
    _, double = put_in("event double", tmp_path / "double")
    assert len(kinds.admin.features(double.shown.trace, 0x24)) == 1


def test_a_shifted_rail_does_the_same_later() -> None:
    volts = 3_300_000_000
    steps = [bustrace.rail_record(at * MS, watts, volts) for at, watts in ((0, 1.0), (10, 0.5), (20, 0.1), (40, 1.0))]
    trace = bustrace.BusTrace(b"", [*steps, bustrace.Record(bustrace.END, 0, 50 * MS, b"")])
    times, watts = inject.shifted(trace, 10 * MS, 39 * MS, 3 * MS).rail
    assert watts[np.searchsorted(times, [9 * MS, 12 * MS, 14 * MS, 22 * MS, 24 * MS, 41 * MS], side="right") - 1] == pytest.approx(
        [1.0, 1.0, 0.5, 0.5, 0.1, 1.0]
    )


def _outcome(good: bool, excess: float, verdict: str, failed: tuple[str, ...] = ()) -> Outcome:
    return Outcome("late entry", good, 1, "made by hand", excess, "s", 2e-5, {"declared/ENLAT PS3": verdict}, failed, {})


def test_the_counts_and_the_check() -> None:
    found = (
        [_outcome(False, 5e-5, "fail")] * 30 + [_outcome(False, 1e-5, "conditional fail")] * 4 + [_outcome(True, -math.inf, "pass")] * 30
    )
    text = verdicts.tables(found, (200, 200))
    assert (
        "34 of 200 faulty drives, and 30 of 200 good ones" in text
        and "| fault of 2 U and more, judged | 30 of 30: 100.0 % (88.4 to" in text
    )
    assert "| 0 to 1 U | 0 of 4" in text and "No good drive was accused." in text and not verdicts.too_bad(found)
    worse = [*found, *[_outcome(False, 5e-5, "pass")] * 6, *[_outcome(True, -1e-5, "fail", ("declared/ENLAT PS3",))] * 6]
    assert [line.split()[:3] for line in verdicts.too_bad(worse)] == [["30", "of", "36"], ["6", "of", "36"]]


@pytest.mark.parametrize(
    ("name", "good"),
    [("power above maximum", False), ("late entry", False), ("meter dropped", False), ("APST ignored", True), ("late entry", True)],
)
def test_a_handful_of_drives(name: str, good: bool) -> None:
    """Through model, injector, virtual rig and judge. Sizes are drawn, so a small fault may be conditional."""
    (found,) = verdicts.outcome(BY_NAME[name], SEED, good)
    assert found.judged and (found.found or found.size < 2) if not good else not found.failed
