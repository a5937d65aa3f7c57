"""Decimation with a third-order CIC filter (E. B. Hogenauer, IEEE Trans. ASSP-29 no. 2, 1981)."""

from __future__ import annotations

from amaranth import Cat, Const, Module, Mux, Signal, signed
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
    """Return the registers DECIM_MUL and DECIM_SHIFT for a decimation ratio. Raises ValueError for a ratio out of range.

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
    """Decimates voltage and current with a CIC-3 filter, normalised to unity gain at DC.

    ``out = clip(floor(t * mul / 2**35 + 1/2))`` with ``t = floor(y * 2**12 / 2**shift)``. ``y`` is the filter's integer output, with a
    gain of R**3. The DC gain is right within 2**-24, and the floor in ``t`` costs less than 2**-12 LSB.

    After ``clear`` the first output belongs to conversion ``3R - 3``, the first with all ``3R - 2`` taps filled. One output
    every R conversions follows. R = 1 passes values through at once and unchanged, as the filter would; ``valid`` is then ``strobe``.

    ``strobe`` comes at most every 16 clocks. ``voltage`` and ``current`` keep their values for one clock more. For R > 1 ``valid`` follows
    the strobe by 10 clocks. Ratio, ``mul`` and ``shift`` may only change before a ``clear``, which reads the ratio.

    The two channels take turns on one filter: a conversion's current follows its voltage one clock later, through every stage.
    """

    def __init__(self):
        super().__init__(
            {
                "clear": In(1),
                "decimation": In(13),
                "mul": In(MUL_BITS + 1),
                "shift": In(6),
                "strobe": In(1),
                "voltage": In(signed(24)),
                "current": In(signed(24)),
                "valid": Out(1),
                "voltage_out": Out(signed(24)),
                "current_out": Out(signed(24)),
                "quiet": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        bypass = Signal()
        m.d.comb += bypass.eq(self.decimation == 1)
        phase = Signal(13)  # conversions until the next comb step
        skip = Signal(2)  # comb steps until the filter is full
        take = Signal()
        take_in = self.strobe & ~bypass
        # A bit that is set is where the voltage is now; the current is where it was a clock before.
        summing, stepping = Signal(ORDER), Signal(7)
        at_sum, at_step = Cat(take_in, summing), Cat(summing[-1] & take, stepping)
        m.d.sync += [summing.eq(at_sum), stepping.eq(at_step)]
        m.d.comb += self.quiet.eq((summing == 0) & (stepping == 0) & ~self.strobe)

        with m.If(self.clear):
            # First comb step at conversion (R - 3) mod R, so that a step falls on conversion 3R - 3.
            m.d.sync += [
                phase.eq(Mux(self.decimation == 2, 1, self.decimation - 3)),
                skip.eq(Mux(self.decimation == 2, 1, 2)),
                summing.eq(0),
                stepping.eq(0),
            ]
        with m.Elif(take_in):
            m.d.sync += take.eq(phase == 0)
            with m.If(phase == 0):
                m.d.sync += phase.eq(self.decimation - 1)
            with m.Else():
                m.d.sync += phase.eq(phase - 1)
        full = Signal()
        with m.If(at_step[0]):
            m.d.sync += full.eq(skip == 0)
            with m.If(skip != 0):
                m.d.sync += skip.eq(skip - 1)

        value = Signal(signed(_WIDTH))
        m.d.comb += value.eq(Mux(at_sum[1], self.current, self.voltage))
        for k in range(ORDER):
            value = self._integrator(m, at_sum[k] | at_sum[k + 1], value)
        for k in range(ORDER):
            value = self._comb(m, at_step[k] | at_step[k + 1], value)
        result = self._normalised(m, at_step[ORDER:], value)
        voltage, current = Signal(signed(24)), Signal(signed(24))
        with m.If(at_step[5]):
            m.d.sync += voltage.eq(result)
        with m.If(at_step[6]):
            m.d.sync += current.eq(result)
        m.d.comb += [
            self.valid.eq(Mux(bypass, self.strobe, at_step[7] & full)),
            self.voltage_out.eq(Mux(bypass, self.voltage, voltage)),
            self.current_out.eq(Mux(bypass, self.current, current)),
        ]
        return m

    # The arithmetic wraps modulo 2**60, which is exact because the final result fits (Hogenauer). Of the two registers of a stage
    # the one is that of the channel whose turn it is.
    def _registers(self, m: Module, enable, following):
        """Return a stage's two registers: `following` of the active channel, and the other channel's value."""
        newer, older = (Signal(signed(_WIDTH), name=f"{name}_of_two") for name in ("newer", "older"))
        with m.If(self.clear):
            m.d.sync += [newer.eq(0), older.eq(0)]
        with m.Elif(enable):
            m.d.sync += [newer.eq(following(older)), older.eq(newer)]
        return newer, older

    def _integrator(self, m: Module, enable, value):
        newer, _ = self._registers(m, enable, lambda total: total + value)
        return newer

    def _comb(self, m: Module, enable, value):
        _, before = self._registers(m, enable, lambda _: value)
        difference = Signal(signed(_WIDTH))
        with m.If(enable):
            m.d.sync += difference.eq(value - before)
        return difference

    def _normalised(self, m: Module, at, value):
        """Return `value` rounded and clipped, three clocks later; ``at[0]``: the voltage's value is there."""
        scaled = Signal(signed(24 + _FRACTION))
        with m.If(at[0] | at[1]):
            # The value has 24 + `shift` bits.
            m.d.sync += scaled.eq(Cat(Const(0, _FRACTION), value).as_signed() >> self.shift)
        mul = Signal(signed(MUL_BITS + 2))
        product = Signal(signed(24 + _FRACTION + MUL_BITS + 2))
        m.d.comb += mul.eq(self.mul)
        with m.If(at[1] | at[2]):
            m.d.sync += product.eq(scaled * mul)
        rounded, clipped = Signal(signed(27)), Signal(signed(24))
        top = 1 << 23
        with m.If(at[2] | at[3]):  # a simulator need not look at it in other clocks
            m.d.comb += [
                rounded.eq((product + (1 << (_NORMAL - 1))) >> _NORMAL),
                clipped.eq(Mux(rounded > top - 1, top - 1, Mux(rounded < -top, -top, rounded))),
            ]
        return clipped
