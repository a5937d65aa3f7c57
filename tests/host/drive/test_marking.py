"""Marks the stream of a drive that has a feature of its own behind FID D0h, or that trips over being asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from wattbell.analysis import analyze
from wattbell.capture import open_capture
from wattbell.capture.marking import Marking
from wattbell.drive import marking
from wattbell.drive.marking import choose, text_of
from wattbell.errors import DriveError
from wattbell.measure.source import Source

from tests.host.drive.lab import Lab

D0, RESERVED, IDENTIFY, ARBITRATION = "10 0xd0", "10 0x6f", "6 0xef", "10 0x1"
IDLE = {"name": "t", "idle_s": 0.2}


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    made = Lab(tmp_path, monkeypatch)
    state = tmp_path / "sys/class/nvme/nvme9/state"
    state.parent.mkdir(parents=True)
    state.write_text("live\n")
    return made


def chosen(lab: Lab, accepts: list[str], trips: list[str] | None = None, trip: str = "") -> tuple[str, str]:
    (lab.root / "accepts").write_text("".join(f"{line}\n" for line in accepts))
    (lab.root / "trips").write_text("".join(f"{line}\n" for line in trips or []))
    (lab.root / "trip").write_text(trip)
    found, unfit = choose(lab.device, lab.tools, lab.root / "sys")
    return text_of(found), unfit


def test_a_drive_that_refuses_it_is_marked_with_feature_d0h(lab: Lab) -> None:
    assert chosen(lab, []) == ("Get Features D0h", "")
    assert lab.words("markers") == [f"{D0} 0x0"], "one try, whose value begins and ends no phase"


def test_a_drive_that_accepts_it_gets_another(lab: Lab) -> None:
    assert chosen(lab, [D0]) == ("Get Features 6Fh", "Get Features D0h: the drive accepts it")
    assert chosen(lab, [D0, RESERVED])[0] == "Identify CNS EFh"
    assert chosen(lab, [D0, RESERVED, IDENTIFY])[0] == "Get Features 01h"
    assert chosen(lab, [D0, RESERVED, IDENTIFY, ARBITRATION])[0] == "Get Features 01h"


@pytest.mark.parametrize(
    ("trip", "why"),
    [
        ("echo 'NVMe status: Internal Error: The command was not completed successfully(0x6)'", "status 0h/06h"),
        ("echo 'NVMe Status:ABORT_REQ(7)'", "status 0h/07h"),
        ("echo 'NVMe status: unrecognized(0x7c0)'", "status 7h/C0h"),
        ("echo 'get feature: Input/output error'", "nvme-cli failed (get feature: Input/output error)"),
        ("", "nvme-cli failed (exit 1)"),
    ],
)
def test_a_drive_that_trips_over_it_gets_another(lab: Lab, trip: str, why: str) -> None:
    found, unfit = chosen(lab, [], [D0], trip)
    assert found == "Get Features 6Fh" and why in unfit


def test_a_refusal_that_takes_its_time_is_none(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marking, "WITHIN_S", 0.0)
    with pytest.raises(DriveError, match=r"no command that could mark the recording \(Get Features D0h: took .*Nothing was written"):
        chosen(lab, [])


def test_older_nvme_cli_says_it_in_other_words(lab: Lab) -> None:
    assert chosen(lab, [], [D0], "echo 'NVMe Status:INVALID_FIELD(2002)'") == ("Get Features D0h", "")


def test_a_drive_that_does_not_survive_it_is_left_alone(lab: Lab) -> None:
    (lab.root / "sys/class/nvme/nvme9/state").write_text("resetting\n")
    with pytest.raises(DriveError, match="does not survive Get Features D0h, .*its controller is resetting"):
        chosen(lab, [])
    assert len(lab.words("markers")) == 1


@pytest.mark.parametrize("way", [Marking(10, 0x6F), Marking(6, 0xEF), Marking(10, 0x01)])
def test_a_session_with_another_marker_has_the_same_phases_and_figures(lab: Lab, way: Marking) -> None:
    settle = {"name": "t-settle", "settle": {"window_s": 10.0, "range_share": 0.05, "longest_s": 60.0}, "measured": False}
    lab.commands = True
    phases = lab.run(settle, IDLE, marking=way)
    capture = open_capture(lab.root / "capture")
    assert capture.meta["conditions"]["marker"] == way.to_json()
    found = Source(capture).phases
    assert [phase["name"] for phase in phases] == list(found) == ["t-settle", "t"]
    assert all(not phase.notes for phase in found.values())
    about = json.loads(json.dumps(analyze(capture)))
    assert "admin" not in about["commands"] or about["commands"]["admin"]["count"] == 0, "markers are no commands of a figure"
