"""STATUS blocks."""

from __future__ import annotations

from amaranth import Array, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from wattbell_spec.wire import STATUS as STATUS_FIELDS
from wattbell_spec.wire import STATUS_SIZE

from ..layouts import from_fields
from .buffer import read_port

__all__ = ["STATUS", "StatusSource"]

STATUS = from_fields(STATUS_FIELDS)
STATUS_WORDS = STATUS_SIZE // 4


class StatusSource(wiring.Component):
    """Latches the state of the rig at ``request`` and offers it as a block; all its numbers are of one instant.

    A request that finds the last block still waiting is counted in ``dropped`` of the next one.

    Ports
    -----
    now : the tick counter; that of the request is ``first_tick`` of the block.
    request : make a block.
    status : what it says.
    read : to the block writer.
    quiet : nothing is requested.
    """

    def __init__(self):
        super().__init__(
            {
                "now": In(64),
                "request": In(1),
                "status": In(STATUS),
                "read": Out(read_port()),
                "quiet": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        latched = Signal(STATUS)
        tick = Signal(64)
        dropped = Signal(32)
        waiting = Signal()
        words = Array(latched.as_value().word_select(k, 32) for k in range(STATUS_WORDS))
        m.d.sync += self.read.data.eq(words[self.read.address[: STATUS_WORDS.bit_length()]])
        m.d.comb += [
            self.read.ready.eq(waiting),
            self.read.words.eq(STATUS_WORDS),
            self.read.first_tick.eq(tick),
            self.read.dropped.eq(dropped),
            self.quiet.eq(~self.request),
        ]
        with m.If(self.read.release):
            m.d.sync += [waiting.eq(0), dropped.eq(0)]
        with m.If(self.request):
            with m.If(waiting):
                m.d.sync += dropped.eq(dropped + ~dropped.all())
            with m.Else():
                m.d.sync += [latched.eq(self.status), tick.eq(self.now), waiting.eq(1)]
        return m
