"""One lane at 2.5 and 5 GT/s: from the words of the deserialiser to descrambled symbols."""

from __future__ import annotations

from amaranth import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from . import align, decode, descramble
from .align import SymbolAligner
from .decode import Decoder8b10b
from .descramble import Descrambler
from .polarity import PolarityDetector
from .symbols import symbol_word

__all__ = ["LATENCY", "LaneReceiver"]

LATENCY = align.LATENCY + decode.LATENCY + descramble.LATENCY


class LaneReceiver(wiring.Component):
    """Aligns, decodes and descrambles one lane, and detects its polarity.

    Takes one word a clock, latency 10 clocks (:data:`LATENCY`) plus ``offset`` bits.

    Ports
    -----
    raw : words of 10 * `symbols` bits, first received bit in bit 0.
    bypass : scrambling is disabled.
    polarity_set : see :class:`PolarityDetector`.
    polarity : see :class:`PolarityDetector`.
    forget : see :class:`SymbolAligner`.
    out : :func:`symbol_word`.
    locked : see :class:`SymbolAligner`.
    offset : see :class:`SymbolAligner`.
    bad : a word had a symbol with an error, two clocks before ``out``.
    inverted : the current polarity.
    """

    def __init__(self, symbols: int):
        self._symbols = symbols
        super().__init__(
            {
                "raw": In(stream.Signature(10 * symbols, always_ready=True)),
                "bypass": In(1),
                "polarity_set": In(1),
                "polarity": In(1),
                "forget": In(1),
                "out": Out(stream.Signature(symbol_word(symbols), always_ready=True)),
                "locked": Out(1),
                "offset": Out(4),
                "bad": Out(1),
                "inverted": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.aligner = aligner = SymbolAligner(self._symbols)
        m.submodules.decoder = decoder = Decoder8b10b(self._symbols)
        m.submodules.descrambler = descrambler = Descrambler(self._symbols)
        m.submodules.polarity = polarity = PolarityDetector(self._symbols)
        connect(m, flipped(self.raw), aligner.raw)
        connect(m, aligner.out, decoder.codes)
        connect(m, decoder.out, descrambler.symbols)
        connect(m, descrambler.out, flipped(self.out))
        m.d.comb += [
            polarity.symbols.payload.eq(descrambler.out.payload),
            polarity.symbols.valid.eq(descrambler.out.valid),
            polarity.set.eq(self.polarity_set),
            polarity.value.eq(self.polarity),
            aligner.invert.eq(polarity.invert),
            aligner.bad_valid.eq(decoder.out.valid),
            aligner.bad.eq(decoder.bad),
            descrambler.bypass.eq(self.bypass),
            aligner.forget.eq(self.forget),
            self.locked.eq(aligner.locked),
            self.offset.eq(aligner.offset),
            self.bad.eq(decoder.out.valid & decoder.bad),
            self.inverted.eq(polarity.invert),
        ]
        return m
