"""Reasons not to touch a drive, on sysfs and procfs as Linux writes them. The kernel's own are met in tests/e2e."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from wattbell.drive import device as subject
from wattbell.drive.device import Device, inspect, refuse_in_use, refuse_wrong_serial
from wattbell.errors import DriveError


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")


class Machine:
    """A sysfs with nvme0: namespaces nvme0n1 (partition nvme0n1p1) and nvme0n2."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sys, self.proc, self.dev = root / "sys", root / "proc", root / "dev"
        node = self.sys / "devices/pci0000:00/0000:01:00.0/nvme/nvme0"
        for name, text in {
            "model": "GOOD DRIVE   ", "serial": "SN 1", "firmware_rev": "1.0", "transport": "pcie",
        }.items():  # fmt: skip
            write(node / name, text)
        (node / "device").symlink_to(node.parent.parent)
        (self.sys / "class/nvme").mkdir(parents=True)
        (self.sys / "class/nvme/nvme0").symlink_to(node)
        (self.sys / "class/block").mkdir()
        for number, name in enumerate(("nvme0n1", "nvme0n2")):
            block = node / name
            write(block / "size", "2048")
            write(block / "dev", f"259:{number * 2}")
            write(block / "queue/logical_block_size", "512")
            (block / "holders").mkdir()
            (block / "device").symlink_to(node)
            (self.sys / "class/block" / name).symlink_to(block)
        part = node / "nvme0n1/nvme0n1p1"
        write(part / "partition", "1")
        write(part / "dev", "259:1")
        (part / "holders").mkdir()
        (self.sys / "class/block/nvme0n1p1").symlink_to(part)
        self.node = node
        write(self.proc / "self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda1 rw")
        write(self.proc / "swaps", "Filename Type Size Used Priority")
        self.dev.mkdir()
        for name in ("nvme0n1", "nvme0n1p1", "nvme0n2", "sda"):
            (self.dev / name).write_bytes(b"")
        monkeypatch.setattr(subject.stat, "S_ISBLK", lambda _mode: True)  # a test makes no block devices
        self.device = inspect(self.dev / "nvme0n1", self.sys)

    def refuse(self) -> None:
        refuse_in_use(self.device, self.sys, self.proc)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_what_the_drive_is(machine: Machine) -> None:
    found = machine.device
    assert found == Device(
        str(machine.dev / "nvme0n1"), "nvme0n1", "nvme0", "GOOD DRIVE", "SN 1", "1.0", 1 << 20, 512, "0000:01:00.0"
    )
    assert found.character_device == "/dev/nvme0"
    machine.refuse()


def test_the_wrong_thing_is_refused(machine: Machine) -> None:
    with pytest.raises(DriveError, match="partition"):
        inspect(machine.dev / "nvme0n1p1", machine.sys)
    with pytest.raises(DriveError, match="no NVMe namespace"):
        inspect(machine.dev / "sda", machine.sys)
    with pytest.raises(DriveError, match="cannot be looked at"):
        inspect(machine.dev / "nvme7n1", machine.sys)


def test_what_is_no_block_device_is_refused(tmp_path: Path) -> None:
    (tmp_path / "nvme0n1").write_bytes(b"")
    with pytest.raises(DriveError, match="no block device"):
        inspect(tmp_path / "nvme0n1")
    with pytest.raises(DriveError, match="is the controller"):
        inspect("/dev/null")


@pytest.mark.parametrize("serial", [None, "", "SN 2", "sn 1", "SN"])
def test_the_serial_number_must_be_spelled_out(machine: Machine, serial: str | None) -> None:
    with pytest.raises(DriveError, match="serial number"):
        refuse_wrong_serial(machine.device, serial)
    refuse_wrong_serial(machine.device, "SN 1")


@pytest.mark.parametrize(
    ("mount", "where"),
    [
        ("30 22 259:0 / /data rw - xfs /dev/nvme0n1 rw", "/data"),
        ("30 22 259:1 / /data rw - ext4 /dev/nvme0n1p1 rw", "/data"),
        ("30 22 259:2 / /other rw - ext4 /dev/nvme0n2 rw", "/other"),  # another namespace of the same drive
        ("30 22 0:44 /@ /b rw shared:1 - btrfs /dev/nvme0n1p1 rw", "/b"),
    ],
)
def test_a_mounted_drive_is_refused(machine: Machine, mount: str, where: str) -> None:
    write(machine.proc / "self/mountinfo", mount)
    with pytest.raises(DriveError, match=f"mounted on {where}.*Nothing was written"):
        machine.refuse()


def test_swap_and_holders_are_refused(machine: Machine) -> None:
    write(machine.proc / "swaps", f"Filename Type Size Used Priority\n{machine.dev}/nvme0n1p1 partition 1 0 -2")
    with pytest.raises(DriveError, match="swap"):
        machine.refuse()
    write(machine.proc / "swaps", "Filename Type Size Used Priority")
    (machine.node / "nvme0n1/nvme0n1p1/holders/dm-0").mkdir()
    with pytest.raises(DriveError, match="held by dm-0"):
        machine.refuse()


def test_a_drive_that_cannot_be_opened_is_refused(machine: Machine) -> None:
    os.unlink(machine.dev / "nvme0n1")
    with pytest.raises(DriveError, match="cannot be opened"):
        machine.refuse()


def test_native_multipath_and_two_controllers(machine: Machine) -> None:
    subsystem = machine.sys / "devices/virtual/nvme-subsys0"
    subsystem.mkdir(parents=True)
    block = machine.node / "nvme0n1"
    (block / "device").unlink()
    (block / "device").symlink_to(subsystem)
    (subsystem / "nvme0").symlink_to(machine.node)
    assert inspect(machine.dev / "nvme0n1", machine.sys).controller == "nvme0"
    (subsystem / "nvme1").mkdir()
    with pytest.raises(DriveError, match="2 controllers"):
        inspect(machine.dev / "nvme0n1", machine.sys)
