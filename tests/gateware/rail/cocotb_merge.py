"""The merger against the reference model of the front end, with stalling streams."""

import random

import cocotb
from afe.merge import BAND, HOLD, LOW, Merger
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, Timer

TOP = (1 << 23) - 1
MASK = (1 << 24) - 1
LATENCY = 4


def pack(coarse, fine, coarse_overload=0, fine_overload=0):
    return (coarse & MASK) | (fine & MASK) << 24 | coarse_overload << 48 | fine_overload << 49


def unpack(word):
    value = word & MASK
    return value - (1 << 24) if value >> 23 else value, bool(word >> 24 & 1), bool(word >> 25 & 1)


async def play(dut, conversions, stall=0.0, seed=1):
    """Feeds conversions and returns the output; checks that a stalled output is stable."""
    rng = random.Random(seed)
    source, out, waiting = list(conversions), [], None
    dut.i__valid.value, dut.o__ready.value = 0, 0
    await FallingEdge(dut.clk)
    offered = False
    for _ in range(20 * len(source) + 100):
        if source and (offered or rng.random() >= stall):
            dut.i__payload.value = pack(*source[0])
            offered = True
        dut.i__valid.value = offered
        dut.o__ready.value = rng.random() >= stall
        await Timer(1, unit="ns")  # combinational outputs follow; the rising edge is still to come
        if waiting is not None:
            assert dut.o__valid.value == 1 and int(dut.o__payload.value) == waiting
        waiting = None
        if dut.o__valid.value == 1:
            if dut.o__ready.value == 1:
                out.append(unpack(int(dut.o__payload.value)))
            else:
                waiting = int(dut.o__payload.value)
        if offered and dut.i__ready.value == 1:
            source.pop(0)
            offered = False
        await FallingEdge(dut.clk)
        if len(out) == len(conversions):
            break
    assert len(out) == len(conversions)
    dut.i__valid.value = 0
    return out


def expected(conversions):
    merger = Merger()
    results = []
    for coarse, fine, coarse_overload, fine_overload in conversions:
        merged = merger.step(coarse, fine, coarse_overload=bool(coarse_overload), fine_overload=bool(fine_overload))
        results.append((merged.value, merged.overload, merged.coarse_used))
    return results


async def begin(dut):
    Clock(dut.clk, 4, unit="ns").start()
    dut.rst.value, dut.i__valid.value, dut.o__ready.value = 1, 0, 0
    for _ in range(2):
        await FallingEdge(dut.clk)
    dut.rst.value = 0
    await FallingEdge(dut.clk)


@cocotb.test()
async def latency_and_throughput(dut):
    await begin(dut)
    assert dut.quiet.value == 1
    dut.o__ready.value, dut.i__valid.value = 1, 1
    seen = []
    for n in range(20):
        dut.i__payload.value = pack(1000 + n, 2000 + n)
        await FallingEdge(dut.clk)
        assert dut.i__ready.value == 1
        if dut.o__valid.value == 1:
            seen.append((n, unpack(int(dut.o__payload.value))[0]))
    assert seen == [(n, 2000 + n - (LATENCY - 1)) for n in range(LATENCY - 1, 20)]
    dut.i__valid.value = 0
    for _ in range(LATENCY):
        assert dut.quiet.value == 0
        await FallingEdge(dut.clk)
    assert dut.quiet.value == 1


@cocotb.test()
async def every_level_of_the_band(dut):
    await begin(dut)
    levels = [
        sign * level
        for level in (*range(LOW - 300, LOW + BAND + 300, 61), LOW, LOW + BAND, LOW + 1, LOW + BAND - 1, TOP, 0)
        for sign in (1, -1)
    ]
    conversions = [(level, max(-TOP - 1, min(TOP, level + apart)), 0, 0) for level in levels for apart in (-777, 0, 1, 40_000)]
    assert await play(dut, conversions) == expected(conversions)


@cocotb.test()
async def random_conversions_with_overloads_and_stalls(dut):
    await begin(dut)
    rng = random.Random(5)
    conversions, quiet_for = [], 0
    for _ in range(6000):
        near = rng.random() < 0.8
        coarse = rng.randint(-2 * LOW, 2 * LOW) if near else rng.randint(-TOP - 1, TOP)
        fine = coarse + rng.randint(-500, 500) if near and abs(coarse) < TOP - 500 else rng.randint(-TOP - 1, TOP)
        quiet_for -= 1
        if quiet_for < 0 and rng.random() < 0.2:
            quiet_for = rng.choice((0, 1, HOLD - 1, HOLD, HOLD + 1, HOLD + 10, HOLD + 40))
            conversions.append((coarse, fine, rng.random() < 0.5, 1))
        else:
            conversions.append((coarse, fine, rng.random() < 0.1, 0))
    results = expected(conversions)
    assert 0.2 < sum(used for *_, used in results) / len(results) < 0.95
    for seed, stall in enumerate((0.0, 0.4)):
        part = conversions if stall == 0 else conversions[:1500]
        await begin_again(dut)
        assert await play(dut, part, stall=stall, seed=seed) == results[: len(part)]


async def begin_again(dut):
    dut.rst.value = 1
    await FallingEdge(dut.clk)
    dut.rst.value = 0
    await FallingEdge(dut.clk)
