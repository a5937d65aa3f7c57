"""The rail path with a fine current path: its blocks against the definitions and the reference of the merge in hw/afe."""

import os
import random
from functools import cache

import cocotb
from afe.merge import BAND, LOW, Merger
from cocotb.triggers import Timer
from wattbell_gateware.rail import decimation_constants
from wattbell_gateware.rail.config import RAIL_CONFIG

from tests.gateware import blockparser, player
from tests.gateware.rail.reference import clip, corrected

TPC = int(os.environ["TPC"])
OVERLOAD_I, SATURATED, RESTARTED = 1, 8, 16
PERIOD = 640
LINES = {"v": (-12345, 16_004_321), "i": (777, 1_048_576_000), "f": (-2048, 29_127_111)}
"""Offset and gain of each channel: codes of the current paths to wire units, the fine path's being 36 times finer."""
MIN, MAX = -(2**17), 2**17 - 1
MERGED, COARSE, FINE = range(3)


@cache
def words(tick):
    """Return the codes of the conversion at `tick`: levels stay for some conversions, on both sides of the band, in it, and beyond
    both scales.
    """
    stretch = random.Random(tick // (29 * PERIOD))
    level = stretch.choice((0, LOW, -LOW - BAND // 2, LOW + BAND // 3, LOW + BAND, 2 * LOW, 9_000_000, stretch.randint(-LOW, LOW)))
    rng = random.Random(tick)
    level += rng.randint(-BAND // 4, BAND // 4)
    coarse = round((level + rng.randint(-300, 300)) * 2**24 / LINES["i"][1]) + LINES["i"][0] // 256
    fine = round(level * 2**24 / LINES["f"][1]) + LINES["f"][0] // 256
    return rng.randint(1, 2**18 - 2), max(MIN, min(MAX, coarse)) & 0x3FFFF, max(MIN, min(MAX, fine)) & 0x3FFFF


def config(mode):
    mul, shift = decimation_constants(1)
    lines = {f"{name}_{what}": value for name, line in LINES.items() for what, value in zip(("offset", "gain"), line)}
    return RAIL_CONFIG.const({"period": PERIOD // TPC, "decimation": 1, "mul": mul, "shift": shift, **lines, "range": mode}).as_bits()


def expected(ticks, modes):
    """Return (voltage, current) and flags of each conversion; the merge remembers overloads of the fine path in any mode."""
    merger, out = Merger(), []
    for tick, mode in zip(ticks, modes, strict=True):
        v, *currents = words(tick)
        codes = [code - 2**18 if code >> 17 else code for code in currents]
        exact = [corrected(v, *LINES["v"]), *(corrected(code, *LINES[name]) for name, code in zip("if", codes))]
        voltage, coarse, fine = map(clip, exact)
        ends = [code in (MIN, MAX) for code in codes]
        if mode != MERGED:  # one path, twice
            n = mode - COARSE
            coarse = fine = (coarse, fine)[n]
            ends = [ends[n]] * 2
            exact = [exact[0], coarse]
        merged = merger.step(coarse, fine, coarse_overload=ends[0], fine_overload=ends[1])
        flags = (OVERLOAD_I if merged.overload else 0) | (SATURATED if any(clip(x) != x for x in exact) else 0)
        out.append(((voltage, merged.value), flags, merged.coarse_used))
    return out


@cocotb.test()
async def two_paths_become_one_current(dut):
    dut.run.value = dut.changed.value = dut.step.value = dut.out__ready.value = 0
    dut.config.value = config(MERGED)
    dut.rst.value, dut.clk.value = 1, 0
    await Timer(1, "ns")
    dut.clk.value = 1
    await Timer(1, "ns")
    dut.rst.value = 0
    dut.adc_valid.value = 0
    adc = player.WordAdc(dut, words, TPC)
    changes = {4000 + 1500 * PERIOD: COARSE, 4000 + 1600 * PERIOD: FINE, 4000 + 1750 * PERIOD: MERGED}
    end = 4000 + 2100 * PERIOD
    inputs = [(4000, {"run": 1}), (end, {"run": 0})]
    for tick, mode in changes.items():
        inputs += [(tick, {"config": config(mode), "changed": 1}), (tick + TPC, {"changed": 0})]
    stream = await player.play(
        dut, adc, inputs, 10**9, ticks_per_clock=TPC, skip=True, stop=lambda: int(dut.now.value) > end and bool(dut.idle.value)
    )
    # a change counts from the first conversion after it
    modes = [max(((tick, mode) for tick, mode in changes.items() if tick < at), default=(0, MERGED))[1] for at in adc.ticks]
    conversions = expected(adc.ticks, modes)
    at, energy = 0, 0
    for block in blockparser.blocks(stream):
        rail = blockparser.rail(block)
        part = conversions[at : at + len(rail.samples)]
        assert rail.samples == [values for values, _, _ in part], f"from conversion {at} on"
        union = 0
        for (voltage, current), flags, _ in part:
            energy, union = energy + voltage * current, union | flags
        assert rail.flags & ~RESTARTED == union and rail.energy == energy
        at += len(rail.samples)
    assert at == len(conversions) > 2000
    merged = [conversion for conversion, mode in zip(conversions, modes) if mode == MERGED]
    used = [coarse_used for *_, coarse_used in merged]
    assert 0.1 < sum(used) / len(used) < 0.9 and any(flags & OVERLOAD_I for _, flags, _ in merged)
