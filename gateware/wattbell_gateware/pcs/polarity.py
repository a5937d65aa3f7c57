"""Polarity detection: finds whether the two wires of a lane are swapped."""

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
    """Watches training sequences, and inverts the polarity if a word of one consists only of complemented identifiers.

    K28.y and the framing symbols are their own complements apart from disparity, and complemented scrambled data is other data.
    Only training therefore shows the polarity. A tap that attaches later gets the polarity from the host (``set``, ``value``).

    Ports
    -----
    symbols : from the descrambler (with ``plain``).
    set : strobe: the host sets the polarity.
    value : polarity from the host.
    invert : polarity for the aligner.
    changed : strobe: the polarity was found wrong and changed.
    """

    def __init__(self, symbols: int):
        self._symbols = symbols
        super().__init__(
            {
                "symbols": In(stream.Signature(symbol_word(symbols), always_ready=True)),
                "set": In(1),
                "value": In(1),
                "invert": Out(1),
                "changed": Out(1),
            }
        )

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
