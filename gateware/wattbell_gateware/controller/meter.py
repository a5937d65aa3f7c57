"""The meter: conversions of a gate and of all time summed as integers."""

from __future__ import annotations

from amaranth import Module, Shape, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..controller_registers import board_by_name
from ..rail.config import CONVERSION, FLAGS
from .trigger import SAMPLE

__all__ = ["Meter"]

_POWER_SHIFT = 16
"""Of a conversion's power, for its least and greatest value."""
_COUNT_BITS = board_by_name("METER_COUNT").width
_SUM_BITS = 64


def _sum_of(term: Value) -> Shape:
    """Of a sum over a gate, no wider than its conversions need: it is shown with its sign in all 64 bits."""
    shape = Value.cast(term).shape()
    return Shape(min(shape.width + _COUNT_BITS, _SUM_BITS), shape.signed)


class Meter(wiring.Component):
    """A conversion is in the sums three clocks after ``converted``. A gate takes conversions that began when it was started, or later.

    A restart of the core gives a gate up, and leaves the accumulators.

    Ports
    -----
    called like registers: those of :class:`.bank.Bank`; V, I, P sums and codes as 64-bit values.
    now : ticks. converted, conversion : :class:`..rail.path.RailPath`. abort : the core restarts.
    start : as METER_COMMAND.START. sampled, sample : a conversion, its power too; ``sample`` stays until the next comes.
    busy : a gate is under way. wanted : a conversion would be counted.
    """

    def __init__(self):
        sums = {f"{name}": Out(signed(64)) for name in ("v_sum", "i_sum", "p_sum", "v_codes", "i_codes", "f_codes")}
        ends = {f"{name}_{end}": Out(signed(32)) for name in "vip" for end in ("min", "max")}
        super().__init__({
            "now": In(64), "data": In(32), "abort": In(1), "converted": In(1), "conversion": In(CONVERSION),
            "meter_control": In(2), "meter_count": In(20), "meter_command_written": In(1), "meter_state": Out(6),
            **sums, **ends, "gate_clipped": Out(20), "gate_ticks": Out(32), "energy": Out(signed(64)), "charge": Out(signed(64)),
            "total_count": Out(64), "total_clipped": Out(32), "busy": Out(1), "wanted": Out(1),
            "start": In(1), "sampled": Out(1), "sample": Out(SAMPLE),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        command = {b.name: self.meter_command_written & self.data[b.low] for b in board_by_name("METER_COMMAND").bits}
        totals = self.meter_control[board_by_name("METER_CONTROL").bits[1].low]
        busy, left, since, flags = Signal(), Signal(20), Signal(64), Signal(FLAGS.size)
        names = {b.name: b.low for b in board_by_name("METER_STATE").bits}
        state = dict(zip((name.upper() for name in FLAGS.members), flags, strict=True))
        m.d.comb += [self.busy.eq(busy), self.wanted.eq(busy | totals), self.meter_state[names["BUSY"]].eq(busy)]
        m.d.comb += [self.meter_state[names[name]].eq(flag) for name, flag in state.items()]

        # One conversion at a time: they come at least 40 clocks apart.
        c = Signal(CONVERSION)
        power = Signal(signed(48))
        got, multiplied = Signal(), Signal()
        clipped = c.flags.overload_i | c.flags.overload_v
        terms = {"v_sum": c.v, "i_sum": c.i, "p_sum": power,
                 "v_codes": c.v_code, "i_codes": c.i_code.as_signed(), "f_codes": c.f_code.as_signed()}  # fmt: skip
        sums = {name: Signal(_sum_of(term), name=f"gate_{name}") for name, term in terms.items()}
        m.d.comb += [getattr(self, name).eq(total) for name, total in sums.items()]
        m.d.sync += [got.eq(self.converted), multiplied.eq(got)]
        with m.If(self.converted):
            m.d.sync += c.eq(self.conversion)
        with m.If(got):
            m.d.sync += power.eq(c.v * c.i)

        values = {"v": c.v, "i": c.i, "p": power >> _POWER_SHIFT}
        m.d.comb += [self.sampled.eq(multiplied), self.sample.tick.eq(c.tick)]
        m.d.comb += [self.sample[name].eq(value) for name, value in values.items()]
        first, counts = Signal(), Signal()
        m.d.comb += counts.eq(multiplied & busy & ~(c.tick - since)[63])
        with m.If(counts):
            m.d.sync += [
                first.eq(0), left.eq(left - 1), busy.eq(left != 1), flags.eq(flags | Value.cast(c.flags)), self.gate_ticks.eq(c.period),
                *(total.eq(total + terms[name]) for name, total in sums.items()), self.gate_clipped.eq(self.gate_clipped + clipped),
            ]  # fmt: skip
        for name, value in values.items():
            least, most = (Signal.like(value, name=f"{name}_{end}") for end in ("least", "most"))
            m.d.comb += [getattr(self, f"{name}_min").eq(least), getattr(self, f"{name}_max").eq(most)]
            with m.If(counts & (first | (value < least))):
                m.d.sync += least.eq(value)
            with m.If(counts & (first | (value > most))):
                m.d.sync += most.eq(value)

        energy, charge, count, ends = Signal(signed(64)), Signal(signed(64)), Signal(64), Signal(32)
        with m.If(multiplied & totals):
            m.d.sync += [energy.eq(energy + power), charge.eq(charge + c.i), count.eq(count + 1), ends.eq(ends + clipped)]
        with m.If(command["LATCH"]):
            m.d.sync += [self.energy.eq(energy), self.charge.eq(charge), self.total_count.eq(count), self.total_clipped.eq(ends)]
        with m.If(command["CLEAR"]):
            m.d.sync += [energy.eq(0), charge.eq(0), count.eq(0), ends.eq(0)]

        with m.If(command["START"] | self.start):
            m.d.sync += [
                busy.eq(1), first.eq(1), left.eq(self.meter_count), since.eq(self.now), flags.eq(0), self.gate_clipped.eq(0),
                *(total.eq(0) for total in sums.values()),
            ]  # fmt: skip
        with m.If(command["ABORT"] | self.abort):
            m.d.sync += busy.eq(0)
        return m
