import os
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge

from tests.gateware.rail.reference import clip, corrected

SIGNED = os.environ["SIGNED"] == "1"
LOW, HIGH = (-(1 << 17), (1 << 17) - 1) if SIGNED else (0, (1 << 18) - 1)


@cocotb.test()
async def matches_definition(dut):
    Clock(dut.clk, 4, unit="ns").start()
    rng = random.Random(1)
    cases = [(code, 0, 16_000_000) for code in (LOW, LOW + 1, 0, 1, HIGH - 1, HIGH)]
    cases += [(code, offset, gain) for code in (LOW, HIGH) for offset in (-(1 << 27), (1 << 27) - 1) for gain in (0, 1, (1 << 32) - 1)]
    cases += [
        (rng.randint(LOW, HIGH), rng.randint(-100_000, 100_000), rng.choice((16_000_000, 1 << 30)) + rng.randint(-(1 << 22), 1 << 22))
        for _ in range(3000)
    ]
    dut.twos.value = int(SIGNED)
    await FallingEdge(dut.clk)
    clipped = 0
    for code, offset, gain in cases:
        dut.code.value, dut.offset.value, dut.gain.value, dut.strobe.value = code & 0x3FFFF, offset & 0xFFFFFFF, gain, 1
        await FallingEdge(dut.clk)
        dut.strobe.value, dut.code.value = 0, rng.getrandbits(18)
        for _ in range(3):
            assert dut.valid.value == 0 and dut.quiet.value == 0
            await FallingEdge(dut.clk)
        exact = corrected(code, offset, gain)
        assert dut.valid.value == 1
        assert dut.value.value.to_signed() == clip(exact), (code, offset, gain)
        assert dut.saturated.value == (clip(exact) != exact)
        assert dut.overload.value == (code in (LOW, HIGH))
        clipped += clip(exact) != exact
        await FallingEdge(dut.clk)
        assert dut.valid.value == 0 and dut.quiet.value == 1
    assert 4 < clipped < len(cases) / 2
