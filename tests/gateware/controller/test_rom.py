"""The core's read-only memory, in both its forms."""

import random

import pytest
from amaranth.sim import Simulator
from wattbell_gateware.controller.rom import Rom


@pytest.mark.parametrize("sliced", [False, True])
@pytest.mark.parametrize(("words", "filled"), [(64, 64), (72, 70), (1, 1)])
def test_every_word_is_where_it_belongs(words, filled, sliced):
    """Both ports are read at once; words after the image are 0."""
    draw = random.Random(words)
    image = [draw.getrandbits(32) for _ in range(filled)]
    there = image + [0] * (words - filled)
    dut = Rom(image, words, sliced=sliced)
    simulator = Simulator(dut)
    simulator.add_clock(1e-6)

    async def bench(ctx):
        for address in [*range(words), *draw.choices(range(words), k=50)]:
            other = draw.randrange(words)
            ctx.set(dut.ports[0].addr, address)
            ctx.set(dut.ports[1].addr, other)
            await ctx.tick()
            ctx.set(dut.ports[0].addr, 0)
            ctx.set(dut.ports[1].addr, 0)
            assert (ctx.get(dut.ports[0].data), ctx.get(dut.ports[1].data)) == (there[address], there[other])

    simulator.add_testbench(bench)
    simulator.run()
