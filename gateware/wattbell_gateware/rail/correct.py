"""Offset and gain of a channel."""

from __future__ import annotations

from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from wattbell_spec.units import GAIN_FRACTION_BITS, OFFSET_BITS, OFFSET_FRACTION_BITS

from .front import ADC_BITS

__all__ = ["Corrector"]

_SHIFT = OFFSET_FRACTION_BITS + GAIN_FRACTION_BITS
VALUE_BITS = 24


class Corrector(wiring.Component):
    """``value = clip(floor((code * 2**8 - offset) * gain / 2**32 + 1/2))``, 24 bit signed.

    ``offset`` is in 1/256 of a code (signed 28 bit), ``gain`` in units of ``2**-24`` output LSB a code (unsigned 32
    bit). One a clock, latency 4 clocks from ``strobe`` to ``valid``; ``value``, ``overload`` (code at an end of the scale) and
    ``saturated`` (clipped) then stand until the next result. So one does for both channels, in turn.

    ``twos`` with ``strobe``: the code is a two's complement (current), else straight binary (voltage).
    """

    def __init__(self):
        super().__init__(
            {
                "strobe": In(1),
                "twos": In(1),
                "code": In(ADC_BITS),
                "offset": In(signed(OFFSET_BITS)),
                "gain": In(32),
                "valid": Out(1),
                "value": Out(signed(VALUE_BITS)),
                "overload": Out(1),
                "saturated": Out(1),
                "quiet": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        code = Cat(self.code, self.code[-1] & self.twos).as_signed()
        rest, top_bit = self.code[:-1], self.code[-1] ^ self.twos

        difference = Signal(signed(29))
        gain = Signal(signed(33))
        overload = Signal(3)
        product = Signal(signed(62))
        product_q = Signal(signed(62))
        stages = Signal(3)
        m.d.sync += [stages.eq((stages << 1) | self.strobe), self.valid.eq(stages[2])]
        m.d.comb += self.quiet.eq(~self.strobe & (stages == 0) & ~self.valid)

        with m.If(self.strobe):
            m.d.sync += [
                difference.eq((code << OFFSET_FRACTION_BITS) - self.offset),
                gain.eq(self.gain),
            ]
        m.d.sync += overload.eq(Cat((rest.all() & top_bit) | ~(rest.any() | top_bit), overload))
        # Two registers after the multiplier, for the DSP blocks' own pipeline.
        with m.If(stages[0]):
            m.d.sync += product.eq(difference * gain)
        with m.If(stages[1]):
            m.d.sync += product_q.eq(product)
        rounded = Signal(signed(62 - _SHIFT + 1))
        top = 1 << (VALUE_BITS - 1)
        over, under = rounded > top - 1, rounded < -top
        with m.If(stages[2]):
            m.d.comb += rounded.eq((product_q + (1 << (_SHIFT - 1))) >> _SHIFT)
            m.d.sync += [
                self.value.eq(Mux(over, top - 1, Mux(under, -top, rounded))),
                self.saturated.eq(over | under),
                self.overload.eq(overload[2]),
            ]
        return m
