"""Source of STATUS blocks."""

from __future__ import annotations

from amaranth import Array, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from wattbell_spec.wire import STATUS as STATUS_FIELDS
from wattbell_spec.wire import STATUS_SIZE

from ..layouts import from_fields
from ..nvme import SNAPSHOT
from .buffer import read_port

__all__ = ["STATUS", "StatusSource"]

STATUS = from_fields(STATUS_FIELDS)
STATUS_WORDS = STATUS_SIZE // 4
LATE = ("lost_commands", "lost_pages")
"""Fields that the tracker counts up to `delay` ticks after the loss happened."""


class StatusSource(wiring.Component):
    """Latches the state of the rig at ``request`` and offers it as a block; all its numbers belong to one instant.

    The tracker's numbers are known at most `delay` ticks later. They are then put in place, and the block is complete. A request
    that finds the last block still waiting is counted in ``dropped`` of the next block.

    Ports
    -----
    now : the tick counter. Its value at the request is ``first_tick`` of the block.
    request : make a block.
    accepted : a block will be made for the request in this clock.
    status : fields of the block, :data:`STATUS`.
    snapshot : the tracker's fields at that tick.
    read : to the block writer.
    idle : no block waits for its snapshot.
    quiet : see docs/architecture.md.
    deadline : see docs/architecture.md.
    """

    def __init__(self, delay: int):
        self._delay = delay
        super().__init__(
            {
                "now": In(64),
                "request": In(1),
                "accepted": Out(1),
                "status": In(STATUS),
                "snapshot": In(SNAPSHOT),
                "read": Out(read_port()),
                "idle": Out(1),
                "quiet": Out(1),
                "deadline": Out(64),
            }
        )

    def elaborate(self, platform):
        m = Module()
        latched = Signal(STATUS)
        tick = Signal(64)
        dropped = Signal(32)
        pending, waiting, due = Signal(), Signal(), Signal()
        words = Array(latched.as_value().word_select(k, 32) for k in range(STATUS_WORDS))
        m.d.sync += self.read.data.eq(words[self.read.address[: STATUS_WORDS.bit_length()]])
        m.d.comb += [
            self.read.ready.eq(waiting),
            self.read.words.eq(STATUS_WORDS),
            self.read.first_tick.eq(tick),
            self.read.dropped.eq(dropped),
            due.eq(pending & ((self.now - tick)[:32] >= self._delay)),
            self.accepted.eq(self.request & ~pending & ~waiting),
            self.idle.eq(~pending),
            self.quiet.eq(~self.request & ~due),
            self.deadline.eq(Mux(pending, tick + self._delay, (1 << 64) - 1)),
        ]
        with m.If(self.read.release):
            m.d.sync += [waiting.eq(0), dropped.eq(0)]
        with m.If(due):
            m.d.sync += [
                pending.eq(0),
                waiting.eq(1),
                *(latched[name].eq(self.snapshot[name]) for name, _ in SNAPSHOT),
                *(latched[name].eq(self.status[name]) for name in LATE),
            ]
        with m.If(self.accepted):
            m.d.sync += [latched.eq(self.status), tick.eq(self.now), pending.eq(1)]
        with m.Elif(self.request):
            m.d.sync += dropped.eq(dropped + ~dropped.all())
        return m
