"""Copies between clock domains are consistent and recent."""

import pytest
from amaranth import ClockDomain, Module, Signal
from amaranth.sim import Simulator
from wattbell_gateware.boards.snapshot import Snapshot


@pytest.mark.parametrize("period_ns", [3.1, 7.9, 8.0, 8.1, 23.0])
def test_copies_are_whole_in_order_and_young(period_ns):
    m = Module()
    m.domains += [ClockDomain("one", reset_less=True), ClockDomain("two", reset_less=True)]
    m.submodules.dut = dut = Snapshot(64, source="one", sink="two")
    count = Signal(32, init=5)
    m.d.one += count.eq(count + 1)
    # Half of the bits are the complement, which reveals a copy mixed from two instants.
    m.d.comb += dut.i.eq(count | (~count) << 32)
    simulator = Simulator(m)
    simulator.add_clock(8e-9, domain="one")
    simulator.add_clock(period_ns * 1e-9, domain="two")

    async def bench(ctx):
        await ctx.tick("two").repeat(20)
        before, copies = 0, 0
        for _ in range(600):
            *_, out, fresh, now = await ctx.tick("two").sample(dut.o, dut.fresh, count)
            low, high = out & 0xFFFFFFFF, out >> 32
            assert low ^ high == 0xFFFFFFFF and low >= before
            assert fresh == (low != before) or not copies
            copies += fresh
            before = low
            assert (now - low) * 8 <= 7 * 8 + 7 * period_ns
        assert copies > 600 * period_ns / (6 * 8 + 6 * period_ns)

    simulator.add_testbench(bench)
    simulator.run()
