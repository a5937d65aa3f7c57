"""Deskew: the symbols of a link's lanes come out aligned, whatever their skew."""

import itertools
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge

from tests.gateware.phy import transmitter as t
from tests.gateware.phy.symbols import BITS, Received, unpack

NOISE = Received(0x11, False)


def packed(s: Received) -> int:
    return s.data | s.k << 8 | s.error << 9 | s.disparity << 10 | s.plain << 11


class Bench:
    def __init__(self, dut, lanes):
        self.dut, self.lanes, self.symbols = dut, lanes, lanes  # deskew2 has words of 2, deskew4 of 4
        names = ("lanes__payload", "lanes__valid", "locked", "active", "reverse", "out__payload", "out__valid", "aligned", "delay")
        self.port = {p: getattr(dut, f"deskew{lanes}__{p}") for p in names}

    async def start(self, active=None, reverse=0):
        Clock(self.dut.clk, 4, unit="ns").start()
        await FallingEdge(self.dut.clk)
        self.dut.rst.value = 1
        await FallingEdge(self.dut.clk)
        self.dut.rst.value = 0
        self.port["locked"].value = self.port["active"].value = active or (1 << self.lanes) - 1
        self.port["reverse"].value = reverse

    async def play(self, streams, gaps=None):
        """Play symbols of each wire; return symbols of each lane."""
        n = self.symbols
        word = BITS * n
        out = [[] for _ in range(self.lanes)]
        for at in range(0, max(map(len, streams)) + 4 * n, n):
            while gaps and gaps.random() < 0.3:
                self.port["lanes__valid"].value = 0
                self.port["lanes__payload"].value = gaps.getrandbits(word * self.lanes)
                await self._clock(out)
            payload = 0
            for lane, symbols in enumerate(streams):
                part = symbols[at : at + n]
                for k, s in enumerate(part + [NOISE] * (n - len(part))):
                    payload |= packed(s) << word * lane + BITS * k
            self.port["lanes__payload"].value, self.port["lanes__valid"].value = payload, 1
            await self._clock(out)
        return out

    async def _clock(self, out):
        await FallingEdge(self.dut.clk)
        if self.port["out__valid"].value:
            payload, word = int(self.port["out__payload"].value), BITS * self.symbols
            for lane in range(self.lanes):
                out[lane] += unpack(payload >> word * lane, self.symbols)


def columns(link):
    """Return the symbols of each lane after a descrambler."""
    return [[Received(c[n].value, c[n].k, plain=c[n].plain or c[n] in (t.PAD, t.EIE)) for c in link.columns] for n in range(link.lanes)]


def late(streams, skew):
    return [[NOISE] * skew[n] + s for n, s in enumerate(streams)]


def aligned_from(out, want, mark):
    """Check that all lanes are aligned from symbol time `mark` of `want` on; return how many symbols were compared."""
    head = want[0][mark : mark + 40]
    at = next(n for n in range(len(out[0])) if out[0][n : n + 40] == head)
    length = min(len(out[0]) - at, len(want[0]) - mark)
    for got, should in zip(out, want):
        assert got[at : at + length] == should[mark : mark + length]
    return length


def traffic(lanes, seed):
    r = random.Random(seed)
    link = t.Link(lanes, skp_interval=70, skp_count=(1, 3, 5))
    for start in (lambda: link.training(t.TS1, 2, link=0, numbered=True), link.skp, lambda: link.fast_training(4)):
        start()
        for _ in range(6):
            link.send(r.randbytes(4 * r.randrange(3, 12)))
            link.idle(r.randrange(6))
    return link


@cocotb.test()
@cocotb.parametrize(lanes=[2, 4])
async def every_skew(dut, lanes):
    """The lanes are aligned from the first training sequence or SKP set on, for every skew of up to 5 symbols (for x4 a sample)."""
    bench = Bench(dut, lanes)
    skews = [s for s in itertools.product(range(6), repeat=lanes) if min(s) == 0]
    if len(skews) > 40:
        skews = [*random.Random(1).sample(skews, 16), (0, 5, 0, 5), (5, 0, 0, 0), (0, 5, 5, 5), (1, 2, 3, 0)]
    for seed, skew in enumerate(skews):
        link = traffic(lanes, seed)
        want = columns(link)
        await bench.start()
        reverse = seed % 3 == 0
        bench.port["reverse"].value = reverse
        streams = late(want, skew)
        out = await bench.play(streams[::-1] if reverse else streams, gaps=random.Random(seed) if seed % 5 == 0 else None)
        assert bench.port["aligned"].value == 1
        delay = int(bench.port["delay"].value)
        delays = [delay >> 3 * n & 7 for n in range(lanes)]
        assert (delays[::-1] if reverse else delays) == [max(skew) - s for s in skew]
        # The mark of the first set is its second symbol: everything more than a word after it is aligned.
        assert aligned_from(out, want, 12) >= len(want[0]) - 12 - max(skew)


@cocotb.test()
async def skew_too_large(dut):
    """A skew of six symbols is not accepted: not aligned."""
    bench = Bench(dut, 2)
    await bench.start()
    await bench.play(late(columns(traffic(2, 1)), (0, 6)))
    assert bench.port["aligned"].value == 0


@cocotb.test()
async def skew_changes(dut):
    """A forged mark changes nothing. A new skew is accepted when seen twice. A lane that loses lock ends alignment."""
    bench = Bench(dut, 4)
    await bench.start()
    want = columns(traffic(4, 3))
    streams = late(want, (0, 1, 2, 3))
    sets = [n for n in range(60, len(want[1])) if want[1][n] == Received(0xBC, True)]
    streams[1][sets[1] + 1 : sets[1] + 3] = [NOISE, Received(0xBC, True)]  # of one set, COM a symbol late
    for lane in range(4):
        want[lane][sets[1] : sets[1] + 6] = streams[lane][sets[1] + lane : sets[1] + lane + 6]
    out = await bench.play(streams)
    aligned_from(out, want, 12)
    again = columns(traffic(4, 4))
    out = await bench.play(late(again, (5, 0, 2, 2)))
    second = [n for n in range(len(again[0])) if again[0][n] == Received(0xBC, True)][1]
    assert aligned_from(out, again, second + 10) > 100
    bench.port["locked"].value = 0b1011
    await FallingEdge(dut.clk)
    assert bench.port["aligned"].value == 0


@cocotb.test()
async def fewer_lanes(dut):
    """A link trained to x2 or x1 on hardware for x4: the other lanes' input does not matter."""
    bench = Bench(dut, 4)
    r = random.Random(5)
    for active, width in ((0b0011, 2), (0b0001, 1)):
        await bench.start(active=active)
        want = columns(traffic(width, width))
        noise = [[Received(r.randrange(256), r.random() < 0.1, r.random() < 0.3) for _ in range(500)] for _ in range(4 - width)]
        out = await bench.play(late(want, (4, 0)[:width]) + noise)
        assert bench.port["aligned"].value == 1
        assert aligned_from(out[:width], want, 12) > 100
