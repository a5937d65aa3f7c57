"""A PCIe link as the tap sees it, and an event queue: TLPs are packed by cocotbext-pcie."""

from __future__ import annotations

import heapq
import itertools
import random
import struct
from collections.abc import Callable
from dataclasses import dataclass

from cocotbext.pcie.core.tlp import CplStatus, Tlp, TlpType
from cocotbext.pcie.core.utils import PcieId
from wattbell_spec.wire import MalformedClass

DOWN, UP = 0, 1
_WITH_DATA = {DOWN: (0x4A,), UP: (0x40, 0x60)}
"""Formats and types of TLPs that move a command's data: completions for the drive, and its writes."""
HOST = PcieId(0, 0, 0)
DRIVE = PcieId(1, 0, 0)
NEIGHBOUR = PcieId(2, 0, 0)
"""Another device below the same root complex."""


@dataclass
class Sent:
    """A TLP on the wire: `tick` of its first symbol, `error` on its last beat; `lost`: TLPs are missing before it, or it is late."""

    tick: int
    direction: int
    raw: bytes
    error: bool = False
    lost: bool = False


class Clockwork:
    """An event queue: runs functions at ticks, in order."""

    def __init__(self, seed: int) -> None:
        self.now = 1000
        self.random = random.Random(seed)
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._count = itertools.count()

    def after(self, ticks: int, what: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (self.now + ticks, next(self._count), what))

    def step(self) -> None:
        tick, _, what = heapq.heappop(self._queue)
        self.now = max(self.now, tick)
        what()

    def run(self) -> None:
        """Runs until nothing is left to do."""
        while self._queue:
            self.step()


class Link:
    """Both directions; `width` and `ticks_per_clock` of the stream it will be played on bound its rate."""

    def __init__(self, clockwork: Clockwork, width: int, ticks_per_clock: int, gap: int = 1) -> None:
        self.clockwork = clockwork
        self.lanes = width // 32
        self.ticks_per_clock = ticks_per_clock
        self.gap = gap
        self.sent: list[Sent] = []
        self._busy_until = [0, 0]

    def drain(self) -> None:
        """Advances time to when both directions are silent."""
        self.clockwork.now = max(self.clockwork.now, *self._busy_until) + 1000

    def raw(self, direction: int, raw: bytes, error: bool = False) -> int:
        """Put bytes on the wire as soon as it is free; returns the tick of the first symbol."""
        tick = max(self.clockwork.now, self._busy_until[direction])
        beats = -(-len(raw) // 4 // self.lanes)
        self._busy_until[direction] = tick + (beats + self.gap) * self.ticks_per_clock
        self.sent.append(Sent(tick, direction, raw, error))
        return tick

    def send(self, direction: int, tlp: Tlp) -> int:
        assert tlp.check()
        return self.raw(direction, bytes(tlp.pack()))

    def request(self, write: bool, address: int, length: int, data: bytes = b"", tag: int = 0, who: PcieId = HOST):
        """A memory request; 32-bit addresses get the short header, as the specification demands."""
        tlp = Tlp()
        wide = address >= 1 << 32
        if write:
            tlp.fmt_type = TlpType.MEM_WRITE_64 if wide else TlpType.MEM_WRITE
            tlp.set_addr_be_data(address, data)
        else:
            tlp.fmt_type = TlpType.MEM_READ_64 if wide else TlpType.MEM_READ
            tlp.set_addr_be(address, length)
        tlp.tag = tag
        tlp.requester_id = who
        return tlp

    def write(self, direction: int, address: int, data: bytes) -> int:
        return self.send(direction, self.request(True, address, 0, data, who=(HOST, DRIVE)[direction]))

    def read(self, direction: int, address: int, length: int, tag: int, who: PcieId | None = None) -> int:
        return self.send(direction, self.request(False, address, length, tag=tag, who=who or (HOST, DRIVE)[direction]))

    def completion(self, direction: int, address: int, data: bytes, tag: int, remaining: int, who: PcieId | None = None) -> int:
        """Data of [address, ...) for the other side's read `tag`; `remaining` bytes including this TLP's."""
        tlp = Tlp()
        tlp.fmt_type = TlpType.CPL_DATA
        tlp.requester_id, tlp.completer_id = (who or HOST, DRIVE) if direction == UP else (DRIVE, HOST)
        tlp.tag = tag
        tlp.byte_count = remaining & 0xFFF
        tlp.lower_address = address & 0x7F
        tlp.set_data(data)
        return self.send(direction, tlp)

    def failed_completion(self, direction: int, tag: int) -> int:
        tlp = Tlp()
        tlp.fmt_type = TlpType.CPL
        tlp.requester_id, tlp.completer_id = (HOST, DRIVE) if direction == UP else (DRIVE, HOST)
        tlp.status = CplStatus.UR
        tlp.tag = tag
        tlp.byte_count = 4
        return self.send(direction, tlp)

    def config_read(self, register: int, value: int, tag: int) -> int:
        """A read of configuration space and its answer."""
        tlp = Tlp()
        tlp.fmt_type = TlpType.CFG_READ_0
        tlp.address, tlp.length, tlp.first_be, tlp.tag = register, 1, 0xF, tag
        tlp.requester_id, tlp.completer_id = HOST, DRIVE
        self.send(DOWN, tlp)
        self.clockwork.now += 300
        return self.completion(UP, 0, struct.pack("<L", value), tag, 4)

    def config_write(self, register: int, value: int) -> int:
        tlp = Tlp()
        tlp.fmt_type = TlpType.CFG_WRITE_0
        tlp.address = register
        tlp.set_data(struct.pack("<L", value))
        tlp.first_be = 0xF
        tlp.requester_id, tlp.completer_id = HOST, DRIVE
        return self.send(DOWN, tlp)

    def unrelated(self, direction: int) -> None:
        """A valid TLP that has nothing to do with NVMe."""
        r = self.clockwork.random
        tlp = Tlp()
        tlp.requester_id, tlp.completer_id = HOST, DRIVE
        choice = r.randrange(6)
        if choice == 0:  # a message: cocotbext-pcie does not pack them, so a read's header changes its type
            tlp.fmt_type = TlpType.MEM_READ_64
            tlp.length = 0
            raw = bytearray(tlp.pack())
            raw[0] = 0x30 | r.randrange(6)
            raw[7] = 0x10  # LTR
            self.raw(direction, bytes(raw))
            return
        if choice == 1:
            tlp.fmt_type = TlpType.CFG_READ_0
            tlp.address, tlp.length, tlp.first_be = r.randrange(64) * 4, 1, 0xF
        elif choice == 2:
            tlp.fmt_type = TlpType.IO_WRITE
            tlp.address, tlp.first_be = r.randrange(1 << 14) * 4, 0xF
            tlp.set_data(r.randbytes(4))
        elif choice == 3 and direction == DOWN:  # some register of the host outside BAR0
            tlp = self.request(True, 0x7_0000_0000 + r.randrange(1 << 20) * 4, 0, r.randbytes(4))
        elif choice == 4 and direction == DOWN:  # a wide write beside BAR0
            tlp = self.request(True, 0x7_1000_0000 + r.randrange(1 << 10) * 4096, 0, r.randbytes(256))
        else:
            tlp.fmt_type = TlpType.CFG_WRITE_0
            tlp.address, tlp.first_be = 0x40 + r.randrange(48) * 4, 0xF
            tlp.set_data(r.randbytes(4))
        self.send(direction, tlp)

    def malformed(self, direction: int) -> None:
        """A TLP that must be rejected: accepting it would corrupt everything."""
        r = self.clockwork.random
        victims = [s for s in self.sent[-200:] if s.direction == direction and not s.error and len(s.raw) >= 16]
        if not victims:
            return
        raw = bytearray(r.choice(victims).raw)
        choice = r.randrange(4)
        error = False
        if choice == 0:
            error = True
        elif choice == 1 and raw[0] not in _WITH_DATA[direction]:
            raw[2] |= 0x40  # poisoned
        elif choice == 2:
            raw += bytes(4)
            if raw[0] & 0x40 and len(raw) > 1 << 8:
                error = True
        else:
            raw[0] |= 0xA0  # no such format
        self.raw(direction, bytes(raw), error)
        self.refused_as = _class(raw, error)
        self.refused = getattr(self, "refused", 0) + 1


def _class(raw: bytes, error: bool) -> MalformedClass:
    """Return why this TLP must be refused, by its bytes; a victim may have been refused before."""
    words = 4 if raw[0] & 0x20 else 3
    if raw[0] & 0x40:
        words += (int.from_bytes(raw[2:4], "big") & 0x3FF) or 1024
    if error:
        return MalformedClass.CUT
    if raw[0] & 0x80:
        return MalformedClass.FORMAT
    return MalformedClass.LENGTH if len(raw) != 4 * words else MalformedClass.POISONED
