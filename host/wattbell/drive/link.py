"""The link between a drive and its slot: speed, width, ASPM and payload sizes of both ends, and whether a tap can see it.

Speeds and widths come from sysfs (Documentation/ABI/testing/sysfs-bus-pci of the Linux kernel). The rest is read from configuration space,
all of it visible to root in sysfs. Offsets and fields: PCI Express Base Specification, PCI Express Capability Structure and L1 PM Substates
Extended Capability; the names behind them are the specification's.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from wattbell_spec.boards import BoardFigures

from .device import Device

SPEEDS_GT_S = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}
"""Speeds by the code of Max Link Speed, Current Link Speed and Target Link Speed (as bits of the Supported Link Speeds Vector)."""
PCI_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_EXPRESS, _L1PM = 0x10, 0x1E
"""Capability ID, Extended Capability ID."""
_CAPABILITIES, _DEVICE_CAPABILITIES, _DEVICE_CONTROL, _LINK_CAPABILITIES = 0x02, 0x04, 0x08, 0x0C
_LINK_CONTROL, _LINK_STATUS, _LINK_CONTROL_2 = 0x10, 0x12, 0x30
_SUBSTATES_OFFERED, _SUBSTATES_ENABLED = 0x04, 0x08
_KINDS = {
    0: "endpoint",
    1: "legacy endpoint",
    4: "root port",
    5: "switch, upstream port",
    6: "switch, downstream port",
    9: "integrated endpoint",
}
"""Device/Port Type."""
_INTEGRATED = 9
_ASPM = {0: "off", 1: "L0s", 2: "L1", 3: "L0s, L1"}
"""ASPM Control; ASPM Support has the same bits."""
_SUBSTATES = ("PCI-PM L1.2", "PCI-PM L1.1", "ASPM L1.2", "ASPM L1.1")
"""Bits 0 to 3 of L1 PM Substates Capabilities and of L1 PM Substates Control 1."""


@dataclass(frozen=True)
class LinkEnd:
    """One end of a link; None if it is not known. ``target_gt_s``: Target Link Speed. ``aspm``: as enabled;
    ``aspm_offered``: what this end can. ``mps_bytes``, ``mrrs_bytes``: Max_Payload_Size
    and Max_Read_Request_Size as set; ``mps_most_bytes``: the largest payload that it takes. ``l1_substates``: those enabled;
    ``l1_substates_offered``: those there are."""

    address: str
    kind: str | None = None
    speed_gt_s: float | None = None
    width: int | None = None
    max_speed_gt_s: float | None = None
    max_width: int | None = None
    target_gt_s: float | None = None
    aspm: str | None = None
    aspm_offered: str | None = None
    mps_bytes: int | None = None
    mps_most_bytes: int | None = None
    mrrs_bytes: int | None = None
    l1_substates: tuple[str, ...] | None = None
    l1_substates_offered: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Link:
    """``port``: the slot's end, None for a drive that has no port above it."""

    drive: LinkEnd
    port: LinkEnd | None

    @property
    def speed_gt_s(self) -> float | None:
        """Speed of each lane as the drive reports it."""
        return self.drive.speed_gt_s

    @property
    def width(self) -> int | None:
        """Lanes."""
        return self.drive.width

    @property
    def text(self) -> str:
        """Return one line: present speed and width, their limits, and ASPM."""
        if not self.speed_gt_s or not self.width:
            return "the drive is part of the root complex: there is no link" if self.integrated else "not known"
        words = [f"{rate(self.speed_gt_s)} x{self.width}"]
        ends = {name: most(end) for name, end in (("drive", self.drive), ("slot", self.port)) if end is not None and most(end)}
        if len(set(ends.values())) > 1:
            words[0] += f" ({', '.join(f'{name}: {text}' for name, text in ends.items())})"
        elif ends and next(iter(ends.values())) != words[0]:
            words[0] += f" (both ends: {next(iter(ends.values()))})"
        if self.drive.aspm is not None:
            words.append(f"ASPM {self.drive.aspm}")
        if self.drive.mps_bytes is not None:
            words.append(f"payload up to {self.drive.mps_bytes} bytes")
        return ", ".join(words)

    @property
    def has_l1(self) -> bool:
        """Whether ASPM L1 may be switched on: not where one of the ends is known not to offer it."""
        ends = [self.drive] if self.port is None else [self.drive, self.port]
        return not self.integrated and all(end.aspm_offered is None or "L1" in end.aspm_offered for end in ends)

    @property
    def integrated(self) -> bool:
        """Whether there is no link at all."""
        return self.drive.kind == _KINDS[_INTEGRATED]

    def to_json(self) -> dict[str, Any]:
        """``conditions.link``."""
        return {"text": self.text, "drive": asdict(self.drive), "port": None if self.port is None else asdict(self.port)}


def rate(gt_s: float) -> str:
    """``8 GT/s``."""
    return f"{gt_s:g} GT/s"


def most(end: LinkEnd) -> str:
    """Return the best speed and width of an end: ``16 GT/s x4``; empty if unknown."""
    return f"{rate(end.max_speed_gt_s)} x{end.max_width}" if end.max_speed_gt_s and end.max_width else ""


def upstream_port(device: Device, sys: Path = Path("/sys")) -> str | None:
    """PCI address of the port above the drive; None if there is none (not PCIe, integrated, passed through to a guest)."""
    if not device.pci:
        return None
    above = (sys / "bus/pci/devices" / device.pci).resolve().parent.name
    return above if PCI_ADDRESS.fullmatch(above) else None


def read_link(device: Device, sys: Path = Path("/sys")) -> Link | None:
    """Return both ends of the drive's link at present; None for a drive that is not on PCIe."""
    if not device.pci:
        return None
    port = upstream_port(device, sys)
    return Link(_end(device.pci, sys), None if port is None else _end(port, sys))


def _end(address: str, sys: Path) -> LinkEnd:
    node = sys / "bus/pci/devices" / address
    space = _Space(_bytes(node / "config"))
    found: dict[str, Any] = space.described()
    texts = {
        "speed_gt_s": _speed(node / "current_link_speed"),
        "max_speed_gt_s": _speed(node / "max_link_speed"),
        "width": _lanes(node / "current_link_width"),
        "max_width": _lanes(node / "max_link_width"),
    }
    return LinkEnd(address, **{**found, **{name: value for name, value in texts.items() if value is not None}})


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


def _text(file: Path) -> str:
    return _bytes(file).decode(errors="replace").strip()


def _speed(file: Path) -> float | None:
    """``8.0 GT/s PCIe``; ``8 GT/s`` in older kernels; ``Unknown``."""
    found = re.match(r"([0-9]{1,3}(?:\.[0-9])?) GT/s", _text(file))
    return float(found[1]) if found else None


def _lanes(file: Path) -> int | None:
    """0, and 255 in some kernels, mean that the link is down or not known."""
    text = _text(file)
    return int(text) if re.fullmatch(r"[0-9]{1,2}", text) and 1 <= int(text) <= 32 else None


class _Space:
    """Configuration space, as far as it could be read (64 bytes without root)."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def number(self, at: int, size: int) -> int | None:
        """Little-endian; None beyond what could be read, or where nothing answers (all ones)."""
        part = self._content[at : at + size]
        return None if len(part) < size else int.from_bytes(part, "little")

    def capability(self, wanted: int) -> int | None:
        """Offset of a capability of the list that begins at 34h."""
        at = self.number(0x34, 1)
        for _ in range(48):  # there is no room for more, and a broken list must end
            if not at or at < 0x40:
                return None
            at &= ~3
            found, following = self.number(at, 1), self.number(at + 1, 1)
            if found == wanted:
                return at
            at = following
        return None

    def extended(self, wanted: int) -> int | None:
        """Offset of an extended capability: their list begins at 100h."""
        at = 0x100
        for _ in range(960):
            header = self.number(at, 4)
            if not header or header == 0xFFFF_FFFF or at < 0x100:
                return None
            if header & 0xFFFF == wanted:
                return at
            at = header >> 20 & ~3
        return None

    def described(self) -> dict[str, Any]:
        """The fields of :class:`LinkEnd` that are here."""
        if self.number(0, 2) in (None, 0xFFFF):  # the drive is gone
            return {}
        found = self._express() | self._substates()
        return {name: value for name, value in found.items() if value is not None}

    def _express(self) -> dict[str, Any]:
        base = self.capability(_EXPRESS)
        if base is None:
            return {}

        def field(offset: int, size: int, low: int, bits: int) -> int | None:
            value = self.number(base + offset, size)
            return None if value is None else value >> low & (1 << bits) - 1

        def bytes_of(code: int | None) -> int | None:
            return None if code is None or code > 5 else 128 << code

        kind = field(_CAPABILITIES, 2, 4, 4)
        if kind is None:
            return {}
        found: dict[str, Any] = {
            "kind": _KINDS.get(kind, f"type {kind:x}h"),
            "mps_bytes": bytes_of(field(_DEVICE_CONTROL, 2, 5, 3)),
            "mps_most_bytes": bytes_of(field(_DEVICE_CAPABILITIES, 4, 0, 3)),
            "mrrs_bytes": bytes_of(field(_DEVICE_CONTROL, 2, 12, 3)),
        }
        if kind == _INTEGRATED:  # its link registers mean nothing
            return found
        version = field(_CAPABILITIES, 2, 0, 4) or 0
        return found | {
            "speed_gt_s": SPEEDS_GT_S.get(field(_LINK_STATUS, 2, 0, 4) or 0),
            "width": field(_LINK_STATUS, 2, 4, 6) or None,
            "max_speed_gt_s": SPEEDS_GT_S.get(field(_LINK_CAPABILITIES, 4, 0, 4) or 0),
            "max_width": field(_LINK_CAPABILITIES, 4, 4, 6) or None,
            "target_gt_s": SPEEDS_GT_S.get(field(_LINK_CONTROL_2, 2, 0, 4) or 0) if version >= 2 else None,
            "aspm": None if (aspm := field(_LINK_CONTROL, 2, 0, 2)) is None else _ASPM[aspm],
            "aspm_offered": None if (offered := field(_LINK_CAPABILITIES, 4, 10, 2)) is None else _ASPM[offered],
        }

    def _substates(self) -> dict[str, Any]:
        base = self.extended(_L1PM)
        if base is None:
            return {}

        def names(offset: int) -> tuple[str, ...] | None:
            value = self.number(base + offset, 4)
            return None if value is None else tuple(name for bit, name in enumerate(_SUBSTATES) if value >> bit & 1)

        return {"l1_substates": names(_SUBSTATES_ENABLED), "l1_substates_offered": names(_SUBSTATES_OFFERED)}


def unseen(board: BoardFigures, link: Link, set_to_gt_s: float | None = None) -> str | None:
    """Return why a tap of that board does not see the link's traffic, with advice; None if it does, or nothing is known.

    set_to_gt_s: the speed that the link will be set to
    """
    speed, width = set_to_gt_s or link.speed_gt_s, link.width
    wide = width is not None and width > board.lanes
    fast = speed is not None and speed not in board.rates_gt_s
    if not wide and not fast:
        return None
    seen = f"this tap ({board.name}) sees up to x{board.lanes} at up to {rate(max(board.rates_gt_s))}"
    will = "will be" if set_to_gt_s else "is"
    what = f"The drive's link {will} x{width} at {rate(speed)}" if speed and width else "The drive's link is another"
    ways = ["take the commands from the kernel (--commands trace)"]
    if wide:
        ways.append(f"put the drive behind a slot or adapter of {board.lanes} lanes or fewer")
    else:
        ways.insert(0, f"let the run set it to {rate(max(board.rates_gt_s))} (--link-speed {max(board.rates_gt_s):g})")
    return f"{what}, but {seen}: commands and figures would be missing. Either {', or '.join(ways)}"


__all__ = ["PCI_ADDRESS", "SPEEDS_GT_S", "Link", "LinkEnd", "rate", "read_link", "unseen", "upstream_port"]
