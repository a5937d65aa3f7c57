"""Delay of the tracker's output to a fixed time."""

from __future__ import annotations

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Release"]


class Release(wiring.Component):
    """Holds the head of a queue until `delay` ticks after the tick that completed the entry.

    The content of the stream therefore depends on ticks alone, as long as the tracker takes no longer than `delay`. Combinational;
    at most one entry a clock, as the queue gives them.

    `early` is the ticks of a clock, for a slow part in which no idle clock is left out. The decision to release is then made one
    clock early. An entry that comes late, or follows another, leaves one clock later.

    Ports
    -----
    now : the tick counter.
    waits : the queue shows an entry.
    done : low 32 bits of the tick that completed the entry. No entry waits for 2 s before it is the first.
    taken : the entry leaves if it may.
    ripe : the entry may leave.
    deadline : tick at which the entry may leave if nothing else moves.
    """

    def __init__(self, delay: int, *, early: int = 0) -> None:
        self._delay, self._early = delay, early
        super().__init__(
            {
                "now": In(64),
                "waits": In(1),
                "done": In(32),
                "taken": In(1),
                "ripe": Out(1),
                "deadline": Out(64),
            }
        )

    def elaborate(self, _platform) -> Module:
        m = Module()
        age, known, reached = Signal(32), Signal(), Signal()
        stays, old = self.waits & ~(self.ripe & self.taken), age >= self._delay - self._early
        m.d.comb += [
            age.eq(self.now[:32] - self.done),
            self.ripe.eq(self.waits & reached),
            self.deadline.eq(Mux(self.waits & ~reached, self.now - age + self._delay, (1 << 64) - 1)),
        ]
        if not self._delay:
            m.d.comb += reached.eq(1)
        elif self._early:
            m.d.comb += reached.eq(known)
            m.d.sync += known.eq(stays & (known | old))
        else:
            m.d.comb += reached.eq(known | old)
            m.d.sync += known.eq(stays & reached)
        return m
