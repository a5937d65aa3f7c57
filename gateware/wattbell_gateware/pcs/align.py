"""Symbol alignment: finds the symbol boundary in the words of a deserialiser."""

from __future__ import annotations

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .symbols import symbol_word

__all__ = ["LATENCY", "SymbolAligner"]

LATENCY = 5
"""Clocks from a raw word to the aligned word that ends with bits of this raw word."""
_COM_CHANGES = 0b111000010
"""Differences between neighbouring bits of K28.5 (0011111010), `a` and `b` in bit 0. Both forms, and so both polarities, share them."""
_CONFIRM, _CONTRADICT = 2, 3
_BAD_WORDS = 15


class SymbolAligner(wiring.Component):
    """Cuts raw words at symbol boundaries; one word a clock.

    A COM can start at any bit. While not ``locked``, the first COM sets the boundary, from that COM on. A second COM at this
    boundary locks, if no COM elsewhere came between them. Two events unlock:

    - Three COMs at one other place, with none at the boundary. Bit errors forge a COM now and then, but hardly three at one place
      before the next SKP set.
    - 15 more words with errors than without (``bad``). A slip shows first in this count.

    The boundary therefore moves only if the stream moved.

    Latency is 5 clocks (:data:`LATENCY`) plus ``offset`` bits, constant while locked. Bit 0 of an aligned word was
    ``raw.payload[offset + 1]`` of the word before. For an offset of 9 it was bit 0 of the same word.

    Ports
    -----
    raw : words of 10 * `symbols` bits, first received bit in bit 0.
    invert : the polarity of the lane is inverted; complements the raw words.
    bad_valid : the decoder returned a word.
    bad : with ``bad_valid``: this word had an error.
    forget : another stream begins here.
    out : words of the same width, symbol after symbol.
    offset : 0 .. 9, one clock before the ``out`` with this offset.
    locked : the boundary is locked.
    """

    def __init__(self, symbols: int):
        symbol_word(symbols)
        self._bits = 10 * symbols
        super().__init__(
            {
                "raw": In(stream.Signature(self._bits, always_ready=True)),
                "invert": In(1),
                "bad_valid": In(1),
                "bad": In(1),
                "forget": In(1),
                "out": Out(stream.Signature(self._bits, always_ready=True)),
                "offset": Out(4),
                "locked": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        bits = self._bits

        # 1: nine bits of the word before, and this word: the window holds every COM that ends in this word.
        window = Signal(bits + 9)
        searching = Signal()
        m.d.sync += searching.eq(self.raw.valid)
        with m.If(self.raw.valid):
            m.d.sync += window.eq(Cat(window[bits:], self.raw.payload ^ self.invert.replicate(bits)))

        # 2: boundaries (of ten) that have a COM; 3: the first such boundary
        found, found_now, first, any_found = Signal(10), Signal(10), Signal(4), Signal()
        seen, cut = Signal.like(window), Signal.like(window)
        choosing, deciding = Signal(), Signal()
        m.d.sync += [choosing.eq(searching), deciding.eq(choosing)]
        changes = Signal(bits + 8)
        places = [[changes[at : at + 9] for at in range(boundary, bits, 10)] for boundary in range(10)]
        m.d.comb += [
            changes.eq(window[:-1] ^ window[1:]),
        ]
        with m.If(searching):
            m.d.sync += [seen.eq(window), found_now.eq(Cat(Cat(p == _COM_CHANGES for p in group).any() for group in places))]
        with m.If(choosing):
            m.d.sync += [cut.eq(seen), found.eq(found_now), any_found.eq(found_now.any())]
            for n in reversed(range(10)):
                with m.If(found_now[n]):
                    m.d.sync += first.eq(n)

        # 4: the boundary
        count = Signal(range(_CONTRADICT + 1))  # confirmations while not locked; while locked contradictions, all at `elsewhere`
        elsewhere = Signal(4)
        errors = Signal(range(_BAD_WORDS + 1))
        boundary = Signal(4)
        here = Signal()
        m.d.comb += [boundary.eq(self.offset), here.eq(found.bit_select(self.offset, 1))]
        with m.If(self.bad_valid):
            with m.If(~self.bad):
                m.d.sync += errors.eq(Mux(errors == 0, 0, errors - 1))
            with m.Elif(errors != _BAD_WORDS):
                m.d.sync += errors.eq(errors + 1)
        with m.If(self.locked & (errors == _BAD_WORDS)):
            m.d.sync += [self.locked.eq(0), count.eq(0), errors.eq(0)]
        with m.Elif(deciding & any_found):
            with m.If(self.locked):
                with m.If(here):
                    m.d.sync += count.eq(0)
                with m.Elif((count == 0) | (elsewhere != first)):
                    m.d.sync += [count.eq(1), elsewhere.eq(first)]
                with m.Elif(count == _CONTRADICT - 1):
                    m.d.comb += boundary.eq(first)
                    m.d.sync += [self.locked.eq(0), count.eq(1)]
                with m.Else():
                    m.d.sync += count.eq(count + 1)
            with m.Elif(here & (count != 0)):
                m.d.sync += [self.locked.eq(1), count.eq(0), errors.eq(0)]
            with m.Else():
                m.d.comb += boundary.eq(first)
                m.d.sync += count.eq(1)
        with m.If(self.forget):
            m.d.sync += [self.locked.eq(0), count.eq(0), errors.eq(0)]
        decided = Signal()
        behind = Signal.like(cut)
        m.d.sync += [self.offset.eq(boundary), decided.eq(deciding)]
        with m.If(deciding):
            m.d.sync += behind.eq(cut)

        # 5: the cut
        m.d.sync += self.out.valid.eq(decided)
        with m.If(decided):
            m.d.sync += self.out.payload.eq(behind.bit_select(self.offset, bits))
        return m
