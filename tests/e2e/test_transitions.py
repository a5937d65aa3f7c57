"""All ordered pairs of power states on a drive model, through the real CLI: each time against the model's own account of its states."""

from __future__ import annotations

import csv
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from wattbell.virtual.profiles import find_profile
from wattbell.virtual.simulator import find_program

from tests.e2e.virtual import MARKS, finished, wattbell

pytestmark = MARKS
NS = 1e-12
"""Seconds in a picosecond, the unit of the model's account."""


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables keep each row on one line."""
    monkeypatch.setenv("COLUMNS", "200")


def profile(folder: Path, *states: tuple[int, int]) -> Path:
    """The profile of a drive of five states that declares these (entry, exit) latencies in us, and enters and leaves as it always does."""
    head, *tables = find_profile("intel-660p-1tb").read_text().split("[[power_state]]")
    for number, values in enumerate(states):
        for name, value in zip(("entry_us", "exit_us"), values, strict=True):
            tables[number], n = re.subn(
                rf"^{name} = {{ value = [0-9.]+", f"{name} = {{ value = {value}", tables[number], flags=re.MULTILINE
            )
            assert n == 1
    path = folder / "drive.toml"
    path.write_text("[[power_state]]".join([head, *tables]))
    return path


def run(folder: Path, drive: Path, code: int) -> tuple[dict[str, Any], str]:
    """Run the test, and return the row of transitions with the output."""
    asked = ("--requirements", "nvme", "--tests", "transitions", "--scale", "0.1", "--no-store", "--out", folder / "out")
    said, _ = finished(wattbell(folder, "run", "conformance", "--virtual", drive, *asked), code)
    out, _ = finished(wattbell(folder, "judge", folder / "out", "--requirements", "nvme", "--json"), code)
    (found,) = json.loads(out)["drives"]
    (row,) = [row for row in found["verdicts"] if row["id"] == "TRANSITIONS"]
    return row, said


def true_times(folder: Path, drive: Path) -> dict[tuple[int, int], list[float]]:
    """Run the same plan on the model alone: from the doorbell of each request to its CQE, and from the last CQE to the state, in s."""
    (plan,) = (folder / "out" / "plans").rglob("plan.toml")
    commands, states = folder / "commands.csv", folder / "states.csv"
    subprocess.run(
        [
            find_program("wattbell-ssd"),
            "run",
            "--profile",
            drive,
            "--plan",
            plan,
            "--seed",
            "1",
            "--summaries",
            "--trace",
            "/dev/null",
            "--truth-commands",
            commands,
            "--truth-states",
            states,
        ],
        check=True,
    )
    with states.open() as file:
        core = [(int(row["from_ps"]), row["state"]) for row in csv.DictReader(file) if row["part"] == "core"]
    with commands.open() as file:
        rows = [{k: int(v or 0) for k, v in row.items()} for row in csv.DictReader(file)]
    asked = [(i, row) for i, row in enumerate(rows) if (row["opcode"], row["qid"], row["slba"] & 0xFF) == (9, 0, 2)]
    out: dict[tuple[int, int], list[float]] = {}
    for (i, row), (k, following) in zip(asked, [*asked[1:], (len(rows), {"doorbell_ps": core[-1][0] + 1})], strict=True):
        old = asked[asked.index((i, row)) - 1][1]["blocks"] if i != asked[0][0] else None
        rest = max(each["cqe_ps"] for each in rows[i:k])
        there = [at for at, state in core if rest <= at < following["doorbell_ps"] and state == f"ps{row['blocks']}"]
        if old is not None:
            out.setdefault((old, row["blocks"]), []).append((row["cqe_ps"] - row["doorbell_ps"] + (there[0] - rest if there else 0)) * NS)
    return out


def test_every_pair_is_visited_and_timed_as_the_model_knows_it(tmp_path: Path) -> None:
    """The drive declares 5 ms + 5 ms for PS3 to PS4 and 9 ms + 5 ms for the way back, and takes about 11 ms and 60 ms."""
    drive = profile(tmp_path)
    row, said = run(tmp_path, drive, 3)
    assert (row["verdict"], row["scope"], row["limit"]) == ("fail", "PS4 to PS3", pytest.approx(14e-3))
    truth = true_times(tmp_path, drive)
    assert set(truth) == {(a, b) for a in range(5) for b in range(5) if a != b}, "each ordered pair"
    (test,) = json.loads((tmp_path / "out/results.json").read_text())["tests"]
    points = {(point["x"]["from_ps"], point["x"]["to_ps"]): point for point in test["points"]}
    assert set(points) == set(truth) and not test["lost"]
    for pair, times in truth.items():
        longest = points[pair]["longest_s"]
        assert points[pair]["count"]["value"] == len(times) == 2
        # awake, the rail falls to its level only when the controller has put the command away
        assert abs(longest["value"] - max(times)) <= longest["u"] + (20e-6 if pair[1] < 3 else 0), pair
    assert row["measured"]["value"] == pytest.approx(max(truth[4, 3]), abs=row["measured"]["u"])
    assert re.search(r"^PS4 +PS3 +14.0 ms .*fail ×4", said, re.MULTILINE), "the table in the terminal"
    page = (tmp_path / "out/suite.html").read_text()
    assert "Transitions between power states" in page and "PS4" in page


def test_a_drive_that_keeps_what_it_declares_passes_only_unscaled_and_one_slow_exit_is_found(tmp_path: Path) -> None:
    """Every state declares more than the drive takes. Then PS3 declares an exit of 4 ms and takes 6.2 ms."""
    good = ((100, 100), (100, 100), (100, 100), (6000, 8000), (6000, 60_000))
    row, _ = run(tmp_path, profile(tmp_path, *good), 4)
    assert (row["verdict"], row["why"].split(";")[0]) == ("conditional pass", "the run was scaled: time and span were shortened")
    (tmp_path / "slow").mkdir()
    row, _ = run(tmp_path / "slow", profile(tmp_path / "slow", *good[:3], (6000, 4000), good[4]), 3)
    assert row["verdict"] == "fail" and row["scope"].startswith("PS3 to PS") and row["scope"] != "PS3 to PS4"
