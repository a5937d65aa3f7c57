"""LOSS events add up to the losses, at most one per millisecond and source."""

import random

import cocotb
from cocotb.triggers import Timer

SOURCES = (5, 6, 7)


@cocotb.test()
async def sums(dut):
    rng = random.Random(12)
    lost, reported, times = dict.fromkeys(SOURCES, 0), dict.fromkeys(SOURCES, 0), []
    dut.clk.value = dut.flush.value = 0
    dut.enable.value = 1
    now = 0
    for clock in range(8000):
        now += 4 if clock % 50 else 40_000
        dut.now.value = now
        for k, source in enumerate(SOURCES):
            add = rng.randint(1, 15) if rng.random() < 0.3 and clock < 7000 else 0
            getattr(dut, f"add{k}").value = add
            lost[source] += add
        dut.flush.value = clock > 7500
        ready = rng.random() < 0.5
        dut.o_ready.value = ready
        await Timer(1, "ns")
        if ready and dut.o_valid.value:
            event = int(dut.o_event.value)
            assert event >> 64 & 0xFF == 8 and event & (1 << 64) - 1 == now
            source = event >> 72 & 0xFF
            reported[source] += event >> 96
            times.append((source, now))
        dut.clk.value = 1
        await Timer(1, "ns")
        dut.clk.value = 0
    assert reported == lost and dut.clean.value == 1 and dut.quiet.value == 1
    for source in SOURCES:
        own = [t for s, t in times if s == source]
        assert len(own) >= 5 and all(b - a > 900_000 for a, b in zip(own[:-1], own[1:-1]))


@cocotb.test()
async def losses_outside_a_capture_do_not_count(dut):
    dut.enable.value = 0
    dut.add0.value = 3
    for _ in range(20):
        await Timer(1, "ns")
        dut.clk.value = 1
        await Timer(1, "ns")
        dut.clk.value = 0
    assert dut.clean.value == 1
