"""Exact energy."""

from amaranth import Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["EnergyAccumulator"]


class EnergyAccumulator(wiring.Component):
    """Sum of voltage x current over all conversions, modulo 2**64, and how many they were.

    Never cleared: a reader takes differences. ``strobe`` takes the two values in; ``energy`` and ``index`` show the new
    sum two clocks later, before the register that holds it is written, and from then on.
    """

    strobe: In(1)
    voltage: In(signed(24))
    current: In(signed(24))
    energy: Out(64)
    index: Out(64)
    quiet: Out(1)

    def elaborate(self, platform):
        m = Module()
        product = Signal(signed(48))
        product_q = Signal(signed(48))
        stages = Signal(2)
        energy = Signal(64)
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
