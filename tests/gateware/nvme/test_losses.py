"""The tracker's loss reporter: every loss is in exactly one LOSS event of its source, and an event has the tick of the first it counts."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest
from amaranth.sim import Simulator
from wattbell_gateware.nvme.losses import REPORT_TICKS, SOURCES, TrackerLosses
from wattbell_spec import wire as spec

ENGINE = [int(s) for s in spec.LossSource if s.name in ("SLOTS", "QUEUES", "PAGES", "RAW", "TAGS")]
OTHERS = [int(s) for s in spec.LossSource if s.name in ("TLP_DOWN", "TLP_UP", "RECORDS", "EVENTS")]
CLOCK_TICKS = REPORT_TICKS // 40  # a round of reports every 40 cycles and more


@pytest.mark.parametrize("seed", range(4))
def test_every_loss_is_told_once_with_its_first_tick(seed):
    r = random.Random(seed)
    dut = TrackerLosses()
    told: list[tuple[int, int, int]] = []  # source, count, tick
    lost: dict[int, list[int]] = defaultdict(list)

    async def play(ctx):
        busy = 1.0
        for clock in range(3000):
            now = clock * CLOCK_TICKS
            if clock % 200 == 0:
                busy = r.choice((0.02, 0.3, 1.0))
            # The engine loses one thing at a time, the others at any time. In the end all losses are reported.
            losing = [] if clock > 2800 else [s for s in OTHERS if r.random() < busy * 0.3] + r.sample(ENGINE, r.random() < busy)
            ticks = {source: now - r.randrange(CLOCK_TICKS) for source in OTHERS} | dict.fromkeys(ENGINE, now - 7)
            ctx.set(dut.now, now)
            ctx.set(dut.run, 1)
            ctx.set(dut.lose, sum(1 << s for s in losing))
            for source, tick in ticks.items():
                ctx.set(dut.ticks[source], max(tick, 0))
            ctx.set(dut.events.ready, ready := r.random() < 0.7)
            if ctx.get(dut.events.valid) and ready:
                event = dut.events.payload
                told.append((ctx.get(event.arg8), ctx.get(event.arg32), ctx.get(event.tick)))
            for source in losing:
                lost[source].append(max(ticks[source], 0))
            await ctx.tick()
        assert not ctx.get(dut.busy)
        for source in range(SOURCES):
            assert ctx.get(dut.counts[source]) == len(lost[source])

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(play)
    simulator.run()
    assert {source for source, _, _ in told} == set(ENGINE) | set(OTHERS)
    for source, ticks in lost.items():
        at = 0
        for _, count, tick in (t for t in told if t[0] == source):
            assert count > 0
            assert tick == ticks[at], f"source {source}: the first of {count} losses"
            at += count
        assert at == len(ticks)


def test_nothing_is_told_while_stopped():
    dut = TrackerLosses()

    async def play(ctx):
        ctx.set(dut.lose, 0b100)
        ctx.set(dut.events.ready, 1)
        for clock in range(100):
            ctx.set(dut.now, clock * CLOCK_TICKS)
            assert not ctx.get(dut.events.valid)
            await ctx.tick()
            ctx.set(dut.lose, 0)
        assert not ctx.get(dut.busy)
        assert ctx.get(dut.counts[2]) == 1

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(play)
    simulator.run()
