"""Sessions on a real drive, with a fake rig, nvme and fio: a recorder that plays what such a drive would draw."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from wattbell.capture import open_capture
from wattbell.drive import recording
from wattbell.drive.rounds import Rounds
from wattbell.errors import DriveError
from wattbell.measure.source import Source
from wattbell.suites.manifest import parse_manifest
from wattbell.suites.outcome import Outcome
from wattbell.suites.scoring import score_test
from wattbell.suites.suite import Test

from tests.host.drive.lab import Lab


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    return Lab(tmp_path, monkeypatch)


def suite(folder: Path, **keys: Any) -> tuple[Any, Test]:
    (folder / "suite").mkdir()
    (folder / "suite/manifest.toml").write_text("")
    (folder / "suite/j.fio").write_text("[a]\nfilename=${WATTBELL_DRIVE}\nrw=randread\nbs=4k\n")
    entry = {"id": "t", "name": "T", "conditions": ["test-data"], **keys}
    made = parse_manifest({"name": "s", "test": [entry]}, folder / "suite")
    return made, made.tests[0]


SETTLE = {"name": "t-settle", "settle": {"window_s": 10.0, "range_share": 0.05, "longest_s": 60.0}, "measured": False}
IDLE = {"name": "t", "idle_s": 0.2}


def scored(lab: Lab, tmp_path: Path) -> Outcome:
    return score_test(Source(open_capture(lab.root / "capture")), *suite(tmp_path, kind="idle"), 1.0)


def test_an_idle_time_begins_when_the_rail_is_at_rest(lab: Lab, tmp_path: Path) -> None:
    rests: list[int] = []  # markers seen when the drive rested; a later marker begins no other burst

    def power(t: float) -> float:  # erasing for 20 s, in bursts
        if t >= 20 and lab.markers_seen > 1:
            rests.append(lab.markers_seen)
        return 1.5 if not rests and int(t) % 3 == 0 else 0.5

    lab.power = power
    settle, idle = lab.run(SETTLE, IDLE)
    seen = settle["settling"]
    assert seen["settled"] and 28 <= seen["after_s"] <= 45
    assert seen["mean_w"] == pytest.approx(0.5, rel=1e-3) and seen["range_w"] < 0.01
    assert (settle["kind"], settle["measured"], idle["kind"]) == ("precondition", False, "idle")
    notes = scored(lab, tmp_path).notes
    note = notes[0]  # on a busy computer others may follow
    assert note.startswith("at rest before the idle time: 500.0 mW") and "over 10 s" in note
    assert not any("NO SCORE" in other for other in notes)


def test_a_drive_that_never_rests_is_measured_and_said_to_be_restless(lab: Lab, tmp_path: Path) -> None:
    lab.power = lambda t: 0.7 if int(t) % 5 == 0 else 0.5
    settle, _ = lab.run(SETTLE, IDLE)
    assert not settle["settling"]["settled"] and settle["settling"]["after_s"] == pytest.approx(60, abs=5)
    assert settle["settling"]["range_w"] == pytest.approx(0.2, abs=0.02)
    assert any("not at rest after" in text for text in lab.said)
    out = scored(lab, tmp_path)
    note, why = out.notes
    assert why.startswith("NO SCORE: not settled: level ")
    assert out.scores[0].value.value is None and [p.x for p in out.points] == [{"state": "level 1"}, {"state": "level 2"}]
    assert [p["mean_w"].value for p in out.points] == pytest.approx([0.7, 0.5], rel=1e-3)
    assert note.startswith("NOT AT REST before the idle time: 540.0 mW, its seconds within 200 mW")


def test_a_slow_drift_is_not_rest(lab: Lab) -> None:
    lab.power = lambda t: 0.5 + max(0.0, 0.4 - 0.01 * t)  # 10 % in ten seconds
    (settle,) = lab.run(SETTLE)
    assert settle["settling"]["settled"] and settle["settling"]["after_s"] > 40


def test_a_rig_that_goes_silent_while_the_rail_is_watched_ends_the_session(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "_STALLED_S", 8.0)  # a busy machine takes seconds for the first block
    calls = [0]

    def power(t: float) -> float:
        calls[0] += 1
        if calls[0] > 400:
            lab.power = None
        return 0.5 + int(t) % 2

    lab.power = power
    with pytest.raises(DriveError, match="sent nothing for 8 s"):
        lab.run(SETTLE)


PURGE = {"name": "purge", "format": {"ses": 1}}


def test_a_rig_at_another_drive_is_noticed_before_this_one_is_erased(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its stream goes on, with the rail and the commands of that drive."""
    lab.deaf_from = 0
    with pytest.raises(DriveError, match=r"is this rig at this drive\? Nothing was written"):
        lab.run(PURGE, IDLE)
    assert not lab.words("formats") and not lab.words("set") and not (lab.root / "restore.json").exists()
    assert open_capture(lab.root / "capture").rail is not None, "what it recorded is kept"


def test_a_silent_rig_is_noticed_before_the_drive_is_erased(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "_STALLED_S", 2.0)
    lab.power, lab.deaf_from = None, 0
    with pytest.raises(DriveError, match="Nothing was written"):
        lab.run(PURGE, IDLE)
    assert not lab.words("formats")


def test_a_stream_without_the_last_marker_is_not_this_drives(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "_STALLED_S", 2.0)
    lab.power, lab.deaf_from = None, 1
    with pytest.raises(DriveError, match="last marker is missing"):
        lab.run(IDLE)


# -- rounds to steady state ------------------------------------------------------------------------------------------


def rounds(lab: Lab, tmp_path: Path, iops: list[float], **keys: Any) -> list[str]:
    """Names of the rounds that were run."""
    (lab.root / "iops").write_text(json.dumps(iops))
    about = {"rounds_max": 12, "rounds_first": 5, "track": ["a"], "quantity": "iops", "fill": {}, **keys}
    _, test = suite(tmp_path, kind="rounds", jobs="j.fio", **about)
    (lab.root / "plans/j.fio").write_text("[a]\nfilename=${WATTBELL_DRIVE}\nrw=randread\nbs=4k\n")
    steps = [{"name": f"t#{k}", "fio": "j.fio"} for k in range(1, 13)]
    phases = lab.run(*steps, IDLE, left_out=Rounds([test], lab.root / "plans/results").over)
    assert phases[-1]["name"] == "t", "what follows is run"
    return [phase["name"] for phase in phases[:-1]]


@pytest.mark.parametrize("quantity", ["iops", "mb_per_s", "mean_latency_s"])
def test_rounds_go_on_until_five_of_them_are_steady(lab: Lab, tmp_path: Path, quantity: str) -> None:
    falling = [9000.0, 6000.0, 4000.0, 2500.0, 1800.0, 1400.0, 1000.0, 1010.0, 990.0, 1005.0, 1000.0, 1000.0]
    assert rounds(lab, tmp_path, falling, quantity=quantity) == [f"t#{k}" for k in range(1, 12)]
    assert lab.words("runs") == ["a"] * 11


def test_rounds_that_never_are_steady_are_all_run(lab: Lab, tmp_path: Path) -> None:
    assert len(rounds(lab, tmp_path, [1000.0, 2000.0] * 6)) == 12


def test_no_fewer_rounds_than_the_suite_says(lab: Lab, tmp_path: Path) -> None:
    assert len(rounds(lab, tmp_path, [1000.0], rounds_first=8)) == 8


# -- purge -----------------------------------------------------------------------------------------------------------


def test_the_namespace_under_test_is_formatted_and_no_other(lab: Lab) -> None:
    lab.run({"name": "purge", "format": {"ses": 1}}, {"name": "purge", "format": {"nsid": 7, "ses": 1}}, IDLE)
    assert lab.words("formats") == ["format /dev/nvme9 --namespace-id=7 --ses=1 --force"] * 2
    with pytest.raises(DriveError, match="formats namespace 1, but /dev/nvme9n2 is namespace 7"):
        lab.run({"name": "purge", "format": {"nsid": 1, "ses": 1}})
    assert len(lab.words("formats")) == 2
