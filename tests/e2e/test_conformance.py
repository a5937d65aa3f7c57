"""`run conformance` on drive models: a drive that declares less than it draws fails just those requirements, and a good drive passes."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from wattbell.virtual.profiles import find_profile

from tests.e2e.virtual import MARKS, finished, stop_in, wattbell

pytestmark = MARKS
LAB = """
name = "lab"
title = "Short"
source = "LAB-7"
[[requirement]]
id = "MAP"
clause = "1"
text = "The mean over 50 ms stays below the declared maximum."
measurand = "largest-mean-power"
window_s = 0.05
sampling_s = 2e-3
duration_s = 0.3
states = "operational"
limit = "declared.max_power_w"
unit = "W"
[[requirement]]
id = "PEAK"
clause = "2"
text = "Peak."
measurand = "largest-mean-power"
window_s = 100e-6
sampling_s = 4e-6
duration_s = 0.2
limit = 8
unit = "W"
[[requirement]]
id = "ASLEEP"
clause = "3"
text = "Asleep below the declared maximum."
measurand = "state-maximum-power"
states = "non-operational"
limit = "declared.max_power_w"
unit = "W"
[[requirement]]
id = "RATE"
clause = "4"
text = "Slow ones."
measurand = "slow-io-per-hour"
threshold_s = 2
duration_s = 0.2
limit = 7
unit = ""
[[requirement]]
id = "METER"
clause = "5"
text = "The drive's own meter is right."
not_measured = "nobody reads it"
severity = "informative"
"""
ALL = {("MAP", "PS0"), ("MAP", "PS1"), ("MAP", "PS2"), ("PEAK", ""), ("ASLEEP", "PS3"), ("ASLEEP", "PS4"), ("RATE", ""), ("METER", "")}


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables keep each row on one line."""
    monkeypatch.setenv("COLUMNS", "200")


def profile(folder: Path, **max_w: float) -> Path:
    """The profile of a drive that draws 10 mW in PS4 and declares 20 mW there, with other declared maxima."""
    states = {"ps4": 0.020, **max_w}
    head, *tables = find_profile("intel-660p-1tb").read_text().split("[[power_state]]")
    for name, value in states.items():
        number = int(name.removeprefix("ps"))
        tables[number], n = re.subn(r"max_w = \{ value = [0-9.]+", f"max_w = {{ value = {value}", tables[number])
        assert n == 1
    path = folder / "drive.toml"
    path.write_text("[[power_state]]".join([head, *tables]))
    return path


def words(folder: Path, drive: Path, *more: object) -> tuple[object, ...]:
    (folder / "lab.toml").write_text(LAB)
    return ("run", "conformance", "--virtual", drive, "--requirements", folder / "lab.toml", "--no-store", "--out", folder / "out", *more)


def failed(document: dict[str, Any]) -> set[tuple[str, str]]:
    (drive,) = document["drives"]
    rows = {(row["id"], row["scope"]): row["verdict"] for row in drive["verdicts"]}
    assert set(rows) == ALL and rows.pop(("METER", "")) == "not measured"
    assert set(rows.values()) <= {"pass", "fail"}, rows
    return {key for key, verdict in rows.items() if verdict == "fail"}


def test_a_good_drive_passes_and_judge_says_the_same_of_its_folder(tmp_path: Path) -> None:
    out, _ = finished(wattbell(tmp_path, *words(tmp_path, profile(tmp_path), "--json", "--junit", tmp_path / "v.xml", "--no-page")), 0)
    assert failed(json.loads(out)) == set() and (tmp_path / "v.xml").is_file() and not (tmp_path / "out/verdicts.html").exists()
    judged, _ = finished(wattbell(tmp_path, "judge", tmp_path / "out", "--requirements", tmp_path / "lab.toml", "--json"), 0)
    assert json.loads(judged) == json.loads(out)


def test_a_drive_that_declares_less_than_it_draws_fails_that_alone_also_when_interrupted(tmp_path: Path) -> None:
    """It draws about 2.3 W in PS1 and 28 mW in PS3."""
    drive = profile(tmp_path, ps1=1.0, ps3=0.015)
    process = wattbell(tmp_path, *words(tmp_path, drive, "--json"))
    stop_in(process, tmp_path / "out/captures/depth-1-test-data", signal.SIGINT)
    assert "Continue with --resume" in finished(process, 130)[1]
    out, said = finished(wattbell(tmp_path, *words(tmp_path, drive, "--resume")), 3)
    assert "load-by-state (full): done before" in said and "no work: nobody reads it" in out and "It takes about" in said
    judged, _ = finished(wattbell(tmp_path, "judge", tmp_path / "out", "--requirements", tmp_path / "lab.toml", "--json"), 3)
    assert failed(json.loads(judged)) == {("MAP", "PS1"), ("ASLEEP", "PS3")}
    assert (tmp_path / "out/verdicts.html").is_file() and len(re.findall(r"^lab/MAP +PS1 .* fail ", out, re.MULTILINE)) == 1
    again, _ = finished(wattbell(tmp_path, *words(tmp_path, drive, "--resume", "--json", "--exit-codes", "fail=7")), 7)
    assert failed(json.loads(again)) == {("MAP", "PS1"), ("ASLEEP", "PS3")}, "all is done: the verdicts are given once more"
    (tmp_path / "lab.toml").write_text(LAB.replace("duration_s = 0.3", "duration_s = 0.4"))
    refused = ("run", "conformance", "--virtual", drive, "--requirements", tmp_path / "lab.toml", "--no-store", "--out", tmp_path / "out")
    _, told = finished(wattbell(tmp_path, *refused, "--resume"), 2)
    assert "was started with another version of the suite's files" in told


def test_a_dry_run_says_how_long_it_takes_and_does_nothing(tmp_path: Path) -> None:
    out, _ = finished(wattbell(tmp_path, *words(tmp_path, profile(tmp_path), "--dry-run", "--json")))
    told = json.loads(out)
    assert {need["id"]: need["tests"] for need in told["requirements"]} == {
        "lab/MAP": ["load-by-state"],
        "lab/PEAK": ["load-by-state"],
        "lab/ASLEEP": ["non-operational"],
        "lab/RATE": ["depth-1"],
        "lab/METER": [],
    }
    # three states of 2 s idle and 0.3 s, one of 0.2 s, one of 3 s awake and 2 x 5 x 3 s asleep; a second for each section of a job file
    assert told["seconds"] == pytest.approx(3 * 2.3 + 0.2 + 33, abs=3 * 5 + 2 + 2)
    assert not (tmp_path / "out").exists()
