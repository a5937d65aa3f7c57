"""Losses of the tracker, by source: counters, and LOSS events at a bounded rate."""

from __future__ import annotations

from amaranth.hdl import Array, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from wattbell_spec import wire as spec

from ..layouts import EVENT

SOURCES = 10
REPORT_TICKS = 1 << 20
"""Ticks from the end of a report of all sources to the next (1 ms)."""
_ENGINE = tuple(int(source) for source in spec.LossSource if source.name in ("SLOTS", "QUEUES", "PAGES", "RAW", "TAGS"))
"""Sources in the engine, at most one a clock: a memory with one write port holds their ticks."""


class TrackerLosses(wiring.Component):
    """Reports losses. A LOSS event carries the tick of its first loss; :class:`..stream.events.LossReporter` reports queues that are
    full now.

    Ports
    -----
    lose : pulses, by :class:`spec.LossSource`; of the engine's sources one at a time.
    ticks : tick of each; the same on all of the engine's.
    now : the tick counter.
    run : events are wanted; otherwise losses are only counted.
    events : LOSS events.
    counts : losses of each source since power-on.
    busy : something is to be reported, now or later.
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
            }
        )

    def elaborate(self, _platform) -> Module:
        m = Module()
        any_pending = Signal(SOURCES)
        reporting = Signal()
        number = Signal(range(SOURCES))
        next_report = Signal(64)
        # What is pending is what was not reported yet. Its first tick is written until it is there, so it is that of the first loss.
        m.submodules.reported = reported = Memory(shape=32, depth=16, init=[])
        m.submodules.first = first = Memory(shape=64, depth=16, init=[])
        seen, told = reported.read_port(domain="comb"), reported.write_port()
        first_write, first_read = first.write_port(), first.read_port(domain="comb")
        alone = {i: Signal(64, name=f"first_{i}") for i in range(SOURCES) if i not in _ENGINE}
        cleared = Signal()  # what is pending of `number` is reported, or there is nobody to report it to
        begins = Signal(SOURCES)
        for i in range(SOURCES):
            m.d.comb += begins[i].eq(self.lose[i] & (~any_pending[i] | (cleared & (number == i))))
            with m.If(self.lose[i]):
                m.d.sync += [self.counts[i].eq(self.counts[i] + 1), any_pending[i].eq(1)]
            with m.Elif(cleared & (number == i)):
                m.d.sync += any_pending[i].eq(0)
            if i in alone:
                with m.If(begins[i]):
                    m.d.sync += alone[i].eq(self.ticks[i])
            else:
                with m.If(begins[i]):
                    m.d.comb += [first_write.en.eq(1), first_write.addr.eq(i)]
        count = Array(self.counts[i] for i in range(SOURCES))[number]
        m.d.comb += [
            first_write.data.eq(self.ticks[_ENGINE[0]]),
            first_read.addr.eq(number),
            seen.addr.eq(number),
            told.addr.eq(number),
            told.data.eq(count),
            told.en.eq(cleared),
        ]
        first_tick = Signal(64)
        m.d.comb += first_tick.eq(first_read.data)
        for i, tick in alone.items():
            with m.If(number == i):
                m.d.comb += first_tick.eq(tick)
        due = Signal()
        m.d.comb += [
            due.eq((any_pending != 0) & (self.now >= next_report)),
            self.busy.eq(reporting | (any_pending != 0)),
            self.events.payload.tick.eq(first_tick),
            self.events.payload.type.eq(int(spec.EventType.LOSS)),
            self.events.payload.arg8.eq(number),
            self.events.payload.arg32.eq(count - seen.data),
        ]
        with m.If(~reporting), m.If(due):
            m.d.sync += [reporting.eq(1), number.eq(0)]
        with m.Else():
            present = any_pending.bit_select(number, 1)
            m.d.comb += [self.events.valid.eq(present & self.run), cleared.eq(present & (~self.run | self.events.ready))]
            with m.If(~present | ~self.run | self.events.ready):
                m.d.sync += number.eq(number + 1)
                with m.If(number == SOURCES - 1):
                    m.d.sync += [reporting.eq(0), next_report.eq(self.now + REPORT_TICKS)]
        return m
