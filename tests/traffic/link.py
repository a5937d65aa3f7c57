"""The link: when each TLP's first symbol passes the tap, and the bus trace of all that passed (docs/bus-trace.md)."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path

from tests.traffic.kernel import NS, Kernel
from tests.traffic.packets import DOWN, UP

SIDEBAND, END_OF_TRACE, RAIL = 5, 6, 4
PERST, LINK_STATE = 1, 3
L0, RECOVERY, DETECT = 1, 6, 7
_RATES = {1: 250, 2: 500, 3: 985, 4: 1969}
"""MB/s a lane by generation, encoding taken off."""
_OVERHEAD = 8
"""Bytes of framing, sequence number and LCRC of a TLP (PCIe 3.6.2 and 4.2.2: STP or token, LCRC, END)."""
_head = struct.Struct("<BBHQ").pack
_LONGEST = 600 * NS


class Link:
    """Two directions, each sending one TLP after the other. A TLP that is handed over while the link is down goes nowhere."""

    def __init__(self, kernel: Kernel, rng: random.Random, generation: int, lanes: int) -> None:
        self.kernel = kernel
        self.rng = rng
        self.up = False
        self.records: list[tuple[int, int, int, bytes]] = []
        """Time in ps, record type, flags, body."""
        self._ps_per_byte = 1_000_000 / (_RATES[generation] * lanes)
        self._free = [0, 0, 0]
        self._arrived = [0, 0, 0]
        self._hop = rng.randrange(5 * NS, 80 * NS)
        self._jitter = rng.randrange(1, 60 * NS)

    def send(self, direction: int, tlp: bytes, omitted: int = 0) -> tuple[int, int]:
        """First symbol's time, and how many ps from now the receiver has the TLP. ``omitted``: bytes of payload that play as zeros.

        Packets of one direction arrive in the same order.
        """
        now = self.kernel.now
        start = self._free[direction]
        if start < now:
            start = now
        end = start + int((len(tlp) + omitted + _OVERHEAD) * self._ps_per_byte) + 1
        arrives = end + self._hop + int(self.rng.random() * self._jitter)
        if arrives < self._arrived[direction]:
            arrives = self._arrived[direction]
        if self.up:
            self._free[direction] = end
            self._arrived[direction] = arrives
            self.records.append((start, direction, 1 if omitted else 0, tlp))
        return start, arrives - now

    def backlog(self, direction: int) -> int:
        """How many ps the direction is busy from now on."""
        return max(0, self._free[direction] - self.kernel.now)

    def sideband(self, signal: int, value: int) -> int:
        """Change a sideband now; the time in ps."""
        now = self.kernel.now
        self.records.append((now, SIDEBAND, 0, bytes((signal, value))))
        return now

    def retrain(self, up: bool) -> None:
        """Take the link up or down. TLPs that have not begun are gone with a link that goes down."""
        now = self.kernel.now
        if not up:
            self.records = [record for record in self.records if record[0] <= now or record[1] > UP]
        self.up = up
        self._free = [now, now, now]
        self._arrived = [now, now, now]


def encode(records: list[tuple[int, int, int, bytes]], header: dict[str, object], end_ps: int) -> bytes:
    """A bus trace: `records` in the order of their times, between a rail of 3.3 V and the END."""
    text = json.dumps({"source": "tests.traffic", "profile": "random", "timing": "model", **header}).encode()
    parts = [b"WBBT", struct.pack("<LL", 1, len(text)), text]
    parts += [_head(RAIL, 0, 16, 0), struct.pack("<qq", 100_000_000, 3_300_000_000)]
    for time_ps, kind, flags, body in sorted(records, key=lambda record: record[0]):
        parts.append(_head(kind, flags, len(body), time_ps))
        parts.append(body)
    parts.append(_head(END_OF_TRACE, 0, 0, end_ps))
    return b"".join(parts)


def decode(path: Path) -> list[tuple[int, int, int, bytes]]:
    """Records of a bus trace: time in ps, type, flags, body."""
    data = path.read_bytes()
    at = 12 + struct.unpack_from("<L", data, 8)[0]
    records = []
    while at < len(data):
        kind, flags, length, time_ps = struct.unpack_from("<BBHQ", data, at)
        records.append((time_ps, kind, flags, data[at + 12 : at + 12 + length]))
        at += 12 + length
    return records


__all__ = ["DETECT", "DOWN", "L0", "LINK_STATE", "PERST", "RECOVERY", "UP", "Link", "decode", "encode"]
