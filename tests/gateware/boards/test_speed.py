"""The choice of the receivers' rate."""

from amaranth.sim import Simulator
from wattbell_gateware.boards.speed import SpeedSearch

CLOCK_HZ = 10_000_000
PATIENCE = 100
"""Cycles of the default patience."""
ASKS = 0x80


def played(script, rates=(0, 1, 2)):
    """Run `script` with a search for four lanes."""
    dut = SpeedSearch(4, clock_hz=CLOCK_HZ, rates=rates)
    simulator = Simulator(dut)
    simulator.add_clock(1e-7)

    async def bench(ctx):
        await script(ctx, dut)

    simulator.add_testbench(bench)
    simulator.run()


async def settle(ctx, clocks=6):
    await ctx.tick().repeat(clocks)


async def asked(ctx, dut, first, second):
    """Let both directions ask for a change, advertise these rates, and go."""
    ctx.set(dut.rates[0], ASKS | first)
    ctx.set(dut.rates[1], ASKS | second)
    await settle(ctx)
    ctx.set(dut.leaving, 0b01)
    await settle(ctx)
    ctx.set(dut.leaving, 0b11)
    await settle(ctx)


def test_the_highest_common_rate_is_taken():
    async def script(ctx, dut):
        ctx.set(dut.up, 0xF)
        ctx.set(dut.heard, 3)
        for first, second, rate in ((0x0E, 0x0E, 2), (0x06, 0x0E, 1), (0x02, 0x06, 0), (0x1E, 0x1E, 2)):
            await asked(ctx, dut, first, second)
            assert ctx.get(dut.rate) == rate
            ctx.set(dut.leaving, 0)
            await settle(ctx)

    played(script)


def test_a_board_without_8_takes_what_it_has():
    async def script(ctx, dut):
        ctx.set(dut.heard, 3)
        await asked(ctx, dut, 0x0E, 0x0E)
        assert ctx.get(dut.rate) == 1

    played(script, rates=(0, 1))


def test_nothing_changes_without_a_request():
    async def script(ctx, dut):
        ctx.set(dut.heard, 3)
        ctx.set(dut.up, 0xF)
        for port in dut.rates:
            ctx.set(port, 0x0E)
        await settle(ctx)
        ctx.set(dut.leaving, 0b11)
        await settle(ctx, 3 * PATIENCE)
        assert ctx.get(dut.rate) == 0

    played(script)


def test_silence_at_the_new_rate_leads_back_and_then_on():
    async def script(ctx, dut):
        ctx.set(dut.up, 0xF)
        await asked(ctx, dut, 0x06, 0x06)
        ctx.set(dut.heard, 3)
        await settle(ctx)
        ctx.set(dut.leaving, 0)
        await settle(ctx)
        ctx.set(dut.heard, 0)
        await asked(ctx, dut, 0x0E, 0x0E)
        seen = [ctx.get(dut.rate)]
        for _ in range(4 * PATIENCE):
            await ctx.tick()
            if ctx.get(dut.rate) != seen[-1]:
                seen.append(ctx.get(dut.rate))
        assert seen[:4] == [2, 1, 2, 0]

    played(script)


def test_without_receivers_it_waits_and_with_lock_by_chance_it_goes_on_slowly():
    async def script(ctx, dut):
        await settle(ctx, 3 * PATIENCE)
        assert ctx.get(dut.rate) == 0
        ctx.set(dut.up, 0xF)
        ctx.set(dut.locked, 0b0010)
        await settle(ctx, 3 * PATIENCE)
        assert ctx.get(dut.rate) == 0
        await settle(ctx, 64 * PATIENCE)
        assert ctx.get(dut.rate) == 1
        ctx.set(dut.heard, 0b10)
        await settle(ctx, 70 * PATIENCE)
        assert ctx.get(dut.rate) == 1

    played(script)
