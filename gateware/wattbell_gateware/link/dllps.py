"""Extraction of DLLPs from the quads of frames."""

from __future__ import annotations

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..queue import Queue
from .crc import DLLP_CRC, CrcStep
from .delimit import quads_of, quads_per_clock
from .layouts import DLLP

__all__ = ["DllpReceiver"]

_DEPTH = 8
_RAW = data.StructLayout({"valid": 1, "symbols": 48, "tick": 64})


class DllpReceiver(wiring.Component):
    """Checks DLLPs and passes on one a clock.

    A DLLP is two quads (PCIe Base 2.1, 3.5.1): first SDP and three bytes, then the fourth byte, the CRC of all four bytes, and END.
    With four quads a clock, two DLLPs may end in one clock. A queue holds up to eight such clocks in a row, which contain nothing
    but DLLPs.

    Ports
    -----
    quads : :func:`.delimit.quads_of`.
    out : :data:`.layouts.DLLP`.
    bad : strobe: a DLLP had a wrong CRC.
    lost : number of DLLPs without room in this clock.
    """

    def __init__(self, lanes: int, symbols: int):
        self._quads = quads_per_clock(lanes, symbols)
        super().__init__(
            {
                "quads": In(stream.Signature(quads_of(lanes, symbols), always_ready=True)),
                "out": Out(stream.Signature(DLLP, always_ready=True)),
                "bad": Out(1),
                "lost": Out(range(3)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        n_quads = self._quads
        quads, valid = self.quads.payload.quads, self.quads.valid
        # A DLLP has two quads, so at most one of two adjacent quads ends a DLLP.
        half = min(2, n_quads)
        found = [Signal(_RAW, name=f"found{n}") for n in range(n_quads // half)]
        kept, kept_tick, open_ = Signal(24), Signal(64), Signal()
        at_kept, at_tick, at_open = kept, kept_tick, open_
        ends = []
        for k in range(n_quads):
            q = quads[k]
            mine = q.valid & q.dllp
            n_kept, n_tick, n_open = Signal(24, name=f"kept{k}"), Signal(64, name=f"tick{k}"), Signal(name=f"open{k}")
            m.d.comb += [n_kept.eq(at_kept), n_tick.eq(at_tick), n_open.eq(at_open & ~q.abort)]
            with m.If(mine & q.first):
                m.d.comb += [n_kept.eq(q.data[8:]), n_tick.eq(self.quads.payload.ticks[k // 2]), n_open.eq(1)]
            with m.Elif(mine):
                m.d.comb += n_open.eq(0)
            ends.append((mine & at_open & ~q.abort & ~q.first, Cat(at_kept, q.data[:24]), at_tick))
            at_kept, at_tick, at_open = n_kept, n_tick, n_open
        for n, raw in enumerate(found):
            # Symbols and tick are always driven: only `valid` has to wait for the kind of the quad.
            pair = ends[half * n :][:half]
            _, symbols, tick = pair[-1]
            m.d.comb += [raw.valid.eq(valid & Cat(end for end, _, _ in pair).any()), raw.symbols.eq(symbols), raw.tick.eq(tick)]
            if half == 2:
                end, symbols, tick = pair[0]
                with m.If(end):
                    m.d.comb += [raw.symbols.eq(symbols), raw.tick.eq(tick)]
        with m.If(valid):
            m.d.sync += [kept.eq(at_kept), kept_tick.eq(at_tick), open_.eq(at_open)]

        one = Signal(_RAW)
        if len(found) == 1:
            m.d.comb += one.eq(found[0])
        else:
            m.submodules.queue = queue = Queue(data.ArrayLayout(_RAW, 2), _DEPTH, quick=True)
            pair = queue.o.payload
            second = Signal()
            both = pair[0].valid & pair[1].valid
            m.d.comb += [
                *(queue.i.payload[n].eq(raw) for n, raw in enumerate(found)),
                queue.i.valid.eq(found[0].valid | found[1].valid),
                self.lost.eq(Mux(queue.i.ready, 0, found[0].valid + found[1].valid)),
            ]
            with m.If(queue.o.valid):
                m.d.comb += [one.eq(Mux(second | ~pair[0].valid, pair[1], pair[0])), queue.o.ready.eq(~both | second)]
                m.d.sync += second.eq(both & ~second)

        # Compute the CRC of the four bytes, then compare it with the two received bytes.
        m.submodules.crc = crc = CrcStep(DLLP_CRC, 4)
        state, checked, received, checking, whole = Signal(16), Signal(DLLP), Signal(16), Signal(), Signal(_RAW)
        m.d.comb += [crc.before.eq(DLLP_CRC.init), crc.data.eq(whole.symbols[:32])]
        m.d.sync += [
            whole.eq(one),
            checking.eq(whole.valid),
            state.eq(crc.after),
            checked.body.eq(whole.symbols[:32]),
            checked.tick.eq(whole.tick),
            received.eq(whole.symbols[32:]),
        ]
        right = received == ~state
        m.d.sync += [self.out.valid.eq(checking & right), self.out.payload.eq(checked), self.bad.eq(checking & ~right)]
        return m
