"""Plays lane bits at 8 GT/s into a receiver and reads the output of its framing.

Layouts: wattbell_gateware.link.layouts, .block_receiver.
"""

from __future__ import annotations

import random
import struct
from typing import NamedTuple

from cocotb.clock import Clock
from cocotb.triggers import FallingEdge
from cocotbext.pcie.core.tlp import Tlp, TlpType
from cocotbext.pcie.core.utils import PcieId

from tests.gateware.phy import transmitter as t
from tests.gateware.phy.tap import COUNTERS

GOOD, NULLIFIED, BAD_LCRC, BAD_FRAME = range(4)
EVENTS = {
    "bad_header": 4,
    "moved": 4,
    "corrected_register": 4,
    "damaged_skp": 4,
    "parity": 4,
    "lanes_differ": 1,
    "overflow": 1,
    "corrected_token": 1,
    "lost_token": 1,
    "regained": 1,
    "bad_dllp": 1,
    "lost_dllps": 2,
}
SETTLE = 70
"""Cycles to wait after a change of the rate, with margin."""


class Frame(NamedTuple):
    data: bytes
    sequence: int
    tick: int
    verdict: int = GOOD


WIRES = 4


class Bench:
    """The receiver, for a link of `lanes`.

    `frames`; `dllps`: (body, tick); `counts` of events.
    """

    def __init__(self, dut, lanes: int):
        self.dut, self.lanes = dut, lanes
        names = (
            "raw",
            "raw_valid",
            "raw8",
            "raw8_valid",
            "now",
            "rate",
            "down",
            "polarity_set",
            "polarity",
            "lanes_set",
            "lanes_to",
            "aligned",
            "block_events",
            "events__ready",
            "frames__valid",
            "frames__payload",
            "dllps__valid",
            "dllps__payload",
        )
        self.port = {p: getattr(dut, p) for p in names}
        self.clear()

    def clear(self):
        self.frames, self.dllps = [], []
        self.counts = dict.fromkeys(EVENTS, 0)
        self._open: list = []

    async def start(self, *, reverse=False):
        for name in ("raw", "raw_valid", "raw8", "raw8_valid", "now", "down", "polarity_set", "polarity", "lanes_set"):
            self.port[name].value = 0
        self.port["rate"].value, self.port["events__ready"].value = 2, 1
        self.dut.rst.value = 1
        Clock(self.dut.clk, 4, unit="ns").start()
        await self.reset(reverse=reverse)

    async def reset(self, *, reverse=False):
        self.port["raw8_valid"].value = 0
        self.dut.rst.value = 1
        for _ in range(3):
            await FallingEdge(self.dut.clk)
        self.dut.rst.value = 0
        await self.tell(reverse=reverse)
        for _ in range(SETTLE):
            await FallingEdge(self.dut.clk)
        self.clear()

    async def tell(self, *, reverse=False):
        """Set the wires in use."""
        self._reverse = reverse
        active = (1 << self.lanes) - 1 << (WIRES - self.lanes if reverse else 0)
        self.port["lanes_to"].value = active | reverse << 4 | (self.lanes.bit_length() - 1) << 6
        self.port["lanes_set"].value = 1
        await FallingEdge(self.dut.clk)
        self.port["lanes_set"].value = 0

    async def play(self, wires, *, tick=0, gaps=None):
        """Play words of each wire, the first bit at `tick`, as long as all wires last; `gaps` (a random generator) skips cycles."""
        streams = [list(t.words(wire, 32)) for wire in wires]
        noise = random.Random(1)
        unused = [[noise.getrandbits(32) for _ in streams[0]] for _ in range(WIRES - self.lanes)]
        streams = (unused + streams) if self._reverse else streams + unused
        raw, valid, now = self.port["raw8"], self.port["raw8_valid"], self.port["now"]
        valid.value = 1
        for n, words in enumerate(zip(*streams)):
            while gaps and gaps.random() < 0.2:
                valid.value = 0
                await self._clock()
                valid.value = 1
            raw.value = sum(w << 32 * lane for lane, w in enumerate(words))
            now.value = tick + 4 * n
            await self._clock()
        valid.value = 0

    async def _clock(self):
        await FallingEdge(self.dut.clk)
        port = self.port
        if port["frames__valid"].value:
            self._beat(int(port["frames__payload"].value))
        if port["dllps__valid"].value:
            value = int(port["dllps__payload"].value)
            self.dllps.append(((value & 0xFFFFFFFF).to_bytes(4, "little"), value >> 32))
        events = int(port["block_events"].value)
        if events:
            for name, width in EVENTS.items():
                bits = events & (1 << width) - 1
                self.counts[name] += bits if name == "lost_dllps" else bits.bit_count()
                events >>= width

    def _beat(self, value):
        width = 32 * WIRES
        data, rest = value & (1 << width) - 1, value >> width
        size = WIRES.bit_length()
        dws, rest = rest & (1 << size) - 1, rest >> size
        first, last, verdict, sequence, tick = rest & 1, rest >> 1 & 1, rest >> 2 & 3, rest >> 4 & 0xFFF, rest >> 16
        assert bool(first) == (not self._open), "a frame begins where, and only where, none is open"
        assert dws <= WIRES and (last or dws == WIRES), "every beat but the last is full"
        head = (sequence, tick)
        if first:
            self._open = [head, b""]
        assert self._open[0] == head, "number and tick stand on every beat"
        self._open[1] += data.to_bytes(width // 8, "little")[: 4 * dws]
        if last:
            assert verdict != GOOD or dws > 0
            self.frames.append(Frame(self._open[1], sequence, tick, verdict))
            self._open = []

    def counters(self) -> dict[str, int]:
        """Return the counters since the reset."""
        value = int(self.dut.counters.value)
        return {name: value >> 32 * n & 0xFFFFFFFF for n, name in enumerate(COUNTERS)}

    @property
    def good(self):
        return [f for f in self.frames if f.verdict == GOOD]

    def bad(self, verdict):
        return [f for f in self.frames if f.verdict == verdict]


def tick_of(link, place, *, tick=0, late=0) -> int:
    """Return the tick at which the symbol at `place` began to arrive."""
    return tick + (late + link.starts()[place.block] + 8 * place.symbol) // 8


def random_tlp(r) -> bytes:
    """Return a TLP of cocotbext-pcie: reads, writes, completions, of any size up to 64 double words."""
    tlp = Tlp()
    tlp.requester_id, tlp.tag = PcieId(r.randrange(256), 0, 0), r.randrange(256)
    kind = r.choice([TlpType.MEM_READ, TlpType.MEM_READ_64, TlpType.MEM_WRITE, TlpType.MEM_WRITE_64, TlpType.CPL_DATA, TlpType.CPL])
    count = r.choice([1, 1, 2, 3, 4, 16, 32, 64])
    tlp.fmt_type = kind
    if kind in (TlpType.CPL_DATA, TlpType.CPL):
        tlp.completer_id = PcieId(1, 0, 0)
        tlp.byte_count, tlp.lower_address = 4 * count, 0
    else:
        tlp.address = r.randrange(1 << 30) * 4
        if kind in (TlpType.MEM_READ_64, TlpType.MEM_WRITE_64):
            tlp.address |= 1 << 35
        tlp.first_be, tlp.last_be = 0xF, 0 if count == 1 else 0xF
    tlp.length = 0 if kind == TlpType.CPL else count
    if kind in (TlpType.MEM_WRITE, TlpType.MEM_WRITE_64, TlpType.CPL_DATA):
        tlp.set_data(r.randbytes(4 * count))
    return bytes(tlp.pack())


def end(link):
    """Send idle for longer than a word's latency in the receiver."""
    link.idle(16 * 8)
    link.fill()


def traffic(link, r, packets, *, dllps=0.3):
    """Send random TLPs, DLLPs and idle; return [(tlp, sequence, place)], [(body, place)]."""
    tlps, others = [], []
    for _ in range(packets):
        if r.random() < dllps:
            body = struct.pack("<I", r.getrandbits(32))
            others.append((body, link.dllp(body)))
        else:
            sequence, tlp = link.replayer.next, random_tlp(r)
            tlps.append((tlp, sequence, link.send(tlp)))
        if r.random() < 0.5:
            link.idle(r.choice([1, 2, 3, 5, 17]))
    return tlps, others
