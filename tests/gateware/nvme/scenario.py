"""Shared by the cocotb tests: boot a drive, load it, and compare the tracker's output."""

from __future__ import annotations

import os
from collections import Counter

import cocotb
from wattbell_spec import wire as spec

from tests.gateware.nvme.bench import Bench
from tests.gateware.nvme.expect import DSM, FLUSH, READ, WRITE, WRITE_ZEROES, CompletionQueue, Queue, allow_partial
from tests.gateware.nvme.link import DOWN, UP, Clockwork, Link
from tests.gateware.nvme.model import Model

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


def boot(model: Model, queues: int, *, sizes=(2, 1024), known=False) -> None:
    """Enumerate, enable, create I/O queues through the admin queue. `known`: the tracker sees what messages the host sets up."""
    r = model.random
    model.enumerate_bus()
    if known:
        model.set_messages()
    model.read_cap()
    model.enable(r.randrange(4, 40), r.randrange(4, 40), wide=r.random() < 0.5)
    create_queues(model, queues, sizes)


def create_queues(model: Model, queues: int, sizes, only=None, completing=None) -> None:
    """Submission queues 1 to `queues`, or `only` those, in random sizes. `completing`: SQ -> its CQ, where that has another number; a CQ is
    created before its first SQ."""
    numbers = only or range(1, queues + 1)
    r = model.random
    for qid in numbers:
        cqid = (completing or {}).get(qid, qid)
        size, cq_size = r.randint(*sizes), r.randint(*sizes)
        base = model.contiguous(size * 64)

        def create_sq(qid=qid, cqid=cqid, base=base, size=size) -> None:
            def created(command) -> None:
                model.events.append((command.ticks["cqe"], "QUEUE_CREATED", 0, qid, size))
                model.queues[qid] = Queue(qid, base, size, model.cqs[cqid])

            model.admin(0x01, cdw=(size - 1 << 16 | qid, cqid << 16 | 1), prp1=base, done=created)
            model.ring(0)

        if cqid in model.cqs and model.cqs[cqid].alive:
            create_sq()
        else:
            cq = CompletionQueue(cqid, model.contiguous(cq_size * 16), cq_size, cqid % 8)

            def cq_created(command, cq=cq, then=create_sq) -> None:
                model.events.append((command.ticks["cqe"], "QUEUE_CREATED", 1, cq.cqid, cq.size))
                model.cqs[cq.cqid] = cq
                then()

            model.admin(0x05, cdw=(cq.size - 1 << 16 | cq.cqid, cq.vector << 16 | 3), prp1=cq.base, done=cq_created)
            model.ring(0)
        model.clock.run()
    # A message's queue is learnt only when a single queue is waiting for one.
    for qid in numbers:
        model.io(qid, FLUSH)
        model.ring(qid)
        model.clock.run()


def delete_sq(model: Model, qid: int) -> Queue:
    """Amid its traffic: commands in flight are aborted, and the host reuses the queue's memory."""
    q = model.queues[qid]
    q.alive = False

    def deleted(command) -> None:
        model.events.append((command.ticks["cqe"], "QUEUE_DELETED", 0, qid, 0))
        model.kill(command.ticks["cqe"], q)
        del model.queues[qid]
        model.free(q.base, 64 * q.size)

    model.admin(0x00, cdw=(qid, 0), done=deleted)
    model.ring(0)
    return q


def delete_cq(model: Model, cq: CompletionQueue) -> None:
    """Once no submission queue completes to it."""

    def deleted(command) -> None:
        tick = command.ticks["cqe"]
        model.events.append((tick, "QUEUE_DELETED", 1, cq.cqid, 0))
        cq.alive = False
        for c in [c for c in model.live if c.queue.cq is cq]:
            model.finish(c)
        del model.cqs[cq.cqid]
        model.free(cq.base, 16 * cq.size)

    model.admin(0x04, cdw=(cq.cqid, 0), done=deleted)
    model.ring(0)


def workload(model: Model, commands: int, *, opcodes=(READ, WRITE, FLUSH, DSM, WRITE_ZEROES), big=0.03, most=600) -> None:
    """Keeps random queues busy until `commands` were submitted; a share `big` of them has 17 blocks or more, fewer than `most`."""
    r = model.random
    left = [commands]
    mine = dict(model.queues)

    def one(qid: int) -> None:
        if not left[0] or model.queues.get(qid) is not mine[qid] or not mine[qid].alive:
            return
        for number in range(r.choice((1, 1, 2, 8))):
            if left[0] and model.room(qid) > 0 and (number == 0 or len(model.live) < model.limit):
                left[0] -= 1
                blocks = r.randrange(1, 17) if r.random() > big else r.randrange(17, most)
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
    """Compares every record and every event, exactly."""
    loose = [e for e in model.records if "loose" in e]
    strict = [e for e in model.records if "loose" not in e]
    got = list(bench.records)
    for e in loose:
        match = [g for g in got if (g["cqe_tick"], g["qid"], g["cid"]) == (e["cqe_tick"], e["qid"], e["cid"])]
        assert match, f"missing {e}"
        got.remove(match[0])

    allow_partial(strict, model.perhaps_partial, ((g["cqe_tick"], g["qid"], g["cid"], g["flags"]) for g in got))

    def key(d: dict[str, int]) -> tuple:
        return tuple(sorted(d.items()))

    have, want = Counter(map(key, got)), Counter(map(key, strict))
    if have != want:
        extra = [dict(k) for k in (have - want)]
        missing = [dict(k) for k in (want - have)]
        by = {(e["cqe_tick"], e["qid"]): e for e in extra}
        for m in sorted(missing, key=lambda e: e["cqe_tick"])[:5]:
            e = by.get((m["cqe_tick"], m["qid"]))
            cocotb.log.error("expected %s\n   got: %s", m, {k: v for k, v in e.items() if v != m[k]} if e else "nothing at this tick")
        for e in extra[:3]:
            cocotb.log.error("extra %s", e)
        raise AssertionError(f"{len(missing)} records missing, {len(extra)} unexpected, of {len(strict)}")
    events = Counter(
        (e["tick"], NAMES[e["type"]], e["arg8"], e["arg16"], e["arg32"]) for e in bench.events if NAMES[e["type"]] not in ignore
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
