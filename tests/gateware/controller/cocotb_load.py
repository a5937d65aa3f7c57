"""The test load: every edge comes in the cycle of its marker, at random intervals, and the load is off whenever it must be."""

import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge
from wattbell_gateware.controller.load import JITTER_BITS, LONGEST_TICKS, PULSE_TICKS
from wattbell_spec.wire import LOAD_OFF_MARK, LOAD_ON_MARK

TICKS = 4
LATEST = PULSE_TICKS + (1 << JITTER_BITS) + 8 * TICKS
"""Time from edge to edge: the end of the random interval, plus some cycles of latency."""
NEVER = (1 << 64) - 1


class Bench:
    """Clocks the load as the rig does: now and then, cycles without events before `deadline` are skipped."""

    def __init__(self, dut, rng):
        self.dut, self.rng, self.now = dut, rng, 10_000
        self.marks, self.edges = [], []
        for name in ("data", "written", "restart", "reading", "control"):
            getattr(dut, name).value = 0
        dut.allowed.value, dut.now.value = 1, self.now
        self.before = 0

    async def clock(self, jump=0, busy=False):
        """Clock. `busy`: the core is accessing its registers."""
        dut = self.dut
        self.now += TICKS + jump
        await FallingEdge(dut.clk)
        dut.now.value = self.now
        dut.reading.value = int(busy and self.rng.random() < 0.8)
        await self.seen()

    async def seen(self):
        """Note the outputs in the cycle of `now`: marks, and edges of the load."""
        await cocotb.triggers.ReadOnly()
        if self.dut.marked.value == 1:
            self.marks.append((self.now, int(self.dut.mark.value)))
        load = int(self.dut.load.value)
        if load != self.before:
            self.edges.append((self.now, load))
        self.before = load

    async def write(self, pulses):
        await FallingEdge(self.dut.clk)
        self.now += TICKS
        self.dut.now.value, self.dut.data.value, self.dut.written.value = self.now, pulses, 1
        await self.seen()
        await FallingEdge(self.dut.clk)
        self.now += TICKS
        self.dut.now.value, self.dut.data.value, self.dut.written.value = self.now, 0xDEADBEEF, 0
        await self.seen()

    async def pulses(self, edges, busy=False):
        """Run until this many more edges were marked."""
        wanted, still, last = len(self.marks) + edges, 0, None
        while len(self.marks) < wanted:
            deadline = int(self.dut.deadline.value)
            still, last = (still + 1 if deadline == last else 0), deadline
            assert deadline != NEVER or still < 20, "nothing is to come"
            far = still >= 16 and deadline - self.now > 40 * TICKS  # like the rig: outputs in flight are seen first
            await self.clock((deadline - self.now) // TICKS * TICKS - 20 * TICKS if far else 0, busy)
        await self.clock()
        await self.clock()


async def begin(dut, seed=1):
    Clock(dut.clk, 4, unit="ns").start()
    bench = Bench(dut, random.Random(seed))
    dut.rst.value = 1
    for _ in range(3):
        await bench.clock()
    await FallingEdge(dut.clk)
    dut.rst.value = 0
    for _ in range(3):
        await bench.clock()
    return bench


@cocotb.test()
async def edges_are_where_their_marks_are(dut):
    """There are as many pulses as requested, with and without register accesses of the core; on and off alternate, off at the end."""
    bench = await begin(dut)
    assert int(dut.deadline.value) == NEVER and dut.load.value == 0
    for control, busy in ((1, False), (2, True)):
        bench.marks, bench.edges = [], []
        await FallingEdge(dut.clk)
        dut.control.value = control
        await bench.write(50)
        begun = bench.now
        assert dut.left.value == 50
        await bench.pulses(100, busy)
        assert [tick for tick, _ in bench.marks] == [tick for tick, _ in bench.edges]
        assert [value for _, value in bench.marks] == [LOAD_ON_MARK, LOAD_OFF_MARK] * 50
        assert [load for _, load in bench.edges] == [control, 0] * 50
        assert dut.left.value == 0 and int(dut.deadline.value) == NEVER
        ticks = [begun, *(tick for tick, _ in bench.marks)]
        gaps = [b - a for a, b in zip(ticks, ticks[1:])]
        assert min(gaps) >= PULSE_TICKS and max(gaps) <= LATEST
        for _ in range(50):
            await bench.clock()
        assert len(bench.edges) == 100


@cocotb.test()
async def edges_come_at_every_phase(dut):
    """Among conversions of a microsecond the largest phase without an edge is due to chance: a few times 1 us / 600."""
    bench = await begin(dut)
    await FallingEdge(dut.clk)
    dut.control.value = 1
    await bench.write(300)
    await bench.pulses(600)
    phases = sorted(tick % 1000 for tick, _ in bench.marks)
    assert max(b - a for a, b in zip(phases, [*phases[1:], phases[0] + 1000])) <= 20
    assert bench.marks[-1][0] - bench.marks[0][0] < LONGEST_TICKS * 600 / 4094


@cocotb.test()
async def it_is_off_when_it_must_be(dut):
    """After a write of 0, a restart of the core, or an open load switch: off within two cycles, and nothing comes afterwards."""
    bench = await begin(dut)
    await FallingEdge(dut.clk)
    dut.control.value = 3
    for way in ("write", "restart", "switch", "anew"):
        bench.marks, bench.edges = [], []
        await bench.write(5)
        await bench.pulses(3)
        assert dut.load.value == 3 and dut.left.value == 4
        if way in ("write", "anew"):
            await bench.write(0 if way == "write" else 7)
        else:
            name, stops = ("restart", 1) if way == "restart" else ("allowed", 0)
            await FallingEdge(dut.clk)
            getattr(dut, name).value = stops
            bench.now += TICKS
            dut.now.value = bench.now
            await bench.seen()
            await bench.clock()
        await bench.clock()
        assert dut.load.value == 0, way
        assert dut.left.value == (7 if way == "anew" else 0), way
        if way == "anew":
            await bench.pulses(14)
            assert dut.left.value == 0 and bench.marks[3][1] == LOAD_ON_MARK
            continue
        for _ in range(10):
            await bench.clock(1 << 17)
        assert len(bench.marks) == 3 and len(bench.edges) == 4, way
        await FallingEdge(dut.clk)
        dut.restart.value, dut.allowed.value = 0, 1
        await bench.clock()


@cocotb.test()
async def nothing_begins_while_the_switch_is_open(dut):
    bench = await begin(dut)
    await FallingEdge(dut.clk)
    dut.control.value, dut.allowed.value = 1, 0
    await bench.write(5)
    await bench.clock()
    assert dut.left.value == 0
    await bench.write(0x7FF | 1 << 11)  # bits beyond the register do not belong to it
    await FallingEdge(dut.clk)
    dut.allowed.value = 1
    for _ in range(20):
        await bench.clock(1 << 15)
    assert bench.edges == bench.marks == []
