"""Events of the stream: sideband edges and loss reports."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from wattbell_spec.wire import EventType, LossSource

from ..layouts import EVENT
from ..queue import Queue

__all__ = ["LOSS_PERIOD_TICKS", "LossReporter", "SidebandWatcher", "event"]

LOSS_PERIOD_TICKS = 1_000_000
"""Shortest time between two rounds of LOSS events (1 ms). A lasting loss therefore does not flood the stream."""


def event(target, *, tick, type, arg8=0, arg16=0, arg32=0) -> list:
    """Return the assignments that put an event into ``target`` (a view of the EVENT layout)."""
    return [
        target.tick.eq(tick),
        target.type.eq(int(type) if not hasattr(type, "shape") else type),
        target.arg8.eq(arg8),
        target.arg16.eq(arg16),
        target.arg32.eq(arg32),
    ]


class SidebandWatcher(wiring.Component):
    """Makes events of the edges of PERST#, CLKREQ# and the link state.

    The tick of an event is ``now`` of the first clock in which the input has its new value. A synchroniser before this component
    belongs to the board and adds its constant delay. Several changes in one clock become several events with one tick. At ``begin``
    the present levels are reported once, so a capture is complete in itself. While ``enable`` is low, the watcher follows the
    levels silently.

    Ports
    -----
    now : the tick counter.
    enable : events are wanted.
    begin : strobe: start of a capture.
    perst_n : level of PERST# in this clock.
    clkreq_n : level of CLKREQ# in this clock.
    link_state : state of the link in this clock.
    o_valid : an event is available.
    o_ready : the event is taken.
    o_event : the event, :data:`..layouts.EVENT`.
    lost : number of events without room in this clock (0..3).
    quiet : nothing changes and nothing waits.
    """

    def __init__(self):
        super().__init__(
            {
                "now": In(64),
                "enable": In(1),
                "begin": In(1),
                "perst_n": In(1),
                "clkreq_n": In(1),
                "link_state": In(4),
                "o_valid": Out(1),
                "o_ready": In(1),
                "o_event": Out(EVENT),
                "lost": Out(2),
                "quiet": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        entry = data.StructLayout({"tick": 64, "changed": 3, "perst_n": 1, "clkreq_n": 1, "link_state": 4})
        m.submodules.queue = queue = Queue(entry, 8, quick=True)
        present = Cat(self.perst_n, self.clkreq_n, self.link_state)
        # Power-on levels: PERST# asserted, CLKREQ# released, link state unknown.
        previous = Signal(6, init=0b000010)
        known = Signal(3)
        changed = Signal(3)
        differs = present ^ previous
        m.d.comb += changed.eq(Cat(differs[0], differs[1], differs[2:].any()) | self.begin.replicate(3))
        m.d.sync += previous.eq(present)
        push = self.enable & (changed != 0)
        m.d.comb += [
            queue.i.payload.eq(Cat(self.now, changed, present)),
            queue.i.valid.eq(push),
            self.lost.eq(Mux(queue.lost, changed[0] + changed[1] + changed[2], 0)),
            self.quiet.eq((differs == 0) & ~queue.o.valid & ~self.begin),
        ]

        head = queue.o.payload
        left = head.changed & ~known
        m.d.comb += self.o_valid.eq(queue.o.valid & (left != 0))
        chosen = Signal(3)
        with m.If(left[0]):
            m.d.comb += [chosen.eq(1), *event(self.o_event, tick=head.tick, type=EventType.PERST, arg8=head.perst_n)]
        with m.Elif(left[1]):
            m.d.comb += [chosen.eq(2), *event(self.o_event, tick=head.tick, type=EventType.CLKREQ, arg8=head.clkreq_n)]
        with m.Else():
            m.d.comb += [chosen.eq(4), *event(self.o_event, tick=head.tick, type=EventType.LINK, arg8=head.link_state)]
        with m.If(self.o_valid & self.o_ready):
            with m.If((left & ~chosen) == 0):
                m.d.comb += queue.o.ready.eq(1)
                m.d.sync += known.eq(0)
            with m.Else():
                m.d.sync += known.eq(known | chosen)
        return m


class LossReporter(wiring.Component):
    """Adds up losses by source and reports them as LOSS events: the first at once, then at most one a source and ms.

    Ports
    -----
    add0, .. : number of losses in this clock, in the order of `sources`.
    now : the tick counter. An event has the tick at which it is reported.
    enable : losses count (a capture runs).
    flush : report the remaining losses now.
    o_valid : an event is available.
    o_ready : the event is taken.
    o_event : the event, :data:`..layouts.EVENT`.
    clean : no losses remain to be reported.
    quiet : see docs/architecture.md.
    deadline : see docs/architecture.md.
    """

    def __init__(self, sources: Sequence[LossSource]):
        self._sources = tuple(sources)
        super().__init__(
            {
                **{f"add{k}": In(4) for k in range(len(self._sources))},
                "now": In(64),
                "enable": In(1),
                "flush": In(1),
                "o_valid": Out(1),
                "o_ready": In(1),
                "o_event": Out(EVENT),
                "clean": Out(1),
                "quiet": Out(1),
                "deadline": Out(64),
            }
        )

    def elaborate(self, platform):
        m = Module()
        count = len(self._sources)
        lost = [Signal(32, name=f"lost_{s.name.lower()}") for s in self._sources]
        adds = [getattr(self, f"add{k}") for k in range(count)]
        any_lost = Signal()
        next_at = Signal(64)
        index = Signal(range(count))
        reporting = Signal()
        m.d.comb += any_lost.eq(Cat(s.any() for s in lost).any())
        adding = Cat(a.any() for a in adds).any()
        start = any_lost & ~reporting & (self.flush | (self.now >= next_at))
        m.d.comb += [
            self.clean.eq(~any_lost & ~reporting),
            self.quiet.eq(~adding & ~reporting & ~start),
            self.deadline.eq(any_lost.replicate(64) & next_at | ~any_lost.replicate(64)),
        ]
        with m.If(start):
            m.d.sync += [reporting.eq(1), index.eq(0), next_at.eq(self.now + LOSS_PERIOD_TICKS)]
        value = Array(lost)[index]
        take = self.o_valid & self.o_ready
        m.d.comb += [
            self.o_valid.eq(reporting & (value != 0)),
            *event(
                self.o_event, tick=self.now, type=EventType.LOSS, arg8=Array(Const(int(s), 8) for s in self._sources)[index], arg32=value
            ),
        ]
        with m.If(reporting & (take | (value == 0))):
            m.d.sync += index.eq(index + 1)
            with m.If(index == count - 1):
                m.d.sync += reporting.eq(0)
        for k in range(count):
            taken = Signal(name=f"taken{k}")
            m.d.comb += taken.eq(take & (index == k))
            total = Signal(33, name=f"total{k}")
            m.d.comb += total.eq(Mux(taken, 0, lost[k]) + Mux(self.enable, adds[k], 0))
            with m.If(taken | adds[k].any()):
                m.d.sync += lost[k].eq(total[:32] | total[32].replicate(32))
        return m
