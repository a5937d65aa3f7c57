"""Training sequences and EIOS of one lane at 8 GT/s."""

from __future__ import annotations

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..pcs.blocks import BLOCK_WORD, TIME_BITS, BlockKind
from ..pcs.symbols import K
from .training import TRAINING_SET

__all__ = ["LATENCY", "BlockSetReader"]

LATENCY = 1
_FIRST = {BlockKind.TS1: 0x1E, BlockKind.TS2: 0x2D}
_NAME = {BlockKind.TS1: 0x4A, BlockKind.TS2: 0x45}
_EIOS = 0x66666666


class BlockSetReader(wiring.Component):
    """Reads the ordered sets of one lane from descrambled words; takes a word a clock, strobes one clock later (:data:`LATENCY`).

    A training sequence counts if its first symbol and symbols 10 to 13 are right (PCIe Base 3.0, 4.2.4.1). Symbols 14 and 15 may be
    sent for DC balance. The symbols are wrong while the descrambler's register is unknown or wrong. Symbols 6 to 9 belong to
    equalisation and are ignored. An EIOS counts by its first four symbols (4.2.4.3).

    Ports
    -----
    words : :data:`BLOCK_WORD`, from :class:`~wattbell_gateware.pcs.block_lane.BlockLane`.
    found : strobe: the second of two equal training sequences in a row ended.
    value : the training sequence, :data:`TRAINING_SET`.
    eios : strobe: an EIOS came.
    time : low bits of the tick of the word that raised ``found`` or ``eios``.
    """

    def __init__(self):
        super().__init__(
            {
                "words": In(stream.Signature(BLOCK_WORD, always_ready=True)),
                "found": Out(1),
                "value": Out(TRAINING_SET),
                "eios": Out(1),
                "time": Out(TIME_BITS),
            }
        )

    def elaborate(self, platform):
        m = Module()
        word, coming = self.words.payload, Signal(TRAINING_SET)
        place, at = Signal(2), Signal(2)
        fits, name, first = Signal(), Signal(16), Signal(8)
        before, had = Signal(TRAINING_SET), Signal()
        second, training = word.kind == BlockKind.TS2, (word.kind == BlockKind.TS1) | (word.kind == BlockKind.TS2)
        m.d.comb += [
            at.eq(Mux(word.first, 0, place)),
            name.eq(Mux(second, _NAME[BlockKind.TS2] * 0x101, _NAME[BlockKind.TS1] * 0x101)),
            first.eq(Mux(second, _FIRST[BlockKind.TS2], _FIRST[BlockKind.TS1])),
        ]
        m.d.sync += [self.found.eq(0), self.eios.eq(0), self.time.eq(word.time)]
        with m.If(self.words.valid):
            m.d.sync += place.eq(at + 1)
            with m.If(~training):
                m.d.sync += [had.eq(0), self.eios.eq(word.first & (word.kind == BlockKind.EIOS) & (word.data == _EIOS))]
            with m.Else():
                with m.Switch(at):
                    with m.Case(0):
                        m.d.sync += [
                            fits.eq(word.data[:8] == first),
                            coming.link.eq(word.data[8:16]),
                            coming.link_pad.eq(word.data[8:16] == K.PAD),
                            coming.lane.eq(word.data[16:24]),
                            coming.lane_pad.eq(word.data[16:24] == K.PAD),
                            coming.n_fts.eq(word.data[24:]),
                            coming.ts2.eq(second),
                        ]
                    with m.Case(1):
                        m.d.sync += [coming.rates.eq(word.data[:8]), coming.control.eq(word.data[8:16])]
                    with m.Case(2):
                        m.d.sync += fits.eq(fits & (word.data[16:] == name))
                    with m.Case(3):
                        whole = fits & (word.data[:16] == name) & word.last
                        m.d.sync += [had.eq(whole), before.eq(coming), self.value.eq(coming)]
                        m.d.sync += self.found.eq(whole & had & (coming == before))
        return m
