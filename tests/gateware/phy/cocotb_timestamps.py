"""Error of a TLP's tick against the first bit of its STP: at every bit of a word, for skews, widths and wirings, at each rate."""

import random
from fractions import Fraction

import cocotb

from tests.gateware.phy import traffic as tr
from tests.gateware.phy.cocotb_receiver import RATES, WIDTHS, up
from tests.gateware.phy.tap import BITS, Wiring, tap

BIT_NS = (Fraction(2, 5), Fraction(1, 5), Fraction(1, 8))
EARLY_NS = (Fraction(4, 5), Fraction(4, 5), Fraction(7, 8))
"""Limit of docs/accuracy.md: the tick is early by at most this much."""
MOST_APART = (40, 40, 48)
"""Bits between the first and the last lane."""


@cocotb.test()
@cocotb.parametrize(rate=RATES)
async def every_bit(dut, rate):
    it = await tap(dut)
    early = set()
    for first in range(BITS[rate]):
        r = random.Random(first)
        lanes, reverse = WIDTHS[first % len(WIDTHS)], r.random() < 0.5
        apart = [r.randrange(MOST_APART[rate] + 1) for _ in range(lanes)]
        late = [bits + (first - apart[0]) % BITS[rate] for bits in apart]
        await it.reset()
        sent = tr.Traffic(lanes, seed=first, rate=rate)
        await up(it, sent, reverse=reverse)
        sent.some(5, replays=0, faults=0)
        sent.end()
        wiring = Wiring(skew=(0,) * lanes, shift=tuple(late), invert=tuple(r.random() < 0.5 for _ in range(lanes)), reverse=reverse)
        heard = await it.play(sent, wiring)
        assert len(heard.tlps) == len(sent.copies) == 5
        for copy, (raw, tick) in zip(sent.copies, heard.tlps):
            assert raw == copy.raw
            early.add(it.began + (late[0] + sent.bit(copy.place)) * BIT_NS[rate] - tick)
    assert min(early) == 0 and max(early) == EARLY_NS[rate], early
