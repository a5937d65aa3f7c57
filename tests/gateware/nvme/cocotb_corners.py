"""Resets, deletions, shadow doorbells, late attach, markers, Identify, trims, too many commands, too much traffic."""

from __future__ import annotations

import struct
from collections import Counter

import cocotb

from tests.gateware.nvme.bench import Bench, Pin
from tests.gateware.nvme.expect import DSM, FLUSH, GUESS, NO_RANGES, NO_SQE, READ, SHADOW, WRITE
from tests.gateware.nvme.hosts import part, use_shadow_doorbells
from tests.gateware.nvme.link import UP, Sent
from tests.gateware.nvme.scenario import NAMES, SEED, TICKS, WIDTH, boot, compare, create_queues, delete_cq, delete_sq, make, run, workload


def data_tlps(sent: list[Sent]) -> list[Sent]:
    """Data writes by the drive: those longer than CQEs and interrupts."""
    return [s for s in sent if s.direction == UP and len(s.raw) > 100]


def raw_tlps(bench: Bench) -> list[tuple[int, bytes]]:
    """(tick, bytes) of the TLPs that came out raw."""
    tlps, words = [], []
    for w in bench.raw:
        assert (w["flags"], w["direction"]) == (2, 1)
        assert w["first"] == (not words)
        words.append(w["data"])
        if w["last"]:
            raw = b"".join(x.to_bytes(4, "little") for x in words)
            assert len(raw) == w["length"]
            tlps.append((w["tick"], raw))
            words = []
    return tlps


@cocotb.test()
async def resets(dut):
    """CC.EN = 0 amid traffic, a new session of the controller, PERST# amid traffic, a third session elsewhere."""
    clock, link, model = make(SEED + 1)
    r = clock.random
    boot(model, 3, sizes=(4, 64))
    workload(model, 1000)
    part(model, 60_000)
    link.drain()
    model.disable()
    clock.run()
    link.drain()
    clock.now += 100_000
    model.enable(16, 16, wide=True)
    create_queues(model, 2, (4, 64))
    workload(model, 1000)
    part(model, 60_000)
    link.drain()
    low = clock.now // TICKS * TICKS + TICKS
    pins = [Pin(low, "perst_n", 0), Pin(low + 100_000, "perst_n", 1)]
    model.kill(low, None)
    model.events.append((low, "TRACKER_RESET", 1, 0, 0))
    clock._queue.clear()
    clock.now = low + 200_000
    model.bar0 = r.randrange(1, 1 << 30) << 14
    model.free_tags = list(range(1024))
    boot(model, 2, sizes=(4, 64))
    workload(model, 100)
    clock.run()
    await run(dut, model, link, pins=pins)


@cocotb.test()
async def perst_right_behind_a_completion(dut):
    """A CQE queued before the tracker's engine when PERST# falls preceded it: its command has completed."""
    for behind in range(4, 9):  # cycles; closer ones are within the latency of the parser, which is 3
        clock, link, model = make(SEED + 13 + behind)
        boot(model, 1, sizes=(16, 64))
        command = model.io(1, FLUSH)
        model.ring(1)
        while "cqe" not in command.ticks:
            clock.step()
        low = (command.ticks["cqe"] // TICKS + behind) * TICKS
        clock._queue.clear()
        link.sent = [sent for sent in link.sent if sent.tick < low]
        model.kill(low, None)
        model.events.append((low, "TRACKER_RESET", 1, 0, 0))
        await run(dut, model, link, pins=[Pin(low, "perst_n", 0), Pin(low + 100_000, "perst_n", 1)])


@cocotb.test()
async def late_head_doorbell(dut):
    """A host that takes a CQE and rings for it with the next one, up to 16.7 ms later, the longest a record can state: until then the
    command is not given up, afterwards the record says that nothing came."""
    clock, link, model = make(SEED + 18, stride=0)
    boot(model, 1, sizes=(4, 4))
    model.lazy = 1.0
    ages = []
    for pause in (12_000_000, 16_500_000, 17_500_000):
        first = model.io(1, FLUSH)
        model.ring(1)
        clock.run()
        link.drain()
        clock.now += pause
        model.io(1, FLUSH)
        model.ring(1)
        clock.run()
        ages.append(first.ticks["head"] - first.ticks["cqe"])
        if ages[-1] >= (1 << 24):
            del first.ticks["head"]
    assert ages[0] > 1 << 23 and ages[1] < 1 << 24 < ages[2]
    await run(dut, model, link)


@cocotb.test()
async def deletes(dut):
    """Delete SQ with commands in flight, delete its CQ, create both again with another size."""
    clock, link, model = make(SEED + 2)
    boot(model, 3, sizes=(8, 300))
    workload(model, 300)
    part(model, 30_000)
    q = delete_sq(model, 2)
    q.cq.alive = False
    clock.run()
    delete_cq(model, q.cq)
    clock.run()
    create_queues(model, 2, (8, 300), only=(2,))
    workload(model, 100)
    clock.run()
    await run(dut, model, link)


@cocotb.test()
async def shadow_doorbells(dut):
    """After Doorbell Buffer Config, doorbells are rung only now and then."""
    clock, link, model = make(SEED + 3)
    boot(model, 2, sizes=(16, 64))
    use_shadow_doorbells(model)
    workload(model, 150)
    clock.run()
    bench = await run(dut, model, link)
    assert sum(r["flags"] == SHADOW for r in bench.records) == 150


@cocotb.test()
async def interrupts_that_nobody_knows(dut):
    """Messages never seen before while two queues wait: the first is for the queue of the last CQE, then only one is left."""
    clock, link, model = make(SEED + 9)
    boot(model, 2, sizes=(16, 64))
    model.turn = 4
    interrupt, held = model.interrupt, []
    model.interrupt = held.append
    for qid in (1, 2):
        model.io(qid, FLUSH)
        model.ring(qid)
        clock.run()
    model.interrupt = interrupt
    for cq in reversed(held):
        interrupt(cq)
        clock.run()
    workload(model, 40)
    clock.run()
    await run(dut, model, link)


@cocotb.test()
async def late_attach(dut):
    """The tracker sees nothing of the enumeration; the host gives it BAR0 and the queues."""
    clock, link, model = make(SEED + 4, stride=1)
    boot(model, 2, sizes=(16, 64))
    workload(model, 40)
    clock.run()
    link.drain()
    link.sent.clear()
    model.ended.clear()
    model.events.clear()
    at = clock.now
    words = [{"op": 0, "address": model.bar0}, {"op": 1, "size": model.stride}]
    for q in model.queues.values():
        words.append({"op": 4, "qid": q.cq.cqid, "address": q.cq.base, "size": q.cq.size, "link": q.cq.vector})
        words.append({"op": 3, "qid": q.qid, "address": q.base, "size": q.size, "link": q.cq.cqid})
    pins = [Bench.config(at + 400_000 * n, **w) for n, w in enumerate(words)]
    clock.now = at + 400_000 * len(words)
    for qid in model.queues:
        command = model.io(qid, READ if qid else FLUSH)
        command.flags |= GUESS
        if qid == 0:
            command.record = (0, 0)
        model.ring(qid)
        clock.run()
    workload(model, 60)
    clock.run()
    bench = await run(dut, model, link, pins=pins, ignore=("BAR0", "GUESSING", "QUEUE_CREATED"))
    seen = Counter((NAMES[e["type"]], e["arg8"], e["arg16"]) for e in bench.events)
    assert seen["GUESSING", 0, 1] == seen["GUESSING", 0, 2] == seen["QUEUE_CREATED", 0, 2] == 1
    assert [e["arg32"] for e in bench.events if NAMES[e["type"]] == "BAR0"] == [model.bar0 >> 12 & 0xFFFFFFFF]


@cocotb.test()
async def markers_and_identify(dut):
    """In-band markers, a power state change, and Identify data as raw TLPs."""
    clock, link, model = make(SEED + 5)
    boot(model, 1, sizes=(16, 64))
    fetched = []
    for number in range(3):
        command = model.admin(0x0A, cdw=(0xD0, number << 8 | 1), status=0x2002)
        model.ring(0)
        clock.run()
        model.events.append((command.ticks["doorbell"], "MARKER", 0, 0, number << 8 | 1))
        fetched.append((command.ticks["doorbell"], command.ticks["fetch"], command.ticks["cqe"]))
    for state, status in ((3, 0), (4, 0x2002)):
        command = model.admin(0x09, cdw=(2, state), status=status)
        model.ring(0)
        clock.run()
        if not status:
            model.events.append((command.ticks["cqe"], "POWER_STATE", state, 0, 0))
    page = model.pages(1)[0]
    before = len(link.sent)
    identify = model.admin(0x06, cdw=(1, 0), prp1=page, length=4096)
    model.ring(0)
    clock.run()
    data = data_tlps(link.sent[before:])
    bench = await run(dut, model, link)
    assert raw_tlps(bench) == [(s.tick, s.raw) for s in data]
    assert sum(len(s.raw) for s in data) > identify.length
    # A marker shows its doorbell's tick, and is done with its SQE; any other event at the tick it shows.
    markers = [(event["tick"], done) for event, done in bench.done if NAMES[event["type"]] == "MARKER"]
    assert len(markers) == len(fetched) and all(
        tick == doorbell < fetch < done < cqe for (tick, done), (doorbell, fetch, cqe) in zip(markers, fetched, strict=True)
    )
    assert all(event["tick"] == done for event, done in bench.done if NAMES[event["type"]] != "MARKER")


@cocotb.test()
async def identify_answered_at_once(dut):
    """Data of Identify right after its SQE, when the tracker has not yet looked at that; so the data of any admin command is kept until
    its SQE comes."""
    clock, link, model = make(SEED + 10)
    boot(model, 1, sizes=(16, 64))
    model.work, link.gap = (0, 1), 40  # raw TLPs leave at one word per cycle
    data = []
    for _ in range(8):
        before = len(link.sent)
        model.admin(0x06, cdw=(1, 0), prp1=model.pages(1)[0], length=4096)
        model.ring(0)
        clock.run()
        data += data_tlps(link.sent[before:])
    bench = await run(dut, model, link)
    assert raw_tlps(bench) == [(s.tick, s.raw) for s in data]


@cocotb.test()
async def trims_whose_ranges_are_not_read(dut):
    """A drive rejects the ranges, at once or after the first: the record says that its blocks are a lower bound."""
    clock, link, model = make(SEED + 11)
    boot(model, 1, sizes=(16, 64))
    for seen in (0, 16) * 4:
        command = model.io(1, DSM)
        while len(command.ranges) < 32:
            model.ring(1)
            clock.run()
            command = model.io(1, DSM)
        first = struct.unpack("<LLQ", command.ranges[:16])
        command.length, command.status = seen, 0x4002
        command.pages = command.pages[:1]
        command.record = (first[2] & (1 << 40) - 1, first[1]) if seen else (0, 0)
        command.flags |= NO_RANGES
        model.ring(1)
        clock.run()
    workload(model, 20)
    clock.run()
    bench = await run(dut, model, link)
    assert sum(r["flags"] == NO_RANGES for r in bench.records) == 8


@cocotb.test()
async def middle_of_a_chain_ends_first(dut):
    """Three commands with CIDs in one chain of the tracker: the second ends, and its slot goes to a command of another chain while the
    others are still in flight."""
    clock, link, model = make(SEED + 12)
    boot(model, 2, sizes=(64, 64))
    step, work = model.cid_step, model.work
    model.cid_step = 0x401  # CIDs of one chain (engine.py, hash)
    for ticks in (60_000_000, 200_000, 60_000_000):
        model.work = (ticks, ticks + 1)
        model.io(1, FLUSH)
        model.ring(1)
        part(model, 100_000)
    assert len(model.live) == 3
    part(model, 200_000)
    model.cid_step, model.work = step, (500, 2_000)
    assert len(model.live) == 2
    for _ in range(40):  # more than the tracker has slots
        for _ in range(30):
            model.io(2, FLUSH)
        model.ring(2)
        part(model, 200_000)
    assert len(model.live) == 2, "the two ended before the slot went round"
    model.work = work
    clock.run()
    await run(dut, model, link)


@cocotb.test()
async def more_commands_than_slots(dut):
    """1200 commands announced at once: those without a slot at first have a flagged record, or are counted; then all is exact again."""
    clock, link, model = make(SEED + 6)
    boot(model, 2, sizes=(1024, 1024))
    model.work = (400_000, 1_200_000)
    model.fetch_pause = 2_000
    first = len(model.ended)
    for qid in (1, 2):
        for _ in range(600):
            model.io(qid, FLUSH)
        model.ring(qid)
    clock.run()
    link.drain()
    clock.now += 1 << 24
    model.work, model.fetch_pause = (500, 20_000), 0
    crowd = {(c.qid, c.cid, c.ticks["cqe"]) for c in model.ended[first:]}
    workload(model, 50)
    clock.run()
    bench = Bench(dut, WIDTH, TICKS)
    await bench.start()
    await bench.play(link.sent)
    counters = await bench.counters()
    lost = counters["lost_commands"]
    assert counters["lost_tlps_down"] == counters["lost_tlps_up"] == 0
    assert lost == sum(e["arg32"] for e in bench.events if NAMES[e["type"]] == "LOSS" and e["arg8"] == 2)
    of_crowd = [r for r in bench.records if (r["qid"], r["cid"], r["cqe_tick"]) in crowd]
    assert lost + len(of_crowd) == 1200, "each command has a record, or is counted as lost once"
    doubtful = [r for r in of_crowd if r["flags"] & (GUESS | NO_SQE)]
    assert lost + len(doubtful) > 150, "some 176 commands find no slot at their doorbell"
    assert len({(r["qid"], r["cid"], r["cqe_tick"]) for r in of_crowd}) == len(of_crowd), "a command came out twice"
    bench.records = [r for r in bench.records if r not in of_crowd]
    model.ended = [c for c in model.ended if (c.qid, c.cid, c.ticks["cqe"]) not in crowd]
    compare(bench, model, ignore=("LOSS",))
    assert counters["in_flight"] == 0


@cocotb.test()
async def more_traffic_than_it_takes(dut):
    """The link at its full rate: whole TLPs are lost, counted and reported; no command comes out twice; it recovers."""
    clock, link, model = make(SEED + 7)
    link.gap = 0
    boot(model, 4, sizes=(256, 1024))
    for qid in range(1, 5):
        for _ in range(200):
            model.io(qid, READ if qid % 2 else WRITE, 1)
        model.ring(qid)
    for _ in range(1500):  # and all the host's writes at once
        model.doorbell(9, 0, 1)
    clock.run()
    link.drain()
    clock.now += 1 << 24
    start = clock.now
    for qid in range(1, 5):  # recovers its positions
        model.io(qid, FLUSH)
        model.ring(qid)
        clock.run()
    again = len(model.ended)
    workload(model, 60)
    clock.run()
    bench = Bench(dut, WIDTH, TICKS)
    await bench.start()
    await bench.play(link.sent)
    counters = await bench.counters()
    lost = {e: counters[f"lost_tlps_{e}"] for e in ("down", "up")}
    cocotb.log.info("lost %s of %d TLPs, %d records", lost, len(link.sent), len(bench.records))
    assert lost["down"] > 0
    for source, name in ((0, "down"), (1, "up")):
        told = sum(e["arg32"] for e in bench.events if NAMES[e["type"]] == "LOSS" and e["arg8"] == source)
        assert told == lost[name]
    keys = Counter((r["qid"], r["cid"], r["cqe_tick"]) for r in bench.records)
    assert max(keys.values()) == 1, "a command came out twice"
    truth = {(r["qid"], r["cid"], r["cqe_tick"]): r for r in model.records}
    for r in bench.records:
        if not r["flags"]:  # anything without a flag is exact, loss or not
            want = truth[r["qid"], r["cid"], r["cqe_tick"]]
            assert r == want, {k: (v, want[k]) for k, v in r.items() if v != want[k]}
    late = [r for r in bench.records if r["cqe_tick"] > start]
    assert len(late) >= 64
    model.ended = model.ended[again:]
    keep = {(c.qid, c.cid, c.ticks["cqe"]) for c in model.ended}
    bench.records = [r for r in late if (r["qid"], r["cid"], r["cqe_tick"]) in keep]
    model.events.clear()
    bench.events.clear()
    compare(bench, model)


@cocotb.test()
async def skipping_time_changes_nothing(dut):
    """Every output word is the same whether idle cycles are simulated or skipped."""
    out = []
    for skip in (True, False):
        clock, link, model = make(SEED + 8)
        boot(model, 2, sizes=(4, 32))
        workload(model, 30)
        clock.run()
        bench = Bench(dut, WIDTH, TICKS, skip=skip)
        await bench.start()
        await bench.play(link.sent, settle=1 << 12)
        out.append((bench.records, bench.events, bench.raw, await bench.counters()))
        clocks = bench.clocks
    cocotb.log.info("%d clocks unskipped", clocks)
    assert out[0] == out[1]
