"""Check of the LCRC of packed beats."""

from __future__ import annotations

from amaranth import Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .crc import LCRC, CrcStep
from .layouts import Verdict, framed_beat
from .pack import packed_beat

__all__ = ["LATENCY", "LcrcChecker"]

LATENCY = 2


class LcrcChecker(wiring.Component):
    """Gives packed beats a verdict; takes one beat a clock, latency 2 clocks (:data:`LATENCY`).

    The LCRC covers the two bytes with the sequence number and the TLP (PCIe Base 2.1, 3.6.3). A nullified TLP ends with EDB and the
    complement of its LCRC (3.6.2.1).

    One set of parities over a whole beat serves every number of double words. If the last beat has room, it contains the LCRC and
    is padded with zeros. A right LCRC then leaves a constant: the residue after that number of zeros. A complemented LCRC leaves 0.
    If the last beat has no room, the state equals the LCRC's complement if the LCRC is right, and the LCRC itself if it is
    complemented.

    Ports
    -----
    packed : :func:`.pack.packed_beat`.
    out : :func:`.layouts.framed_beat` with a verdict.
    """

    def __init__(self, width: int):
        self._width = width
        super().__init__(
            {
                "packed": In(stream.Signature(packed_beat(width), always_ready=True)),
                "out": Out(stream.Signature(framed_beat(width), always_ready=True)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        n_dws = self._width // 32
        m.submodules.body = body = CrcStep(LCRC, 4 * n_dws)
        beat, out = self.packed.payload, self.out.payload
        state, kept, filled = Signal(32), Signal(packed_beat(self._width)), Signal()
        staged = Signal()
        m.d.comb += [body.before.eq(Mux(beat.first, beat.crc, state)), body.data.eq(beat.data)]
        for n in range(2, n_dws):  # after one double word and the LCRC
            with m.If(beat.dws < n):
                m.d.comb += body.data.word_select(n, 32).eq(0)
        m.d.sync += [staged.eq(self.packed.valid), self.out.valid.eq(staged)]
        with m.If(self.packed.valid):
            m.d.sync += [state.eq(body.after), kept.eq(beat), filled.eq(beat.dws == n_dws)]
        verdict = Signal(Verdict)
        rest, wanted = Signal(32), Signal(32)
        m.d.comb += [rest.eq(state ^ Mux(filled, kept.lcrc, 0)), wanted.eq(Const(LCRC.init, 32))]
        for dws in range(1, n_dws):
            with m.If(kept.dws == dws):
                m.d.comb += wanted.eq(LCRC.shifted(LCRC.residue, 32 * (n_dws - 1 - dws)))
        right, complemented = rest == wanted, rest == 0
        with m.If(kept.broken):
            m.d.comb += verdict.eq(Verdict.BAD_FRAME)
        with m.Elif(kept.edb & complemented):
            m.d.comb += verdict.eq(Verdict.NULLIFIED)
        with m.Elif(kept.edb | ~right):
            m.d.comb += verdict.eq(Verdict.BAD_LCRC)
        with m.If(staged):
            m.d.sync += [
                out.data.eq(kept.data),
                out.dws.eq(kept.dws),
                out.first.eq(kept.first),
                out.last.eq(kept.last),
                out.verdict.eq(verdict),
                out.sequence.eq(kept.number[8:] | (kept.number[:4] << 8)),
                out.tick.eq(kept.tick),
            ]
        return m
