"""One lane at 8 GT/s: from the words of the deserialiser to descrambled blocks."""

from __future__ import annotations

from amaranth import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from . import block_align, block_descramble
from .block_align import BlockAligner
from .block_descramble import BlockDescrambler
from .blocks import BLOCK_WORD, TIME_BITS

__all__ = ["LATENCY", "BlockLane"]

LATENCY = block_align.LATENCY + block_descramble.LATENCY


class BlockLane(wiring.Component):
    """Joins :class:`BlockAligner` and :class:`BlockDescrambler`; latency 5 clocks (:data:`LATENCY`).

    Ports
    -----
    raw : words of 32 bits, first received bit in bit 0.
    time : low bits of the tick at which the first bit of ``raw`` came.
    lane : number of the lane in the link, which selects the seed.
    forget : another stream begins here.
    out : :data:`BLOCK_WORD`, descrambled.
    locked : see :class:`BlockAligner`.
    known : see :class:`BlockDescrambler`.
    inverted : see :class:`BlockAligner`.
    bad_header : see :class:`BlockAligner`; comes one clock before the strobes of the descrambler.
    moved : see :class:`BlockAligner`; comes one clock before the strobes of the descrambler.
    corrected : see :class:`BlockDescrambler`.
    damaged : see :class:`BlockDescrambler`.
    parity : see :class:`BlockDescrambler`.
    """

    def __init__(self):
        super().__init__(
            {
                "raw": In(stream.Signature(32, always_ready=True)),
                "time": In(TIME_BITS),
                "lane": In(2),
                "forget": In(1),
                "out": Out(stream.Signature(BLOCK_WORD, always_ready=True)),
                "locked": Out(1),
                "known": Out(1),
                "inverted": Out(1),
                "bad_header": Out(1),
                "moved": Out(1),
                "corrected": Out(1),
                "damaged": Out(1),
                "parity": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.aligner = aligner = BlockAligner()
        m.submodules.descrambler = descrambler = BlockDescrambler()
        connect(m, flipped(self.raw), aligner.raw)
        connect(m, aligner.out, descrambler.words)
        connect(m, descrambler.out, flipped(self.out))
        m.d.comb += [
            aligner.time.eq(self.time),
            descrambler.lane.eq(self.lane),
            descrambler.forget.eq(aligner.moved | self.forget),
            aligner.forget.eq(self.forget),
            self.locked.eq(aligner.locked),
            self.known.eq(descrambler.known),
            self.inverted.eq(aligner.inverted),
            self.bad_header.eq(aligner.bad_header),
            self.moved.eq(aligner.moved),
            self.corrected.eq(descrambler.corrected),
            self.damaged.eq(descrambler.damaged),
            self.parity.eq(descrambler.parity),
        ]
        return m
