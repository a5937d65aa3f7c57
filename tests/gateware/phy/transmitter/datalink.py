"""Data link layer: LCRC, DLLP CRC, sequence numbers, replay."""

from __future__ import annotations

import struct
import zlib

from .lane import EDB, END, SDP, STP, Symbol


def lcrc(body: bytes) -> bytes:
    """Return the LCRC of sequence number and TLP as sent: the CRC-32 of zlib, low byte first."""
    return struct.pack("<I", zlib.crc32(body))


def dllp_crc(body: bytes) -> bytes:
    """Return the CRC-16 of a DLLP's four bytes as sent (PCIe Base 2.1, 3.5.1): polynomial 100Bh, one bit at a time, low bit of a
    byte first.
    """
    register = [1] * 16
    for bit in (byte >> n & 1 for byte in body for n in range(8)):
        feedback = register[15] ^ bit
        register = [feedback, *register[:15]]
        for tap in (1, 3, 12):
            register[tap] ^= feedback
    # Complemented; the coefficient of x^15 goes first, as bit 0 of the first byte.
    out = [1 - bit for bit in reversed(register)]
    return bytes(sum(bit << n for n, bit in enumerate(out[at : at + 8])) for at in (0, 8))


def tlp_symbols(tlp: bytes, sequence: int, *, nullified: bool = False, wrong_lcrc: int = 0) -> list[Symbol]:
    """Return a TLP in its frame. `nullified`: LCRC complemented and EDB. `wrong_lcrc` is XORed to the LCRC."""
    body = struct.pack(">H", sequence % 4096) + bytes(tlp)
    (check,) = struct.unpack("<I", lcrc(body))
    check ^= wrong_lcrc ^ (0xFFFFFFFF if nullified else 0)
    return [STP, *map(Symbol, body + struct.pack("<I", check)), EDB if nullified else END]


def dllp_symbols(body: bytes, *, wrong_crc: int = 0) -> list[Symbol]:
    """Return a DLLP (four bytes) in its frame."""
    assert len(body) == 4
    check = int.from_bytes(dllp_crc(body), "little") ^ wrong_crc
    return [SDP, *map(Symbol, bytes(body) + check.to_bytes(2, "little")), END]


class Replayer:
    """The sending side's sequence numbers and replay buffer."""

    def __init__(self, first: int = 0):
        self.next = first % 4096
        self._unacknowledged: list[tuple[int, bytes]] = []

    def send(self, tlp: bytes) -> tuple[int, bytes]:
        """Give `tlp` its number and remember it."""
        entry = (self.next, bytes(tlp))
        self._unacknowledged.append(entry)
        self.next = (self.next + 1) % 4096
        return entry

    def acknowledge(self, sequence: int) -> None:
        """Forget everything up to and including `sequence`."""
        self._unacknowledged = [e for e in self._unacknowledged if (e[0] - sequence) % 4096 - 1 < 2048 and e[0] != sequence % 4096]

    def nak(self, sequence: int) -> list[tuple[int, bytes]]:
        """Return the TLPs to send again, in order, after the last good number `sequence`."""
        self.acknowledge(sequence)
        return list(self._unacknowledged)
