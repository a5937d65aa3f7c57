"""The time at which what the tracker made goes on."""

from __future__ import annotations

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Release"]


class Release(wiring.Component):
    """Holds the head of a queue until `delay` ticks after the tick that completed it. So what the stream holds depends on ticks alone,
    however long the tracker takes, as long as that is not longer.

    Combinational; at most one entry a clock, as the queue gives them.

    Ports
    -----
    now : the tick counter.
    waits : the queue shows an entry. done : low 32 bits of its tick (nothing waits for 2 s before it is the first). taken : it goes.
    ripe : it may. deadline : when it may, if nothing else moves.
    """

    def __init__(self, delay: int) -> None:
        self._delay = delay
        super().__init__({
            "now": In(64), "waits": In(1), "done": In(32), "taken": In(1), "ripe": Out(1), "deadline": Out(64),
        })  # fmt: skip

    def elaborate(self, _platform) -> Module:
        m = Module()
        age, was_ripe, reached = Signal(32), Signal(), Signal()
        m.d.comb += [
            age.eq(self.now[:32] - self.done), reached.eq(was_ripe | (age >= self._delay) if self._delay else 1),
            self.ripe.eq(self.waits & reached),
            self.deadline.eq(Mux(self.waits & ~reached, self.now - age + self._delay, (1 << 64) - 1)),
        ]  # fmt: skip
        m.d.sync += was_ripe.eq(self.ripe & ~self.taken)
        return m
