"""RAIL blocks of the whole path, against the definitions; the words are a function of the conversion's tick."""

import json
import os
import random
from fractions import Fraction
from pathlib import Path

import cocotb
from cocotb.triggers import Timer
from wattbell_gateware.rail import decimation_constants
from wattbell_gateware.rail.config import RAIL_CONFIG

from tests.gateware import blockparser, player
from tests.gateware.rail.reference import clip, corrected, decimated

ADC, TPC = os.environ["ADC"], int(os.environ["TPC"])
OVERLOAD_I, OVERLOAD_V, UNCALIBRATED, SATURATED, RESTARTED = 1, 2, 4, 8, 16
V_GAIN, I_GAIN = 16_000_000, 1_048_576_000


def words(tick):
    """Return the codes of the conversion at `tick`: noise, now and then an end of the scale."""
    rng = random.Random(tick)
    v, i = rng.randint(1, 2**18 - 2), rng.randint(-(2**17) + 1, 2**17 - 2)
    if tick % 97 == 0:
        v = rng.choice((0, 2**18 - 1))
    if tick % 89 == 0:
        i = rng.choice((-(2**17), 2**17 - 1))
    return v, i & 0x3FFFF


def config(period=640 // TPC, ratio=1, v_offset=0, v_gain=V_GAIN, i_offset=0, i_gain=I_GAIN, uncalibrated=0):
    mul, shift = decimation_constants(ratio)
    return RAIL_CONFIG.const(
        {
            "period": period,
            "decimation": ratio,
            "mul": mul,
            "shift": shift,
            "v_offset": v_offset,
            "v_gain": v_gain,
            "i_offset": i_offset,
            "i_gain": i_gain,
            "f_offset": 0,
            "f_gain": 0,
            "range": 0,
            "uncalibrated": uncalibrated,
        }
    ).as_bits()


async def prepare(dut, seed=None):
    for name in ("run", "changed", "step", "out__ready"):
        getattr(dut, name).value = 0
    dut.config.value = config()
    dut.rst.value, dut.clk.value = 1, 0
    await Timer(1, "ns")
    dut.clk.value = 1
    await Timer(1, "ns")
    dut.rst.value = 0
    if ADC == "serial":
        return player.SerialAdc(dut, words, TPC)
    dut.adc_valid.value = 0
    return player.WordAdc(dut, words, TPC, seed)


def model(ticks, v_offset=0, v_gain=V_GAIN, i_offset=0, i_gain=I_GAIN):
    """Return corrected values, energies and flags of the conversions at `ticks`."""
    values, energies, flags, energy = [], [], [], 0
    for tick in ticks:
        v, i = words(tick)
        i = i - 2**18 if i >> 17 else i
        cv, ci = corrected(v, v_offset, v_gain), corrected(i, i_offset, i_gain)
        flag = (OVERLOAD_I if i in (-(2**17), 2**17 - 1) else 0) | (OVERLOAD_V if v in (0, 2**18 - 1) else 0)
        flag |= SATURATED if (clip(cv), clip(ci)) != (cv, ci) else 0
        values.append((clip(cv), clip(ci)))
        energy += clip(cv) * clip(ci)
        energies.append(energy)
        flags.append(flag)
    return values, energies, flags


@cocotb.test()
async def full_blocks_at_ratio_1(dut):
    adc = await prepare(dut)
    # Gains around the nominal ones, an offset, and a current gain that saturates at the ends.
    settings = {"v_offset": -12345, "v_gain": V_GAIN + 4321, "i_offset": 777, "i_gain": I_GAIN + 80_000_000}
    start, count = 4000, 800
    inputs = [(start, {"run": 1, "config": config(**settings)}), (start + count * 640, {"run": 0})]
    stream = await player.play(
        dut,
        adc,
        inputs,
        10**9,
        ticks_per_clock=TPC,
        skip=ADC == "word",
        stop=lambda: int(dut.now.value) > start + 10 * 640 and bool(dut.idle.value),
    )
    found = blockparser.blocks(stream)
    values, energies, flags = model(adc.ticks, **settings)
    assert adc.ticks == list(range(adc.ticks[0], adc.ticks[0] + 640 * len(adc.ticks), 640)) and len(adc.ticks) >= count
    assert [b.sequence for b in found] == list(range(len(found)))
    at = 0
    sizes = []
    for block in found:
        r = blockparser.rail(block)
        n = len(r.samples)
        assert r.interval == 640 and block.dropped == 0
        assert block.first_tick == adc.ticks[at]
        assert r.samples == values[at : at + n]
        assert (r.index, r.energy) == (at + n, energies[at + n - 1])
        union = RESTARTED if at == 0 else 0
        for flag in flags[at : at + n]:
            union |= flag
        assert r.flags == union
        at += n
        sizes.append(n)
    assert at == len(values) and sizes == [336, 336, at - 672]
    assert any(f & SATURATED for f in flags)


@cocotb.test()
async def decimation_flush_and_change_of_settings(dut):
    adc = await prepare(dut)
    start, change, end = 1000, 12_100_000, 14_000_000
    inputs = [
        (start, {"run": 1, "config": config(period=2000 // TPC, ratio=7, uncalibrated=1)}),
        (change, {"config": config(period=1000 // TPC, ratio=4, i_offset=-256), "changed": 1}),
        (change + TPC, {"changed": 0}),
        (end, {"run": 0}),
    ]
    stream = await player.play(
        dut, adc, inputs, 10**9, ticks_per_clock=TPC, skip=True, stop=lambda: int(dut.now.value) > end and bool(dut.idle.value)
    )
    found = [(block, blockparser.rail(block)) for block in blockparser.blocks(stream)]
    # The conversion that starts after the change is the first with the new settings, the new period follows it.
    split = next(k for k, tick in enumerate(adc.ticks) if tick > change)
    first, second = adc.ticks[:split], adc.ticks[split:]
    assert {b - a for a, b in zip(first, first[1:])} == {2000} and second[0] - first[-1] == 2000
    assert {b - a for a, b in zip(second, second[1:])} == {1000}
    a_values, a_energies, _ = model(first)
    b_values, b_energies, _ = model(second, i_offset=-256)
    energies = a_energies + [(a_energies[-1] + e) % 2**64 for e in b_energies]
    blocks_a = [x for x in found if x[1].interval == 14_000]
    blocks_b = [x for x in found if x[1].interval == 4000]
    assert found == blocks_a + blocks_b, [(r.interval, len(r.samples), r.flags, b.first_tick) for b, r in found]
    for part, ticks, values, ratio, period, before in (
        (blocks_a, first, a_values, 7, 2000, 0),
        (blocks_b, second, b_values, 4, 1000, len(first)),
    ):
        expected = [decimated([p[k] for p in values], ratio) for k in (0, 1)]
        shapes = [(r.interval, len(r.samples), r.flags, b.first_tick) for b, r in found]
        assert sum(len(r.samples) for _, r in part) == len(expected[0]), shapes
        at = 0
        for number, (block, r) in enumerate(part):
            newest = 3 * ratio - 3 + at * ratio
            assert block.first_tick == ticks[newest] - 3 * (ratio - 1) * period // 2
            for k, sample in enumerate(r.samples):
                for channel in (0, 1):
                    assert abs(sample[channel] - expected[channel][at + k]) <= Fraction(11, 10)
            at += len(r.samples)
            last = before + 3 * ratio - 3 + (at - 1) * ratio
            assert (r.index, r.energy) == (last + 1, energies[last])
            assert bool(r.flags & RESTARTED) == (number == 0)
            assert bool(r.flags & UNCALIBRATED) == (ratio == 7)
    assert [len(r.samples) for _, r in blocks_a[:2]] == [336, 336] and len(blocks_a) == 3


@cocotb.test()
async def flush_after_10_ms(dut):
    adc = await prepare(dut)
    inputs = [(1000, {"run": 1, "config": config(period=100_000 // TPC)})]
    arrived = []
    stream = await player.play(
        dut, adc, inputs, 25_000_000, ticks_per_clock=TPC, skip=True, ready=lambda now: not (dut.out__valid.value and arrived.append(now))
    )
    found = [blockparser.rail(block) for block in blockparser.blocks(stream)]
    assert [len(r.samples) for r in found] == [101, 101]
    # A sample is packed when the next conversion starts; 10 ms later, just after sample 101, the block is being sent.
    assert arrived[0] - (adc.ticks[1] + 10_000_000) in range(0, 200)


@cocotb.test()
async def a_full_buffer_counts_samples(dut):
    adc = await prepare(dut)
    start = 1000
    blocked = (start + 100 * 640, start + 760 * 640)
    end = start + 1150 * 640
    inputs = [(start, {"run": 1}), (end, {"run": 0})]
    stream = await player.play(
        dut,
        adc,
        inputs,
        10**9,
        ticks_per_clock=TPC,
        skip=ADC == "word",
        ready=lambda now: not blocked[0] <= now < blocked[1],
        stop=lambda: int(dut.now.value) > end and bool(dut.idle.value),
    )
    values, energies, _ = model(adc.ticks)
    at, lost = 0, 0
    for block in blockparser.blocks(stream):
        r = blockparser.rail(block)
        at += block.dropped
        lost += block.dropped
        assert block.first_tick == adc.ticks[at]
        assert r.samples == values[at : at + len(r.samples)]
        at += len(r.samples)
        assert (r.index, r.energy) == (at, energies[at - 1]), "energy has no gap"
    assert at == len(values) and lost > 50


@cocotb.test()
async def leaves_its_bytes(dut):
    """Writes the bytes of a fixed input for the comparison of front ends, clocks and skipping (test_path.py)."""
    runs = {}
    for name, skip, seed in (("all clocks", False, None), ("skipped", True, None), ("late words", True, 5)):
        adc = await prepare(dut, seed)
        inputs = [
            (1000, {"run": 1, "config": config(period=1000 // TPC)}),
            (150_000, {"config": config(period=1000 // TPC, ratio=3), "changed": 1}),
            (150_000 + TPC, {"changed": 0}),
            (210_000, {"run": 0}),
            (250_000, {"run": 1}),
            (280_000, {"run": 0}),
        ]
        runs[name] = (await player.play(dut, adc, inputs, 290_000, ticks_per_clock=TPC, skip=skip)).hex()
        assert dut.idle.value == 1
    assert len(set(runs.values())) == 1
    Path(os.environ["BYTES"]).write_text(json.dumps(runs["all clocks"]))
