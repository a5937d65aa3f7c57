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
    controller, such as ``0000:01:00.0``; empty where it is not on PCIe. ``nsid``: the namespace's identifier, which its name need not
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
    """The namespace that ``path`` is. DriveError when it is something else."""
    given = Path(path)
    try:
        mode = given.stat().st_mode
    except OSError as error:
        raise DriveError(f"{path} cannot be looked at ({error.strerror}); `nvme list` shows the drives.") from None
    name = given.resolve().name
    if not stat.S_ISBLK(mode):
        hint = " That is the controller: give its namespace, such as /dev/nvme0n1." if stat.S_ISCHR(mode) else ""
        raise DriveError(f"{path} is not a block device.{hint}")
    block = sys / "class/block" / name
    if not _NAMESPACE.fullmatch(name):
        if (block / "partition").exists():
            raise DriveError(f"{path} is a partition; the suites need the whole namespace.")
        raise DriveError(f"{path} is no NVMe namespace; the rig measures NVMe drives.")
    controller = _controller(block)
    node = sys / "class/nvme" / controller
    capacity, lba = _whole(block / "size", path) * SECTOR_BYTES, _whole(block / "queue/logical_block_size", path)
    return Device(
        path=str(given.resolve()),
        name=name,
        controller=controller,
        model=_read(node / "model"),
        serial=_read(node / "serial"),
        firmware=_read(node / "firmware_rev"),
        capacity_bytes=capacity,
        lba_size_bytes=lba,
        pci=_pci_address(node),
        nsid=_whole(block / "nsid", path),
    )


def _controller(block: Path) -> str:
    """With native multipath the namespace hangs below the subsystem, and its controllers are beside it."""
    parent = (block / "device").resolve()
    if (parent / "transport").exists():
        return parent.name
    found = [entry.name for entry in _entries(parent) if re.fullmatch(r"nvme\d+", entry.name)]
    if len(found) != 1:
        raise DriveError(
            f"{block.name} is reached over {len(found)} controllers ({', '.join(found) or 'none'}); "
            "the rig sits at one connector: use a drive with one controller."
        )
    return found[0]


def _whole(file: Path, path: str | Path) -> int:
    """A number above 0 of sysfs."""
    text = _read(file)
    if not re.fullmatch(r"[0-9]{1,18}", text) or int(text) == 0:
        raise DriveError(f"{path}: {file} says {text[:40] or 'nothing'} expected a number above 0; is the drive's namespace formatted?")
    return int(text)


def _pci_address(node: Path) -> str:
    device = (node / "device").resolve()
    return device.name if re.fullmatch(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", device.name) else ""


def _read(path: Path) -> str:
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


def refuse_in_use(device: Device, sys: Path = Path("/sys"), proc: Path = Path("/proc"), dev: Path = Path("/dev")) -> None:
    """DriveError when any namespace of the drive is mounted, swapped to, held, or open exclusively.

    All namespaces of the drive count, over all its controllers: power states and Format are the whole drive's. What the kernel lists
    (mounts, swap, btrfs, holders, loop devices, open files) gives the reason; that each block device can be opened exclusively is
    the proof, as whatever in the kernel uses one has claimed it.
    """
    names = _namespaces(device, sys)
    parts: list[str] = []
    for name in names:
        block = sys / "class/block" / name
        parts += [name, *sorted(entry.name for entry in _entries(block) if (entry / "partition").exists())]
    opened = _opened(proc)
    btrfs = _btrfs(sys)
    looped = _looped(sys)
    for part in parts:
        reason = (
            _mounted(part, sys, proc)
            or _swapped(part, proc)
            or btrfs.get(part)
            or _held(part, sys)
            or looped.get(part)
            or opened.get(part)
            or opened.get(part.replace("nvme", "ng", 1))
        )
        if reason:
            raise DriveError(f"/dev/{part} is in use ({reason}). Nothing was written; free it first.")
    for part in parts:
        _claim(Path(device.path) if part == device.name else dev / part, os.O_RDWR if part == device.name else os.O_RDONLY)


def _claim(node: Path, mode: int) -> None:
    try:
        # O_EXCL on a block device is refused while anything in the kernel has claimed it
        os.close(os.open(node, mode | os.O_EXCL | os.O_CLOEXEC))
    except OSError as error:
        how = "opened for writing alone" if mode == os.O_RDWR else "opened alone, and is part of the same drive"
        raise DriveError(f"{node} cannot be {how} ({error.strerror}). Nothing was written; free it first.") from None


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _controllers(device: Device, sys: Path) -> set[str]:
    """The drive's controllers: without multipath those of one subsystem are separate devices with separate namespaces."""
    name = _read(sys / "class/nvme" / device.controller / "subsysnqn")
    found = {device.controller}
    if name:
        found |= {entry.name for entry in _entries(sys / "class/nvme") if _read(entry / "subsysnqn") == name}
    for subsystem in _entries(sys / "class/nvme-subsystem"):
        members = {entry.name for entry in _entries(subsystem) if re.fullmatch(r"nvme\d+", entry.name)}
        if members & found:
            found |= members
    return found


def _namespaces(device: Device, sys: Path) -> list[str]:
    """Names of the drive's block devices, of multipath heads too; the hidden paths below a head have no node to open."""
    controllers = _controllers(device, sys)
    found = {device.name}
    folders = [sys / "class/nvme" / name for name in controllers]
    folders += [s for s in _entries(sys / "class/nvme-subsystem") if controllers & {entry.name for entry in _entries(s)}]
    for folder in folders:
        for entry in _entries(folder):
            if _NAMESPACE.fullmatch(entry.name):
                found.add(entry.name)
            elif _PATH.fullmatch(entry.name):
                # nvme0c1n2 is the path of namespace nvme0n2 over controller 1
                found.add(re.sub(r"c\d+", "", entry.name))
            elif re.fullmatch(r"ng\d+n\d+", entry.name):
                found.add(entry.name.replace("ng", "nvme", 1))
    return sorted(name for name in found if (sys / "class/block" / name).exists())


def _number(part: str, sys: Path) -> str:
    return _read(sys / "class/block" / part / "dev")


def _is(source: str, part: str) -> bool:
    """Whether a path of procfs is that device, itself or by a link (``/dev/disk/by-uuid/...``)."""
    return source.startswith("/") and part in (Path(source).name, Path(os.path.realpath(source)).name)


def _mounted(part: str, sys: Path, proc: Path) -> str | None:
    number = _number(part, sys)
    for line in _read(proc / "self/mountinfo").splitlines():
        words = line.split()
        if len(words) < 5:
            continue
        source = words[words.index("-") + 2] if "-" in words and words.index("-") + 2 < len(words) else ""
        # file systems with a device number of their own (btrfs) are told by their source
        if (number and words[2] == number) or _is(source, part):
            return f"mounted on {words[4]}"
    return None


def _swapped(part: str, proc: Path) -> str | None:
    used = [line.split()[0] for line in _read(proc / "swaps").splitlines()[1:] if line.split()]
    return "swap" if any(_is(path, part) for path in used) else None


def _btrfs(sys: Path) -> dict[str, str]:
    """Members of the mounted btrfs file systems: mountinfo names only one of them."""
    found = {}
    for entry in _entries(sys / "fs/btrfs"):
        for member in _entries(entry / "devices"):
            found[member.name] = f"member of the btrfs {_read(entry / 'label') or entry.name}"
    return found


def _held(part: str, sys: Path) -> str | None:
    holders = [entry.name for entry in _entries(sys / "class/block" / part / "holders")]
    return f"held by {', '.join(holders)}" if holders else None


def _looped(sys: Path) -> dict[str, str]:
    """A loop device claims nothing of the block device behind it."""
    found = {}
    for entry in _entries(sys / "class/block"):
        backing = _read(entry / "loop/backing_file")
        if backing:
            found[Path(backing).name] = f"behind /dev/{entry.name}"
    return found


def _opened(proc: Path) -> dict[str, str]:
    """Block devices that another process has open for writing (a virtual machine claims nothing), and NVMe character devices of
    namespaces, which cannot be claimed, that one has open at all."""
    found: dict[str, str] = {}
    for process in _entries(proc):
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        for entry in _entries(process / "fd"):
            try:
                target = Path(os.readlink(entry))
            except OSError:
                continue
            generic = re.fullmatch(r"ng\d+n\d+", target.name)
            block = re.fullmatch(r"nvme\d+n\d+(p\d+)?", target.name)
            if target.is_absolute() and (generic or (block and _writes(process / "fdinfo" / entry.name))):
                found[target.name] = f"open in process {process.name}, {_read(process / 'comm') or 'unknown'}"
    return found


def _writes(fdinfo: Path) -> bool:
    flags = re.search(r"^flags:\s*([0-7]+)", _read(fdinfo), re.MULTILINE)
    return flags is not None and int(flags[1], 8) & os.O_ACCMODE != os.O_RDONLY
