"""Start and stop of a capture, in an order that loses nothing."""

from __future__ import annotations

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from wattbell_spec.wire import STATUS_PERIOD_TICKS, EventType

from ..deadlines import reached
from ..layouts import EVENT
from .events import event

__all__ = ["RunControl"]


class RunControl(wiring.Component):
    """Sequences a capture.

    - Start: a RUN event and a STATUS block.
    - While running: a STATUS block whenever the counter reaches a multiple of STATUS_PERIOD_TICKS.
    - Stop: the sources are shut (``capturing`` falls). Their entries are released and run dry, and losses are reported. The RUN
      event with the tick of the stop is queued. Every block is closed and sent, then the final STATUS block.

    Ports
    -----
    now : the tick counter.
    run : level: a capture is wanted.
    status_wanted : strobe: an additional STATUS block is wanted.
    capturing : records, events and raw TLPs are taken.
    rail_run : conversions are made.
    begin : strobe at the start.
    sources_idle : every source of events is done (rail, records, raw).
    losses_clean : see :class:`.events.LossReporter`.
    flush_losses : see :class:`.events.LossReporter`.
    events_empty : no event waits before the event builder.
    flush : close all open blocks.
    stream_idle : no block is open, closed or on its way.
    status : strobe: make a STATUS block.
    active : a capture is running or stopping.
    stopping : a capture is stopping.
    o_valid : a RUN event is available.
    o_ready : the event is taken.
    o_event : the event, :data:`..layouts.EVENT`.
    quiet : see docs/architecture.md.
    deadline : see docs/architecture.md.

    Parameters
    ----------
    release : ticks after which all entries up to a stop are released.
    ahead : ticks of a clock, to decide a clock ahead that a STATUS block is due. Idle clocks cannot be left out then. 0: decide in
        the same clock.
    """

    def __init__(self, *, release: int = 0, ahead: int = 0):
        self._release, self._ahead = release, ahead
        super().__init__(
            {
                "now": In(64),
                "run": In(1),
                "status_wanted": In(1),
                "sources_idle": In(1),
                "losses_clean": In(1),
                "events_empty": In(1),
                "stream_idle": In(1),
                "capturing": Out(1),
                "rail_run": Out(1),
                "begin": Out(1),
                "flush_losses": Out(1),
                "flush": Out(1),
                "status": Out(1),
                "active": Out(1),
                "stopping": Out(1),
                "o_valid": Out(1),
                "o_ready": In(1),
                "o_event": Out(EVENT),
                "quiet": Out(1),
                "deadline": Out(64),
            }
        )

    def elaborate(self, platform):
        m = Module()
        shift = STATUS_PERIOD_TICKS.bit_length() - 1
        assert 1 << shift == STATUS_PERIOD_TICKS
        next_status = Signal(64)
        stop_tick = Signal(64)
        move = Signal()  # a transition happens in this clock
        due = Signal()

        draining, released = Signal(), Signal()
        m.d.comb += released.eq((self.now - stop_tick)[:32] >= self._release)
        late = self.capturing & reached(self.now, next_status)
        if self._ahead:
            m.d.sync += due.eq(late & ~due)
        else:
            m.d.comb += due.eq(late)
        m.d.comb += [
            self.deadline.eq(
                Mux(
                    draining & ~released,
                    stop_tick + self._release,
                    self.capturing.replicate(64) & next_status | ~self.capturing.replicate(64),
                )
            ),
            self.quiet.eq(~move & ~self.o_valid & ~due),
            self.rail_run.eq(self.capturing),
            self.o_event.type.eq(int(EventType.RUN)),
        ]
        with m.If(due | (self.capturing & self.status_wanted)):
            m.d.comb += self.status.eq(1)
        with m.If(self.begin | due):
            m.d.sync += next_status.eq((((self.now >> shift) + 1) << shift) - self._ahead)

        with m.FSM():
            with m.State("STOPPED"):
                with m.If(self.run):
                    m.d.comb += [move.eq(1), self.begin.eq(1), self.status.eq(1)]
                    m.d.sync += [self.capturing.eq(1), self.active.eq(1), stop_tick.eq(self.now)]
                    m.next = "STARTED"
            with m.State("STARTED"):
                m.d.comb += [self.o_valid.eq(1), *event(self.o_event, tick=stop_tick, type=EventType.RUN, arg8=1)]
                with m.If(self.o_ready):
                    m.next = "RUNNING"
            with m.State("RUNNING"):
                with m.If(~self.run):
                    m.d.comb += move.eq(1)
                    m.d.sync += [self.capturing.eq(0), self.stopping.eq(1), stop_tick.eq(self.now)]
                    m.next = "DRAIN"
            with m.State("DRAIN"):
                m.d.comb += draining.eq(1)
                with m.If(self.sources_idle & released):
                    m.d.comb += move.eq(1)
                    m.next = "LOSSES"
            with m.State("LOSSES"):
                m.d.comb += self.flush_losses.eq(1)
                with m.If(self.losses_clean):
                    m.d.comb += move.eq(1)
                    m.next = "EVENT"
            with m.State("EVENT"):
                m.d.comb += [self.o_valid.eq(1), *event(self.o_event, tick=stop_tick, type=EventType.RUN, arg8=0)]
                with m.If(self.o_ready):
                    m.next = "EVENTS"
            with m.State("EVENTS"):
                with m.If(self.events_empty):
                    m.d.comb += move.eq(1)
                    m.next = "FLUSH"
            with m.State("FLUSH"):
                m.d.comb += self.flush.eq(1)
                with m.If(self.stream_idle):
                    m.d.comb += [move.eq(1), self.status.eq(1)]
                    m.next = "SENDING"
            with m.State("SENDING"):
                # The request takes one clock to show as a closed block.
                m.d.comb += move.eq(1)
                m.next = "SENT"
            with m.State("SENT"):
                with m.If(self.stream_idle):
                    m.d.comb += move.eq(1)
                    m.d.sync += [self.active.eq(0), self.stopping.eq(0)]
                    m.next = "STOPPED"
        return m
