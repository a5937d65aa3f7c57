"""Clock domain crossings: words of one frequency, the tick counter, ticks on their way back."""

from random import Random

import pytest
from amaranth import Cat, ClockDomain, ClockSignal, Module, Signal
from amaranth.sim import Simulator
from wattbell_gateware.boards.direction import BeatCrossing, BeatPairs, link_state
from wattbell_gateware.boards.ecp5.lanes import LATE_TICKS, LanePair
from wattbell_gateware.boards.linktime import LOW_BITS, FineTime, LinkTime, whole_tick
from wattbell_gateware.boards.rephase import LATENCY, Rephase
from wattbell_spec.wire import LinkState


@pytest.mark.parametrize("phase_ps", [0, 900, 2000, 3100, 3999])
def test_words_come_through_whole_at_every_phase(phase_ps):
    m = Module()
    m.domains += [ClockDomain("write", reset_less=True), ClockDomain("read", reset_less=True)]
    m.submodules.dut = dut = Rephase(20)
    sent = Signal(20)
    m.d.write += sent.eq(sent + 1)
    m.d.comb += dut.i.eq(sent)
    simulator = Simulator(m)
    simulator.add_clock(4e-9, phase=phase_ps * 1e-12, domain="write")
    simulator.add_clock(4e-9, phase=2e-9, domain="read")

    async def bench(ctx):
        await ctx.tick("read").repeat(20)
        slips = ctx.get(dut.slipped)
        before = ctx.get(dut.o)
        for _ in range(60):
            await ctx.tick("read")
            slips += ctx.get(dut.slipped)
            assert ctx.get(dut.o) == before + 1
            before += 1
        assert slips == 0
        # A word's delay decides which symbols of the two lanes come out together.
        assert LATENCY - (ctx.get(sent) - before) in (0, 1)

    simulator.add_testbench(bench)
    simulator.run()


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("slow, ppm", [(0, 300), (0, -5300), (1, 300), (1, -5300)])
def test_the_links_counter_follows_within_8_ns(slow, ppm, half):
    """``half``: for an instrument at half the frequency, with the finer counter. ``now`` still has steps of 8 ns."""
    m = Module()
    m.domains += [ClockDomain("sync"), ClockDomain("link", reset_less=True)]
    start = (1 << 40) + (1 << LOW_BITS) - 40_000
    # The instrument's counter is `now` in the first half of its cycle.
    now = Signal(64, init=start + 8 * half)
    if half:
        m.domains += ClockDomain("fast", reset_less=True)
        m.submodules.fine = fine = FineTime(ticks_per_clock=8)
        m.submodules.dut = dut = LinkTime(ticks_per_clock=8, behind=16, core="fast")
        coarse = Signal(64, init=start)
        m.d.sync += coarse.eq(coarse + 16)
        m.d.fast += now.eq(now + 8)
        m.d.comb += [fine.now.eq(coarse), dut.now.eq(fine.fine)]
    else:
        m.submodules.dut = dut = LinkTime(ticks_per_clock=8)
        m.d.sync += now.eq(now + 8)
        m.d.comb += dut.now.eq(now)
    m.d.comb += dut.slow.eq(slow)
    period_fs = round((16 if slow else 8) * 1e6 / (1 + ppm * 1e-6))
    simulator = Simulator(m)
    if half:
        simulator.add_clock(16e-9, phase=8e-9, domain="sync")
        simulator.add_clock(8e-9, phase=8e-9, domain="fast")
    else:
        simulator.add_clock(8e-9, domain="sync")
    simulator.add_clock(period_fs * 1e-15, domain="link")

    async def bench(ctx):
        await ctx.tick("link").repeat(60)
        errors, steps = [], []
        before = ctx.get(dut.tick)
        for _ in range(1000 if slow else 2000):
            await ctx.tick("link")
            tick = ctx.get(dut.tick)
            error = (tick - ctx.get(now)) % (1 << LOW_BITS)
            errors.append(error - (1 << LOW_BITS) if error >> (LOW_BITS - 1) else error)
            steps.append((tick - before) - (16 if slow else 8))
            before = tick
        # `now` itself moves in steps of 8 with arbitrary phase to the link's clock: 4 late on average.
        settled = errors[200:]
        assert max(settled) - min(settled) <= 16
        assert abs(sum(settled) / len(settled) - 4) <= 4
        assert set(steps[200:]) <= ({-2, 0, 2} if slow else {-1, 0, 1})

    simulator.add_testbench(bench)
    simulator.run()


def test_ticks_come_back_whole():
    m = Module()
    now, low = Signal(64), Signal(LOW_BITS)
    whole = Signal(64)
    m.d.comb += whole.eq(whole_tick(m, now, low))
    simulator = Simulator(m)

    async def bench(ctx):
        for at in (0x5_0000_0010, 0x5_00FF_FFFF, 0x5_0100_0000, 0x5_0100_0010):
            for age in (0, 8, 1000, (1 << LOW_BITS) - 1):
                ctx.set(now, at)
                ctx.set(low, (at - age) % (1 << LOW_BITS))
                assert ctx.get(whole) == at - age

    simulator.add_testbench(bench)
    simulator.run()


def test_beats_of_half_the_width_are_paired():
    m = Module()
    m.submodules.dut = dut = BeatPairs(64)
    simulator = Simulator(m)
    simulator.add_clock(8e-9)
    random = Random(2)
    sent, got = [], []

    async def send(ctx):
        for n in range(300):
            length, error = random.randrange(1, 12), random.getrandbits(1)
            words = [random.getrandbits(32) for _ in range(length)]
            lost = random.getrandbits(1)
            sent.append((words, error, n, lost))
            for at in range(0, length, 2):
                while random.random() < 0.3:
                    ctx.set(dut.i.valid, 0)
                    await ctx.tick()
                part = words[at : at + 2]
                ctx.set(dut.i.valid, 1)
                last = at + 2 >= length
                beat = {
                    "data": sum(word << 32 * k for k, word in enumerate(part)),
                    "dws": len(part),
                    "first": at == 0,
                    "last": last,
                    "error": last & error,
                    "tick": n,
                    "lost": lost if at == 0 else random.getrandbits(1),
                }
                for name, value in beat.items():
                    ctx.set(dut.i.payload[name], value)
                await ctx.tick()
        ctx.set(dut.i.valid, 0)
        await ctx.tick().repeat(3)

    async def take(ctx):
        words, missing = [], 0
        while True:
            await ctx.tick()
            if not ctx.get(dut.o.valid):
                continue
            beat = dut.o.payload
            dws, last = ctx.get(beat.dws), ctx.get(beat.last)
            assert ctx.get(beat.first) == (not words)
            assert last or dws == 4
            missing = missing if words else ctx.get(beat.lost)
            words += [ctx.get(beat.data) >> 32 * k & 0xFFFF_FFFF for k in range(dws)]
            if last:
                got.append((words, ctx.get(beat.error), ctx.get(beat.tick), missing))
                words = []

    simulator.add_testbench(send)
    simulator.add_testbench(take, background=True)
    simulator.run()
    assert got == sent


def test_a_link_faster_than_the_instrument_loses_no_beat_and_no_tick():
    m = Module()
    m.domains += [ClockDomain("sync"), ClockDomain("link", reset_less=True)]
    m.submodules.dut = dut = BeatCrossing(64)
    now = Signal(64, init=(7 << 30) - 4000)
    m.d.sync += now.eq(now + 8)
    m.d.comb += dut.now.eq(now)
    simulator = Simulator(m)
    simulator.add_clock(8e-9)
    simulator.add_clock(8e-9 / (1 + 600e-6), domain="link")
    random = Random(1)
    sent, got, lost = [], [], []

    async def send(ctx):
        await ctx.tick("link").repeat(10)
        for n in range(600):
            # 4 KiB of payload at once, then the beat that framing takes from every TLP.
            ctx.set(dut.i.valid, n % 514 != 513)
            tick = ctx.get(now) - random.randrange(100, 5000)
            beat = {"data": random.getrandbits(64), "dws": n % 3, "first": n % 2, "last": n % 5 == 0, "error": 0, "tick": tick}
            if n % 514 != 513:
                sent.append(beat)
            for name, value in beat.items():
                ctx.set(dut.i.payload[name], value)
            await ctx.tick("link")
        ctx.set(dut.i.valid, 0)
        await ctx.tick().repeat(20)

    async def take(ctx):
        while True:
            await ctx.tick()
            lost.append(ctx.get(dut.lost))
            if ctx.get(dut.o.valid):
                got.append({name: ctx.get(dut.o.payload[name]) for name in sent[0]})

    simulator.add_testbench(send)
    simulator.add_testbench(take, background=True)
    simulator.run()
    assert got == sent
    assert sum(lost) == 0


@pytest.mark.parametrize("slower", [2, 3, 10])
def test_beats_that_find_no_room_are_counted_and_the_next_tlp_says_so(slower):
    """TLPs of one to three beats arrive unchanged and in order; `lost` is set exactly where some are missing before."""
    m = Module()
    m.domains += [ClockDomain("sync"), ClockDomain("link", reset_less=True)]
    m.submodules.dut = dut = BeatCrossing(64)
    simulator = Simulator(m)
    simulator.add_clock(slower * 8e-9)
    simulator.add_clock(8e-9, domain="link")
    random = Random(slower)
    sent, got, dropped = [], [], []

    async def send(ctx):
        for n in range(120):
            length = random.randrange(1, 4)
            sent.append(length)
            for beat in range(length):
                ctx.set(dut.i.valid, 1)
                for name, value in {"data": n << 8 | beat, "first": beat == 0, "last": beat == length - 1, "lost": 0}.items():
                    ctx.set(dut.i.payload[name], value)
                await ctx.tick("link")
                dropped.append(ctx.get(dut.dropped))
            ctx.set(dut.i.valid, 0)
            if n % 40 > 25:  # room again
                for _ in range(30):
                    await ctx.tick("link")
                    dropped.append(ctx.get(dut.dropped))
        await ctx.tick().repeat(40)

    async def take(ctx):
        while True:
            await ctx.tick()
            if ctx.get(dut.o.valid):
                payload = dut.o.payload
                got.append(tuple(ctx.get(payload[name]) for name in ("data", "first", "last", "lost")))

    simulator.add_testbench(send)
    simulator.add_testbench(take, background=True)
    simulator.run()
    came = [data for data, *_ in got]
    missing = [n << 8 | beat for n, length in enumerate(sent) for beat in range(length) if n << 8 | beat not in came]
    assert came == sorted(set(came)) and sum(dropped) == len(missing) > 20
    # A TLP is marked if a beat has been lost since the previous TLP began.
    begun = -1
    for data, first, last, lost in got:
        assert first == (data & 255 == 0) and last == ((data & 255) == sent[data >> 8] - 1)
        if first:
            assert lost == any(begun < beat < data for beat in missing)
            begun = data
    assert any(lost for *_, lost in got) and not all(lost for *_, lost in got)


@pytest.mark.parametrize("phase_ps", [0, 1300, 2600])
def test_both_lanes_come_geared_first_bit_first_and_at_most_two_symbols_apart(phase_ps):
    m = Module()
    m.domains += [ClockDomain(name, reset_less=True) for name in ("words", "other", "link")]
    m.submodules.dut = dut = LanePair()
    m.d.comb += [ClockSignal("link").eq(dut.half), dut.up.eq(3)]
    count0, count1 = Signal(10), Signal(10)
    m.d.words += count0.eq(count0 + 1)
    m.d.other += count1.eq(count1 + 1)
    # Two symbols per word, each half of it the count, the second complemented.
    m.d.comb += [dut.word[0].eq(Cat(count0, ~count0)), dut.word[1].eq(Cat(count1, ~count1))]
    simulator = Simulator(m)
    simulator.add_clock(4e-9, phase=2e-9, domain="words")
    simulator.add_clock(4e-9, phase=2e-9 + phase_ps * 1e-12, domain="other")

    async def bench(ctx):
        await ctx.tick("words").repeat(40)
        for _ in range(30):
            await ctx.posedge(dut.half)
            await ctx.delay(1e-10)
            symbols = [[ctx.get(dut.raw[lane]) >> 10 * n & 0x3FF for n in range(4)] for lane in range(2)]
            for first, second, third, fourth in symbols:
                assert (second, third, fourth) == (~first & 0x3FF, first + 1, ~(first + 1) & 0x3FF)
            assert abs(symbols[0][0] - symbols[1][0]) <= 1
            # The first bit of the word came with the clock that made its count: this many words ago, of 4 ticks each.
            assert abs((ctx.get(count0) - symbols[0][0]) * 4 - LATE_TICKS) <= 4

    simulator.add_testbench(bench)
    simulator.run()


@pytest.mark.parametrize(
    "host, drive, both",
    [
        (LinkState.L0, LinkState.L0, LinkState.L0),
        (LinkState.L0, LinkState.L0S, LinkState.L0S),
        (LinkState.L0S, LinkState.L0, LinkState.L0),
        (LinkState.RECOVERY, LinkState.L0, LinkState.RECOVERY),
        (LinkState.L1, LinkState.L0, LinkState.L1),
        (LinkState.L0, LinkState.DETECT, LinkState.DETECT),
        (LinkState.RECOVERY, LinkState.L1, LinkState.RECOVERY),
    ],
)
def test_two_directions_make_one_state(host, drive, both):
    m = Module()
    of = [Signal(LinkState), Signal(LinkState)]
    seen = Signal(LinkState)
    m.d.comb += seen.eq(link_state(m, *of))
    simulator = Simulator(m)

    async def bench(ctx):
        ctx.set(of[0], host)
        ctx.set(of[1], drive)
        assert ctx.get(seen) == both

    simulator.add_testbench(bench)
    simulator.run()
