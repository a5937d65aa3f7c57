"""What goes between clocks: words of one frequency, the tick counter, ticks that come back."""

import pytest
from amaranth import ClockDomain, Module, Signal
from amaranth.sim import Simulator
from wattbell_gateware.boards.linktime import LOW_BITS, LinkTime, whole_tick
from wattbell_gateware.boards.rephase import LATENCY, Rephase


@pytest.mark.parametrize("phase_ps", [0, 900, 2000, 3100, 3999])
def test_words_come_through_whole_at_every_phase(phase_ps):
    m = Module()
    m.domains += [ClockDomain("write", reset_less=True), ClockDomain("read", reset_less=True)]
    m.submodules.dut = dut = Rephase(20)
    sent = Signal(20)
    m.d.write += sent.eq(sent + 1)
    m.d.comb += dut.i.eq(sent)
    simulator = Simulator(m)
    simulator.add_clock(4e-9, phase=phase_ps * 1e-12, domain="write")
    simulator.add_clock(4e-9, phase=2e-9, domain="read")

    async def bench(ctx):
        await ctx.tick("read").repeat(20)
        slips = ctx.get(dut.slipped)
        before = ctx.get(dut.o)
        for _ in range(60):
            await ctx.tick("read")
            slips += ctx.get(dut.slipped)
            assert ctx.get(dut.o) == before + 1
            before += 1
        assert slips == 0
        # How long a word takes decides which symbols of the two lanes come out together.
        assert LATENCY - (ctx.get(sent) - before) in (0, 1)

    simulator.add_testbench(bench)
    simulator.run()


@pytest.mark.parametrize("slow, ppm", [(0, 300), (0, -5300), (1, 300), (1, -5300)])
def test_the_links_counter_follows_within_a_clock_of_the_instrument(slow, ppm):
    m = Module()
    m.domains += [ClockDomain("sync"), ClockDomain("link", reset_less=True)]
    m.submodules.dut = dut = LinkTime(ticks_per_clock=8)
    now = Signal(64, init=(1 << 40) + (1 << LOW_BITS) - 40_000)
    m.d.sync += now.eq(now + 8)
    m.d.comb += [dut.now.eq(now), dut.slow.eq(slow)]
    period_fs = round((16 if slow else 8) * 1e6 / (1 + ppm * 1e-6))
    simulator = Simulator(m)
    simulator.add_clock(8e-9, domain="sync")
    simulator.add_clock(period_fs * 1e-15, domain="link")

    async def bench(ctx):
        await ctx.tick("link").repeat(60)
        errors, steps = [], []
        before = ctx.get(dut.tick)
        for _ in range(1000 if slow else 2000):
            await ctx.tick("link")
            tick = ctx.get(dut.tick)
            error = (tick - ctx.get(now)) % (1 << LOW_BITS)
            errors.append(error - (1 << LOW_BITS) if error >> (LOW_BITS - 1) else error)
            steps.append((tick - before) - (16 if slow else 8))
            before = tick
        # `now` itself moves in steps of 8 that have any phase to the link's clock: 4 behind time on average.
        settled = errors[200:]
        assert max(settled) - min(settled) <= 16
        assert abs(sum(settled) / len(settled) - 4) <= 4
        assert set(steps[200:]) <= ({-2, 0, 2} if slow else {-1, 0, 1})

    simulator.add_testbench(bench)
    simulator.run()


def test_ticks_come_back_whole():
    m = Module()
    now, low = Signal(64), Signal(LOW_BITS)
    whole = Signal(64)
    m.d.comb += whole.eq(whole_tick(m, now, low))
    simulator = Simulator(m)

    async def bench(ctx):
        for at in (0x5_0000_0010, 0x5_00FF_FFFF, 0x5_0100_0000, 0x5_0100_0010):
            for age in (0, 8, 1000, (1 << LOW_BITS) - 1):
                ctx.set(now, at)
                ctx.set(low, (at - age) % (1 << LOW_BITS))
                assert ctx.get(whole) == at - age

    simulator.add_testbench(bench)
    simulator.run()
