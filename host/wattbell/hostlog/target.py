"""Which controller and namespace a device path is, as the kernel's logs name them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ..errors import DriveError
from .events import WantedCommands


@dataclass(frozen=True)
class Target:
    """A namespace, or a whole drive (``nsid`` None). ``controller``: the N of ``/dev/nvmeN``. ``disks``: names of its block devices, hidden
    ones of multipath too. ``lba_bytes``: of a logical block; 512 for a whole drive."""

    path: str
    controller: int
    nsid: int | None
    disks: tuple[str, ...]
    lba_bytes: int = 512

    def wanted(self) -> WantedCommands:
        """The same as a filter of events."""
        return WantedCommands(self.controller, self.nsid, self.disks)


def target_of(path: str | Path, sys: Path = Path("/sys")) -> Target:
    """Return the target behind ``/dev/nvme0n1`` or ``/dev/nvme0``. Raises DriveError for other paths, and for a drive with several
    controllers.
    """
    name = Path(path).resolve().name
    if found := re.fullmatch(r"nvme(\d+)", name):
        if not (sys / "class/nvme" / name).exists():
            raise DriveError(f"{path}: there is no such controller; `nvme list` shows the drives.")
        return Target(str(path), int(found[1]), None, ())
    block = sys / "class/block" / name
    if not re.fullmatch(r"nvme\d+n\d+", name) or not block.exists():
        raise DriveError(f"{path} is no namespace of an NVMe drive; give one such as /dev/nvme0n1.")
    parent = (block / "device").resolve()
    if re.fullmatch(r"nvme\d+", parent.name) and (parent / "transport").exists():
        controllers, disks = [parent.name], [name]
    else:
        below = sorted(entry.name for entry in parent.iterdir()) if parent.is_dir() else []
        controllers = [entry for entry in below if re.fullmatch(r"nvme\d+", entry)]
        head, _, number = name.rpartition("n")
        disks = [name, *(f"{head}c{int(controller[4:])}n{number}" for controller in controllers)]
    if len(controllers) != 1:
        raise DriveError(f"{path} is reached over {len(controllers)} controllers; a log is of one: use a drive with one controller.")
    nsid, lba = _number(block / "nsid"), _number(block / "queue/logical_block_size")
    if not nsid or not lba:
        raise DriveError(f"{path}: the kernel does not tell its namespace identifier or block size; is the namespace formatted?")
    return Target(str(path), int(controllers[0][4:]), nsid, tuple(disks), lba)


def _number(file: Path) -> int:
    try:
        text = file.read_text().strip()
    except OSError:
        return 0
    return int(text) if text.isascii() and text.isdigit() and len(text) < 18 else 0
