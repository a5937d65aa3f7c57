"""Gearbox between a DCU and a receiver: takes two recovered clocks, gives one clock and words of four symbols."""

from __future__ import annotations

from amaranth import Cat, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from ..rephase import LATENCY as REPHASE_CLOCKS
from ..rephase import Rephase
from .dcu import SYMBOLS

__all__ = ["GEARED", "LATE_TICKS", "LanePair"]

GEARED = 2 * SYMBOLS
"""Symbols of a word after the gearbox: 125 MHz at 5 GT/s, 64 bits a clock for two lanes."""
LATE_TICKS = (REPHASE_CLOCKS + 3) * 4
"""Ticks from a word's first bit to the clock that has the word, at 5 GT/s. The DCU's own delay, which no public document gives, is
not included.
"""


class LanePair(wiring.Component):
    """Moves lane 1's words to lane 0's clock, and pairs the words of both lanes.

    One transmitter drives both lanes, so they have one frequency and any phase. The component adds at most two symbols of skew.

    Domains: ``words`` (lane 0's clock), ``other`` (lane 1's), ``link`` (``half``). A link of one lane has to be on lane 0.

    Ports
    -----
    word : see :class:`.dcu.DualReceiver`.
    up : see :class:`.dcu.DualReceiver`.
    raw : in ``link``: a word of four symbols of each lane.
    raw_valid : in ``link``: ``raw`` is valid.
    half : the clock of ``words``, divided by 2.
    """

    def __init__(self):
        super().__init__(
            {
                "word": In(data.ArrayLayout(10 * SYMBOLS, 2)),
                "up": In(2),
                "half": Out(1),
                "raw": Out(data.ArrayLayout(10 * GEARED, 2)),
                "raw_valid": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        word1, word0 = Signal(10 * SYMBOLS), Signal(10 * SYMBOLS)
        m.submodules.rephase = rephase = Rephase(10 * SYMBOLS, writes="other", reads="words")
        m.d.other += word1.eq(self.word[1])
        m.d.words += word0.eq(self.word[0])
        m.d.comb += rephase.i.eq(word1)
        delayed = word0
        for n in range(REPHASE_CLOCKS - 1):
            stage = Signal(10 * SYMBOLS, name=f"delayed{n}")
            m.d.words += stage.eq(delayed)
            delayed = stage

        # The divided clock rises in the middle of a wide word, which leaves 4 ns to either side for the delays of clock and data.
        # This holds for any placement; nextpnr does not constrain paths between domains. The wide words have their own enable near
        # them, and do not use the divided clock's register.
        turn = Signal(attrs={"keep": 1})
        m.d.words += [self.half.eq(~self.half), turn.eq(~turn)]
        wide = Signal(data.ArrayLayout(10 * GEARED, 2))
        for n, now in enumerate((delayed, rephase.o)):
            before = Signal(10 * SYMBOLS, name=f"before{n}")
            m.d.words += before.eq(now)
            with m.If(turn):
                m.d.words += wide[n].eq(Cat(before, now))
        m.d.link += self.raw.eq(wide)
        m.submodules.up = FFSynchronizer(self.up[0], self.raw_valid, o_domain="link")
        return m
