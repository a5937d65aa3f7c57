"""The time at which what the tracker made goes on."""

from __future__ import annotations

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Release"]


class Release(wiring.Component):
    """Holds the head of a queue until `delay` ticks after the tick that completed it. So what the stream holds depends on ticks alone,
    however long the tracker takes, as long as that is not longer.

    Combinational; at most one entry a clock, as the queue gives them. `early`, ticks of a clock, for a slow part where none is left out:
    that an entry may go is worked out in the clock before, so one that comes late, or behind another, goes a clock later.

    Ports
    -----
    now : the tick counter.
    waits : the queue shows an entry. done : low 32 bits of its tick (nothing waits for 2 s before it is the first). taken : it goes, if it
        may.
    ripe : it may. deadline : when it may, if nothing else moves.
    """

    def __init__(self, delay: int, *, early: int = 0) -> None:
        self._delay, self._early = delay, early
        super().__init__({
            "now": In(64), "waits": In(1), "done": In(32), "taken": In(1), "ripe": Out(1), "deadline": Out(64),
        })  # fmt: skip

    def elaborate(self, _platform) -> Module:
        m = Module()
        age, known, reached = Signal(32), Signal(), Signal()
        stays, old = self.waits & ~(self.ripe & self.taken), age >= self._delay - self._early
        m.d.comb += [
            age.eq(self.now[:32] - self.done), self.ripe.eq(self.waits & reached),
            self.deadline.eq(Mux(self.waits & ~reached, self.now - age + self._delay, (1 << 64) - 1)),
        ]  # fmt: skip
        if not self._delay:
            m.d.comb += reached.eq(1)
        elif self._early:
            m.d.comb += reached.eq(known)
            m.d.sync += known.eq(stays & (known | old))
        else:
            m.d.comb += reached.eq(known | old)
            m.d.sync += known.eq(stays & reached)
        return m
