"""Observations of suites' runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from wattbell.requirements.files import load
from wattbell.requirements.judging import JudgedRow, judge_all
from wattbell.requirements.of_run import subject
from wattbell.results import read_run

STATES = [
    {"state": 0, "max_power_w": 4.0, "non_operational": False, "active_power_w": 3.0, "active_power_workload": 2},
    {"state": 4, "max_power_w": 0.004, "non_operational": True, "entry_latency_s": 0.005, "exit_latency_s": 0.009, "idle_power_w": 0.003},
]


def q(value: float, u: float | None, lost: int = 0) -> dict[str, Any]:
    return {"value": value, "u": u, "n_lost": lost}


def run(folder: Path, **more: Any) -> Path:
    """A run of power-states as its results.json has it."""
    points = [
        {"x": {"ps": 0}, "load_w": q(3.9, 0.01), "actp2_w": q(3.2, 0.01)},
        {
            "x": {"ps": 4},
            "settled_w": q(0.0039, 0.00001),
            "idlp_w": q(0.00301, 0.0001),
            "longest_entry_s": q(0.0051, 1e-6),
            "entry_s": q(0.004, 1e-6),
            "longest_exit_s": q(0.02, 1e-6),
            "exit_s": q(0.01, 1e-6),
        },
    ]
    tests = [
        {
            "test": "operational",
            "name": "Operational states",
            "kind": "operational-states",
            "condition": "",
            "points": points,
            "scores": [],
            "series": None,
            "peaks": {"100us": {**q(5.0, 0.01), "phase": "a"}},
        },
        {
            "test": "idle",
            "name": "Idle",
            "kind": "idle",
            "condition": "",
            "points": [],
            "series": None,
            "scores": [{"name": "idle", "unit": "W", "value": q(5.2, 0.01), "reading": None}],
        },
    ]
    document = {
        "format": 1,
        "suite": "power-states",
        "suite_hash": "0" * 64,
        "scale": 1.0,
        "condition": "",
        "virtual": True,
        "tests": tests,
        "drive": {"model": "D", "serial": "S", "firmware": "F", "power_states": STATES},
        **more,
    }
    folder.mkdir()
    (folder / "results.json").write_text(json.dumps(document))
    return folder


def rows(path: Path, name: str, **parameters: float) -> dict[tuple[str, str], JudgedRow]:
    (found,) = judge_all([subject(read_run(path))], [load(name)], parameters)
    return {(row.requirement.id, row.scope): row for row in found.rows}


def test_states_against_what_the_drive_declares(tmp_path: Path) -> None:
    found = rows(run(tmp_path / "r"), "declared")
    said = {key: row.verdict for key, row in found.items()}
    assert said == {
        ("MP", "PS0"): "pass",
        ("MP-idle", "PS4"): "pass",
        ("IDLP", "PS0"): "not applicable",
        ("IDLP", "PS4"): "conditional fail",
        ("ACTP", "PS0"): "fail",
        ("ENLAT", "PS0"): "not applicable",
        ("ENLAT", "PS4"): "conditional fail",
        ("EXLAT", "PS0"): "not applicable",
        ("EXLAT", "PS4"): "fail",
    }
    assert found["EXLAT", "PS4"].measured.value == pytest.approx(0.02), "the longest, not the mean"


def test_power_asleep_of_results_alone_fails_no_drive_for_certain(tmp_path: Path) -> None:
    """In a slot without ASPM the link stays awake, and its power is in the figure. The power of a load has no such doubt."""
    folder = run(tmp_path / "r")
    text = (folder / "results.json").read_text()
    for old, new in ((q(0.0039, 0.00001), q(0.13, 0.00001)), (q(3.9, 0.01), q(4.5, 0.01))):
        assert text.count(json.dumps(old)) == 1
        text = text.replace(json.dumps(old), json.dumps(new))
    (folder / "results.json").write_text(text)
    found = rows(folder, "declared")
    assert found["MP-idle", "PS4"].verdict == "conditional fail" and "L1.2" in found["MP-idle", "PS4"].why
    assert found["MP", "PS0"].verdict == "fail"


def test_a_scaled_run_gives_conditional_verdicts(tmp_path: Path) -> None:
    found = rows(run(tmp_path / "r", scale=0.1), "declared")
    assert found["MP", "PS0"].verdict == "conditional pass" and found["ACTP", "PS0"].verdict == "conditional fail"
    assert "scaled" in found["MP", "PS0"].why


def test_peaks_and_idle_power(tmp_path: Path) -> None:
    found = rows(run(tmp_path / "r"), "ocp", slot_power_limit_w=4.9)
    assert found["PWR-7", ""].verdict in ("fail", "conditional fail") and found["PWR-7", ""].measured.value == 5.0
    assert found["PWR-6", "Idle"].verdict == "fail"
    assert found["CTO-1", ""].why == "a suite's results keep no commands: judge its captures"
    assert found["PCM-1", "PS0"].verdict == "not measured"


def test_a_run_without_states_says_so(tmp_path: Path) -> None:
    found = rows(run(tmp_path / "r", drive={"model": "D"}), "declared")
    assert {row.verdict for row in found.values()} <= {"not measured", "not applicable"}
