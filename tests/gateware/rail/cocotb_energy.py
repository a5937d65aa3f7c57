import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge


@cocotb.test()
async def sum_of_products(dut):
    Clock(dut.clk, 4, unit="ns").start()
    rng = random.Random(2)
    top = (1 << 23) - 1
    values = [(-top - 1, -top - 1), (-top - 1, top), (top, top), (0, 5)]
    values += [(rng.randint(-top - 1, top), rng.randint(-top - 1, top)) for _ in range(2000)]
    values += [(-top - 1, top)] * 700
    total = 0
    await FallingEdge(dut.clk)
    for n, (v, i) in enumerate(values, 1):
        dut.strobe.value, dut.voltage.value, dut.current.value = 1, v, i
        await FallingEdge(dut.clk)
        dut.strobe.value = 0
        assert (int(dut.energy.value), int(dut.index.value)) == (total % 2**96, n - 1)
        await FallingEdge(dut.clk)
        total += v * i
        for _ in range(rng.randint(1, 3)):
            assert (int(dut.energy.value), int(dut.index.value)) == (total % 2**96, n)
            await FallingEdge(dut.clk)
        assert dut.quiet.value == 1
    assert total % 2**96 != total, "the sum must have been negative or wrapped at some time for this to test anything"

    # beyond 64 bits, where it once wrapped: 184 J at 1 MSPS
    low = -top - 1
    dut.strobe.value, dut.voltage.value, dut.current.value = 1, low, low
    await ClockCycles(dut.clk, 300_000, RisingEdge)
    await FallingEdge(dut.clk)
    dut.strobe.value = 0
    await ClockCycles(dut.clk, 3, RisingEdge)
    await FallingEdge(dut.clk)
    count = int(dut.index.value) - len(values)
    total += count * low * low
    assert count >= 299_999 and total > 2**64 and int(dut.energy.value) == total % 2**96
