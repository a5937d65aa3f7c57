"""A run of the suite conformance as subjects: each capture gives the figures that its test was made for, and no others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from wattbell.capture import open_capture
from wattbell.errors import ResultsError
from wattbell.measure.judge import Verdict
from wattbell.requirements.judging import judge_all
from wattbell.requirements.model import Requirement, RequirementFile
from wattbell.requirements.of_conformance import is_conformance, subjects
from wattbell.results import read_run

from tests.host.conftest import Builder

MS, S = 1_000_000, 1_000_000_000
PS0 = {"state": 0, "max_power_w": 4.0, "non_operational": False}
MAP: dict[str, Any] = {"measurand": "largest-mean-power", "window_s": 1.0}
ACTP: dict[str, Any] = {"measurand": "state-active-power", "applies": "declared.workload"}
LEFT_OUT = {("map", "PS0"): "not measured", ("actp", "PS0"): "not applicable"}


def captured(folder: Path, watts: float, latency: int, end: int) -> None:
    builder = Builder(folder)
    builder.levels.append((0, watts))
    builder.command(10 * MS, latency)
    builder.write(end=end)


def made(tmp_path: Path, scale: float = 1.0, **tests: tuple[float, int, int]) -> Path:
    """A run with a capture for each test: (watts, latency in ns of its one command, end in ns)."""
    folder = tmp_path / "run"
    (folder / "captures").mkdir(parents=True)
    entries: list[dict[str, Any]] = []
    for name, (watts, latency, end) in tests.items():
        captured(folder / "captures" / name, watts, latency, end)
        entries.append(
            {
                "test": name.replace("_", "-"),
                "name": name,
                "kind": "idle",
                "condition": "empty",
                "points": [],
                "scores": [],
                "series": None,
                "peaks": {},
                "capture": f"captures/{name}",
            }
        )
    document = {
        "format": 1,
        "suite": "conformance",
        "suite_hash": "0" * 64,
        "scale": scale,
        "scaled": scale != 1,
        "condition": "",
        "virtual": True,
        "tests": entries,
        "drive": {"model": "D", "serial": "S", "firmware": "F"},
    }
    (folder / "results.json").write_text(json.dumps(document))
    return folder


def verdicts(folder: Path, **limits: Any) -> dict[str, tuple[Verdict, str]]:
    keys: dict[str, dict[str, Any]] = {
        "power": {"measurand": "largest-mean-power", "window_s": 0.1, "unit": "W"},
        "io": {"measurand": "io-latency", "unit": "s"},
        "enable": {"measurand": "enable-to-io", "unit": "s"},
        "long": {"measurand": "largest-mean-power", "window_s": 0.1, "unit": "W", "duration_s": 1.5},
    }
    ones = tuple(Requirement(id=name, clause="", text="t.", limit=limit, **keys[name]) for name, limit in limits.items())
    run = read_run(folder)
    assert is_conformance(run)
    (found,) = judge_all(subjects(run, open_capture), [RequirementFile(name="f", title="", source="", requirement=ones)])
    return {row.requirement.id: (row.verdict, row.why) for row in found.rows}


def test_each_capture_gives_the_figures_of_its_test(tmp_path: Path) -> None:
    """The load draws 3 W and has a latency of 100 ms in its queue; at a depth of 1 it is 1 ms, and 9 W count for nothing there."""
    folder = made(tmp_path, load=(3.0, 100 * MS, 2 * S), depth_1=(9.0, 1 * MS, S))
    assert verdicts(folder, power=4.0, io=0.01, long=4.0) == {"power": ("pass", ""), "io": ("pass", ""), "long": ("pass", "")}
    assert verdicts(folder, power=2.0, io=0.0001)["power"][0] == "fail"
    assert verdicts(folder, io=0.0001)["io"][0] == "fail"


def test_what_no_test_gives_is_not_measured_and_says_so(tmp_path: Path) -> None:
    assert verdicts(made(tmp_path, load=(3.0, MS, S)), enable=1.0)["enable"] == (
        "not measured",
        "this run has no test that gives it (cold)",
    )


def test_a_test_that_was_left_out_makes_no_requirement_inapplicable(tmp_path: Path) -> None:
    """With the declared states and without: PS0 has a maximum, and declares no workload for its active power."""
    folder = made(tmp_path, depth_1=(3.0, MS, S))
    for states, rows in (([], {("map", ""): "not measured", ("actp", ""): "not measured"}), ([PS0], LEFT_OUT)):
        document = json.loads((folder / "results.json").read_text())
        document["drive"]["power_states"] = states
        (folder / "results.json").write_text(json.dumps(document))
        ones = (
            Requirement(id="map", clause="", text="t.", limit="declared.max_power_w", unit="W", states="operational", **MAP),
            Requirement(id="actp", clause="", text="t.", limit="declared.active_power_w", unit="W", states="operational", **ACTP),
        )
        file = RequirementFile(name="f", title="", source="", requirement=ones)
        (found,) = judge_all(subjects(read_run(folder), open_capture), [file])
        assert {(row.requirement.id, row.scope): row.verdict for row in found.rows} == rows
        assert all("this run has no test that gives it" in row.why for row in found.rows if row.verdict == "not measured")


def test_a_scaled_run_passes_nothing_for_certain_and_its_fails_stand(tmp_path: Path) -> None:
    folder = made(tmp_path, scale=0.5, load=(3.0, MS, S))
    doubt = "the run was scaled: time and span were shortened"
    assert verdicts(folder, power=4.0)["power"] == ("conditional pass", doubt)
    assert verdicts(folder, power=2.0)["power"][0] == "fail"
    # the observed time decides where a requirement names one
    assert verdicts(folder, long=4.0)["long"] == ("conditional pass", "observed for 1 s of 1.5 s")


def test_removed_captures_leave_the_results(tmp_path: Path) -> None:
    folder = made(tmp_path, depth_1=(3.0, MS, S))
    (folder / "captures/depth_1/meta.json").unlink()
    assert verdicts(folder, io=1.0)["io"] == ("not measured", "a suite's results keep no commands: judge its captures")


def test_a_capture_outside_the_run_is_not_read(tmp_path: Path) -> None:
    folder = made(tmp_path, load=(3.0, MS, S))
    text = (folder / "results.json").read_text()
    (folder / "results.json").write_text(text.replace("captures/load", "../elsewhere"))
    with pytest.raises(ResultsError, match="lies outside it; not read"):
        subjects(read_run(folder), open_capture)
