"""Marks: what must take its place among the TLPs by its tick, though it comes another way."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

__all__ = ["MARK", "Marks"]


MARK = data.StructLayout({"tick": 64, "kinds": 3})
"""``kinds``, which happen in this order: bit 0 PERST# fell, 1 a word of late attach, 2 the counters are asked for."""
_DEPTH = 4


class Marks(wiring.Component):
    """Notes the tick of each, and keeps them in order.

    Ports
    -----
    now : the tick counter.
    perst_n : level. attach : level; after ``attached`` (a strobe: it was done) a new one. snapshot : each change is a request.
    valid, ready, mark : the oldest one; a clock after its input changed at the earliest.
    stirs : an input changes in this clock. Should more wait than there is room for, those that come then are of the tick at which there is.
    """

    def __init__(self) -> None:
        super().__init__({
            "now": In(64), "perst_n": In(1), "attach": In(1), "attached": In(1), "snapshot": In(1),
            "valid": Out(1), "ready": In(1), "mark": Out(MARK), "stirs": Out(1),
        })  # fmt: skip

    def elaborate(self, _platform) -> Module:
        m = Module()
        m.submodules.queue = queue = SyncFIFO(width=MARK.size, depth=_DEPTH)
        perst_was, attach_was, snapshot_was = Signal(init=1), Signal(), Signal()
        late, come, all_ = Signal(3), Signal(3), Signal(3)
        m.d.sync += [perst_was.eq(self.perst_n), snapshot_was.eq(self.snapshot), attach_was.eq(self.attach & ~self.attached)]
        m.d.comb += [
            come.eq(Cat(perst_was & ~self.perst_n, self.attach & ~attach_was, self.snapshot ^ snapshot_was)),
            all_.eq(come | late), self.stirs.eq(all_ != 0),
            queue.w_en.eq(all_ != 0), queue.w_data.eq(Cat(self.now, all_)),
            self.valid.eq(queue.r_rdy), self.mark.eq(data.View(MARK, queue.r_data)), queue.r_en.eq(self.ready),
        ]  # fmt: skip
        m.d.sync += late.eq(Mux(queue.w_rdy, 0, all_))
        return m
