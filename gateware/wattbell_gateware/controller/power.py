"""The drive's power: the load switch, and what opens it without the firmware."""

from __future__ import annotations

from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from wattbell_spec.controller_registers import TRIP_BEYOND, board_by_name

__all__ = ["PowerSwitch"]


class PowerSwitch(wiring.Component):
    """Trips two clocks after the conversion that exceeds the tolerated number. A restart of the core changes nothing in here.

    Ports
    -----
    now : ticks.
    data : register, see :class:`.bank.Bank`.
    power_control : register, see :class:`.bank.Bank`.
    power_trip : register, see :class:`.bank.Bank`.
    power_trip_written : register, see :class:`.bank.Bank`.
    ocp_level : register, see :class:`.bank.Bank`.
    ocp_count : register, see :class:`.bank.Bank`.
    inrush_level : register, see :class:`.bank.Bank`.
    inrush_ticks : register, see :class:`.bank.Bank`.
    trip_tick : register, see :class:`.bank.Bank`.
    trip_current : register, see :class:`.bank.Bank`.
    rail_valid : a conversion comes.
    rail_tick : tick of the conversion.
    rail_guard : the current that the protection compares, corrected (signed, 500 nA): ``guard`` of :data:`..rail.config.CONVERSION`.
    rail_beyond : the true current is higher than ``rail_guard``.
    load_switch : closed.
    wanted : for a simulator: while it is low, a conversion of ``level`` or less changes nothing in here.
    level : see ``wanted``.
    """

    def __init__(self):
        super().__init__(
            {
                "now": In(64),
                "data": In(32),
                "power_control": In(4),
                "rail_valid": In(1),
                "rail_tick": In(64),
                "rail_guard": In(signed(24)),
                "rail_beyond": In(1),
                "power_trip": Out(2),
                "power_trip_written": In(1),
                "ocp_level": In(24),
                "ocp_count": In(20),
                "inrush_level": In(24),
                "inrush_ticks": In(32),
                "trip_tick": Out(64),
                "trip_current": Out(signed(32)),
                "load_switch": Out(1),
                "wanted": Out(1),
                "level": Out(signed(24)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        bits = {b.name: self.power_control[b.low] for b in board_by_name("POWER_CONTROL").bits}
        m.d.comb += self.load_switch.eq(bits["DRIVE_ON"] & (self.power_trip == 0))

        # At power-on the drive has had power before the firmware can ask for an inrush limit.
        was_on, early = Signal(init=1), Signal()
        closed, since = Signal(40), Signal(40)
        m.d.comb += since.eq(self.now[:40] - closed)
        m.d.sync += was_on.eq(self.load_switch)
        with m.If(self.load_switch & ~was_on):
            m.d.sync += [early.eq(1), closed.eq(self.now)]
        with m.Elif(~self.load_switch | (since >= self.inrush_ticks)):
            m.d.sync += early.eq(0)

        over, over_early, judged = Signal(), Signal(), Signal()
        streak, tick, current = Signal(20), Signal(64), Signal(signed(24))
        trips = Signal()
        m.d.sync += judged.eq(self.rail_valid)
        with m.If(self.rail_valid):
            level = Signal(signed(24))
            with m.If(early):
                m.d.comb += level.eq(self.inrush_level)
            with m.Else():
                m.d.comb += level.eq(self.ocp_level)
            m.d.sync += [
                over.eq(self.rail_guard > level),
                over_early.eq(early),
                tick.eq(self.rail_tick),
                current.eq(Mux(self.rail_beyond, TRIP_BEYOND, self.rail_guard)),
            ]
        ocp, inrush = self.ocp_level.as_signed(), self.inrush_level.as_signed()
        m.d.comb += [
            self.wanted.eq(judged | (streak != 0)),
            self.level.eq(Mux(bits["PROTECT"] & self.load_switch, Mux(ocp < inrush, ocp, inrush), TRIP_BEYOND)),
        ]
        m.d.comb += trips.eq(judged & over & bits["PROTECT"] & self.load_switch & (streak + 1 >= self.ocp_count))
        with m.If(~self.load_switch | ~bits["PROTECT"] | (judged & ~over)):
            m.d.sync += streak.eq(0)
        with m.Elif(judged):
            m.d.sync += streak.eq(streak + 1)
        with m.If(self.power_trip_written):
            m.d.sync += self.power_trip.eq(self.power_trip & ~self.data)
        with m.If(trips):
            m.d.sync += [self.power_trip.eq(Cat(~over_early, over_early)), self.trip_tick.eq(tick), self.trip_current.eq(current)]
        return m
