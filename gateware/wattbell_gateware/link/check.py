"""The LCRC of the packed beats."""

from __future__ import annotations

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .crc import LCRC, CrcStep
from .layouts import Verdict, framed_beat
from .pack import packed_beat

__all__ = ["LATENCY", "LcrcChecker"]

LATENCY = 2


class LcrcChecker(wiring.Component):
    """Packed beats in, the same with a verdict out; one a clock, latency 2 clocks.

    The LCRC covers the two bytes with the sequence number and the TLP (Base 2.1, 3.6.3). Nullified is what ends with EDB and
    the complement of its LCRC (3.6.2.1).
    """

    def __init__(self, width: int):
        self._width = width
        super().__init__({
            "packed": In(stream.Signature(packed_beat(width), always_ready=True)),
            "out": Out(stream.Signature(framed_beat(width), always_ready=True)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        n_bytes = self._width // 8
        m.submodules.head = head = CrcStep(LCRC, 2, [2])
        m.submodules.body = body = CrcStep(LCRC, n_bytes, range(4, n_bytes + 1, 4))
        beat, out = self.packed.payload, self.out.payload
        state, kept = Signal(32), Signal(packed_beat(self._width))
        staged = Signal()
        m.d.comb += [
            head.before.eq(LCRC.init), head.data.eq(beat.number), head.count.eq(2),
            body.before.eq(Mux(beat.first, head.after, state)), body.data.eq(beat.data), body.count.eq(beat.dws << 2),
        ]  # fmt: skip
        m.d.sync += [staged.eq(self.packed.valid), self.out.valid.eq(staged)]
        with m.If(self.packed.valid):
            m.d.sync += [state.eq(body.after), kept.eq(beat)]
        verdict = Signal(Verdict)
        right, complemented = kept.lcrc == ~state, kept.lcrc == state
        with m.If(kept.broken):
            m.d.comb += verdict.eq(Verdict.BAD_FRAME)
        with m.Elif(kept.edb & complemented):
            m.d.comb += verdict.eq(Verdict.NULLIFIED)
        with m.Elif(kept.edb | ~right):
            m.d.comb += verdict.eq(Verdict.BAD_LCRC)
        with m.If(staged):
            m.d.sync += [
                out.data.eq(kept.data), out.dws.eq(kept.dws), out.first.eq(kept.first), out.last.eq(kept.last), out.verdict.eq(verdict),
                out.sequence.eq(kept.number[8:] | (kept.number[:4] << 8)), out.tick.eq(kept.tick),
            ]  # fmt: skip
        return m
