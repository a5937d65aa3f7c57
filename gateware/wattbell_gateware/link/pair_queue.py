"""Queue that takes up to two elements a clock and gives one."""

from amaranth import Module, Mux, Signal
from amaranth.hdl import ShapeLike
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

__all__ = ["PairQueue"]


class PairQueue(Component):
    """Queues `depth` elements of `shape` in two banks that are written in turn.

    `depth` is a power of two from 8 on; others raise :class:`ValueError`. A new element is at ``out`` one clock later at the
    earliest.

    Ports
    -----
    count : number of elements that come in this clock (0, 1, 2). The queue always takes them; see ``room``.
    first : the first new element.
    second : the second new element.
    room : four more elements fit. The margin covers elements in a register before the queue.
    out : the oldest element. It leaves in this clock.
    valid : ``out`` holds an element.
    """

    def __init__(self, shape: ShapeLike, depth: int):
        if depth < 8 or depth & (depth - 1):
            raise ValueError(f"the depth of a queue of pairs must be a power of two from 8 on, not {depth!r}")
        self._shape, self._depth = shape, depth
        super().__init__(
            {
                "count": In(2),
                "first": In(shape),
                "second": In(shape),
                "room": Out(1),
                "out": Out(shape),
                "valid": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        put, get = Signal(range(2 * self._depth)), Signal(range(2 * self._depth))
        level = Signal(range(self._depth + 1))
        values = []
        for n in range(2):
            m.submodules[f"bank{n}"] = bank = Memory(shape=self._shape, depth=self._depth // 2, init=[])
            write, read = bank.write_port(), bank.read_port(domain="comb")
            own = put[0] == n  # the first one goes here
            m.d.comb += [
                write.addr.eq((put + Mux(own, 0, 1)) >> 1),
                write.en.eq(Mux(own, self.count != 0, self.count == 2)),
                read.addr.eq(get >> 1),
            ]
            m.d.comb += write.data.eq(Mux(own, self.first, self.second))
            values.append(read.data)
        m.d.comb += [
            level.eq(put - get),
            self.valid.eq(level != 0),
            self.room.eq(level <= self._depth - 4),
            self.out.eq(Mux(get[0], values[1], values[0])),
        ]
        m.d.sync += [put.eq(put + self.count), get.eq(get + self.valid)]
        return m
