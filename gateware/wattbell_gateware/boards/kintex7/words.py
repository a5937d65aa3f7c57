"""Gearbox between a quad of GTX and a receiver."""

from __future__ import annotations

from amaranth import Cat, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from .gtx import LANES

__all__ = ["LATE_BLOCKS_TICKS", "LATE_TICKS", "SYMBOLS", "WordGear"]

SYMBOLS = 4
"""Symbols of a lane in a word of 8b/10b: two words of the transceiver."""
LATE_TICKS, LATE_BLOCKS_TICKS = 3 * 4, 2 * 4
"""Ticks from the first bit of a pair of words at 5 GT/s, and of a word at 8 GT/s, to the clock that has it.

The transceiver gives a word in the clock after its last bit. The delays of the transceiver and its buffer are not included.
"""


class WordGear(wiring.Component):
    """Pairs words of 20 bits at 2.5 and 5 GT/s, and passes on words of 32 bits at 8 GT/s. Domain ``link``; latency 1 clock from the
    last word.

    Ports
    -----
    word : see :class:`.gtx.QuadReceiver`.
    up : see :class:`.gtx.QuadReceiver`.
    rate : see :class:`.gtx.QuadReceiver`.
    raw : see :class:`~wattbell_gateware.link.receiver.Receiver`.
    raw_valid : see :class:`~wattbell_gateware.link.receiver.Receiver`.
    raw8 : see :class:`~wattbell_gateware.link.receiver.Receiver`.
    raw8_valid : see :class:`~wattbell_gateware.link.receiver.Receiver`.
    """

    def __init__(self):
        super().__init__(
            {
                "word": In(data.ArrayLayout(32, LANES)),
                "up": In(LANES),
                "rate": In(2),
                "raw": Out(data.ArrayLayout(10 * SYMBOLS, LANES)),
                "raw_valid": Out(1),
                "raw8": Out(data.ArrayLayout(32, LANES)),
                "raw8_valid": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        up, rate, second = Signal(), Signal(2), Signal()
        m.submodules.up = FFSynchronizer(self.up[0], up, o_domain="link")
        m.submodules.rate = FFSynchronizer(self.rate, rate, o_domain="link")
        m.d.link += [
            second.eq(~second),
            self.raw_valid.eq(up & (rate != 2) & second),
            self.raw8_valid.eq(up & (rate == 2)),
            self.raw8.eq(self.word),
        ]
        for n in range(LANES):
            before = Signal(20, name=f"before{n}")
            m.d.link += [before.eq(self.word[n][:20]), self.raw[n].eq(Cat(before, self.word[n][:20]))]
        return m
