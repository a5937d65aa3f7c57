"""Find every reason not to write to a drive because of another user.

A device is known by its number (``st_rdev``), not by a name: any process may make another node of it. Its users are read from sysfs, procfs
and configfs (Documentation/ABI/testing/sysfs-block, drivers/nvme/target/configfs.c of the Linux kernel).
"""

from __future__ import annotations

import fcntl
import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..errors import DriveError
from .device import Device, Node, entries, node_of, read

_NAMESPACE = re.compile(r"nvme\d+n\d+")
_PATH = re.compile(r"nvme\d+c\d+n\d+")
_GENERIC = re.compile(r"ng\d+(c\d+)?n\d+")
_CONTROLLER = re.compile(r"nvme\d+")
_LOOP_GET_STATUS64 = 0x4C05
"""uapi/linux/loop.h; the answer is a ``struct loop_info64`` of 232 bytes with ``lo_rdevice`` as its third word."""
_LOOP_INFO_BYTES = 232
_TARGETS = (
    ("nvmet/subsystems/*/namespaces/*/device_path", "enable", "NVMe target"),
    ("nvmet/subsystems/*/passthru/device_path", "enable", "NVMe target"),
    ("target/core/*/*/udev_path", "enable", "SCSI target"),
    ("usb_gadget/*/functions/mass_storage.*/lun.*/file", "", "USB gadget"),
)
"""Exports to other machines in configfs: the file that names the device, the file beside it that says whether it is exported."""


@dataclass(frozen=True)
class _Part:
    """A device of the drive. ``name``: the kernel's. ``node``: None if sysfs gives no number."""

    name: str
    node: Node | None


class _Places:
    """Folders in which the kernel presents its state; a test gives its own."""

    def __init__(self, sys: Path, proc: Path, dev: Path) -> None:
        self.sys, self.proc, self.dev = sys, proc, dev
        self.config = sys / "kernel/config"

    def block(self, name: str) -> Path:
        return self.sys / "class/block" / name

    def number(self, name: str) -> Node | None:
        number = read(self.block(name) / "dev")
        return Node(True, number) if number else None


def refuse_in_use(device: Device, sys: Path = Path("/sys"), proc: Path = Path("/proc"), dev: Path = Path("/dev")) -> None:
    """Raise DriveError when any namespace of the drive is mounted, swapped to, held, exported, or open for writing or exclusively.

    All namespaces of the drive count, over all its controllers: power states and Format are the whole drive's. The kernel's lists (mounts,
    swap, btrfs, holders, loop devices, exports, open files) give the reason. The proof is that each block device can be opened exclusively,
    since any user in the kernel has claimed it. Exports and loop devices claim nothing.
    """
    at = _Places(sys, proc, dev)
    controllers = _controllers(device, sys)
    blocks = _blocks(device, controllers, at)
    others = _characters(blocks, controllers, at)
    used = _Used(blocks + others)
    for find in (_mounted, _swapped, _btrfs, _held, _looped, _exported, _opened):
        for part, reason in find(used, at):
            raise DriveError(f"/dev/{part.name} is in use ({reason}). Nothing was written; free it first.")
    for part in blocks:
        own = part.name == device.name
        _claim(Path(device.path) if own else dev / part.name, os.O_RDWR if own else os.O_RDONLY, part)


class _Used:
    """The drive's devices, found by number and, where there is no node to look at, by name."""

    def __init__(self, parts: list[_Part]) -> None:
        self.parts = parts
        self._by_node = {part.node: part for part in parts if part.node is not None}
        self._by_name = {part.name: part for part in parts}

    def named(self, name: str) -> _Part | None:
        """The device of that name of the kernel's."""
        return self._by_name.get(name)

    def numbered(self, node: Node | None) -> _Part | None:
        """The device of that number."""
        return None if node is None else self._by_node.get(node)

    def at(self, path: str) -> _Part | None:
        """The device that a path means, by its node; by its name where the node is gone."""
        if not path.startswith("/"):
            return None
        node = node_of(Path(path))
        if node is not None:
            return self.numbered(node)
        gone = path.removesuffix(" (deleted)")
        return self.named(Path(gone).name) or self.named(Path(os.path.realpath(gone)).name)


_Found = Iterator[tuple[_Part, str]]


def _claim(node: Path, mode: int, part: _Part) -> None:
    try:
        # O_EXCL on a block device is refused while anything in the kernel has claimed it
        opened = os.open(node, mode | os.O_EXCL | os.O_CLOEXEC)
    except OSError as error:
        how = "opened for writing alone" if mode == os.O_RDWR else "opened alone, and is part of the same drive"
        raise DriveError(f"{node} cannot be {how} ({error.strerror}). Nothing was written; free it first.") from None
    try:
        found = node_of(Path(f"/proc/self/fd/{opened}"))
    finally:
        os.close(opened)
    if part.node is not None and found != part.node:
        raise DriveError(
            f"{node} opens device {found or 'of no number'}, but the kernel's {part.name} is {part.node}: the node is not that drive's. "
            "Nothing was written."
        )


def _controllers(device: Device, sys: Path) -> set[str]:
    """Return the drive's controllers. Without multipath, the controllers of one subsystem are separate devices with separate namespaces."""
    name = read(sys / "class/nvme" / device.controller / "subsysnqn")
    found = {device.controller}
    if name:
        found |= {entry.name for entry in entries(sys / "class/nvme") if read(entry / "subsysnqn") == name}
    for subsystem in entries(sys / "class/nvme-subsystem"):
        members = {entry.name for entry in entries(subsystem) if _CONTROLLER.fullmatch(entry.name)}
        if members & found:
            found |= members
    return found


def _folders(controllers: set[str], sys: Path) -> list[Path]:
    found = [sys / "class/nvme" / name for name in sorted(controllers)]
    return found + [s for s in entries(sys / "class/nvme-subsystem") if controllers & {entry.name for entry in entries(s)}]


def _blocks(device: Device, controllers: set[str], at: _Places) -> list[_Part]:
    """The drive's block devices: multipath heads and partitions too; the hidden paths below a head have no node to open."""
    found = {device.name}
    for folder in _folders(controllers, at.sys):
        for entry in entries(folder):
            if _NAMESPACE.fullmatch(entry.name):
                found.add(entry.name)
            elif _PATH.fullmatch(entry.name):
                # nvme0c1n2 is the path of namespace nvme0n2 over controller 1
                found.add(re.sub(r"c\d+", "", entry.name))
            elif _GENERIC.fullmatch(entry.name):
                found.add(re.sub(r"c\d+", "", entry.name).replace("ng", "nvme", 1))
    names: list[str] = []
    for name in sorted(name for name in found if at.block(name).exists()):
        names += [name, *sorted(entry.name for entry in entries(at.block(name)) if (entry / "partition").exists())]
    return [_Part(name, at.number(name)) for name in names]


def _characters(blocks: list[_Part], controllers: set[str], at: _Places) -> list[_Part]:
    """The character devices that carry commands to the drive: of its controllers, and of its namespaces (``ng0n1``)."""
    folders = {name: at.sys / "class/nvme" / name for name in controllers}
    for folder in _folders(controllers, at.sys):
        folders |= {entry.name: entry for entry in entries(folder) if _GENERIC.fullmatch(entry.name)}
    for block in blocks:
        if _NAMESPACE.fullmatch(block.name):
            name = block.name.replace("nvme", "ng", 1)
            folders.setdefault(name, at.sys / "class/nvme-generic" / name)
    found = []
    for name, folder in sorted(folders.items()):
        number = read(folder / "dev") or read(at.sys / "class/nvme-generic" / name / "dev")
        found.append(_Part(name, Node(False, number) if number else None))
    return found


def _mounted(used: _Used, at: _Places) -> _Found:
    for line in read(at.proc / "self/mountinfo").splitlines():
        words = line.split()
        if len(words) < 5:
            continue
        source = words[words.index("-") + 2] if "-" in words and words.index("-") + 2 < len(words) else ""
        # file systems with a device number of their own (btrfs) are identified by their source
        part = used.numbered(Node(True, words[2])) or used.at(_unescaped(source))
        if part:
            yield part, f"mounted on {_unescaped(words[4])}"


def _unescaped(word: str) -> str:
    """A word of mountinfo or swaps, where white space is written in octal."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), word)


def _swapped(used: _Used, at: _Places) -> _Found:
    for line in read(at.proc / "swaps").splitlines()[1:]:
        part = used.at(_unescaped(line.split()[0])) if line.split() else None
        if part:
            yield part, "swap"


def _btrfs(used: _Used, at: _Places) -> _Found:
    """Yield the members of mounted btrfs file systems: mountinfo names only one member."""
    for entry in entries(at.sys / "fs/btrfs"):
        for member in entries(entry / "devices"):
            number = read(member / "dev")
            part = (number and used.numbered(Node(True, number))) or used.named(member.name)
            if part:
                yield part, f"member of the btrfs {read(entry / 'label') or entry.name}"


def _held(used: _Used, at: _Places) -> _Found:
    """Devices built upon the drive (LUKS, LVM, RAID, bcache, dm-multipath), which the kernel lists at both ends."""
    above: dict[Node, list[str]] = {}
    for entry in entries(at.sys / "class/block"):
        for slave in entries(entry / "slaves"):
            number = read(slave / "dev") or read(at.block(slave.name) / "dev")
            if number:
                above.setdefault(Node(True, number), []).append(entry.name)
    for part in used.parts:
        if part.node is not None and not part.node.block:
            continue
        names = {entry.name for entry in entries(at.block(part.name) / "holders")}
        if part.node is not None:
            names |= set(above.get(part.node, ()))
        if names:
            yield part, f"held by {', '.join(_tree(name, at, set()) for name in sorted(names))}"
        elif (at.block(part.name) / "bcache").exists():
            yield part, "part of a bcache"


def _tree(name: str, at: _Places, seen: set[str]) -> str:
    """Return a device above the drive in words, with the kernel's name and the devices above it."""
    block = at.block(name)
    kind, _, _rest = read(block / "dm/uuid").partition("-")
    label = " ".join(part for part in ({"CRYPT": "LUKS", "mpath": "multipath"}.get(kind, kind), read(block / "dm/name")) if part)
    text = f"{name} ({label})" if label else name
    more = [_tree(entry.name, at, seen | {name}) for entry in entries(block / "holders") if entry.name not in seen | {name}]
    return f"{text} below {', '.join(more)}" if more else text


def _looped(used: _Used, at: _Places) -> _Found:
    """A loop device claims nothing of the block device behind it."""
    for entry in entries(at.sys / "class/block"):
        backing = read(entry / "loop/backing_file")
        if backing:
            part = used.numbered(_behind(at.dev / entry.name)) or used.at(backing)
            if part:
                yield part, f"behind /dev/{entry.name}"


def _behind(loop: Path) -> Node | None:
    """Return the block device behind a loop device as the kernel has it, even if its node is removed; None for a file."""
    node = node_of(loop)
    if node is None or not node.block:
        return None
    try:
        opened = os.open(loop, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        answer = fcntl.ioctl(opened, _LOOP_GET_STATUS64, bytes(_LOOP_INFO_BYTES))
    except OSError:
        return None
    finally:
        os.close(opened)
    number = int(struct.unpack_from("=3Q", answer)[2])
    return Node(True, f"{os.major(number)}:{os.minor(number)}") if number else None


def _exported(used: _Used, at: _Places) -> _Found:
    """Yield exports of this machine to others (NVMe over Fabrics, SCSI, USB). An export claims nothing either.

    If the device of an export cannot be examined, it may be the drive, and counts as such.
    """
    for pattern, switch, kind in _TARGETS:
        for file in sorted(at.config.glob(pattern)):
            path = read(file)
            if not path.startswith("/") or (switch and read(file.parent / switch) == "0"):
                continue
            where = f"exported by the {kind} {file.parent.relative_to(at.config)}"
            part = used.at(path)
            if part:
                yield part, where
            elif not Path(path).exists():
                yield used.parts[0], f"perhaps {where}, whose {path} cannot be looked at"


def _opened(used: _Used, at: _Places) -> _Found:
    """Block devices that another process can write to (a virtual machine claims nothing), by a descriptor or by mapped memory.

    Character devices, which cannot be claimed and carry any command, count as soon as a process has one open.
    """
    for process in entries(at.proc):
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        who = f"open in process {process.name}, {read(process / 'comm') or 'unknown'}"
        for entry in entries(process / "fd"):
            part = used.numbered(node_of(entry))
            if part and part.node and (not part.node.block or _writes(process / "fdinfo" / entry.name)):
                yield part, who
        for line in read(process / "maps").splitlines():
            words = line.split()
            if len(words) > 5 and "w" in words[1] and words[1].endswith("s") and words[5].startswith("/"):
                part = used.numbered(node_of(process / "map_files" / words[0]))
                if part:
                    yield part, who


def _writes(fdinfo: Path) -> bool:
    flags = re.search(r"^flags:\s*([0-7]+)", read(fdinfo), re.MULTILINE)
    return flags is None or int(flags[1], 8) & os.O_ACCMODE != os.O_RDONLY
