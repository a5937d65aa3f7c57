"""Exact energy."""

from amaranth import Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["EnergyAccumulator"]


class EnergyAccumulator(wiring.Component):
    """Sums voltage x current over all conversions in 96 bits, and counts the conversions.

    The largest products of two 24-bit numbers, a million a second, fill 96 bits in 17 years; 64 bits were full after 184 J.

    Nothing clears the sum: a reader takes differences. ``strobe`` takes the two values in. ``energy`` and ``index`` show the new
    sum two clocks later, a clock before their registers hold it, and from then on.
    """

    strobe: In(1)
    voltage: In(signed(24))
    current: In(signed(24))
    energy: Out(96)
    index: Out(64)
    quiet: Out(1)

    def elaborate(self, platform):
        m = Module()
        product = Signal(signed(48))
        product_q = Signal(signed(48))
        stages = Signal(2)
        energy = Signal(96)
        index = Signal(64)
        m.d.sync += stages.eq((stages << 1) | self.strobe)
        m.d.comb += self.quiet.eq(~self.strobe & (stages == 0))
        with m.If(self.strobe):
            m.d.sync += product.eq(self.voltage * self.current)
        m.d.sync += product_q.eq(0)
        with m.If(stages[0]):
            m.d.sync += product_q.eq(product)
        m.d.comb += [self.energy.eq(energy + product_q), self.index.eq(index + stages[1])]
        m.d.sync += [energy.eq(self.energy), index.eq(self.index)]
        return m
