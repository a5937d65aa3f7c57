"""Decimation with a third-order CIC filter (E. B. Hogenauer, IEEE Trans. ASSP-29 no. 2, 1981)."""

from __future__ import annotations

from amaranth import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["MAX_DECIMATION", "Decimator", "decimation_constants"]

ORDER = 3
MAX_DECIMATION = 4096
MUL_BITS = 24
_FRACTION = 12
"""Fractional bits kept between the filter and the normalisation."""
_WIDTH = 24 + ORDER * 12
_NORMAL = MUL_BITS - 1 + _FRACTION


def decimation_constants(decimation: int) -> tuple[int, int]:
    """The registers DECIM_MUL and DECIM_SHIFT for a decimation ratio.

    ``shift = ceil(3 log2 R)`` and ``mul = round(2**(23 + shift) / R**3)``, so that ``mul / 2**(23 + shift)`` is 1/R**3
    within a relative 2**-24.
    """
    if not 1 <= decimation <= MAX_DECIMATION:
        raise ValueError(f"decimation {decimation} is outside 1..{MAX_DECIMATION}")
    gain = decimation**ORDER
    shift = (gain - 1).bit_length()
    mul = ((1 << (MUL_BITS + shift)) + gain) // (2 * gain)
    return mul, shift


class Decimator(wiring.Component):
    """CIC-3 for voltage and current together, with normalisation to unity gain at DC.

    ``out = clip(floor(t * mul / 2**35 + 1/2))`` with ``t = floor(y * 2**12 / 2**shift)`` and ``y`` the filter's integer
    output, whose gain is R**3. Error of the DC gain below 2**-24; the floor in ``t`` is below 2**-12 LSB.

    After ``clear`` the first output belongs to conversion ``3R - 3`` (the first with all ``3R - 2`` taps filled), then
    one every R conversions. R = 1 passes values through unchanged (as the filter would) and at once: ``valid`` is then
    ``strobe`` itself.

    ``strobe`` with ``voltage``/``current`` at most every 16 clocks; for R > 1 ``valid`` comes 9 clocks after the strobe.
    The ratio, ``mul`` and ``shift`` may only change before a ``clear``, which looks at the ratio.
    """

    def __init__(self):
        super().__init__({
            "clear": In(1), "decimation": In(13), "mul": In(MUL_BITS + 1), "shift": In(6),
            "strobe": In(1), "voltage": In(signed(24)), "current": In(signed(24)),
            "valid": Out(1), "voltage_out": Out(signed(24)), "current_out": Out(signed(24)), "quiet": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        bypass = Signal()
        m.d.comb += bypass.eq(self.decimation == 1)
        phase = Signal(13)  # conversions until the next comb step
        skip = Signal(2)  # comb steps until the filter is full
        take = Signal()
        stages = Signal(9)
        take_in = self.strobe & ~bypass
        m.d.sync += stages.eq((stages << 1) | take_in)
        m.d.comb += self.quiet.eq((stages == 0) & ~self.strobe)

        with m.If(self.clear):
            # First comb step at conversion (R - 3) mod R, so that a step falls on conversion 3R - 3.
            m.d.sync += [
                phase.eq(Mux(self.decimation == 2, 1, self.decimation - 3)),
                skip.eq(Mux(self.decimation == 2, 1, 2)),
            ]
        with m.Elif(take_in):
            m.d.sync += take.eq(phase == 0)
            with m.If(phase == 0):
                m.d.sync += phase.eq(self.decimation - 1)
            with m.Else():
                m.d.sync += phase.eq(phase - 1)
        full = Signal()
        # A step that finds `take` low stops after the integrators.
        with m.If(stages[2] & ~take):
            m.d.sync += stages[3].eq(0)
        with m.If(stages[2] & take):
            m.d.sync += full.eq(skip == 0)
            with m.If(skip != 0):
                m.d.sync += skip.eq(skip - 1)
        last = stages[8] & full
        m.d.comb += self.valid.eq(Mux(bypass, self.strobe, last))
        for value, out in ((self.voltage, self.voltage_out), (self.current, self.current_out)):
            m.d.comb += out.eq(Mux(bypass, value, self._channel(m, value, take_in, stages, take)))
        return m

    def _channel(self, m: Module, value, strobe, stages, take):
        # The arithmetic wraps modulo 2**60, which is exact because the final result fits (Hogenauer).
        integrators = [Signal(signed(_WIDTH), name=f"integrator{k}") for k in range(ORDER)]
        delays = [Signal(signed(_WIDTH), name=f"delay{k}") for k in range(ORDER)]
        difference = Signal(signed(_WIDTH))
        scaled = Signal(signed(24 + _FRACTION + 1))
        product = Signal(signed(24 + _FRACTION + 1 + MUL_BITS + 2))
        out = Signal(signed(24))
        with m.If(strobe):
            m.d.sync += integrators[0].eq(integrators[0] + value)
        for k in (1, 2):
            with m.If(stages[k - 1]):
                m.d.sync += integrators[k].eq(integrators[k] + integrators[k - 1])
        previous = integrators[2]
        for k in range(ORDER):
            with m.If(stages[2 + k] & (take if k == 0 else 1)):
                source = previous if k == 0 else difference
                m.d.sync += [difference.eq(source - delays[k]), delays[k].eq(source)]
        with m.If(self.clear):
            m.d.sync += [s.eq(0) for s in (*integrators, *delays)]
        up = Signal(signed(_WIDTH))
        down = Signal(signed(_WIDTH))
        with m.If(stages[5]):
            m.d.comb += [
                # A shift of at most 12 means a gain of at most 2**12: the value has 36 bits.
                up.eq(difference[:37].as_signed() << (_FRACTION - self.shift)[:4]),
                down.eq(difference >> (self.shift - _FRACTION)[:5]),
            ]
            m.d.sync += scaled.eq(Mux(self.shift <= _FRACTION, up, down))
        mul = Signal(signed(MUL_BITS + 2))
        m.d.comb += mul.eq(self.mul)
        with m.If(stages[6]):
            m.d.sync += product.eq(scaled * mul)
        rounded = Signal(signed(27))
        top = 1 << 23
        with m.If(stages[7]):
            m.d.comb += rounded.eq((product + (1 << (_NORMAL - 1))) >> _NORMAL)
            m.d.sync += out.eq(Mux(rounded > top - 1, top - 1, Mux(rounded < -top, -top, rounded)))
        return out
