"""FIFO that never stalls its writer: it counts the entries that do not fit, and the count travels with the next entry."""

from __future__ import annotations

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..queue import Queue

__all__ = ["CountingFifo"]


class CountingFifo(wiring.Component):
    """Queues entries of `shape` and always takes its input; an entry that finds the queue full is dropped and counted.

    Ports
    -----
    i_valid : an entry comes in this clock.
    i_data : the entry.
    also : entries lost upstream in this clock (0..7); they count as lost here.
    o_valid : an entry is available.
    o_ready : the entry is taken.
    o_data : the oldest entry.
    o_dropped : entries lost between the previous entry and this one; saturates at 2**32 - 1.
    room : an entry would fit.
    lost : an entry is dropped here in this clock.
    empty : the queue is empty.
    """

    def __init__(self, shape, depth: int):
        self._shape = shape
        self._depth = depth
        super().__init__(
            {
                "i_valid": In(1),
                "i_data": In(shape),
                "also": In(3),
                "o_valid": Out(1),
                "o_ready": In(1),
                "o_data": Out(shape),
                "o_dropped": Out(32),
                "room": Out(1),
                "lost": Out(1),
                "empty": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        entry = data.StructLayout({"data": self._shape, "dropped": 32})
        m.submodules.queue = queue = Queue(entry, self._depth)
        new, head = queue.i, queue.o
        dropped = Signal(32)
        counted = Signal(33)

        write = self.i_valid & new.ready
        m.d.comb += [
            self.room.eq(new.ready),
            new.valid.eq(write),
            Cat(new.payload.data, new.payload.dropped).eq(Cat(self.i_data, dropped)),
            self.lost.eq(self.i_valid & ~new.ready),
            counted.eq(Mux(write, 0, dropped) + self.also + self.lost),
            self.o_valid.eq(head.valid),
            head.ready.eq(self.o_ready & head.valid),
            Cat(self.o_data).eq(Cat(head.payload.data)),
            self.o_dropped.eq(head.payload.dropped),
            self.empty.eq(queue.level == 0),
        ]
        with m.If(write | self.lost | (self.also != 0)):
            m.d.sync += dropped.eq(counted[:32] | counted[32].replicate(32))
        return m
