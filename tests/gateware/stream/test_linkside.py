"""Link events and LINK blocks, against a model written from docs/wire-format.md and docs/registers.md."""

from __future__ import annotations

import random
import struct

from amaranth.sim import Simulator
from wattbell_gateware.link.acks import AckTimer
from wattbell_gateware.link.receiver import COUNTERS as RECEIVER_COUNTERS
from wattbell_gateware.stream.linkside import LinkReporter, LinkSource
from wattbell_spec.link_events import DEFAULT_EVENTS
from wattbell_spec.wire import LINK_COUNTERS

STATE, LANES, SPEED, ACK, NAK, POWER, INIT_FC, DUPLICATE, LOST, RECOVERED = range(10)
NULLIFIED, BAD_LCRC, BAD_FRAME, NO_ROOM, FAULTS, TLP, BLOCK_FAULTS, RATE, LOCK = range(10, 19)
COUNTERS = ("tlps", "dllps", "duplicates", "lost", "late", "nullified", "bad_lcrc", "bad_frames", "bad_dllps", "headless", "dropped",
            "lost_events", "bad_words", "unlocked", "bad_headers", "corrected_tokens", "lost_tokens", "corrected_registers",
            "damaged_skips", "bad_parity", "lanes_differ")  # fmt: skip
L0, L1, RECOVERY, DETECT = 1, 3, 6, 7
"""Values of LinkState."""

# (kind, argument) -> (type, arg16, arg32)
CASES = [
    ((STATE, 4), (16, L0, 0)),
    ((STATE, 7), (16, RECOVERY, 0)),
    ((STATE, 3), (16, DETECT, 0)),
    ((STATE, 6), (16, L1, 0)),
    ((LANES, 0b01_1_1_0011), (17, 0b110011, 0)),
    ((SPEED, 0x8E), (18, 0x0E, 0)),
    ((RATE, 2), (19, 3, 0)),
    ((LOCK, 0b1_1011), (20, 0b1_1011, 0)),
    ((NAK, 0xABC), (21, 0x10, 0xABC)),
    ((POWER, 0x23), (21, 0x23, 0)),
    ((INIT_FC, 0xF0030840), (21, 0x40, 0xF0030840)),
    ((LOST, 0x123 | 5 << 12), (22, 0x0123, 5)),
    ((RECOVERED, 0x123), (22, 0x1123, 0)),
    ((DUPLICATE, 0xFFF), (22, 0x2FFF, 0)),
    ((NULLIFIED, 1), (22, 0x3001, 0)),
    ((BAD_LCRC, 2), (22, 0x4002, 0)),
    ((BAD_FRAME, 3), (22, 0x5003, 0)),
    ((NO_ROOM, 4 | 7 << 12), (22, 0x6004, 7)),
    ((FAULTS, 0x15), (23, 0, 0x15)),
    ((BLOCK_FAULTS, 0x3FFFFFF), (24, 0, 0x3FFFFFF)),
]


def test_the_wire_has_every_counter_of_the_receiver():
    assert tuple(name for name, _ in RECEIVER_COUNTERS) == LINK_COUNTERS == COUNTERS


def simulate(component, *benches):
    simulator = Simulator(component)
    simulator.add_clock(8e-9)
    for bench in benches[:-1]:
        simulator.add_testbench(bench, background=True)
    simulator.add_testbench(benches[-1])
    simulator.run()


def test_every_kind_of_both_directions_in_order():
    r = random.Random(3)
    dut = LinkReporter()
    sent = {"down": [], "up": []}
    for name in sent:
        for n in range(120):
            (kind, argument), out = r.choice([*CASES, ((ACK, n), None), ((TLP, n), None)])
            sent[name].append((1000 + n, kind, argument, out))
    got = []

    def feed(name):
        async def bench(ctx):
            port = getattr(dut, name).events
            for tick, kind, argument, _ in sent[name]:
                ctx.set(port.payload, {"tick": tick, "kind": kind, "argument": argument})
                ctx.set(port.valid, 1)
                ready = False
                while not ready:
                    *_, ready = await ctx.tick().sample(port.ready)
                ctx.set(port.valid, 0)
                await ctx.tick().repeat(1 + r.randrange(3))

        return bench

    async def take(ctx):
        ctx.set(dut.wanted, DEFAULT_EVENTS)
        ctx.set(dut.enable, 1)
        for _ in range(1500):
            ctx.set(dut.o_ready, r.random() < 0.6)
            *_, valid, ready, event = await ctx.tick().sample(dut.o_valid, dut.o_ready, dut.o_event)
            if valid and ready:
                got.append((event.tick, event.type, event.arg8, event.arg16, event.arg32))

    simulate(dut, feed("down"), feed("up"), take)
    for direction, name in enumerate(sent):
        wanted = [(tick, out[0], direction, *out[1:]) for tick, _, _, out in sent[name] if out]
        assert [event for event in got if event[2] == direction] == wanted and len(wanted) > 60


def test_what_is_not_wanted_does_not_go_out_and_holds_nothing_up():
    dut = LinkReporter()
    out = []

    async def bench(ctx):
        for wanted, enable in ((1 << ACK, 1), (0, 1), (0x7FFFF, 0)):
            ctx.set(dut.wanted, wanted)
            ctx.set(dut.enable, enable)
            for kind in (NAK, ACK):
                ctx.set(dut.down.events.payload, {"tick": 5, "kind": kind, "argument": 9})
                ctx.set(dut.down.events.valid, 1)
                assert ctx.get(dut.down.events.ready) == (not (kind == ACK and wanted == 1 << ACK and enable))
                out.append(ctx.get(dut.o_valid))
        assert out == [0, 1, 0, 0, 0, 0]

    simulate(dut, bench)


def test_acks_are_timed_from_the_tlp_that_they_name():
    """TLPs run over the wrap of the numbers; Acks come for some TLPs, again, and for TLPs that were never seen."""
    r = random.Random(5)
    dut = AckTimer()
    tick, number = 10_000, 4000
    script, times = [], []
    waiting: list[tuple[int, int]] = []
    for _ in range(900):
        tick += r.randrange(10, 400)
        if r.random() < 0.6 and len(waiting) < 40:
            seen = r.random() < 0.95
            if seen:
                script.append(("sent", tick, TLP, number % 4096))
            waiting.append((number % 4096, tick if seen else 0))
            number += 1
        elif waiting:
            at = r.randrange(len(waiting))
            sequence, begun = waiting[at]
            del waiting[: at + 1]
            script += [("answers", tick, ACK, sequence)] * r.choice((1, 1, 2))
            if begun:
                times.append(tick - begun)
        script.append((r.choice(("sent", "answers")), tick, NAK, r.randrange(4096)))

    async def bench(ctx):
        assert ctx.get(dut.times.least) == 2**32 - 1
        for port, at, kind, sequence in script:
            for name in ("sent", "answers"):
                ctx.set(getattr(dut, name).valid, name == port)
            ctx.set(getattr(dut, port).event, {"tick": at, "kind": kind, "argument": sequence})
            await ctx.tick()
        ctx.set(dut.answers.valid, 0)
        await ctx.tick().repeat(4)
        found = [ctx.get(dut.times[name]) for name in ("acks", "least", "greatest", "total")]
        assert found == [len(times), min(times), max(times), sum(times)] and len(times) > 200

    simulate(dut, bench)


def test_a_block_holds_a_record_of_each_direction():
    dut = LinkSource()
    values = {"down": range(100, 121), "up": range(200, 221)}

    async def bench(ctx):
        for name, (state, rate, lanes) in {"down": (4, 3, 0xF), "up": (6, 2, 0x3)}.items():
            side = getattr(dut, name).state
            ctx.set(side.state.as_value(), state)
            ctx.set(side.rate, rate)
            ctx.set(side.lanes.active, lanes)
            ctx.set(side.lanes.reverse, name == "up")
        ctx.set(dut.down.acks, {"acks": 3, "least": 10, "greatest": 30, "total": 60})
        ctx.set(dut.up.acks, {"acks": 1, "least": 5, "greatest": 5, "total": 1 << 40})
        ctx.set(dut.now, 77)
        ctx.set(dut.request, 1)
        await ctx.tick()
        await ctx.tick()
        ctx.set(dut.request, 0)
        ctx.set(dut.down.acks, {"acks": 9, "least": 9, "greatest": 9, "total": 9})  # behind the request
        assert ctx.get(dut.read.ready) and ctx.get(dut.read.first_tick) == 77
        assert ctx.get(dut.read.dropped) == 1
        words = []
        for address in range(ctx.get(dut.read.words)):
            ctx.set(dut.read.address, address)
            counter = ctx.get(dut.counter)
            await ctx.tick()
            ctx.set(dut.down.count, values["down"][counter])
            ctx.set(dut.up.count, values["up"][counter])
            words.append(ctx.get(dut.read.data))
        down = struct.pack("<BBBB21IIIIQ", 0, L0, 0x0F, 3, *values["down"], 3, 10, 30, 60)
        up = struct.pack("<BBBB21IIIIQ", 1, L1, 0x13, 2, *values["up"], 1, 5, 5, 1 << 40)
        assert struct.pack(f"<{len(words)}I", *words) == down + up
        ctx.set(dut.read.release, 1)
        await ctx.tick()
        assert not ctx.get(dut.read.ready)

    simulate(dut, bench)
