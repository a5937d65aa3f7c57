"""Headers between the merge and the engine; some were taken and not finished yet."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..tlp import MERGED, payload_start, total_dws
from .dataway import DataWay
from .tables import SWEEP_BITS

__all__ = ["HEAD", "HeadQueue"]

_DEPTH_BITS = 3

HEAD = data.StructLayout({"merged": MERGED, "start": 14, "total": 11, "may_be_data": 1})
"""A header, and three facts that are ready when it reaches the register: ``start`` of its payload; ``total``, double words of the whole
TLP; ``may_be_data`` (:meth:`DataWay.may_take`).
"""


class HeadQueue(wiring.Component):
    """A queue that reads ahead and can go back. A header is at ``ahead``, a register, two clocks after it came; one a clock.

    Ports
    -----
    i : headers.
    ahead : the oldest header not taken yet; a taken header stays in the queue until it retires.
    swept : a boundary of sweeps.
    crosses : ``ahead`` lies behind a later boundary than `swept` of the clock before.
    waits : a header that was not taken is at ``ahead``, or on its way there.
    retire : retires the oldest taken header.
    all_taken : with ``ahead.ready``: retires all taken headers, this one too.
    rewind : brings every header back that was taken but not retired. Not with ``ahead.ready``.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "i": In(stream.Signature(MERGED)),
                "ahead": Out(stream.Signature(HEAD)),
                "swept": In(64 - SWEEP_BITS),
                "crosses": Out(1),
                "waits": Out(1),
                "retire": In(1),
                "all_taken": In(1),
                "rewind": In(1),
            }
        )

    def elaborate(self, _platform) -> Module:
        m = Module()
        m.submodules.kept = kept = Memory(shape=MERGED, depth=1 << _DEPTH_BITS, init=[])
        write, read = kept.write_port(), kept.read_port(domain="comb")
        come, next_, done = (Signal(_DEPTH_BITS + 1, name=name) for name in ("come", "next", "done"))  # `next`: behind ``ahead``
        done_next, moves, there = Signal.like(done), Signal(), Signal()
        stored, head = Signal(MERGED), Signal(HEAD)
        m.d.comb += [
            self.i.ready.eq((come ^ done) != 1 << _DEPTH_BITS),
            write.addr.eq(come[:_DEPTH_BITS]),
            write.data.eq(self.i.payload),
            write.en.eq(self.i.valid & self.i.ready),
            read.addr.eq(next_[:_DEPTH_BITS]),
            stored.eq(data.View(MERGED, read.data)),
            head.merged.eq(stored),
            head.start.eq(payload_start(stored.header)),
            head.total.eq(total_dws(stored.header)),
            head.may_be_data.eq(DataWay.may_take(stored)),
            moves.eq(self.ahead.ready | ~self.ahead.valid),
            there.eq(next_ != come),
            self.waits.eq(self.ahead.valid | there),
            done_next.eq(Mux(self.ahead.ready & self.all_taken, next_, done + self.retire)),
        ]
        m.d.sync += [
            come.eq(come + write.en),
            done.eq(done_next),
            # Both are compared, and then chosen: that the oldest is taken is known last.
            self.crosses.eq(Mux(moves, *(each.header.tick[SWEEP_BITS:] > self.swept for each in (stored, self.ahead.payload.merged)))),
        ]
        with m.If(self.rewind):
            m.d.sync += [next_.eq(done_next), self.ahead.valid.eq(0)]
        with m.Elif(moves):
            m.d.sync += [next_.eq(next_ + there), self.ahead.valid.eq(there)]
        with m.If(moves):
            m.d.sync += self.ahead.payload.eq(head)
        return m
