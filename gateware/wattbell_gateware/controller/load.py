"""The test load: switched on and off at instants that the stream records, so that a path's delay can be found from its response."""

from __future__ import annotations

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from wattbell_spec.registers import by_name
from wattbell_spec.wire import LOAD_OFF_MARK, LOAD_ON_MARK

from .bus import WRITE
from .system import NEVER

__all__ = ["JITTER_BITS", "LONGEST_TICKS", "PULSE_TICKS", "Load"]

PULSE_TICKS = 1 << 17
"""Least time between two edges (131 us): a path has settled for 40 us before an edge, and the measurement lasts 80 us after it."""
JITTER_BITS = 14
"""Up to 2^14 - 1 ticks more, by chance: edges fall at every phase of the conversions, whatever their interval."""
LONGEST_TICKS = 2 * ((1 << 11) - 1) * (PULSE_TICKS + (1 << JITTER_BITS))
"""All pulses that LOAD_PULSES holds, 0.6 s: no load is on for longer than half of that."""


class Load(wiring.Component):
    """Switches a load on and off in pulses; each edge is a MARKER event.

    ``load`` changes in the clock with the event's tick on ``now``, two clocks after the instrument's register file took the write.

    An edge follows the previous one, or the write of LOAD_PULSES, after PULSE_TICKS and up to 2^JITTER_BITS - 1 ticks. It comes a clock or
    two later while the core accesses a register. A pulse is on for at most 147 us, and the load is off after the last edge. It goes off
    without a mark two clocks after LOAD_PULSES was written with 0, the core was restarted, or the load switch opened.

    Ports
    -----
    now : ticks.
    data : register, see :class:`.bank.Bank`.
    load_control : register, see :class:`.bank.Bank`.
    load_pulses : register, see :class:`.bank.Bank`.
    load_pulses_written : register, see :class:`.bank.Bank`.
    allowed : the load switch is closed.
    restart : the core restarts.
    write : to a register of the instrument.
    load : bits of LOAD_CONTROL, the loads that are on.
    busy : pulses are to come.
    deadline : for a simulator: tick of the next edge, all ones for none.
    """

    def __init__(self):
        super().__init__(
            {
                "now": In(64),
                "data": In(32),
                "load_control": In(2),
                "load_pulses": Out(11),
                "load_pulses_written": In(1),
                "allowed": In(1),
                "restart": In(1),
                "write": Out(stream.Signature(WRITE)),
                "load": Out(2),
                "busy": Out(1),
                "deadline": Out(64),
            }
        )

    def elaborate(self, platform):
        m = Module()
        on, asks, reached, ends = Signal(), Signal(), Signal(), Signal()
        due = Signal(64)
        chance = Signal(16, init=0xACE1)
        following = self.now + PULSE_TICKS + chance[:JITTER_BITS]
        edge = self.write.valid & self.write.ready
        m.d.comb += [
            self.busy.eq(self.load_pulses != 0),
            self.deadline.eq(Mux(self.busy & ~asks, due, NEVER)),
            ends.eq(self.restart | ~self.allowed | (self.load_pulses_written & (self.data[:11] == 0))),
            self.write.valid.eq(asks),
            self.write.p.address.eq(by_name("MARKER").address),
            self.write.p.value.eq(Mux(on, LOAD_OFF_MARK, LOAD_ON_MARK)),
        ]
        m.d.sync += [
            reached.eq(self.busy & ~asks & (self.now >= due) & ~self.load_pulses_written),
            self.load.eq(Mux(on & ~ends, self.load_control, 0)),
        ]
        with m.If(reached):
            m.d.sync += asks.eq(1)
        with m.If(edge):
            # x^16 + x^15 + x^13 + x^4 + 1: all 65535 states in turn
            m.d.sync += [
                on.eq(~on),
                asks.eq(0),
                reached.eq(0),
                due.eq(following),
                self.load_pulses.eq(self.load_pulses - on),
                chance.eq(Cat(chance[15] ^ chance[14] ^ chance[12] ^ chance[3], chance[:15])),
            ]
        with m.If(self.load_pulses_written):
            m.d.sync += [self.load_pulses.eq(self.data), due.eq(following), on.eq(0), asks.eq(0), reached.eq(0)]
        with m.If(ends):
            m.d.sync += [self.load_pulses.eq(0), on.eq(0), asks.eq(0), reached.eq(0)]
        return m
