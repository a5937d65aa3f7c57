"""Polarity detection: whether the two wires of a lane are swapped."""

from __future__ import annotations

from amaranth import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .symbols import symbol_word

__all__ = ["PolarityDetector"]

_HOLD = 15
"""Words to wait after a change: more than are under way between the complement and here."""
_SWAPPED = (0xB5, 0xBA)
"""D21.5 and D26.5: the identifiers of TS1 (D10.2) and TS2 (D5.2), bits complemented (PCIe Base 2.1, 4.2.4.4)."""


class PolarityDetector(wiring.Component):
    """Watches training sequences; ``invert`` changes when a word of one consists of complemented identifiers only.

    All of K28.y and the framing symbols are their own complements but for disparity, and scrambled data becomes other data:
    only training tells. A tap that attaches later must be told the polarity: ``set`` takes on ``value``.

    Ports
    -----
    symbols : from the descrambler (with ``plain``).
    set, value : the host's word.
    invert : for the aligner. ``changed``: high for one clock when it was found to be wrong.
    """

    def __init__(self, symbols: int):
        self._symbols = symbols
        super().__init__({
            "symbols": In(stream.Signature(symbol_word(symbols), always_ready=True)), "set": In(1), "value": In(1),
            "invert": Out(1), "changed": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        wait = Signal(range(_HOLD + 1))
        swapped = Signal()
        word = self.symbols.payload
        sure = Cat(word[n].plain & ~word[n].k & ~word[n].error for n in range(self._symbols)).all()
        same = [Cat(word[n].data == value for n in range(self._symbols)).all() for value in _SWAPPED]
        m.d.comb += swapped.eq(self.symbols.valid & sure & Cat(same).any() & (wait == 0))
        m.d.sync += self.changed.eq(swapped)
        with m.If(self.set):
            m.d.sync += self.invert.eq(self.value)
        with m.Elif(swapped):
            m.d.sync += [self.invert.eq(~self.invert), wait.eq(_HOLD)]
        with m.Elif(self.symbols.valid & (wait != 0)):
            m.d.sync += wait.eq(wait - 1)
        return m
