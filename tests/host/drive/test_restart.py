"""The restart of a real drive: the orders to the kernel and the rig, in their sequence, and that a drive is never left without supply."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from wattbell.drive import restart as module
from wattbell.drive.device import Device
from wattbell.drive.restart import Restarter, refuse_without_switch
from wattbell.errors import DriveError, RigError, UsageError
from wattbell.suites.step import Restart

PORT, DRIVE = "0000:00:1c.0", "0000:01:00.0"


class Slot:
    """A tree of sysfs, and a rig: writes to either go to ``told``."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sys = root / "sys"
        self.told: list[str] = []
        real = self.sys / "devices/pci0000:00" / PORT / DRIVE
        real.mkdir(parents=True)
        links = self.sys / "bus/pci/devices"
        links.mkdir(parents=True)
        (links / PORT).symlink_to(real.parent)
        (links / DRIVE).symlink_to(real)
        self.device = Device("/dev/nvme9n1", "nvme9n1", "nvme9", "M", "S", "F", 1 << 40, 512, DRIVE, 1)
        self.absent, self.found = 3, self.device
        self.refuses = ""
        monkeypatch.setattr(module, "RESET_S", 0.0)
        monkeypatch.setattr(module, "CONFIGURE_S", 0.0)
        monkeypatch.setattr(module, "_POLL_S", 0.0)
        told = self.told
        write = Path.write_text

        def written(path: Path, text: str, *more: Any, **keys: Any) -> int:
            if path.name in ("remove", "rescan"):
                assert text == "1"
                told.append(f"{path.resolve().parent.name} {path.name}")
                return 1
            return write(path, text, *more, **keys)

        monkeypatch.setattr(Path, "write_text", written)

    def command(self, text: str) -> None:
        self.told.append(text)

    def query(self, text: str) -> str:
        self.told.append(text)
        return "1"

    def check(self, text: str) -> None:
        if text == self.refuses:
            raise RigError(f'The rig refused {text}: -240,"Hardware error"')

    def look(self, _path: str) -> Device:
        self.absent -= 1
        if self.absent >= 0:
            raise DriveError("not there")
        return self.found

    def restarter(self, back_s: float = 5.0) -> Restarter:
        control: Any = self
        return Restarter(self.device, control, self.sys, self.look, back_s)


@pytest.fixture
def slot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Slot:
    return Slot(tmp_path, monkeypatch)


def test_cold_the_kernel_lets_go_before_the_rail_goes_off_and_looks_again_when_it_is_on(slot: Slot) -> None:
    slot.restarter()(Restart(0.0))
    assert slot.told == [f"{DRIVE} remove", "OUTP OFF", "*OPC?", "OUTP ON", "*OPC?", f"{PORT} rescan"]
    assert slot.absent < 0, "it waited until the drive was there"


def test_warm_only_perst_is_pulled(slot: Slot) -> None:
    slot.restarter()(Restart())
    assert slot.told == [f"{DRIVE} remove", "OUTP:PERS ON", "*OPC?", "OUTP:PERS OFF", "*OPC?", f"{PORT} rescan"]


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), OSError("x")])
def test_interrupted_the_drive_has_its_supply_again(slot: Slot, monkeypatch: pytest.MonkeyPatch, failure: BaseException) -> None:
    def sleep(seconds: float) -> None:
        if seconds == 7.0:
            raise failure

    monkeypatch.setattr(module.time, "sleep", sleep)
    with pytest.raises(type(failure)):
        slot.restarter()(Restart(7.0))
    assert slot.told[-3:] == ["OUTP ON", "*OPC?", f"{PORT} rescan"]


def test_a_rail_that_does_not_come_up_is_the_error_and_the_drive_is_looked_for_all_the_same(slot: Slot) -> None:
    slot.refuses = "OUTP ON"
    with pytest.raises(RigError, match="-240"):
        slot.restarter()(Restart(0.0))
    assert slot.told[-1] == f"{PORT} rescan"


def test_a_drive_that_stays_away_is_an_error(slot: Slot) -> None:
    slot.absent = 1 << 60
    with pytest.raises(DriveError, match="is not there 0.05 s after its restart"):
        slot.restarter(0.05)(Restart())


def test_another_drive_at_the_same_path_is_refused(slot: Slot) -> None:
    slot.found = replace(slot.device, serial="T")
    with pytest.raises(UsageError, match="another drive after the restart"):
        slot.restarter()(Restart())


def test_a_drive_without_a_port_above_it_is_not_even_shut_down(slot: Slot) -> None:
    slot.device = replace(slot.device, pci="")
    with pytest.raises(DriveError, match="no PCI port"):
        slot.restarter()(Restart(0.0))
    assert slot.told == []


def rig(*, virtual: bool = False, switches: bool = True) -> Any:
    def query(text: str) -> str:
        if not switches:
            raise RigError(f"The rig does not answer {text}")
        return "1"

    return SimpleNamespace(port=SimpleNamespace(serial="WB0001", virtual=virtual), control=SimpleNamespace(query=query))


@pytest.mark.parametrize(
    ("bench", "reason"),
    [(None, "another meter only measures"), (rig(virtual=True), "in nobody's supply"), (rig(switches=False), "does not switch")],
)
def test_a_bench_that_cannot_switch_the_supply_is_refused_with_a_reason(bench: Any, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        refuse_without_switch(bench)
    refuse_without_switch(rig())
