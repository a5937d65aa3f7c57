"""How long a link's two sides let each other wait for Acks."""

from __future__ import annotations

from amaranth import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from wattbell_spec.link_events import LinkEvent

from .events import LINK_EVENT

__all__ = ["ACK_TIMES", "AckTimer"]

ACK_TIMES = data.StructLayout({"acks": 32, "least": 32, "greatest": 32, "total": 64})
"""Since power-on: Acks that were timed, and their times in ticks. ``least`` is all ones while there is none."""
_KEPT = 256
"""TLPs whose ticks are remembered. A sender keeps a TLP until its Ack comes, and has room for fewer than these."""
_TICK_BITS = 28


class AckTimer(wiring.Component):
    """Times the Acks of one direction's TLPs: from the first symbol of a TLP to the first symbol of the Ack DLLP that names it.

    An Ack may stand for several TLPs; the time is that of the last of them, which it names. A repeated Ack, and one whose TLP was
    not seen, does not count. Times of 2**28 ticks (0.27 s) and more come out modulo that; no Ack is that late.

    Ports
    -----
    sent : events of this direction, one a clock; of these, TLP counts. answers : events of the other direction, of these, ACK.
    times : :data:`ACK_TIMES`, three clocks after the Ack.
    """

    def __init__(self):
        event = data.StructLayout({"valid": 1, "event": LINK_EVENT})
        super().__init__({"sent": In(event), "answers": In(event), "times": Out(ACK_TIMES, init={"least": (1 << 32) - 1})})

    def elaborate(self, platform):
        m = Module()
        entry = data.StructLayout({"known": 1, "sequence": 12, "tick": _TICK_BITS})
        m.submodules.memory = memory = Memory(shape=entry, depth=_KEPT, init=[])
        # Both go through a register, so that memory and comparisons have a clock each.
        write, read = memory.write_port(), memory.read_port()
        place = (_KEPT - 1).bit_length()
        tlp, ack = self.sent.event, self.answers.event
        m.d.sync += [
            write.en.eq(self.sent.valid & (tlp.kind == LinkEvent.TLP)), write.addr.eq(tlp.argument[:place]),
            write.data.known.eq(1), write.data.sequence.eq(tlp.argument[:12]), write.data.tick.eq(tlp.tick[:_TICK_BITS]),
        ]  # fmt: skip
        m.d.comb += [read.addr.eq(ack.argument[:place]), read.en.eq(1)]
        asked, sequence, tick = Signal(), Signal(12), Signal(_TICK_BITS)
        m.d.sync += [
            asked.eq(self.answers.valid & (ack.kind == LinkEvent.ACK)), sequence.eq(ack.argument[:12]), tick.eq(ack.tick[:_TICK_BITS]),
        ]  # fmt: skip
        before, any_before = Signal(12), Signal()
        timed, time = Signal(), Signal(_TICK_BITS)
        found = asked & read.data.known & (read.data.sequence == sequence) & ~(any_before & (before == sequence))
        m.d.sync += [timed.eq(found), time.eq(tick - read.data.tick)]
        with m.If(found):
            m.d.sync += [before.eq(sequence), any_before.eq(1)]
        times = self.times
        with m.If(timed):
            m.d.sync += [
                times.acks.eq(times.acks + 1), times.total.eq(times.total + time),
                times.least.eq(Mux(time < times.least, time, times.least)),
                times.greatest.eq(Mux(time > times.greatest, time, times.greatest)),
            ]  # fmt: skip
        return m
