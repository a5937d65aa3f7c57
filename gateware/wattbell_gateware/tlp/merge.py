"""Merger of the headers of both directions into one stream, ordered by tick.

A header may go on when the other direction cannot bring an older header any more. Either the other direction has a header that is
not older. Or `holdoff_ticks` have passed, and the other direction is not inside a TLP that began earlier. A tap sees the symbols of
its two directions with different delays; the hold-off bounds this difference.
"""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..deadlines import reached
from ..side import SideSignature
from .headers import HEADER

MERGED = data.StructLayout({"header": HEADER, "up": 1})
LONGEST_CLOCKS = 1024
"""Clocks that the merge waits at most for a TLP that began earlier: a link may die inside a TLP."""


class TlpMerge(wiring.Component):
    """Merges headers by tick; at equal ticks down goes first. Combinational, a header a clock.

    Ports
    -----
    down : the direction down; see ``up``.
    up : the direction up. ``headers``: :data:`.headers.HEADER`. ``comes``: a header, with any tick, is on its way. ``pending``: a TLP
        has begun and is on its way. ``pending_tick``: tick at which that TLP began.
    now : the tick counter.
    out : headers of both directions, :data:`MERGED`.
    waiting : a header is held back until ``deadline``.
    deadline : next tick at which time alone can let the held header go on.
    """

    def __init__(self, ticks_per_clock: int, holdoff_clocks: int = 64) -> None:
        self.holdoff = holdoff_clocks * ticks_per_clock
        self.longest = (holdoff_clocks + LONGEST_CLOCKS) * ticks_per_clock
        side = SideSignature({"headers": In(stream.Signature(HEADER)), "comes": In(1), "pending": In(1), "pending_tick": In(64)})
        super().__init__(
            {
                **side.both(),
                "now": In(64),
                "out": Out(stream.Signature(MERGED)),
                "waiting": Out(1),
                "deadline": Out(64),
            }
        )

    def elaborate(self, _platform) -> Module:
        m = Module()
        down, up = self.down.headers, self.up.headers
        down_first = Signal()
        tick = Signal(64)
        alone, aged, very_aged, blocked = Signal(), Signal(), Signal(), Signal()
        # Both ages of both headers are computed before one header is chosen: three sums in a row are too slow.
        old, very_old = self.now - self.holdoff, self.now - self.longest
        m.d.comb += [
            down_first.eq(down.valid & (~up.valid | reached(up.payload.tick, down.payload.tick))),
            tick.eq(Mux(down_first, down.payload.tick, up.payload.tick)),
            alone.eq(~(down.valid & up.valid)),
            aged.eq(Mux(down_first, reached(old, down.payload.tick), reached(old, up.payload.tick))),
            very_aged.eq(Mux(down_first, reached(very_old, down.payload.tick), reached(very_old, up.payload.tick))),
            blocked.eq(
                Mux(
                    down_first,
                    self.up.comes | (self.up.pending & ~reached(self.up.pending_tick, down.payload.tick)),
                    self.down.comes | (self.down.pending & reached(up.payload.tick, self.down.pending_tick)),
                )
            ),
            self.waiting.eq((down.valid | up.valid) & alone & ~very_aged & (~aged | blocked)),
            self.deadline.eq(tick + Mux(aged, self.longest, self.holdoff)),
        ]
        goes = (down.valid | up.valid) & ~self.waiting
        m.d.comb += [
            self.out.valid.eq(goes),
            self.out.payload.up.eq(~down_first),
            self.out.payload.header.eq(Mux(down_first, down.payload, up.payload)),
            down.ready.eq(goes & self.out.ready & down_first),
            up.ready.eq(goes & self.out.ready & ~down_first),
        ]
        return m
