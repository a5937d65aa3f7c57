"""The store between framing and tracker passes on only good TLPs, each once."""

import random

import pytest
from amaranth.sim import Simulator
from wattbell_gateware.link import Verdict
from wattbell_gateware.link.store import Fate, TlpStore


@pytest.mark.parametrize("width", [32, 128])
def test_only_what_is_good_and_once(width):
    """Frames come with every verdict, replays, losses, one longer than the store, with and without pauses."""
    r = random.Random(width)
    store = TlpStore(width, bytes_kept=512)
    frames, number, top = [], 4090, 4090
    for n in range(120):
        verdict = r.choice([Verdict.GOOD] * 6 + list(Verdict))
        dws = r.randrange(3, 40)
        if n == 60:
            verdict, dws, number = Verdict.GOOD, 200, top
        frames.append((verdict, number, r.randbytes(4 * dws), 1000 + n))
        number += 1 if verdict is Verdict.GOOD else 0
        top = max(top, number)
        if r.random() < 0.1:
            number -= r.randrange(1, 9)  # a replay, with other bytes here to tell them apart
        elif r.random() < 0.2:
            number += 3
    out, fates = [], []
    # The expected result: each number once, and none from before the first
    wanted, had, no_room = [], set(), False
    for verdict, sequence, body, tick in frames:
        if verdict is Verdict.GOOD and sequence not in had and sequence >= min(had, default=0):
            passed_over = bool(had) and sequence != max(had) + 1  # or it is late itself
            had.add(sequence)
            if len(body) <= 512:
                wanted.append((body, tick, passed_over or no_room))
            no_room = len(body) > 512

    async def feed(ctx):
        beats = store.frames.payload
        for verdict, sequence, body, tick in frames:
            step = width // 8
            for at in range(0, len(body), step):
                part = body[at : at + step]
                last = at + step >= len(body)
                ctx.set(
                    beats,
                    {
                        "data": int.from_bytes(part, "little"),
                        "dws": len(part) // 4,
                        "first": at == 0,
                        "last": last,
                        "verdict": verdict if last else r.choice(list(Verdict)),
                        "sequence": sequence % 4096,
                        "tick": tick,
                    },
                )
                ctx.set(store.frames.valid, 1)
                await ctx.tick()
                while r.random() < 0.1:
                    ctx.set(store.frames.valid, 0)
                    await ctx.tick()
            ctx.set(store.frames.valid, 0)
        await ctx.tick().repeat(300)

    async def watch(ctx):
        current, missing = None, False
        async for _, _, valid, beat, judged, fate in ctx.tick().sample(
            store.tlps.valid, store.tlps.payload, store.fates.valid, store.fates.payload
        ):
            if judged:
                fates.append(Fate(fate.fate))
            if valid:
                missing = bool(beat.lost) if beat.first else missing
                assert bool(beat.first) == (current is None) and not beat.error
                current = (current or b"") + beat.data.to_bytes(16, "little")[: 4 * beat.dws]
                if beat.last:
                    out.append((current, beat.tick, missing))
                    current = None

    simulator = Simulator(store)
    simulator.add_clock(8e-9)
    simulator.add_testbench(feed)
    simulator.add_testbench(watch, background=True)
    simulator.run()
    assert out == wanted and len(out) > 40 and sum(missing for *_, missing in out) > 2
    assert len(fates) == len(frames) and fates.count(Fate.NO_ROOM) == 1 and fates.count(Fate.LATE) > 0 and fates.count(Fate.DUPLICATE) > 5
    for verdict, fate in ((Verdict.NULLIFIED, Fate.NULLIFIED), (Verdict.BAD_LCRC, Fate.BAD_LCRC), (Verdict.BAD_FRAME, Fate.BAD_FRAME)):
        assert fates.count(fate) == sum(f[0] is verdict for f in frames) > 0
