"""The timer of conversions, and the ticks of their results."""

from __future__ import annotations

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..deadlines import reached

__all__ = ["ConversionTimer"]

_PERIOD_BITS = 32


class ConversionTimer(wiring.Component):
    """Starts conversions at a fixed period and hands each result on when the next conversion starts.

    The timer samples the result one clock before the next CNV edge, whichever front delivered it and at whatever time. So the
    pipeline after the timer does not depend on the front (serial or word), and a simulator that skips clocks wakes once a conversion.
    The price is one conversion period of latency.

    Ports
    -----
    now : tick counter.
    run : convert while high; after it falls, the result still in the ADC is handed on at its due time.
    period_ticks : time between conversions, a multiple of the clock and at least two clocks; sampled at each start.
    start : high in one clock; its ``now`` is the tick of the conversion (the CNV edge).
    hand : strobe: the front's words belong to the conversion started at ``hand_tick``.
    hand_tick : tick of the start of that conversion.
    begin : strobe: the first ``start`` of a run comes next clock.
    idle : nothing is running and nothing will be handed on.
    due : the timer fires in this clock.
    deadline : tick at which it fires; all ones when disarmed.
    quiet : nothing happens in this clock.
    """

    def __init__(self, ticks_per_clock: int):
        self._tpc = ticks_per_clock
        super().__init__(
            {
                "now": In(64),
                "run": In(1),
                "period_ticks": In(_PERIOD_BITS),
                "start": Out(1),
                "hand": Out(1),
                "hand_tick": Out(64),
                "begin": Out(1),
                "idle": Out(1),
                "due": Out(1),
                "deadline": Out(64),
                "quiet": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        armed = Signal()
        converting = Signal()
        next_due = Signal(64)
        start_tick = Signal(64)

        m.d.comb += [
            # It is compared in every clock, and never further ahead than a period: the low bits tell.
            self.due.eq(armed & reached(self.now, next_due, _PERIOD_BITS + 1)),
            self.deadline.eq(armed.replicate(64) & next_due | ~armed.replicate(64)),
            self.idle.eq(~armed & ~self.run),
            self.hand.eq(self.due & converting),
            self.begin.eq(~armed & self.run),
            self.hand_tick.eq(start_tick),
            self.quiet.eq(~self.due & ~self.start & ~self.begin),
        ]
        m.d.sync += self.start.eq(0)
        with m.If(self.start):
            m.d.sync += start_tick.eq(self.now)
        with m.If(self.begin):
            m.d.sync += [armed.eq(1), next_due.eq(self.now + self._tpc)]
        with m.If(self.due):
            m.d.sync += [armed.eq(self.run), converting.eq(self.run)]
            with m.If(self.run):
                m.d.sync += [
                    self.start.eq(1),
                    next_due.eq(self.now + self.period_ticks),
                ]
        return m
