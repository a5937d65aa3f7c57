"""Marks: inputs that take their place among the TLPs by tick, though they come another way."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..queue import Queue

__all__ = ["MARK", "Marks"]


MARK = data.StructLayout({"tick": 64, "kinds": 4})
"""``kinds``, in the order of their handling: bit 0 PERST# fell, 1 the link went to Detect, 2 a word of late attach, 3 a request for the
counters."""
_DEPTH = 4


class Marks(wiring.Component):
    """Notes the tick of each mark, and keeps marks in order.

    Ports
    -----
    now : the tick counter.
    perst_n : level.
    unlinked : level.
    attach : level; a strobe of ``attached`` acknowledges a word and asks for the next.
    snapshot : each change is a request.
    valid : a mark waits, at least a clock after its input changed.
    ready : the mark is taken.
    mark : the oldest mark.
    stirs : an input changes in this clock. When more marks wait than there is room for, later ones get the tick at which room appears.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "now": In(64),
                "perst_n": In(1),
                "unlinked": In(1),
                "attach": In(1),
                "attached": In(1),
                "snapshot": In(1),
                "valid": Out(1),
                "ready": In(1),
                "mark": Out(MARK),
                "stirs": Out(1),
            }
        )

    def elaborate(self, _platform) -> Module:
        m = Module()
        m.submodules.queue = queue = Queue(MARK, _DEPTH, quick=True)
        perst_was, unlinked_was, attach_was, snapshot_was = Signal(init=1), Signal(), Signal(), Signal()
        late, come, all_ = Signal(4), Signal(4), Signal(4)
        m.d.sync += [perst_was.eq(self.perst_n), unlinked_was.eq(self.unlinked)]
        m.d.sync += [snapshot_was.eq(self.snapshot), attach_was.eq(self.attach & ~self.attached)]
        m.d.comb += [
            come.eq(Cat(perst_was & ~self.perst_n, self.unlinked & ~unlinked_was, self.attach & ~attach_was, self.snapshot ^ snapshot_was)),
            all_.eq(come | late),
            self.stirs.eq(all_ != 0),
            queue.i.valid.eq(all_ != 0),
            queue.i.payload.tick.eq(self.now),
            queue.i.payload.kinds.eq(all_),
            self.valid.eq(queue.o.valid),
            self.mark.eq(queue.o.payload),
            queue.o.ready.eq(self.ready),
        ]
        m.d.sync += late.eq(Mux(queue.i.ready, 0, all_))
        return m
