"""Marks, and sweeps of completed commands without a CQ head doorbell: events among the TLPs that are no TLPs.

A mark comes behind the TLPs up to its tick, and a sweep before the TLPs from its boundary on. So all output is a function of ticks.
The engine knows that no older TLP comes when the merge hands out a newer one, or none for `margin`.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream
from wattbell_spec import wire as spec

from ..deadlines import reached
from . import tables
from .control import Control
from .headqueue import HeadQueue
from .marks import Marks
from .places import Place
from .present import Present
from .queues import Queues

__all__ = ["Order"]


class Order:
    """Decides in IDLE what comes next: TLP, mark or sweep.

    deadline : the tick at which a mark or sweep is due though no TLP comes.
    i : the count of loops over a table.
    """

    def __init__(self, *, i: Signal, tlp: Present, queues: Queues, control: Control, head_queue: HeadQueue) -> None:
        self.i, self.tlp, self.queues, self.control, self.head_queue = i, tlp, queues, control, head_queue
        self.deadline = Signal(64)
        self._marks = Marks()
        self._marks_done = Signal(3)  # of the oldest ones, which are of one tick
        self._some_filled = Signal()
        self._comes = Signal()
        self._mark_due, self._sweep_due = Signal(), Signal()
        self._boundary = Signal(64)
        # What is due is decided a clock after it was looked at, if nothing changed in that clock: these sums and comparisons are long.
        self._was_mark_due, self._was_sweep_due, self._looked = Signal(), Signal(), Signal()
        self._rests = Signal()  # IDLE stays, and what it looks at

    def connect(
        self,
        m: Module,
        *,
        now: Signal,
        perst_n: Signal,
        unlinked: Signal,
        cfg: stream.Interface,
        snapshot: Signal,
        margin: int,
        comes: Value,
        follows: Value,
    ) -> None:
        """`comes`: a header is at ``head_queue``; `follows`: one is on its way there; the rest as at :class:`Engine`."""
        head_queue = self.head_queue
        tlp, queues, ahead, marks = self.tlp, self.queues, head_queue.ahead, self._marks
        m.submodules.marks = marks
        mark, head = marks.mark, tlp.ahead.header
        silent, long_ago = Signal(), Signal(64)
        head_crosses, mark_crosses = Signal(), Signal()
        m.d.sync += queues.filled.eq(self._some_filled)
        m.d.comb += [
            marks.now.eq(now),
            marks.perst_n.eq(perst_n),
            marks.unlinked.eq(unlinked),
            marks.attach.eq(cfg.valid),
            marks.attached.eq(cfg.ready),
            marks.snapshot.eq(snapshot),
            self._comes.eq(comes),
            self._some_filled.eq(queues.cq_filled != 0),
            silent.eq(~head_queue.waits & ~comes & ~follows),
            head_queue.swept.eq(queues.swept),
            self._boundary.eq((queues.swept + 1) << tables.SWEEP_BITS),
            long_ago.eq(now - margin),
            head_crosses.eq(queues.filled & head_queue.crosses),
            mark_crosses.eq(queues.filled & ~reached(queues.swept, mark.tick[tables.SWEEP_BITS :], 16)),
            self._mark_due.eq(marks.valid & Mux(ahead.valid, ~reached(mark.tick, head.tick), silent & reached(long_ago, mark.tick))),
            self._sweep_due.eq(
                Mux(
                    marks.valid,
                    mark_crosses & (self._mark_due | (ahead.valid & head_crosses)),
                    Mux(ahead.valid, head_crosses, silent & queues.filled & reached(long_ago, self._boundary)),
                )
            ),
            tlp.held.eq(marks.valid | head_crosses),
            self.deadline.eq(margin + Mux(queues.filled & (~marks.valid | (self._boundary < mark.tick)), self._boundary, mark.tick)),
        ]
        with m.If(~queues.filled & ~marks.valid):
            m.d.comb += self.deadline.eq(tables.NEVER)
        resting, seen, sees = Signal(), Signal(2), Signal(2)
        m.d.comb += [sees.eq(Cat(ahead.valid, marks.valid)), self._looked.eq(resting & (seen == sees))]
        m.d.sync += [
            self._was_mark_due.eq(self._mark_due),
            self._was_sweep_due.eq(self._sweep_due),
            resting.eq(self._rests & (queues.filled == self._some_filled)),
            seen.eq(sees),
        ]

    def idle(self, m: Module, *, busy: Signal, marked: Signal) -> None:
        """Build the state IDLE: the next TLP, or a mark or sweep before it."""
        tlp, marks, done = self.tlp, self._marks, self._marks_done
        tlp.may_finish(m)
        m.d.comb += busy.eq(
            self.head_queue.waits | self._comes | self._mark_due | self._sweep_due | marks.stirs | (self.queues.filled != self._some_filled)
        )
        with m.If(self._looked & self._was_sweep_due):
            m.d.sync += [self.i.eq(0), tlp.header.tick.eq(self._boundary)]
            m.next = Place.SWEEP
        with m.Elif(self._looked & self._was_mark_due):
            with m.If(marks.mark.kinds[0] & ~done[0]):
                m.d.sync += done[0].eq(1)
                self.control.begin_reset(m, spec.ResetCause.PERST, marks.mark.tick, Place.IDLE)
            with m.Elif(marks.mark.kinds[1] & ~done[1]):
                m.d.sync += done[1].eq(1)
                self.control.begin_reset(m, spec.ResetCause.LINK, marks.mark.tick, Place.IDLE)
            with m.Elif(marks.mark.kinds[2] & ~done[2]):
                m.d.sync += [done[2].eq(1), tlp.header.tick.eq(marks.mark.tick)]
                m.next = Place.CONFIG
            with m.Else():
                m.d.comb += [marks.ready.eq(1), marked.eq(marks.mark.kinds[3])]
                m.d.sync += done.eq(0)
        with m.Elif(self.head_queue.ahead.valid & (~tlp.held | self._looked)):
            tlp.accept(m)
        with m.Else():
            m.d.comb += self._rests.eq(1)
