"""Measures how long each side of a link waits for an Ack from the other."""

from __future__ import annotations

from amaranth import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from wattbell_spec.link_events import LinkEvent

from .events import LINK_EVENT

__all__ = ["ACK_TIMES", "AckTimer"]

ACK_TIMES = data.StructLayout({"acks": 32, "least": 32, "greatest": 32, "total": 64})
"""Timed Acks since power-on, and their times in ticks. ``least`` is all ones until the first Ack."""
_KEPT = 256
"""TLPs with a remembered tick. A sender keeps a TLP until its Ack comes, and has room for fewer TLPs than this."""
_TICK_BITS = 28


class AckTimer(wiring.Component):
    """Times the Acks of one direction's TLPs.

    The time runs from the first symbol of a TLP to the first symbol of the Ack DLLP that names this TLP. An Ack may acknowledge
    several TLPs; it names the last of these. A repeated Ack does not count; an Ack for a TLP that was not seen does not count
    either. Times are modulo 2**28 ticks (0.27 s); no Ack is that late.

    Ports
    -----
    sent : events of this direction, at most one a clock. Only TLP events count.
    answers : events of the other direction, at most one a clock. Only ACK events count.
    times : :data:`ACK_TIMES`, three clocks after the Ack.
    """

    def __init__(self):
        event = data.StructLayout({"valid": 1, "event": LINK_EVENT})
        super().__init__({"sent": In(event), "answers": In(event), "times": Out(ACK_TIMES, init={"least": (1 << 32) - 1})})

    def elaborate(self, platform):
        m = Module()
        entry = data.StructLayout({"known": 1, "sequence": 12, "tick": _TICK_BITS})
        m.submodules.memory = memory = Memory(shape=entry, depth=_KEPT, init=[])
        # Memory inputs and comparisons are registered, so that each has a clock of its own.
        write, read = memory.write_port(), memory.read_port()
        place = (_KEPT - 1).bit_length()
        tlp, ack = self.sent.event, self.answers.event
        m.d.sync += [
            write.en.eq(self.sent.valid & (tlp.kind == LinkEvent.TLP)),
            write.addr.eq(tlp.argument[:place]),
            write.data.known.eq(1),
            write.data.sequence.eq(tlp.argument[:12]),
            write.data.tick.eq(tlp.tick[:_TICK_BITS]),
        ]
        m.d.comb += [read.addr.eq(ack.argument[:place]), read.en.eq(1)]
        asked, sequence, tick = Signal(), Signal(12), Signal(_TICK_BITS)
        m.d.sync += [
            asked.eq(self.answers.valid & (ack.kind == LinkEvent.ACK)),
            sequence.eq(ack.argument[:12]),
            tick.eq(ack.tick[:_TICK_BITS]),
        ]
        before, any_before = Signal(12), Signal()
        timed, time = Signal(), Signal(_TICK_BITS)
        found = asked & read.data.known & (read.data.sequence == sequence) & ~(any_before & (before == sequence))
        m.d.sync += [timed.eq(found), time.eq(tick - read.data.tick)]
        with m.If(found):
            m.d.sync += [before.eq(sequence), any_before.eq(1)]
        times = self.times
        with m.If(timed):
            m.d.sync += [
                times.acks.eq(times.acks + 1),
                times.total.eq(times.total + time),
                times.least.eq(Mux(time < times.least, time, times.least)),
                times.greatest.eq(Mux(time > times.greatest, time, times.greatest)),
            ]
        return m
