"""TLPs of the self-test's pattern, and their beats.

A host finds a drive, enables it, and creates a completion and a submission queue of 256 entries. Then it reads block n with command
n. Bits that depend on n are 0 in the TLPs. The ``patches`` of a TLP list them: bits of n, or of n + 1, that belong into a beat.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import pack

__all__ = ["BAR0", "COMMAND", "CQ", "DATA", "SETUP", "SQ", "Beat", "Patch", "beats"]

BAR0, ADMIN_SQ, ADMIN_CQ = 0xFEB0_0000, 0x0010_0000, 0x0011_0000
SQ, CQ, DATA = 0x0020_0000, 0x0030_0000, 0x0040_0000
"""Places of queues and data in the host's memory. Each address is a multiple of the range that its bits of n cover."""
_MESSAGE = 0xFEE0_1000
_HOST, _DRIVE = 0x0000, 0x0100
"""Requester IDs: the root complex, and device 0 below it on bus 1."""
_ENTRIES = 256
_BLOCK = 512
_MWR, _MRD, _CFGWR, _CPLD = 0x40, 0x00, 0x44, 0x4A


@dataclass(frozen=True)
class Patch:
    """Puts bits ``of`` .. ``of + width`` of n, with ``ahead`` of n + 1, into bits ``low`` .. ``low + width`` of a beat."""

    low: int
    width: int
    of: int = 0
    ahead: bool = False


@dataclass(frozen=True)
class Tlp:
    """A TLP: its bytes in the order of the wire. ``up``: the drive sends it. ``patches`` count bits from the lowest bit of the
    first byte.
    """

    up: bool
    raw: bytes
    patches: tuple[Patch, ...] = ()


@dataclass(frozen=True)
class Beat:
    """A clock of 128 bits, repeated ``times`` times."""

    up: bool
    first: bool
    last: bool
    dws: int
    data: int
    times: int = 1
    patches: tuple[Patch, ...] = field(default=())


def _request(kind: int, payload: bytes, address: int, *, up: bool, length: int = 0, patches: tuple[Patch, ...] = ()) -> Tlp:
    dws = len(payload) // 4 or length
    enables = 0x0F if dws == 1 else 0xFF
    head = pack(">BxHHBBI", kind, dws, _DRIVE if up else _HOST, 0, enables, address)
    return Tlp(up, head + payload, patches)


def _completion(payload: bytes, patches: tuple[Patch, ...] = ()) -> Tlp:
    """Return the completion of the drive's read with tag 0."""
    return Tlp(False, pack(">BxHHHHBB", _CPLD, len(payload) // 4, _HOST, len(payload), _DRIVE, 0, 0) + payload, patches)


def _doorbell(index: int, value: int = 0) -> Tlp:
    return _request(_MWR, pack("<I", value), BAR0 + 0x1000 + 4 * index, up=False, patches=() if value else (Patch(96, 8, ahead=True),))


def _sqe(opcode: int, cid: int, prp1: int, cdw10: int, cdw11: int = 0, nsid: int = 0) -> bytes:
    return pack("<BBHI16xQ8xII16x", opcode, 0, cid, nsid, prp1, cdw10, cdw11)


def _cqe(base: int, cid: int, qid: int, head: int, patches: tuple[Patch, ...] = ()) -> Tlp:
    return _request(_MWR, pack("<IIHHHH", 0, 0, head, qid, cid, 1), base, up=True, patches=patches)


def _config(register: int, value: int) -> Tlp:
    return _request(_CFGWR, pack("<I", value), _DRIVE << 16 | register, up=False)


def _register(offset: int, value: int) -> Tlp:
    return _request(_MWR, pack("<I", value), BAR0 + offset, up=False)


def _message(vector: int) -> Tlp:
    return _request(_MWR, pack("<I", 0x4020 + vector), _MESSAGE, up=True)


_LAST = _ENTRIES - 1
SETUP: tuple[Tlp, ...] = (
    _config(0x10, BAR0),
    _config(0x14, 0),
    _register(0x24, 15 << 16 | 15),
    _register(0x28, ADMIN_SQ),
    _register(0x2C, 0),
    _register(0x30, ADMIN_CQ),
    _register(0x34, 0),
    _register(0x14, 4 << 20 | 6 << 16 | 1),
    _doorbell(0, 2),
    _request(_MRD, b"", ADMIN_SQ, up=True, length=32),
    _completion(_sqe(0x05, 0, CQ, _LAST << 16 | 1, 1 << 16 | 3) + _sqe(0x01, 1, SQ, _LAST << 16 | 1, 1 << 16 | 1)),
    _cqe(ADMIN_CQ, 0, 0, 1),
    _cqe(ADMIN_CQ + 16, 1, 0, 2),
    _message(0),
    _doorbell(1, 2),
)
"""TLPs of enumeration, controller enable and queue creation."""
COMMAND: tuple[Tlp, ...] = (
    _doorbell(2),
    _request(_MRD, b"", SQ, up=True, length=16, patches=(Patch(94, 2), Patch(80, 6, of=2))),
    _completion(_sqe(0x02, 0, DATA, 0, nsid=1), (Patch(94, 1), Patch(112, 8), Patch(13 * 32, 8))),
    _request(_MWR, bytes(_BLOCK), DATA, up=True),
    _cqe(CQ, 0, 1, 0, (Patch(92, 4), Patch(80, 4, of=4), Patch(128 + 32, 8, ahead=True), Patch(128 + 64, 8))),
    _message(1),
    _doorbell(3),
)
"""TLPs of command n, the SQ tail doorbell first."""


def beats(tlps: tuple[Tlp, ...]) -> list[Beat]:
    """Return the beats of all TLPs; whole beats of zeros in the middle of a TLP are merged."""
    found: list[Beat] = []
    for tlp in tlps:
        for at in range(0, len(tlp.raw), 16):
            part = tlp.raw[at : at + 16]
            patches = tuple(Patch(p.low - 8 * at, p.width, p.of, p.ahead) for p in tlp.patches if 8 * at <= p.low < 8 * (at + 16))
            beat = Beat(tlp.up, at == 0, at + 16 >= len(tlp.raw), len(part) // 4, int.from_bytes(part, "little"), 1, patches)
            same = found and found[-1].data == 0 and not (found[-1].first or found[-1].patches)
            if same and beat.data == 0 and not (beat.last or patches) and found[-1].dws == 4:
                found[-1] = Beat(tlp.up, False, False, 4, 0, found[-1].times + 1)
            else:
                found.append(beat)
    return found
