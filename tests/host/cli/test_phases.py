"""A user's file of phases: whatever would keep the capture from being opened again is refused before recording."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattbell.capture import CaptureWriter, open_capture
from wattbell.errors import UsageError
from wattbell.virtual.workload import read_phases

from tests.host.fuzzing import examples

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 70), 1 << 70) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
KEYS = st.sampled_from(["phase", "name", "kind", "fio", "fio_json", "fio_group", "job", "jobs", "else"])
PHASES = st.lists(st.dictionaries(KEYS, JSON | st.integers(0, 300) | st.just("a")), max_size=3)


def test_good_ones_are_taken_as_they_are(tmp_path: Path) -> None:
    phases = [{"phase": 1, "name": "randread", "mine": [1]}, {"phase": 2}]
    for content in (phases, {"phases": phases, "more": 1}):
        (tmp_path / "p.json").write_text(json.dumps(content))
        assert read_phases(tmp_path / "p.json") == phases
    assert read_phases(None) is None


BAD = ["", "{", "5", "[[]]", '[{"name": "a"}]', '[{"phase": "1"}]', '[{"phase": 1, "name": 5}]', "[" * 100_000, "\xff"]


@pytest.mark.parametrize("text", BAD, ids=lambda text: text[:20])
def test_others_are_one_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "p.json").write_text(text, encoding="latin-1")
    with pytest.raises(UsageError, match=r"p\.json"):
        read_phases(tmp_path / "p.json")


@examples(100)
@given(JSON | PHASES | PHASES.map(lambda phases: {"phases": phases}))
def test_what_is_taken_makes_a_capture_that_opens(tmp_path_factory: pytest.TempPathFactory, content: Any) -> None:
    folder = tmp_path_factory.mktemp("phases")
    (folder / "p.json").write_text(json.dumps(content))
    try:
        phases = read_phases(folder / "p.json")
    except UsageError:
        return
    with CaptureWriter(folder / "c", journal=False) as writer:
        writer.meta["workload"] = {"phases": phases}
    assert open_capture(folder / "c").phases == phases
