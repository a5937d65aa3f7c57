"""The gearbox between a DCU and a receiver: two recovered clocks in, one clock and words of four symbols out."""

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
"""Symbols of a word after the gear: 125 MHz at 5 GT/s, 64 bits a clock for two lanes."""
LATE_TICKS = (REPHASE_CLOCKS + 3) * 4
"""From a word's first bit to the clock that has it, at 5 GT/s, without the DCU's own delay, which no public document gives."""


class LanePair(wiring.Component):
    """Takes lane 1's words to lane 0's clock, and gears both 1:2.

    Both lanes come from one transmitter: one frequency, any phase. What this adds to the skew is at most two symbols.

    Domains: ``words`` (lane 0's clock), ``other`` (lane 1's), ``link`` (``half``). A link one lane wide has to be on lane 0.

    Ports
    -----
    word, up : see :class:`.dcu.DualReceiver`.
    raw, raw_valid : in ``link``.
    half : the clock of ``words``, divided by 2.
    """

    def __init__(self):
        super().__init__({
            "word": In(data.ArrayLayout(10 * SYMBOLS, 2)), "up": In(2), "half": Out(1),
            "raw": Out(data.ArrayLayout(10 * GEARED, 2)), "raw_valid": Out(1),
        })  # fmt: skip

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

        # The divided clock rises in the middle of a wide word: that leaves 4 ns to either side for the delays of clock and data,
        # whatever the placer does; nextpnr does not constrain paths between domains. The wide words have an enable of their own, not the
        # divided clock's register: it has to be near them.
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
