"""TLPs as bytes. cocotbext-pcie packs the fields that many TLPs share, once. Tag and address are put in here.

cocotbext-pcie packs no messages; those are packed by hand (PCIe 2.2.8). ``tests/traffic/test_packets.py`` compares every kind of header
with cocotbext-pcie's reading.
"""

from __future__ import annotations

import struct
from functools import cache

from cocotbext.pcie.core.tlp import CplStatus, Tlp, TlpAt, TlpAttr, TlpTc, TlpType
from cocotbext.pcie.core.utils import PcieId

DOWN, UP = 1, 2
"""Directions as in a bus trace: host to drive, drive to host."""
UNTRANSLATED, TRANSLATION_REQUEST, TRANSLATED = 0, 1, 2
"""Address types (PCIe 2.2.4.1, table 2-5)."""
SUCCESS, UNSUPPORTED, ABORT = 0, 1, 4
"""Completion statuses (PCIe table 2-34)."""
ASSERT_INTA, DEASSERT_INTA, LTR, SET_SLOT_POWER = 0x20, 0x24, 0x10, 0x50
"""Message codes (PCIe 2.2.8)."""
_LOCAL, _TO_ROOT = 4, 0
"""Routing of messages: terminate at the receiver; to the root complex (PCIe table 2-18)."""
_three, _four = struct.Struct(">LLL").pack, struct.Struct(">LLQ").pack


def _words(tlp: Tlp) -> tuple[int, int]:
    dw0, dw1 = struct.unpack_from(">LL", tlp.pack_header())
    return dw0, dw1


@cache
def _request(
    read: bool, wide: bool, dwords: int, first: int, last: int, requester: int, attr: int, tc: int, at: int, ep: bool
) -> tuple[int, int]:
    tlp = Tlp()
    if read:
        tlp.fmt_type = TlpType.MEM_READ_64 if wide else TlpType.MEM_READ
    else:
        tlp.fmt_type = TlpType.MEM_WRITE_64 if wide else TlpType.MEM_WRITE
    tlp.length, tlp.first_be, tlp.last_be, tlp.requester_id = dwords, first, last, PcieId.from_int(requester)
    tlp.attr, tlp.tc, tlp.at, tlp.ep = TlpAttr(attr), TlpTc(tc), TlpAt(at), ep
    return _words(tlp)


def memory(
    read: bool,
    address: int,
    dwords: int,
    requester: int,
    tag: int = 0,
    first: int = 0xF,
    last: int = -1,
    attr: int = 0,
    tc: int = 0,
    at: int = 0,
    ep: bool = False,
) -> bytes:
    """Header of a memory request of `dwords`. Addresses below 4 GiB take 3 DW, others 4 DW (PCIe 2.2.4.1).

    ``first``, ``last``: byte enables; by default all bytes.
    """
    if last < 0:
        last = 0 if dwords == 1 else 0xF
    wide = address >> 32 != 0
    dw0, dw1 = _request(read, wide, dwords, first, last, requester, attr, tc, at, ep)
    dw0 |= (tag & 0x100) << 11 | (tag & 0x200) << 14
    dw1 |= (tag & 0xFF) << 8
    return _four(dw0, dw1, address & ~3) if wide else _three(dw0, dw1, address & ~3)


def pasid(number: int) -> bytes:
    """An end-to-end prefix: the request behind it is of process `number`'s address space (PCIe 6.20.2.1, PASID TLP Prefix)."""
    return struct.pack(">L", 0x91 << 24 | number)


@cache
def _completion(dwords: int, completer: int, status: int, attr: int, tc: int, ep: bool) -> tuple[int, int]:
    tlp = Tlp()
    tlp.fmt_type = TlpType.CPL_DATA if dwords else TlpType.CPL
    tlp.length, tlp.completer_id, tlp.status = dwords, PcieId.from_int(completer), CplStatus(status)
    tlp.attr, tlp.tc, tlp.ep = TlpAttr(attr), TlpTc(tc), ep
    return _words(tlp)


def completion(
    dwords: int,
    completer: int,
    requester: int,
    tag: int,
    remaining: int,
    lower: int,
    status: int = SUCCESS,
    attr: int = 0,
    tc: int = 0,
    ep: bool = False,
) -> bytes:
    """Header of a completion with `dwords` of data (0: without). ``remaining``: bytes of the request from this completion on."""
    dw0, dw1 = _completion(dwords, completer, status, attr, tc, ep)
    dw0 |= (tag & 0x100) << 11 | (tag & 0x200) << 14
    return _three(dw0, dw1 | remaining & 0xFFF, requester << 16 | (tag & 0xFF) << 8 | lower & 0x7F)


@cache
def _configuration(write: bool, first: int, requester: int) -> tuple[int, int]:
    tlp = Tlp()
    tlp.fmt_type = TlpType.CFG_WRITE_0 if write else TlpType.CFG_READ_0
    tlp.length, tlp.first_be, tlp.requester_id = 1, first, PcieId.from_int(requester)
    return _words(tlp)


def configuration(write: bool, register: int, requester: int, function: int, tag: int, first: int = 0xF) -> bytes:
    """Header of a configuration request of type 0 for `function` (bus, device and function in one number)."""
    dw0, dw1 = _configuration(write, first, requester)
    return _three(dw0, dw1 | (tag & 0xFF) << 8, function << 16 | register & 0xFFC)


def message(code: int, requester: int, data: bytes = b"", to_root: bool = False, words: int = 0) -> bytes:
    """A message: 4 DW of header, by hand (PCIe 2.2.8). ``words``: the last 8 bytes of the header, as an LTR has them."""
    routing = _TO_ROOT if to_root else _LOCAL
    first = (0x70 if data else 0x30) | routing
    return struct.pack(">BBHHBBQ", first, 0, len(data) // 4, requester, 0, code, words) + data
