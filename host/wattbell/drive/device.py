"""Which drive a path means, and every reason not to write to it.

Everything is read from sysfs and procfs (Documentation/ABI/testing/sysfs-block, sysfs-class-nvme of the Linux kernel).
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from ..errors import DriveError

_NAMESPACE = re.compile(r"nvme\d+n\d+")
_PATH = re.compile(r"nvme\d+c\d+n\d+")
SECTOR_BYTES = 512
"""Unit of ``size`` in sysfs, whatever the logical block size."""


@dataclass(frozen=True)
class Device:
    """A namespace of an NVMe drive. ``controller``: name of its character device (``nvme0``). ``pci``: address of the
    controller, such as ``0000:01:00.0``; empty where it is not on PCIe."""

    path: str
    name: str
    controller: str
    model: str
    serial: str
    firmware: str
    capacity_bytes: int
    lba_size_bytes: int
    pci: str

    @property
    def character_device(self) -> str:
        """Path of the controller's character device, for admin commands."""
        return f"/dev/{self.controller}"


def inspect(path: str | Path, sys: Path = Path("/sys")) -> Device:
    """The namespace that ``path`` is. DriveError when it is something else."""
    given = Path(path)
    try:
        mode = given.stat().st_mode
    except OSError as error:
        raise DriveError(f"{path} cannot be looked at ({error.strerror}); `nvme list` shows the drives.") from None
    name = given.resolve().name
    if not stat.S_ISBLK(mode):
        hint = " That is the controller: give its namespace, such as /dev/nvme0n1." if stat.S_ISCHR(mode) else ""
        raise DriveError(f"{path} is no block device.{hint}")
    block = sys / "class/block" / name
    if not _NAMESPACE.fullmatch(name):
        if (block / "partition").exists():
            raise DriveError(f"{path} is a partition; the suites need the whole namespace.")
        raise DriveError(f"{path} is no NVMe namespace; the rig measures NVMe drives.")
    controller = _controller(block)
    node = sys / "class/nvme" / controller
    return Device(
        path=str(given.resolve()),
        name=name,
        controller=controller,
        model=_read(node / "model"),
        serial=_read(node / "serial"),
        firmware=_read(node / "firmware_rev"),
        capacity_bytes=int(_read(block / "size") or 0) * SECTOR_BYTES,
        lba_size_bytes=int(_read(block / "queue/logical_block_size") or SECTOR_BYTES),
        pci=_pci_address(node),
    )


def _controller(block: Path) -> str:
    """With native multipath the namespace hangs below the subsystem, and its controllers are beside it."""
    parent = (block / "device").resolve()
    if (parent / "transport").exists():
        return parent.name
    found = sorted(entry.name for entry in parent.iterdir() if re.fullmatch(r"nvme\d+", entry.name))
    if len(found) != 1:
        raise DriveError(
            f"{block.name} is reached over {len(found)} controllers ({', '.join(found) or 'none'}); "
            "the rig sits at one connector: use a drive with one controller."
        )
    return found[0]


def _pci_address(node: Path) -> str:
    device = (node / "device").resolve()
    return device.name if re.fullmatch(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", device.name) else ""


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def refuse_wrong_serial(device: Device, serial: str | None) -> None:
    """DriveError unless the user spelled out the serial number of this very drive."""
    if not serial:
        raise DriveError(f"Running a suite destroys what is on the drive. Spell out the serial number of {device.path} with --serial.")
    if serial.strip() != device.serial:
        raise DriveError(f"{device.path} is {device.model} with serial number {device.serial}, not {serial}. Nothing was written.")


def refuse_in_use(device: Device, sys: Path = Path("/sys"), proc: Path = Path("/proc")) -> None:
    """DriveError when any namespace of the drive is mounted, swapped to, held, or open exclusively.

    All namespaces of the controller count: power states and Format are the whole drive's.
    """
    for name in _namespaces(device, sys):
        block = sys / "class/block" / name
        parts = [name, *(entry.name for entry in block.iterdir() if (entry / "partition").exists())]
        for part in parts:
            reason = _mounted(part, sys, proc) or _swapped(part, proc) or _held(part, sys)
            if reason:
                raise DriveError(f"/dev/{part} is in use ({reason}). Nothing was written; free it first.")
    try:
        # O_EXCL on a block device is refused while anything in the kernel has claimed it
        os.close(os.open(device.path, os.O_RDWR | os.O_EXCL))
    except OSError as error:
        raise DriveError(f"{device.path} cannot be opened for writing alone ({error.strerror}).") from None


def _namespaces(device: Device, sys: Path) -> list[str]:
    node = sys / "class/nvme" / device.controller
    found = {device.name}
    try:
        found |= {entry.name for entry in node.iterdir() if _NAMESPACE.fullmatch(entry.name)}
        paths = [entry.name for entry in node.iterdir() if _PATH.fullmatch(entry.name)]
    except OSError:
        paths = []
    # nvme0c1n2 is the path of namespace nvme0n2 over controller 1
    found |= {re.sub(r"c\d+", "", name) for name in paths}
    return sorted(name for name in found if (sys / "class/block" / name).exists())


def _number(part: str, sys: Path) -> str:
    return _read(sys / "class/block" / part / "dev")


def _mounted(part: str, sys: Path, proc: Path) -> str | None:
    number = _number(part, sys)
    for line in _read(proc / "self/mountinfo").splitlines():
        words = line.split()
        if len(words) < 5:
            continue
        source = words[words.index("-") + 2] if "-" in words and words.index("-") + 2 < len(words) else ""
        # file systems with a device number of their own (btrfs) are told by their source
        if (number and words[2] == number) or Path(source).name == part:
            return f"mounted on {words[4]}"
    return None


def _swapped(part: str, proc: Path) -> str | None:
    used = {Path(line.split()[0]).resolve().name for line in _read(proc / "swaps").splitlines()[1:] if line.split()}
    return "swap" if part in used else None


def _held(part: str, sys: Path) -> str | None:
    try:
        holders = sorted(entry.name for entry in (sys / "class/block" / part / "holders").iterdir())
    except OSError:
        return None
    return f"held by {', '.join(holders)}" if holders else None
