"""Reasons not to touch a drive, on sysfs and procfs as Linux writes them. For the kernel's own see tests/e2e."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
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
            "subsysnqn": "nqn.a",
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
            write(block / "nsid", str(1 + 4 * number))
            (block / "holders").mkdir()
            (block / "device").symlink_to(node)
            (self.sys / "class/block" / name).symlink_to(block)
        self.node = node
        write(self.proc / "self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda1 rw")
        write(self.proc / "swaps", "Filename Type Size Used Priority")
        self.dev.mkdir()
        for name in ("nvme0n1", "nvme0n2", "sda"):
            (self.dev / name).write_bytes(b"")
        self.partition("nvme0n1", 1, "259:1")
        monkeypatch.setattr(subject.stat, "S_ISBLK", lambda _mode: True)  # a test makes no block devices
        self.device = inspect(self.dev / "nvme0n1", self.sys)

    def partition(self, of: str, number: int, dev: str) -> None:
        name = f"{of}p{number}"
        part = self.node / of / name
        write(part / "partition", str(number))
        write(part / "dev", dev)
        (part / "holders").mkdir()
        (self.sys / "class/block" / name).symlink_to(part)
        (self.dev / name).write_bytes(b"")

    def refuse(self) -> None:
        refuse_in_use(self.device, self.sys, self.proc, self.dev)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_what_the_drive_is(machine: Machine) -> None:
    found = machine.device
    path = str(machine.dev / "nvme0n1")
    assert found == Device(path, "nvme0n1", "nvme0", "GOOD DRIVE", "SN 1", "1.0", 1 << 20, 512, "0000:01:00.0", nsid=1)
    assert inspect(machine.dev / "nvme0n2", machine.sys).nsid == 5, "the kernel counts block devices, the drive names namespaces"
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
    with pytest.raises(DriveError, match="not a block device"):
        inspect(tmp_path / "nvme0n1")
    with pytest.raises(DriveError, match="is the controller"):
        inspect("/dev/null")


@pytest.mark.parametrize("serial", [None, "", " ", "\t", "SN 2", "sn 1", "SN"])
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


@pytest.mark.parametrize("name", ["nvme0n1", "nvme0n1p1", "nvme0n2", "nvme0n2p3"])
def test_every_block_device_of_the_drive_must_be_free(machine: Machine, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """What the kernel claims without an entry in procfs: a member of btrfs or ZFS, another program's exclusive open."""
    if name == "nvme0n2p3":
        machine.partition("nvme0n2", 3, "259:7")
    truly = os.open

    def busy(path: Path, flags: int, *more: int) -> int:
        if Path(path).name == name and flags & os.O_EXCL:
            raise OSError(errno.EBUSY, "Device or resource busy")
        return truly(path, flags, *more)

    machine.refuse()
    monkeypatch.setattr(subject.os, "open", busy)
    with pytest.raises(DriveError, match=rf"/{name} cannot be opened.*Device or resource busy.*Nothing was written"):
        machine.refuse()


def test_what_the_kernel_has_claimed_is_refused(machine: Machine, tmp_path: Path) -> None:
    """A real block device in place of the drive's second namespace, opened exclusively."""
    image = tmp_path / "image"
    image.write_bytes(bytes(1 << 20))
    losetup = shutil.which("losetup")
    made = losetup and subprocess.run([losetup, "--find", "--show", str(image)], capture_output=True, text=True, check=False)
    if not losetup or not made or made.returncode:
        pytest.skip("needs a loop device: root, and a kernel that has them")
    loop = made.stdout.strip()
    try:
        (machine.dev / "nvme0n2").unlink()
        (machine.dev / "nvme0n2").symlink_to(loop)
        machine.refuse()
        claim = os.open(loop, os.O_RDONLY | os.O_EXCL)
        try:
            with pytest.raises(DriveError, match="nvme0n2 cannot be opened alone, and is part of the same drive .Device or resource busy"):
                machine.refuse()
        finally:
            os.close(claim)
        machine.refuse()
    finally:
        subprocess.run([losetup, "--detach", loop], check=True)


def test_a_member_of_a_btrfs_is_refused_whatever_mountinfo_names(machine: Machine) -> None:
    write(machine.proc / "self/mountinfo", "30 22 0:44 / /b rw - btrfs /dev/sdb rw")
    members = machine.sys / "fs/btrfs/0f3a/devices"
    members.mkdir(parents=True)
    (members / "sdb").mkdir()
    machine.refuse()
    (members / "nvme0n2").mkdir()
    with pytest.raises(DriveError, match="nvme0n2 is in use .member of the btrfs 0f3a"):
        machine.refuse()


def test_a_mount_by_another_name_of_the_device_is_refused(machine: Machine) -> None:
    link = machine.dev / "by-uuid-1"
    link.symlink_to(machine.dev / "nvme0n2")
    write(machine.proc / "self/mountinfo", f"30 22 0:44 / /b rw - btrfs {link} rw")
    with pytest.raises(DriveError, match="mounted on /b"):
        machine.refuse()


def test_a_loop_device_before_the_drive_is_refused(machine: Machine) -> None:
    write(machine.sys / "class/block/loop3/loop/backing_file", "/dev/nvme0n1p1")
    with pytest.raises(DriveError, match="nvme0n1p1 is in use .behind /dev/loop3"):
        machine.refuse()


@pytest.mark.parametrize(
    ("node", "flags", "refused"),
    [
        ("nvme0n2", "0100002", True),  # O_RDWR, as a virtual machine has it
        ("nvme0n2", "0100001", True),
        ("nvme0n2", "0100000", False),  # reading, as udev does
        ("ng0n2", "0100000", True),  # enough for pass-through commands
        ("nvme1n1", "0100002", False),
        ("sda", "0100002", False),
    ],
)
def test_a_program_that_works_with_the_drive_is_refused(machine: Machine, node: str, flags: str, refused: bool) -> None:
    write(machine.proc / "77/comm", "qemu")
    write(machine.proc / "77/fdinfo/5", f"pos: 0\nflags:\t{flags}\nmnt_id: 9")
    (machine.proc / "77/fd").mkdir()
    (machine.proc / "77/fd/5").symlink_to(f"/dev/{node}")
    if not refused:
        machine.refuse()
        return
    with pytest.raises(DriveError, match="nvme0n2 is in use .open in process 77, qemu"):
        machine.refuse()


def test_namespaces_of_the_drives_other_controller_count(machine: Machine) -> None:
    """Without native multipath each controller of a drive has its own block devices."""
    other = machine.sys / "devices/pci0000:00/0000:02:00.0/nvme/nvme1"
    for name, dev, of in (("nvme1n1", "259:9", other), ("nvme2n1", "259:11", other.parent / "nvme2")):
        write(of / name / "dev", dev)
        (machine.sys / "class/block" / name).symlink_to(of / name)
        (machine.dev / name).write_bytes(b"")
        (machine.sys / "class/nvme" / of.name).symlink_to(of)
    write(other / "subsysnqn", "nqn.a")
    write(other.parent / "nvme2/subsysnqn", "nqn.b")
    write(machine.proc / "self/mountinfo", "30 22 259:11 / /another rw - ext4 /dev/nvme2n1 rw")
    machine.refuse()
    write(machine.proc / "self/mountinfo", "30 22 259:9 / /same rw - ext4 /dev/nvme1n1 rw")
    with pytest.raises(DriveError, match="nvme1n1 is in use .mounted on /same"):
        machine.refuse()


@pytest.mark.parametrize("reported", ["", "  ", "\0\0", "--"])
@pytest.mark.parametrize("given", [None, "", " ", "--", "\0\0", "0"])
def test_a_drive_without_a_serial_number_is_always_refused(machine: Machine, reported: str, given: str | None) -> None:
    write(machine.node / "serial", reported)
    drive = inspect(machine.dev / "nvme0n1", machine.sys)
    with pytest.raises(DriveError, match="reports no serial number.*Nothing was written"):
        refuse_wrong_serial(drive, given)


@pytest.mark.parametrize(("file", "text"), [("size", "0"), ("size", "many"), ("size", "9" * 5000), ("queue/logical_block_size", "-1")])
def test_a_drive_without_a_size_is_refused(machine: Machine, file: str, text: str) -> None:
    write(machine.node / "nvme0n1" / file, text)
    with pytest.raises(DriveError, match="expected a number above 0"):
        inspect(machine.dev / "nvme0n1", machine.sys)


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
