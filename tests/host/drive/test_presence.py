"""A drive that drops off the bus while it is measured."""

from __future__ import annotations

import os
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from wattbell.capture import open_capture
from wattbell.drive.device import Device
from wattbell.drive.presence import Presence
from wattbell.drive.settings import HostSettings, Saved
from wattbell.drive.tools import Tools
from wattbell.errors import DriveError, RigError
from wattbell.measure.source import Source

from tests.host.drive.lab import Lab
from tests.host.drive.meterlab import LabLog, LabMeter

WORK = {"name": "w", "fio": "j.fio"}
IDLE = {"name": "i", "idle_s": 30.0}
BUSY = """#!{python}
# fio whose job goes on, whatever becomes of the drive, until it is told to end
import pathlib, sys, time
(pathlib.Path(__file__).parent / "began").touch()
time.sleep(60)
"""


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    made = Lab(tmp_path, monkeypatch)
    (tmp_path / "iops").write_text("[1000.0]")
    (tmp_path / "plans/j.fio").write_text("[a]\nfilename=${WATTBELL_DRIVE}\nrw=randread\nbs=4k\nsize=1m\n")
    drive = tmp_path / "drive"
    drive.write_bytes(bytes(1 << 20))
    made.device = replace(made.device, path=str(drive))
    return made


class Pulled(list[str]):
    """The output of a run; once it has ``words``, the drive is pulled."""

    def __init__(self, words: str, drive: str) -> None:
        super().__init__()
        self._words, self._drive = words, drive

    def append(self, text: str) -> None:
        super().append(text)
        if text == self._words:
            os.unlink(self._drive)


@pytest.mark.parametrize("meter", [False, True])
def test_what_was_recorded_is_kept_and_no_later_step_is_run(lab: Lab, meter: bool) -> None:
    lab.said = Pulled("2: i", lab.device.path)
    recorder: dict[str, Any] = {"meter": LabMeter(lab), "log": LabLog(lab)} if meter else {}
    began = time.monotonic()
    with pytest.raises(DriveError, match=r"drive \(M, serial number S\) has gone: this computer does not see it"):
        lab.run(WORK, IDLE, {"name": "never", "fio": "j.fio"}, **recorder)
    assert time.monotonic() - began < 25, "it does not wait for the end of the idle time"
    capture = open_capture(lab.root / "capture")
    assert list(Source(capture).phases) == ["w", "i (broke off)"]
    assert [phase["measured"] for phase in capture.meta["workload"]["phases"]] == [True, False]
    assert capture.meta["state"] in ("incomplete", "recovered") and capture.meta["rail"]["samples"] >= 50
    assert lab.words("runs") == ["a"] and not (lab.root / "restore.json").exists()
    if meter:
        assert capture.commands.collect().height >= 102


def test_jobs_that_go_on_without_the_drive_are_ended(lab: Lab) -> None:
    (lab.root / "fio").write_text(BUSY.format(python=sys.executable))

    def power(_: float) -> float:
        if (lab.root / "began").exists():
            Path(lab.device.path).unlink(missing_ok=True)
        return 0.5

    lab.power = power
    began = time.monotonic()
    with pytest.raises(DriveError, match="has gone"):
        lab.run(WORK, WORK)
    assert time.monotonic() - began < 40


@pytest.mark.needs("fio")
def test_fio_makes_no_file_of_a_drive_that_has_gone(lab: Lab) -> None:
    """Which would lie in memory, grow to the size of the drive, and be measured."""
    lab.tools = Tools({"nvme": str(lab.root / "nvme"), "fio": str(shutil.which("fio"))})
    lab.device = replace(lab.device, path=str(lab.root / "never-there"))
    with pytest.raises(DriveError, match="fio failed"):
        lab.run(WORK)
    assert not (lab.root / "never-there").exists()


def test_one_that_is_back_is_another(tmp_path: Path) -> None:
    path, block, state = tmp_path / "drive", tmp_path / "class/block/nvme9n1", tmp_path / "class/nvme/nvme9/state"
    for folder in (block, state.parent):
        folder.mkdir(parents=True)
    path.touch()
    (block / "diskseq").write_text("7\n")
    state.write_text("live\n")
    presence = Presence(Device(str(path), "nvme9n1", "nvme9", "M", "S", "F", 1 << 40, 512, "", 1), tmp_path)
    presence.check()
    state.write_text("resetting\n")
    presence.check()
    state.write_text("dead\n")
    with pytest.raises(DriveError, match="has failed"):
        presence.check()
    state.write_text("live\n")
    (block / "diskseq").write_text("8\n")
    with pytest.raises(DriveError, match="takes memory"):
        presence.check()
    presence.renew()
    presence.check()


def test_a_drives_own_settings_go_with_it_and_all_others_are_put_back(tmp_path: Path) -> None:
    """A setting that cannot be put back on a drive that is there is an error."""
    sys_, device = tmp_path / "sys", Device("/dev/nvme9n1", "nvme9n1", "nvme9", "M", "S", "F", 1 << 40, 512, "0000:01:00.0", 1)
    governor = sys_ / "devices/system/cpu/cpufreq/policy0/scaling_governor"
    governor.parent.mkdir(parents=True)
    governor.write_text("performance")
    (tmp_path / "nvme").write_text('#!/bin/sh\necho "No such device" >&2\nexit 1\n')
    (tmp_path / "setpci").write_text('#!/bin/sh\necho "$@" >> "$(dirname "$0")/set"\n[ "$2" != 0000:01:00.0 ]\n')
    for name in ("nvme", "setpci"):
        (tmp_path / name).chmod(0o755)
    settings = HostSettings(device, Tools({name: str(tmp_path / name) for name in ("nvme", "setpci")}), tmp_path / "restore.json", sys_)
    own = [
        Saved("sysfs", str(sys_ / "class/nvme/nvme9/power/pm_qos_latency_tolerance_us"), "100000"),
        Saved("sysfs", str(sys_ / "class/block/nvme9n1/queue/nomerges"), "0"),
        Saved("feature", "2", "0"),
        Saved("setpci", "0000:01:00.0", "0040"),
    ]
    settings.saved = [Saved("sysfs", str(governor), "powersave"), Saved("setpci", "0000:00:01.0", "0040"), *own]
    settings.journal.touch()
    settings.restore()
    assert governor.read_text() == "powersave" and "0000:00:01.0 CAP_EXP+10.w=0040" in (tmp_path / "set").read_text()
    assert len(settings.gone) == len(own) and not settings.journal.exists()
    (sys_ / "bus/pci/devices/0000:01:00.0").mkdir(parents=True)
    settings.saved = [Saved("feature", "2", "0")]
    with pytest.raises(DriveError, match="2 = 0"):
        settings.restore()


def test_a_register_that_cannot_be_read_is_not_saved_as_nothing(tmp_path: Path) -> None:
    """setpci ends well where there is no such function, and says nothing."""
    (tmp_path / "setpci").write_text("#!/bin/sh\nexit 0\n")
    (tmp_path / "setpci").chmod(0o755)
    device = Device("/dev/nvme9n1", "nvme9n1", "nvme9", "M", "S", "F", 1 << 40, 512, "0000:01:00.0", 1)
    settings = HostSettings(device, Tools({"setpci": str(tmp_path / "setpci")}), tmp_path / "restore.json", tmp_path)
    with pytest.raises(DriveError, match=r"setpci .* gave no value"):
        settings._setpci("0000:01:00.0", 2)
    assert not settings.saved


def test_an_error_and_what_could_not_be_put_back_are_told_together(lab: Lab) -> None:
    meter = LabMeter(lab)
    meter.gone = lambda: meter.sent >= 300
    stubborn = lab.root / "stubborn"
    stubborn.mkdir()
    restore = HostSettings.restore

    def failing(self: HostSettings) -> None:
        self.saved.append(Saved("sysfs", str(stubborn), "1"))
        restore(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HostSettings, "restore", failing)
        with pytest.raises((DriveError, RigError), match=r"The meter is gone .*Settings were not restored: .*stubborn"):
            lab.run({"name": "i", "idle_s": 3.0}, {"name": "j", "idle_s": 3.0}, meter=meter, log=LabLog(lab))
