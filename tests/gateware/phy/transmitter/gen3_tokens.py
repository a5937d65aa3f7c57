"""Framing tokens of 8 GT/s (PCIe Base 3.0, 4.2.2.3.1), and packets in their frames."""

from __future__ import annotations

import struct

from .datalink import dllp_crc, lcrc

IDL = b"\x00"
SDP = b"\xf0\xac"
EDB = b"\xc0" * 4
EDS = b"\x1f\x80\x90\x00"


def frame_crc(length: int) -> int:
    """Return the remainder of (L[0] x^14 + L[1] x^13 + .. + L[10] x^4) divided by x^4 + x + 1, by long division."""
    dividend = sum((length >> n & 1) << (14 - n) for n in range(11))
    for power in range(14, 3, -1):
        if dividend >> power & 1:
            dividend ^= 0b10011 << (power - 4)
    return dividend


def stp(length: int, sequence: int) -> bytes:
    """Return the token of a TLP; `length` is in double words, token and LCRC included.

    The parity bit makes the number of ones in length, frame CRC and itself even.
    """
    check = frame_crc(length)
    parity = (bin(length).count("1") + bin(check).count("1")) % 2
    low = 0xF | (length & 0xF) << 4 | length >> 4 << 8 | parity << 15
    # The sequence number goes high bits first, as in the data link layer.
    return struct.pack("<H", low) + bytes([check << 4 | sequence >> 8, sequence & 0xFF])


def tlp_bytes(
    tlp: bytes, sequence: int, *, nullified: bool = False, wrong_lcrc: int = 0, wrong_token: int = 0, edb: bool | None = None
) -> bytes:
    """Return a TLP in its frame.

    `nullified`: LCRC complemented and EDB (`edb` False or True omits or adds EDB). `wrong_lcrc` is XORed to the LCRC, `wrong_token`
    to the token.
    """
    tlp = bytes(tlp)
    (check,) = struct.unpack("<I", lcrc(struct.pack(">H", sequence % 4096) + tlp))
    check ^= wrong_lcrc ^ (0xFFFFFFFF if nullified else 0)
    token = int.from_bytes(stp(len(tlp) // 4 + 2, sequence % 4096), "little") ^ wrong_token
    return token.to_bytes(4, "little") + tlp + struct.pack("<I", check) + (EDB if (nullified if edb is None else edb) else b"")


def dllp_bytes(body: bytes, *, wrong_crc: int = 0) -> bytes:
    """Return a DLLP (four bytes) in its frame."""
    assert len(body) == 4
    return SDP + bytes(body) + (int.from_bytes(dllp_crc(body), "little") ^ wrong_crc).to_bytes(2, "little")
