"""`power-states`, and `analyze` of its kept captures: both find the same of one drive.

The right answers come from the drives' profiles (sim/profiles), by hand: the sum of the core's and the link's power asleep, and the
real exit latency. They also include the power of the states in which the drive, by seed 004, draws more than it declares.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner
from wattbell.cli.app import app
from wattbell.present.suite.powerstates import declared_and_measured
from wattbell.present.table import Cell
from wattbell.results import read_run

from tests.e2e.virtual import MARKS, finished, wattbell

pytestmark = MARKS
NAMES = {"max_power_w": "MP", "entry_latency_s": "ENLAT", "exit_latency_s": "EXLAT", "idle_power_w": "IDLP"}
SEEN = ("pass", "conditional pass", "conditional fail", "fail")
LOADS = "operational-test-data"
"""The capture with the heaviest loads of each operational state: a lighter one refutes a maximum and cannot confirm it."""


def text(entry: Cell | str) -> str:
    return entry if isinstance(entry, str) else entry.text


def of_suite(folder: Path) -> dict[tuple[int, str], str]:
    run, found, state = read_run(folder), {}, -1
    for row in declared_and_measured(run, [run]).rows:
        state = int(text(row[0]).split()[1]) if text(row[0]) else state
        if word := text(row[4]).partition(" ×")[0]:
            found[state, text(row[1])] = word
    return found


def of_analyses(folder: Path) -> dict[tuple[str, int, str], str]:
    found = {}
    for capture in sorted((folder / "captures").iterdir()):
        told = CliRunner().invoke(app, ["analyze", str(capture), "--json"])
        assert told.exception is None, told.output
        states: list[dict[str, Any]] = json.loads(told.stdout)["power_states"]["states"]
        for state in states:
            for key, judged in state["judged"].items():
                if key in NAMES and judged["verdict"] in SEEN:
                    found[capture.name, state["state"], NAMES[key]] = judged["verdict"]
    return found


@pytest.mark.parametrize(
    ("profile", "right"),
    [
        # 48 + 0.6 mW of 50, 9.5 + 0.6 of 4; 1.2 ms (and 2 % of spread) of 1 and 55 of 8; its loads stay below half of what it declares
        pytest.param(
            "crucial-p1-1tb",
            {
                (0, "MP"): "pass",
                (1, "MP"): "pass",
                (2, "MP"): "pass",
                (3, "MP"): "pass",
                (4, "MP"): "fail",
                (3, "EXLAT"): "fail",
                (4, "EXLAT"): "fail",
            },
            marks=pytest.mark.long,
        ),
        # 95 + 1 mW of 100, 4 + 1 of 2.5; awake it draws more than it declares in every state
        ("wd-sn750", {(0, "MP"): "fail", (1, "MP"): "fail", (2, "MP"): "fail", (3, "MP"): "pass", (4, "MP"): "fail"}),
        # 48 + 0.6 mW of 50, 6 + 0.6 of 5
        pytest.param("toshiba-rc100", {(0, "MP"): "pass", (3, "MP"): "pass", (4, "MP"): "fail"}, marks=pytest.mark.long),
    ],
)
def test_both_say_the_same(tmp_path: Path, profile: str, right: dict[tuple[int, str], str]) -> None:
    out = tmp_path / "out"
    common = ("--virtual", profile, "--fidelity", "fast", "--scale", 0.1, "--no-store", "--no-page")
    finished(wattbell(tmp_path, "run", "power-states", *common, "--out", out))
    suite, captures = of_suite(out), of_analyses(out)
    assert {key: suite[key] for key in right} == right
    compared = 0
    for (capture, state, name), word in captures.items():
        if capture not in (LOADS, "non-operational-test-data") or (name == "MP" and state < 3 and capture != LOADS):
            continue
        assert word == suite[state, name], (capture, state, name)
        compared += 1
    assert compared >= 7, captures
    refuted = {(state, name) for (_, state, name), word in captures.items() if word == "fail"}
    assert {key for key in refuted if key[1] == "MP"} == {key for key, word in suite.items() if word == "fail" and key[1] == "MP"}
