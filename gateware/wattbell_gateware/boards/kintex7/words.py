"""The gearbox between a quad of GTX and a receiver."""

from __future__ import annotations

from amaranth import Cat, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from .gtx import LANES

__all__ = ["LATE_BLOCKS_TICKS", "LATE_TICKS", "SYMBOLS", "WordGear"]

SYMBOLS = 4
"""Of a lane in a word of 8b/10b: two of the transceiver's words."""
LATE_TICKS, LATE_BLOCKS_TICKS = 3 * 4, 2 * 4
"""From the first bit of a pair of words to the clock that has it at 5 GT/s, and of a word at 8 GT/s: the transceiver has a word in the
clock after its last bit. Without its own delay and its buffer's."""


class WordGear(wiring.Component):
    """Pairs words of 20 bits at 2.5 and 5 GT/s, and passes on those of 32 at 8 GT/s. Domain ``link``.

    Ports
    -----
    word, up, rate : see :class:`.gtx.QuadReceiver`.
    raw, raw_valid, raw8, raw8_valid : see :class:`~wattbell_gateware.link.receiver.Receiver`. Latency: 1 clock from the last word.
    """

    def __init__(self):
        super().__init__({
            "word": In(data.ArrayLayout(32, LANES)), "up": In(LANES), "rate": In(2),
            "raw": Out(data.ArrayLayout(10 * SYMBOLS, LANES)), "raw_valid": Out(1),
            "raw8": Out(data.ArrayLayout(32, LANES)), "raw8_valid": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        up, rate, second = Signal(), Signal(2), Signal()
        m.submodules.up = FFSynchronizer(self.up[0], up, o_domain="link")
        m.submodules.rate = FFSynchronizer(self.rate, rate, o_domain="link")
        m.d.link += [
            second.eq(~second), self.raw_valid.eq(up & (rate != 2) & second), self.raw8_valid.eq(up & (rate == 2)),
            self.raw8.eq(self.word),
        ]  # fmt: skip
        for n in range(LANES):
            before = Signal(20, name=f"before{n}")
            m.d.link += [before.eq(self.word[n][:20]), self.raw[n].eq(Cat(before, self.word[n][:20]))]
        return m
