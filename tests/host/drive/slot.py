"""A drive in a slot as sysfs shows it: configuration spaces of the drive and of the root port above it, as files.

The spaces are laid out here by hand from the PCI Express Base Specification; their meaning is the reading of the unmodified lspci of
pciutils, and unmodified setpci writes to them. The hardware's reaction to a write of Retrain Link follows each setpci.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from wattbell.drive.device import Device
from wattbell.drive.tools import Tools

from tests import needs

PORT, DRIVE = "0000:00:1c.4", "0000:3b:00.0"
_CAP, _SUB = 0x70, 0x1C0
_SETPCI = """#!{python}
# setpci on the tree; then the hardware: a link that was told to retrain runs at the speed both ends allow, and the bit reads 0 again
import pathlib, subprocess, sys
tree = pathlib.Path({tree!r})
with open({log!r}, "a") as log:
    print(*sys.argv[1:], file=log)
done = subprocess.run([{setpci!r}, "-A", "linux-sysfs", "-O", "sysfs.path={tree}", *sys.argv[1:]])
files = [tree / "devices" / address / "config" for address in ({port!r}, {drive!r})]
port, drive = (bytearray(file.read_bytes()) for file in files)
if port[{cap} + 0x10] & 0x20:
    port[{cap} + 0x10] &= ~0x20
    if not pathlib.Path({stuck!r}).exists():
        limits = port[{cap} + 0x30] & 15, port[{cap} + 0x0C] & 15, drive[{cap} + 0x0C] & 15
        for space in (port, drive):
            space[{cap} + 0x12] = space[{cap} + 0x12] & 0xF0 | min(limits)
    for file, space in zip(files, (port, drive)):
        file.write_bytes(space)
sys.exit(done.returncode)
"""


def pciutils(name: str) -> str:
    """Path of the real program."""
    return needs.program(name)


class Slot:
    """The tree under ``root``. Speeds are codes: 1 is 2.5 GT/s, 4 is 16 GT/s."""

    def __init__(self, root: Path, *, drive_most: int = 4, port_most: int = 4, now: int = 4, width: int = 4) -> None:
        self.root = root
        self.sys = root / "sys"
        self.tree = self.sys / "bus/pci"
        above = self.sys / "devices/pci0000:00" / PORT
        (self.tree / "devices").mkdir(parents=True)
        for address, folder, kind, most in ((PORT, above, 4, port_most), (DRIVE, above / DRIVE, 0, drive_most)):
            folder.mkdir(parents=True)
            (self.tree / "devices" / address).symlink_to(folder)
            (folder / "config").write_bytes(self._space(kind, most, now, width))
            for name, text in {"vendor": "0x8086", "device": "0xf1a8", "class": "0x060400" if kind else "0x010802", "irq": "0"}.items():
                (folder / name).write_text(f"{text}\n")
            (folder / "resource").write_text("0x0000000000000000 0x0000000000000000 0x0000000000000000\n" * 7)
        self.device = Device("/dev/nvme9n1", "nvme9n1", "nvme9", "M", "S1", "F", 1 << 30, 512, DRIVE, 1)
        self.log = root / "setpci.log"
        self.stuck = root / "stuck"

    @staticmethod
    def _space(kind: int, most: int, now: int, width: int) -> bytes:
        space = bytearray(4096)

        def put(at: int, value: int, size: int) -> None:
            space[at : at + size] = value.to_bytes(size, "little")

        put(0x00, 0x8086, 2)
        put(0x02, 0xF1A8, 2)
        put(0x06, 0x0010, 2)  # Status: there is a list of capabilities
        put(0x0A, 0x0604 if kind else 0x0108, 2)
        put(0x0E, 1 if kind else 0, 1)
        put(0x34, 0x40, 1)
        put(0x40, 0x7001, 2)  # Power Management, then PCI Express at 70h
        put(_CAP, 0x0010, 2)
        put(_CAP + 0x02, kind << 4 | 2, 2)
        put(_CAP + 0x04, 2 if kind else 1, 4)  # payloads of up to 512 and 256 bytes
        put(_CAP + 0x08, 1 << 5 | 2 << 12, 2)  # 256; reads of 512
        put(_CAP + 0x0C, width << 4 | most | 2 << 10, 4)  # L1 is offered
        put(_CAP + 0x10, 0x0040, 2)  # ASPM off; common clock
        put(_CAP + 0x12, 1 << 12 | width << 4 | now, 2)
        put(_CAP + 0x2C, (1 << most + 1) - 2, 4)
        put(_CAP + 0x30, most, 2)
        put(0x100, 0x0001 | 2 << 16 | _SUB << 20, 4)  # AER, then L1 PM Substates
        put(_SUB, 0x001E | 1 << 16, 4)
        put(_SUB + 0x04, 0x1F, 4)
        put(_SUB + 0x08, 0x0D if not kind else 0x0F, 4)
        return bytes(space)

    def register(self, address: str, at: int, size: int) -> int:
        return int.from_bytes((self.tree / "devices" / address / "config").read_bytes()[_CAP + at : _CAP + at + size], "little")

    def link_files(self, **values: int) -> Path:
        """The drive's ``link`` folder, with which the kernel controls ASPM: it has a file for each thing that both ends can."""
        folder = self.tree / "devices" / DRIVE / "link"
        folder.mkdir()
        for name, value in values.items():
            (folder / name).write_text(f"{value}\n")
        return folder

    def poke(self, address: str, at: int, value: int) -> None:
        """One byte of the PCI Express capability."""
        file = self.tree / "devices" / address / "config"
        space = bytearray(file.read_bytes())
        space[_CAP + at] = value
        file.write_bytes(space)

    def tools(self, **more: str) -> Tools:
        script = self.root / "setpci"
        names = {"tree": str(self.tree), "log": str(self.log), "stuck": str(self.stuck), "setpci": pciutils("setpci")}
        script.write_text(_SETPCI.format(python=sys.executable, port=PORT, drive=DRIVE, cap=_CAP, **names))
        script.chmod(0o755)
        return Tools({"setpci": str(script), **more})

    def lspci(self, address: str) -> str:
        """Output of lspci -vv for a function."""
        command = [pciutils("lspci"), "-A", "linux-sysfs", "-O", f"sysfs.path={self.tree}", "-vv", "-s", address]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return re.sub(r"\s+", " ", said)
