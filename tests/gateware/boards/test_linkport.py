"""From the link's clock to the instrument's: events with their ticks, counters of one instant, TLPs; and back."""

from random import Random

import pytest
from amaranth import ClockDomain, Module, Signal
from amaranth.sim import Simulator
from wattbell_gateware.boards.linkport import LinkPort
from wattbell_gateware.link.ltssm import State

START = (5 << 24) - 3000  # the low bits of the tick wrap soon


@pytest.fixture(params=[8.0, 16.0])
def bench(request):
    """Return (port, simulator, counter of the instrument); the instrument's clock is as fast as the link's, or half as fast."""
    m = Module()
    m.domains += [ClockDomain("sync"), ClockDomain("link", reset_less=True)]
    m.submodules.dut = dut = LinkPort(2)
    now = Signal(64, init=START)
    m.d.sync += now.eq(now + int(request.param))
    m.d.comb += dut.now.eq(now)
    simulator = Simulator(m)
    simulator.add_clock(request.param * 1e-9)
    simulator.add_clock(8.002e-9, domain="link")
    return dut, simulator, now


def test_events_keep_their_order_and_their_ticks(bench):
    dut, simulator, now = bench
    r = Random(2)
    sent, got = [], []

    async def send(ctx):
        await ctx.tick("link").repeat(10)
        for n in range(300):
            event = {"tick": ctx.get(now) - r.randrange(100, 4000), "kind": r.randrange(19), "argument": n}
            sent.append((event["tick"], event["kind"], n))
            ctx.set(dut.events.payload, event)
            ctx.set(dut.events.valid, 1)
            ready = False
            while not ready:
                *_, ready = await ctx.tick("link").sample(dut.events.ready)
            ctx.set(dut.events.valid, 0)
        await ctx.tick().repeat(100)

    async def take(ctx):
        while True:
            ctx.set(dut.o.events.ready, r.random() < 0.7)
            *_, valid, ready, event = await ctx.tick().sample(dut.o.events.valid, dut.o.events.ready, dut.o.events.payload)
            if valid and ready:
                got.append((event.tick, event.kind, event.argument))

    simulator.add_testbench(send)
    simulator.add_testbench(take, background=True)
    simulator.run()
    assert got == sent


def test_state_counters_and_rate_are_shown(bench):
    dut, simulator, _ = bench

    async def look(ctx):
        ctx.set(dut.rate, 1)
        for n, (name, _) in enumerate(dut.counters.shape()):
            ctx.set(dut.counters[name], 1000 + n)
        ctx.set(dut.state, State.RECOVERY)
        ctx.set(dut.lanes, {"active": 3, "reverse": 1, "bypass": 0, "width": 1})
        await ctx.tick().repeat(21 * 13)  # one counter at a time
        shown = ctx.get(dut.o.side)
        counts = []
        for n in range(21):
            ctx.set(dut.o.counter, n)
            await ctx.tick()
            counts.append(ctx.get(dut.o.count))
        assert counts == list(range(1000, 1021))
        assert (shown.state, shown.rate, shown.lanes.active, shown.lanes.reverse) == (State.RECOVERY, 2, 3, 1)

    simulator.add_testbench(look)
    simulator.run()


def test_a_tlp_on_its_way_is_seen_until_its_beats_have_crossed(bench):
    """Its beats take up to seven cycles of the instrument (see BeatCrossing)."""
    dut, simulator, now = bench

    async def look(ctx):
        for begun in (START - 5000, 0):
            ctx.set(dut.pending, 1)
            ctx.set(dut.pending_known, begun != 0)
            ctx.set(dut.pending_tick, begun or START)
            await ctx.tick().repeat(30)
            assert ctx.get(dut.o.side.pending) and ctx.get(dut.o.side.pending_tick) == begun
            later = ctx.get(now)
            ctx.set(dut.pending_known, 1)
            ctx.set(dut.pending_tick, later)  # the next one
            for _ in range(8):
                await ctx.tick()
                assert ctx.get(dut.o.side.pending_tick) == begun
            await ctx.tick().repeat(30)
            assert ctx.get(dut.o.side.pending_tick) == later
            ctx.set(dut.pending, 0)
            for _ in range(8):
                await ctx.tick()
                assert ctx.get(dut.o.side.pending)
            await ctx.tick().repeat(30)
            assert not ctx.get(dut.o.side.pending)

    simulator.add_testbench(look)
    simulator.run()


def test_what_the_host_says_of_the_link_arrives_once(bench):
    dut, simulator, _ = bench
    pulses = {"polarity_set": [], "lanes_set": []}

    async def watch(ctx):
        while True:
            *_, polarity_set, polarity, lanes_set, lanes = await ctx.tick("link").sample(
                dut.polarity_set, dut.polarity, dut.lanes_set, dut.lanes_to
            )
            if polarity_set:
                pulses["polarity_set"].append(polarity)
            if lanes_set:
                pulses["lanes_set"].append((lanes.active, lanes.reverse))

    async def say(ctx):
        await ctx.tick().repeat(20)
        ctx.set(dut.o.set, {"polarity": 2, "lanes": {"active": 3, "reverse": 1}, "new_polarity": 1, "new_lanes": 0})
        await ctx.tick().repeat(40)
        ctx.set(dut.o.set, {"polarity": 1, "lanes": {"active": 1, "reverse": 0}, "new_polarity": 0, "new_lanes": 1})
        await ctx.tick().repeat(40)

    simulator.add_testbench(watch, background=True)
    simulator.add_testbench(say)
    simulator.run()
    assert pulses == {"polarity_set": [2, 1], "lanes_set": [(1, 0)]}
