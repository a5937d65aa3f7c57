import random
from fractions import Fraction

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge
from wattbell_gateware.rail import decimation_constants

from tests.gateware.rail.reference import decimated


async def feed(dut, ratio, values):
    """Clear, feed the (v, i) pairs, and return [(conversion, v, i)] as they come out."""
    dut.decimation.value = ratio
    dut.mul.value, dut.shift.value = decimation_constants(ratio)
    dut.clear.value = 1
    await FallingEdge(dut.clk)
    dut.clear.value = 0
    out = []
    for n, (v, i) in enumerate(values):
        dut.strobe.value, dut.voltage.value, dut.current.value = 1, v, i
        for _ in range(16):
            await FallingEdge(dut.clk)
            dut.strobe.value = 0
            if ratio > 1 and dut.valid.value == 1:
                out.append((n, dut.voltage_out.value.to_signed(), dut.current_out.value.to_signed()))
        assert dut.quiet.value == 1
    return out


@cocotb.test()
async def bypass(dut):
    Clock(dut.clk, 4, unit="ns").start()
    await FallingEdge(dut.clk)
    dut.decimation.value = 1
    dut.strobe.value, dut.voltage.value, dut.current.value = 1, -77, 12345
    await FallingEdge(dut.clk)
    assert (dut.valid.value, dut.voltage_out.value.to_signed(), dut.current_out.value.to_signed()) == (1, -77, 12345)


@cocotb.test()
async def equals_three_moving_averages(dut):
    Clock(dut.clk, 4, unit="ns").start()
    rng = random.Random(3)
    await FallingEdge(dut.clk)
    top = (1 << 23) - 1
    for ratio, count in ((2, 60), (3, 60), (4, 60), (5, 70), (7, 80), (10, 100), (64, 500), (100, 700), (977, 3500)):
        values = [(rng.randint(-top - 1, top), rng.randint(-top - 1, top)) for _ in range(count)]
        out = await feed(dut, ratio, values)
        expected = [decimated([p[k] for p in values], ratio) for k in (0, 1)]
        assert [n for n, *_ in out] == [3 * ratio - 3 + k * ratio for k in range(len(expected[0]))], ratio
        assert len(out) > 3 or ratio > 900
        for (n, v, i), ev, ei in zip(out, *expected, strict=True):
            for got, want in ((v, ev), (i, ei)):
                # Gain error below 2**-24 of at most 2**23, truncation below 2**-12, then rounding to nearest.
                assert abs(got - want) <= Fraction(1, 2) + Fraction(1, 2) + Fraction(1, 4096), (ratio, n, got, want)


@cocotb.test()
async def constant_input_full_scale_and_largest_ratio(dut):
    Clock(dut.clk, 4, unit="ns").start()
    await FallingEdge(dut.clk)
    top = (1 << 23) - 1
    for ratio in (2, 9, 4095, 4096):
        out = await feed(dut, ratio, [(top, -top - 1)] * (3 * ratio - 2))
        assert [n for n, *_ in out] == [3 * ratio - 3]
        _, v, i = out[0]
        # DC gain error at most 2**-22 is promised.
        assert abs(v - top) <= 2 and abs(i + top + 1) <= 2, (ratio, v, i)
