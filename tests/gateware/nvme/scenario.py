"""What the cocotb tests share: how to boot a drive, load it, and compare what the tracker said."""

from __future__ import annotations

import os
from collections import Counter

import cocotb
from expect import DSM, FLUSH, READ, WRITE, WRITE_ZEROES, Queue
from link import DOWN, UP, Clockwork, Link
from model import Model
from wattbell.wire import spec

from bench import Bench

WIDTH = int(os.environ.get("WIDTH", "128"))
TICKS = int(os.environ.get("TICKS", "4"))
SEED = int(os.environ.get("SEED", "1"))
READ_TAGS = int(os.environ.get("READ_TAGS", "1024"))


def make(seed: int, **options) -> tuple[Clockwork, Link, Model]:
    clock = Clockwork(seed)
    link = Link(clock, WIDTH, TICKS)
    r = clock.random
    bar0 = r.choice((r.randrange(1 << 16, 1 << 18) << 14, r.randrange(1 << 18, 1 << 34) << 14))
    options.setdefault("stride", r.randrange(2))
    options.setdefault("tags", READ_TAGS)
    return clock, link, Model(clock, link, bar0=bar0, **options)


def boot(model: Model, queues: int, *, sizes=(2, 1024)) -> None:
    """Enumerate, enable, create I/O queues through the admin queue."""
    r = model.random
    model.enumerate_bus()
    model.read_cap()
    model.enable(r.randrange(4, 40), r.randrange(4, 40), wide=r.random() < 0.5)
    create_queues(model, queues, sizes)


def create_queues(model: Model, queues: int, sizes, only=None) -> None:
    numbers = only or range(1, queues + 1)
    r = model.random
    for qid in numbers:
        q = Queue(qid, 0, r.randint(*sizes), 0, r.randint(*sizes), qid % 8)
        q.sq, q.cq = model.contiguous(q.sq_size * 64), model.contiguous(q.cq_size * 16)

        def created(command, q=q, cq=1) -> None:
            tick = command.ticks["cqe"]
            size = q.cq_size if cq else q.sq_size
            model.events.append((tick, "QUEUE_CREATED", cq, q.qid, size))
            if cq:
                model.admin(
                    0x01,
                    cdw=(q.sq_size - 1 << 16 | q.qid, q.qid << 16 | 1),
                    prp1=q.sq,
                    done=lambda c: created(c, q, 0),
                )
                model.ring(0)
            else:
                model.queues[q.qid] = q

        model.admin(
            0x05, cdw=(q.cq_size - 1 << 16 | qid, q.vector << 16 | 3), prp1=q.cq, done=lambda c, q=q: created(c, q, 1)
        )
        model.ring(0)
        model.clock.run()
    # Which interrupt message belongs to which queue is learnt when only one queue waits for one.
    for qid in numbers:
        model.io(qid, FLUSH)
        model.ring(qid)
        model.clock.run()


def workload(model: Model, commands: int, *, opcodes=(READ, WRITE, FLUSH, DSM, WRITE_ZEROES), big=0.03) -> None:
    """Keeps random queues busy until `commands` were submitted."""
    r = model.random
    left = [commands]
    mine = dict(model.queues)

    def one(qid: int) -> None:
        if not left[0] or model.queues.get(qid) is not mine[qid] or not mine[qid].alive:
            return
        for number in range(r.choice((1, 1, 2, 8))):
            if left[0] and model.room(qid) > 0 and (number == 0 or len(model.live) < model.limit):
                left[0] -= 1
                blocks = r.randrange(1, 17) if r.random() > big else r.randrange(17, 600)
                opcode = r.choice(opcodes)
                c = model.io(qid, opcode, blocks)
                if number == 0:
                    c.done = lambda _c: model.clock.after(r.randrange(3000), lambda: one(qid))
                if r.random() < 0.05:
                    c.status = r.choice((0x0281, 0x4002))
        model.ring(qid)

    for qid in model.queues:
        if qid:
            for _ in range(4):
                model.clock.after(r.randrange(2000), lambda qid=qid: one(qid))


NAMES = {int(t): t.name for t in spec.EventType}


def compare(bench: Bench, model: Model, *, ignore=()) -> None:
    """Every record and every event, exactly."""
    loose = [e for e in model.records if "loose" in e]
    strict = [e for e in model.records if "loose" not in e]
    got = list(bench.records)
    for e in loose:
        match = [g for g in got if (g["cqe_tick"], g["qid"], g["cid"]) == (e["cqe_tick"], e["qid"], e["cid"])]
        assert match, f"missing {e}"
        got.remove(match[0])

    def key(d: dict[str, int]) -> tuple:
        return tuple(sorted(d.items()))

    have, want = Counter(map(key, got)), Counter(map(key, strict))
    if have != want:
        extra = [dict(k) for k in (have - want)]
        missing = [dict(k) for k in (want - have)]
        by = {(e["cqe_tick"], e["qid"]): e for e in extra}
        for m in sorted(missing, key=lambda e: e["cqe_tick"])[:5]:
            e = by.get((m["cqe_tick"], m["qid"]))
            cocotb.log.error(
                "expected %s\n   got: %s", m, {k: v for k, v in e.items() if v != m[k]} if e else "nothing at this tick"
            )
        for e in extra[:3]:
            cocotb.log.error("extra %s", e)
        raise AssertionError(f"{len(missing)} records missing, {len(extra)} unexpected, of {len(strict)}")
    events = Counter(
        (e["tick"], NAMES[e["type"]], e["arg8"], e["arg16"], e["arg32"])
        for e in bench.events
        if NAMES[e["type"]] not in ignore
    )
    expected = Counter(e for e in model.events if e[1] not in ignore)
    assert events == expected, f"unexpected {list(events - expected)[:5]}, missing {list(expected - events)[:5]}"


async def run(dut, model: Model, link: Link, *, pins=(), ignore=(), skip=True) -> Bench:
    bench = Bench(dut, WIDTH, TICKS, skip=skip)
    await bench.start()
    await bench.play(link.sent, pins)
    cocotb.log.info("%d TLPs, %d records, %d clocks", len(link.sent), len(bench.records), bench.clocks)
    counters = await bench.counters()
    cocotb.log.info("%s", counters)
    for e in bench.events:
        if NAMES[e["type"]] == "LOSS":
            cocotb.log.error("LOSS source %d: %d from tick %d", e["arg8"], e["arg32"], e["tick"])
    compare(bench, model, ignore=ignore)
    assert counters["tlps_down"] == sum(s.direction == DOWN for s in link.sent)
    assert counters["tlps_up"] == sum(s.direction == UP for s in link.sent)
    for name, value in counters.items():
        if name.startswith("lost"):
            assert value == 0, f"{name} = {value}"
    return bench
