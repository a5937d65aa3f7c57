"""Find the drive that a path means by its device number, whatever the node is called. :mod:`.inuse` finds its other users.

Everything is read from sysfs (Documentation/ABI/testing/sysfs-block, sysfs-class-nvme, sysfs-dev of the Linux kernel).
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from ..errors import DriveError

_NAMESPACE = re.compile(r"nvme\d+n\d+")
SECTOR_BYTES = 512
"""Unit of ``size`` in sysfs, whatever the logical block size."""


@dataclass(frozen=True)
class Node:
    """The device behind a node. ``block``: a block device, else a character device. ``number``: ``major:minor``."""

    block: bool
    number: str

    def __str__(self) -> str:
        return self.number


@dataclass(frozen=True)
class Device:
    """A namespace of an NVMe drive. ``controller``: name of its character device (``nvme0``). ``pci``: address of the
    controller, such as ``0000:01:00.0``; empty if it is not on PCIe. ``nsid``: the namespace's identifier, which its name need not
    end with."""

    path: str
    name: str
    controller: str
    model: str
    serial: str
    firmware: str
    capacity_bytes: int
    lba_size_bytes: int
    pci: str
    nsid: int

    @property
    def character_device(self) -> str:
        """Path of the controller's character device, for admin commands."""
        return f"/dev/{self.controller}"


def inspect(path: str | Path, sys: Path = Path("/sys")) -> Device:
    """The namespace that ``path`` is. Raises DriveError when it is something else."""
    given = Path(path)
    try:
        mode = given.stat().st_mode
    except OSError as error:
        raise DriveError(f"{path} cannot be looked at ({error.strerror}); `nvme list` shows the drives.") from None
    node = node_of(given)
    if node is None or not node.block:
        hint = " That is the controller: give its namespace, such as /dev/nvme0n1." if stat.S_ISCHR(mode) else ""
        raise DriveError(f"{path} is not a block device.{hint}")
    name = _name(node, sys)
    if not name:
        raise DriveError(f"{path} is block device {node}, which the kernel does not have; `nvme list` shows the drives.")
    block = sys / "class/block" / name
    if not _NAMESPACE.fullmatch(name):
        if (block / "partition").exists():
            raise DriveError(f"{path} is a partition; the suites need the whole namespace.")
        raise DriveError(f"{path} is no NVMe namespace; the rig measures NVMe drives.")
    controller = _controller(block)
    about = sys / "class/nvme" / controller
    capacity, lba = _whole(block / "size", path) * SECTOR_BYTES, _whole(block / "queue/logical_block_size", path)
    return Device(
        path=str(given.resolve()),
        name=name,
        controller=controller,
        model=read(about / "model"),
        serial=read(about / "serial"),
        firmware=read(about / "firmware_rev"),
        capacity_bytes=capacity,
        lba_size_bytes=lba,
        pci=_pci_address(about),
        nsid=_whole(block / "nsid", path),
    )


def node_of(path: Path) -> Node | None:
    """Return the device of a node, through links of procfs too; None for any other file, or an inaccessible one."""
    try:
        found = path.stat()
    except OSError:
        return None
    if not stat.S_ISBLK(found.st_mode) and not stat.S_ISCHR(found.st_mode):
        return None
    return Node(stat.S_ISBLK(found.st_mode), f"{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}")


def _name(node: Node, sys: Path) -> str:
    """The kernel's name of a block device; empty if it has none of that number."""
    found = sys / "dev/block" / node.number
    return found.resolve().name if found.exists() else ""


def _controller(block: Path) -> str:
    """Find the controller. With native multipath the namespace hangs below the subsystem, and its controllers are beside it."""
    parent = (block / "device").resolve()
    if (parent / "transport").exists():
        return parent.name
    found = [entry.name for entry in entries(parent) if re.fullmatch(r"nvme\d+", entry.name)]
    if len(found) != 1:
        raise DriveError(
            f"{block.name} is reached over {len(found)} controllers ({', '.join(found) or 'none'}); "
            "the rig sits at one connector: use a drive with one controller."
        )
    return found[0]


def _whole(file: Path, path: str | Path) -> int:
    """A number above 0 of sysfs."""
    text = read(file)
    if not re.fullmatch(r"[0-9]{1,18}", text) or int(text) == 0:
        raise DriveError(f"{path}: {file} says {text[:40] or 'nothing'} expected a number above 0; is the drive's namespace formatted?")
    return int(text)


def _pci_address(node: Path) -> str:
    device = (node / "device").resolve()
    return device.name if re.fullmatch(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", device.name) else ""


def read(path: Path) -> str:
    """Text of a file of sysfs or procfs, without white space around it; empty if it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def refuse_wrong_serial(device: Device, serial: str | None) -> None:
    """DriveError unless the user spelled out the serial number of this very drive; always for a drive that reports none."""
    if not any(character.isalnum() for character in device.serial):
        raise DriveError(
            f"{device.path} ({device.model or 'a drive without a model name'}) reports no serial number: it could be any other "
            "drive, so nothing that writes is run on it. Nothing was written."
        )
    spelled = (serial or "").strip()
    if not spelled:
        raise DriveError(f"This writes over what is on the drive. Spell out the serial number of {device.path} with --serial.")
    if spelled != device.serial:
        raise DriveError(f"{device.path} is {device.model} with serial number {device.serial}, not {serial}. Nothing was written.")


def entries(folder: Path) -> list[Path]:
    """Return the entries of a folder, sorted; empty if it cannot be read."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []
