"""Edges become events with the tick of their clock."""

import random

import cocotb
from cocotb.triggers import Timer

LINK, CLKREQ, PERST = 1, 2, 3


@cocotb.test()
async def edges(dut):
    rng = random.Random(11)
    levels = {"perst_n": 0, "clkreq_n": 1, "link_state": 0}
    codes = {"perst_n": PERST, "clkreq_n": CLKREQ, "link_state": LINK}
    expected, got = [], []
    dut.clk.value = dut.begin.value = dut.enable.value = dut.o_ready.value = 0
    for name, value in levels.items():
        getattr(dut, name).value = value
    lost = 0
    for clock in range(6000):
        now = 1000 + 4 * clock
        dut.now.value = now
        enable = clock >= 500
        dut.enable.value = enable
        dut.begin.value = clock == 500
        burst = clock % 1500 > 1400
        changes = []
        for name in levels:
            if rng.random() < (0.7 if burst else 0.02):
                new = rng.randint(0, 7) if name == "link_state" else 1 - levels[name]
                if new != levels[name]:
                    levels[name] = new
                    getattr(dut, name).value = new
                    changes.append(name)
        if clock == 500:
            changes = list(levels)
        ready = rng.random() < 0.9
        dut.o_ready.value = ready
        await Timer(1, "ns")
        here = int(dut.lost.value)
        lost += here
        if enable and not here:
            expected += [(now, codes[name], levels[name]) for name in ("perst_n", "clkreq_n", "link_state") if name in changes]
        assert here in (0, len(changes))
        assert not (changes and dut.quiet.value)
        if ready and dut.o_valid.value:
            event = int(dut.o_event.value)
            got.append((event & (1 << 64) - 1, event >> 64 & 0xFF, event >> 72 & 0xFF))
            assert event >> 80 == 0
        dut.clk.value = 1
        await Timer(1, "ns")
        dut.clk.value = 0
    dut.o_ready.value = 1
    for name in levels:
        getattr(dut, name).value = levels[name]
    for _ in range(40):
        await Timer(1, "ns")
        if dut.o_valid.value:
            event = int(dut.o_event.value)
            got.append((event & (1 << 64) - 1, event >> 64 & 0xFF, event >> 72 & 0xFF))
        dut.clk.value = 1
        await Timer(1, "ns")
        dut.clk.value = 0
    assert got == expected and lost > 0 and len(got) > 300
    assert dut.quiet.value == 1
