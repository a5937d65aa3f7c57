"""tools/mutants.py: the area of a file, the tests of a line, and the meaning of a verdict."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import mutants  # noqa: E402


@pytest.mark.parametrize(
    ("file", "area"),
    [
        ("host/wattbell/cli/run.py", "cli"),
        ("host/wattbell/zoom/deep/er.py", "zoom"),
        ("host/wattbell/door.py", "wattbell"),
        ("host/wattbell/export/decoders/nvme/pd.py", ""),
        ("hw/board/layout/rail.py", "hw"),
        ("sim/guest/run.py", "guest"),
        ("tools/soak.py", "tools"),
        ("studies/seeds/check.py", "studies"),
        ("sim/ssd/src/main.rs", ""),
        ("tests/host/test_x.py", ""),
    ],
)
def test_areas(file: str, area: str) -> None:
    assert mutants.area_of(file) == area


def a_map(lines: dict[str, list[str]], seconds: dict[str, float]) -> mutants.TestMap:
    """A map of tests without a measurement."""
    made = mutants.TestMap.__new__(mutants.TestMap)
    made.seconds, made._lines = seconds, {"host/wattbell/zoom/a.py": lines}
    return made


def test_a_line_gets_the_quickest_tests_within_the_budget_and_one_at_least() -> None:
    found = a_map({"3": ["t::slow", "t::quick", "t::middle"], "9": []}, {"t::slow": 20.0, "t::quick": 1.0, "t::middle": 5.0, "u::x": 2.0})
    file = "host/wattbell/zoom/a.py"
    assert found.tests(file, [3], 30) == ["t::quick", "t::middle", "t::slow"]
    assert found.tests(file, [3], 7) == ["t::quick", "t::middle"]
    assert found.tests(file, [3], 0.1) == ["t::quick"]
    assert found.tests(file, [9], 30) == ["t::quick", "t::middle", "t::slow"], "executed at import: any line of the file"
    assert found.tests(file, [77], 30) == []


def test_a_fixture_of_a_file_serves_all_its_tests() -> None:
    found = a_map({}, {"t.py::a": 1.0, "t.py::b": 1.0, "u.py::c": 1.0})
    of_file = {"t.py": ["t.py::a", "t.py::b"], "u.py": ["u.py::c"]}
    found._add(str(mutants.Work.clone / "host/wattbell/zoom/a.py"), {5: ["t.py::a|setup"], 6: ["u.py::c|run"]}, of_file)
    assert found._lines["host/wattbell/zoom/a.py"] == {"5": ["t.py::a", "t.py::b"], "6": ["u.py::c"]}


def row(verdict: str, equivalent: str = "") -> dict[str, object]:
    return {"area": "zoom", "kept": False, "verdict": verdict, "equivalent": equivalent}


def test_the_share_is_of_the_faults_that_a_test_could_notice() -> None:
    verdicts = [mutants.CAUGHT] * 17 + [mutants.TIMEOUT, mutants.SURVIVED, mutants.NO_TEST, mutants.NOT_GREEN, mutants.UNVIABLE]
    rows = [row(verdict) for verdict in verdicts] + [row(mutants.SURVIVED, "changes nothing"), row(mutants.NO_TEST, "changes nothing")]
    zoom = mutants.table(rows, {"zoom": 99}, kept=False)[2]
    assert zoom == "| zoom | 99 | 22 | 18 | 1 | 1 | 2 | 90% (70% to 97%) |"
