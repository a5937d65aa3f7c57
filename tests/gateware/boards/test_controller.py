"""The controller's SPI, driven as by a microcontroller's peripheral (mode 0)."""

from amaranth.sim import Simulator
from wattbell_gateware.boards.spi import CONSOLE_IN, CONSOLE_OUT, LINK, SpiBridge

HALF = 4
"""Cycles per half bit: the fastest SCK that the docstring allows."""


async def frame(ctx, dut, sent: bytes) -> bytes:
    """Send one frame; return the bytes that come back meanwhile."""
    ctx.set(dut.cs, 1)
    await ctx.tick().repeat(HALF)
    came = 0
    for bit in range(8 * len(sent)):
        ctx.set(dut.copi, sent[bit // 8] >> (7 - bit % 8) & 1)
        await ctx.tick().repeat(HALF)
        came = came << 1 | ctx.get(dut.cipo)
        ctx.set(dut.sck, 1)
        await ctx.tick().repeat(HALF)
        ctx.set(dut.sck, 0)
    await ctx.tick().repeat(HALF)
    ctx.set(dut.cs, 0)
    await ctx.tick().repeat(HALF)
    return came.to_bytes(len(sent), "big")


async def read(ctx, dut, address: int) -> int:
    return int.from_bytes((await frame(ctx, dut, bytes([3, address, 0, 0, 0, 0, 0])))[3:], "big")


def play(bench) -> None:
    dut = SpiBridge()
    simulator = Simulator(dut)
    simulator.add_clock(8e-9)
    writes, sent = [], []

    async def registers(ctx):
        # A register bus like the instrument's: read data follows the address in the same cycle.
        while True:
            ctx.set(dut.reg_rdata, 0xA5000000 | ctx.get(dut.reg_addr) * 0x010101)
            if ctx.get(dut.reg_we):
                writes.append((ctx.get(dut.reg_addr), ctx.get(dut.reg_wdata)))
            if ctx.get(dut.console_out.valid):
                sent.append(ctx.get(dut.console_out.payload))
            await ctx.tick()

    simulator.add_testbench(registers, background=True)

    async def run(ctx):
        ctx.set(dut.console_out.ready, 1)
        await bench(ctx, dut, writes, sent)

    simulator.add_testbench(run)
    simulator.run()


def test_a_write_comes_once_and_a_read_shows_the_word():
    async def bench(ctx, dut, writes, _sent):
        await frame(ctx, dut, bytes([2, 0x15, 0xDE, 0xAD, 0xBE, 0xEF]))
        assert await read(ctx, dut, 0x37) == 0xA5000000 | 0x373737
        await frame(ctx, dut, bytes([2, 0x03, 0, 0, 0, 1]))
        assert writes == [(0x15, 0xDEADBEEF), (0x03, 1)]

    play(bench)


def test_a_frame_that_ends_early_does_nothing():
    async def bench(ctx, dut, writes, sent):
        for length in range(6):
            await frame(ctx, dut, bytes([2, 0x15, 1, 2, 3, 4])[:length])
        assert (writes, sent) == ([], [])

    play(bench)


def test_bytes_of_the_control_port_go_both_ways():
    async def bench(ctx, dut, writes, sent):
        assert await read(ctx, dut, CONSOLE_IN) == 0
        ctx.set(dut.console_in.payload, 0x2A)
        ctx.set(dut.console_in.valid, 1)
        taken = []

        assert ctx.get(dut.irq)
        reading = bytes([3, CONSOLE_IN, 0, 0, 0, 0, 0])
        # The read consumes the byte: ready for exactly one cycle.
        ctx.set(dut.cs, 1)
        await ctx.tick().repeat(HALF)
        came = 0
        for bit in range(56):
            ctx.set(dut.copi, reading[bit // 8] >> (7 - bit % 8) & 1)
            for level in (0, 1):
                ctx.set(dut.sck, level)
                if level:
                    came = came << 1 | ctx.get(dut.cipo)
                for _ in range(HALF):
                    taken.append(ctx.get(dut.console_in.ready))
                    await ctx.tick()
        ctx.set(dut.sck, 0)
        await ctx.tick().repeat(HALF)
        ctx.set(dut.cs, 0)
        assert (came & 0xFFFFFFFF, sum(taken)) == (0x12A, 1)

        await ctx.tick().repeat(HALF)
        assert await read(ctx, dut, CONSOLE_OUT) == 1
        await frame(ctx, dut, bytes([2, CONSOLE_OUT, 0, 0, 0, 0x51]))
        assert (sent, writes) == ([0x51], [])
        ctx.set(dut.link, 0x12345678)
        assert await read(ctx, dut, LINK) == 0x12345678

    play(bench)
