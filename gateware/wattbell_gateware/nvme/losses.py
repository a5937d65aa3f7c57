"""Counts what was lost, by source, and says so in events at a bounded rate."""

from __future__ import annotations

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from wattbell.wire import spec

from ..layouts import EVENT

SOURCES = 10
REPORT_TICKS = 1 << 20
"""LOSS events of all sources together are at least this far apart (1 ms), but for the sources of one report."""


class LossReporter(wiring.Component):
    """``lose``: pulses by :class:`spec.LossSource`, each with its tick in ``ticks``. ``counts``: since power-on.

    A LOSS event carries the tick of the first loss it counts.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "lose": In(SOURCES),
                "ticks": In(64).array(SOURCES),
                "now": In(64),
                "run": In(1),
                "events": Out(stream.Signature(EVENT)),
                "counts": Out(32).array(SOURCES),
                "busy": Out(1),
                "deadline": Out(64),
            }
        )

    def elaborate(self, _platform) -> Module:
        m = Module()
        pending = [Signal(32, name=f"pending_{i}") for i in range(SOURCES)]
        first = [Signal(64, name=f"first_{i}") for i in range(SOURCES)]
        any_pending = Signal(SOURCES)
        reporting = Signal()
        number = Signal(range(SOURCES))
        next_report = Signal(64)
        for i in range(SOURCES):
            m.d.comb += any_pending[i].eq(pending[i] != 0)
            with m.If(self.lose[i]):
                m.d.sync += [pending[i].eq(pending[i] + 1), self.counts[i].eq(self.counts[i] + 1)]
                with m.If(pending[i] == 0):
                    m.d.sync += first[i].eq(self.ticks[i])
        due = Signal()
        m.d.comb += [
            due.eq((any_pending != 0) & (self.now >= next_report)),
            self.busy.eq(reporting | due),
            self.deadline.eq(Mux(any_pending != 0, next_report, (1 << 64) - 1)),
            self.events.payload.tick.eq(Array(first)[number]),
            self.events.payload.type.eq(int(spec.EventType.LOSS)),
            self.events.payload.arg8.eq(number),
            self.events.payload.arg32.eq(Array(pending)[number]),
        ]
        with m.If(~reporting), m.If(due):
            m.d.sync += [reporting.eq(1), number.eq(0)]
        with m.Else():
            present = Array(pending)[number] != 0
            m.d.comb += self.events.valid.eq(present & self.run)
            with m.If(~present | ~self.run | self.events.ready):
                for i in range(SOURCES):
                    with m.If((number == i) & present):
                        m.d.sync += pending[i].eq(self.lose[i])
                        with m.If(self.lose[i]):
                            m.d.sync += first[i].eq(self.ticks[i])
                m.d.sync += number.eq(number + 1)
                with m.If(number == SOURCES - 1):
                    m.d.sync += [reporting.eq(0), next_report.eq(self.now + REPORT_TICKS)]
        return m
