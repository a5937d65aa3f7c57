"""Sessions on a real drive, with a rig, an nvme and a fio of the test's own: a recorder that plays what such a drive would draw."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from wattbell.capture import CaptureWriter, open_capture
from wattbell.drive import bench
from wattbell.drive.device import Device
from wattbell.drive.phase import to_json
from wattbell.drive.rounds import Rounds
from wattbell.drive.tools import Tools
from wattbell.errors import DriveError
from wattbell.measure.source import Source
from wattbell.suites.manifest import parse_manifest
from wattbell.suites.outcome import Outcome
from wattbell.suites.scoring import score_test
from wattbell.suites.step import Step
from wattbell.suites.suite import Test

from tests.host.wire import encoder as e

S = 1_000_000_000
STEP_S, SAMPLE_S = 1.0, 0.02
NVME = """#!/bin/sh
# get-feature DEVICE -f 0xd0 --cdw11=V: a marker, written down for the rig
here=$(dirname "$0")
for word in "$@"; do case $word in --cdw11=*) echo "${word#--cdw11=}" >> "$here/markers";; esac; done
[ "$1" = format ] && echo "$@" >> "$here/formats"
exit 0
"""
FIO = """#!{python}
# what fio 3.33 says, as far as it is read: the n-th run has the n-th of the figures in `iops`
import json, pathlib, sys
here = pathlib.Path(__file__).parent
words = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
done = here / "runs"
n = len(done.read_text().splitlines()) if done.exists() else 0
done.open("a").write(words["--section"] + "\\n")
figures = json.loads((here / "iops").read_text())
iops = figures[min(n, len(figures) - 1)]
none = {{"total_ios": 0, "io_bytes": 0, "iops": 0.0, "bw_bytes": 0, "lat_ns": {{"min": 0, "max": 0, "mean": 0.0}}}}
read = {{"total_ios": 100, "io_bytes": 409600, "iops": iops, "bw_bytes": int(iops * 4096),
        "lat_ns": {{"min": 1, "max": 9, "mean": 1e9 / iops}}}}
job = {{"jobname": words["--section"], "groupid": 0, "read": read, "write": none}}
pathlib.Path(words["--output"]).write_text("fio: a warning\\n" + json.dumps({{"fio version": "fio-3.33", "jobs": [job]}}))
"""


class Lab:
    """``power``: W at so many seconds behind the last marker, None for a rig that is silent. Each turn brings a second of the rail."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.power: Callable[[float], float] | None = lambda _t: 0.5
        for name, text in (("nvme", NVME), ("fio", FIO.format(python=sys.executable))):
            (root / name).write_text(text)
            (root / name).chmod(0o755)
        self.tools = Tools({"nvme": str(root / "nvme"), "fio": str(root / "fio")})
        self.device = Device("/dev/nvme9n2", "nvme9n2", "nvme9", "M", "S", "F", 1 << 40, 512, "", 7)
        self.said: list[str] = []
        (root / "plans").mkdir()
        monkeypatch.setattr(bench, "record", self.record)
        monkeypatch.setattr(bench, "_POLL_S", 0.01)

    def record(self, _rig: object, writer: CaptureWriter, _limits: object, *, stop: threading.Event) -> str:
        tick, number, since = S, 2, S
        markers = self.root / "markers"
        writer.feed(e.status(0, tick, run=1) + e.events(1, tick, [(tick, 15, 1, 0, 0)]))
        seen = 0
        while not stop.is_set():
            values = markers.read_text().split() if markers.exists() else []
            blocks = b""
            for value in values[seen:]:
                blocks += e.events(number, tick, [(tick, 7, 0, 0, int(value, 0))])
                number, tick, since = number + 1, tick + 1000, tick
            seen = len(values)
            power = self.power
            if power is not None:
                samples = []
                for k in range(round(STEP_S / SAMPLE_S)):
                    watts = power((tick - since) / S + k * SAMPLE_S)
                    samples.append((165_000, round(watts / 3.3 / 500e-9)))
                blocks += e.rail(number, tick, samples, interval=round(SAMPLE_S * S))
                number, tick = number + 1, tick + round(STEP_S * S)
            if blocks:
                writer.feed(blocks)
            time.sleep(0.005)
        writer.feed(e.events(number, tick, [(tick, 15, 0, 0, 0)]) + e.status(number + 1, tick, run=0))
        return "stopped by the user"

    def run(self, *steps: Mapping[str, Any], **more: Any) -> list[Any]:
        rig: Any = SimpleNamespace(description={"data_port": "none"}, conditions=dict)
        typed = msgspec.convert(steps, tuple[Step, ...])
        phases = bench.run_session(
            self.device, rig, typed, self.root / "plans", self.root / "capture", journal=self.root / "restore.json", description={},
            conditions={"notes": []}, tools=self.tools, say=self.said.append, **more,
        )  # fmt: skip
        return list(to_json(phases))

    def words(self, name: str) -> list[str]:
        path = self.root / name
        return path.read_text().splitlines() if path.exists() else []


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
    lab.power = lambda t: 1.5 if t < 20 and int(t) % 3 == 0 else 0.5  # erasing for 20 s, in bursts
    settle, idle = lab.run(SETTLE, IDLE)
    seen = settle["settling"]
    assert seen["settled"] and 28 <= seen["after_s"] <= 45
    assert seen["mean_w"] == pytest.approx(0.5, rel=1e-3) and seen["range_w"] < 0.01
    assert (settle["kind"], settle["measured"], idle["kind"]) == ("precondition", False, "idle")
    (note,) = scored(lab, tmp_path).notes
    assert note.startswith("at rest before the idle time: 0.5 W") and "over 10 s" in note


def test_a_drive_that_never_rests_is_measured_and_said_to_be_restless(lab: Lab, tmp_path: Path) -> None:
    lab.power = lambda t: 0.7 if int(t) % 5 == 0 else 0.5
    settle, _ = lab.run(SETTLE, IDLE)
    assert not settle["settling"]["settled"] and settle["settling"]["after_s"] == pytest.approx(60, abs=5)
    assert settle["settling"]["range_w"] == pytest.approx(0.2, abs=0.02)
    assert any("not at rest after" in text for text in lab.said)
    (note,) = scored(lab, tmp_path).notes
    assert note.startswith("NOT AT REST before the idle time: 0.54 W, its seconds within 0.2 W")


def test_a_slow_drift_is_not_rest(lab: Lab) -> None:
    lab.power = lambda t: 0.5 + max(0.0, 0.4 - 0.01 * t)  # 10 % in ten seconds
    (settle,) = lab.run(SETTLE)
    assert settle["settling"]["settled"] and settle["settling"]["after_s"] > 40


def test_a_rig_that_goes_silent_while_the_rail_is_watched_ends_the_session(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "_STALLED_S", 8.0)  # a busy machine takes seconds for the first block
    calls = [0]

    def power(t: float) -> float:
        calls[0] += 1
        if calls[0] > 400:
            lab.power = None
        return 0.5 + int(t) % 2

    lab.power = power
    with pytest.raises(DriveError, match="sent nothing for 8 s"):
        lab.run(SETTLE)


def test_a_stream_without_the_last_marker_is_not_this_drives(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "_STALLED_S", 2.0)
    (lab.root / "nvme").write_text("#!/bin/sh\nexit 0\n")
    lab.power = None
    with pytest.raises(DriveError, match="without the last marker"):
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
