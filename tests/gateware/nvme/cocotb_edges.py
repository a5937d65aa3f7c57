"""Rare cases: larger memory pages, SGLs, several CQEs in a TLP, too many starts in a page, a 65th queue, no capture, its ends,
a late doorbell, and one that was not seen."""

from __future__ import annotations

import dataclasses
from collections import Counter

import cocotb
from cocotb.triggers import RisingEdge

from tests.gateware.nvme.bench import Bench, Pin
from tests.gateware.nvme.cocotb_pages import keep_busy, start
from tests.gateware.nvme.expect import FLUSH, NO_SQE, PARTIAL, READ, WRITE
from tests.gateware.nvme.link import Link, Sent
from tests.gateware.nvme.memory import Pool
from tests.gateware.nvme.model import Model
from tests.gateware.nvme.scenario import NAMES, SEED, TICKS, WIDTH, boot, compare, create_queues, make, run, workload

EVENT_REQUEST = 0x0C


def told(bench: Bench, source: int) -> int:
    return sum(e["arg32"] for e in bench.events if NAMES[e["type"]] == "LOSS" and e["arg8"] == source)


@cocotb.test()
async def larger_pages(dut):
    """CC.MPS = 1 and 4: 8 KiB and 64 KiB, with PRP lists, range lists, and short buffers that share a page."""
    for number, mps in enumerate((1, 4)):
        clock, link, model = make(SEED + 40 + number, mps=mps)
        boot(model, 2, sizes=(8, 64))
        model.brief = True
        model.lists = Pool(256, model.pages(1), model.page)
        workload(model, 60, big=0.3)
        base = model.contiguous(model.page)
        for n in range(6):
            model.io(1, READ, 8, buffer=base + 4096 * n)
            model.ring(1)
        clock.run()
        await run(dut, model, link)


@cocotb.test()
async def reserved_data_pointers(dut):
    """PSDT = 3, which is reserved: the data is not followed, and the record says so; nothing else changes."""
    clock, link, model = make(SEED + 42)
    boot(model, 1, sizes=(16, 64))
    workload(model, 20)
    for n in range(6):
        command = model.io(1, READ if n % 2 else WRITE, 8, offset=0)
        command.sqe = command.sqe[:1] + b"\xc0" + command.sqe[2:]
        command.flags |= PARTIAL
        command.data = type("Nowhere", (list,), {"append": lambda self, tick: None})()
        model.ring(1)
        clock.run()
    workload(model, 20)
    clock.run()
    bench = await run(dut, model, link)
    assert sum(r["flags"] == PARTIAL and r["first_data_before"] == 0xFFFFFFFF for r in bench.records) == 6
    assert (await bench.counters())["unmatched"] > 0


@cocotb.test()
async def several_cqes_in_a_tlp(dut):
    """Drives that write up to 4 CQEs at once."""
    clock, link, model = make(SEED + 43)
    boot(model, 2, sizes=(16, 64))
    model.cqes = 4
    model.work = (500, 2000)
    workload(model, 150)
    clock.run()
    sizes = Counter(len(s.raw) for s in link.sent if s.direction)
    assert sum(sizes[h + 16 * n] for h in (12, 16) for n in (2, 3, 4)) > 20
    await run(dut, model, link)


@cocotb.test()
async def an_event_request_keeps_no_data(dut):
    """Read data is stored where an Identify may request it, but not because an Asynchronous Event Request waits for hours: that would fill
    the payload ring whenever the engine has something else to do."""
    clock, link, model = make(SEED + 44)
    boot(model, 1, sizes=(16, 64))
    complete = model.complete
    model.complete = lambda q, command: None if command.qid == 0 and command.opcode == EVENT_REQUEST else complete(q, command)
    model.admin(EVENT_REQUEST)
    model.ring(0)
    clock.run()
    asked = link.sent[-1].tick
    workload(model, 40)
    clock.run()
    skipped = 0

    async def watch() -> None:
        nonlocal skipped
        while True:
            await RisingEdge(dut.clk)
            skipped += int(dut.up__skip.value) and int(dut.now.value) > asked

    cocotb.start_soon(watch())
    await run(dut, model, link)
    assert skipped > 100


@cocotb.test()
async def too_many_starts_in_a_page(dut):
    """64 PRP lists of 16 bytes in two granules: more than the map holds. It is counted, reported and flagged; the rest is exact."""
    _clock, link, model = start(SEED + 44, 64)
    model.lists = Pool(16, model.pages(1), model.page)
    model.window = 1 << 32
    keep_busy(model, 120, 64, lambda _n: model.io(1, model.random.choice((READ, WRITE)), 24, offset=0))
    bench = Bench(dut, WIDTH, TICKS)
    await bench.start()
    await bench.play(link.sent)
    lost = (await bench.counters())["lost_pages"]
    assert lost == told(bench, 4) > 0
    partial = {(r["qid"], r["cid"], r["cqe_tick"]) for r in bench.records if r["flags"] == PARTIAL}
    assert partial

    def known(qid: int, cid: int, tick: int) -> bool:
        return (qid, cid, tick) not in partial

    assert len(bench.records) == len(model.records)
    bench.records = [r for r in bench.records if known(r["qid"], r["cid"], r["cqe_tick"])]
    model.ended = [c for c in model.ended if known(c.qid, c.cid, c.ticks["cqe"])]
    compare(bench, model, ignore=("LOSS",))


@cocotb.test()
async def one_start_too_many_in_a_page(dut):
    """The 13th PRP list of 16 bytes in two granules finds no place in the map and evicts another. Flagged are its command, the commands
    with lists before it in the page (its data now counts as theirs), and whatever puts a list into the page within 2**24 ticks; no
    other, and nothing later."""
    for number, upward in enumerate((False, True)):
        _clock, link, model = start(SEED + 45 + number, 64)
        model.lists = Pool(16, model.pages(1), model.page)
        model.lists.free = sorted(model.lists.free[-16:], reverse=upward)  # taken from its end
        model.window = 1 << 32
        model.work = (200_000, 210_000)
        lists = []

        def submit(count: int, model=model, lists=lists) -> None:
            lists.extend((c.lists[0][0], c) for c in [model.io(1, READ, 24, offset=0) for _ in range(count)])
            model.ring(1)

        for after, count in ((0, 12), (60_000, 1), (1_000_000, 1), (18_000_000, 1)):
            model.clock.after(100 + after, lambda count=count, submit=submit: submit(count))
        model.clock.run()
        bench = Bench(dut, WIDTH, TICKS)
        await bench.start()
        await bench.play(link.sent)
        assert (await bench.counters())["lost_pages"] == 1
        soon = lists[13][1]
        flagged = {r["cqe_tick"] for r in bench.records if r["flags"] & PARTIAL} - {soon.ticks["cqe"]}
        lowest = [c.ticks["cqe"] for _at, c in sorted(lists[:13], key=lambda item: item[0])]
        assert flagged == set(lowest[: len(flagged)]) and 0 < len(flagged) < 13
        assert any(r["cqe_tick"] == soon.ticks["cqe"] and r["flags"] & PARTIAL for r in bench.records)


@cocotb.test()
async def a_queue_beyond_the_table(dut):
    """Queue 64 (the 65th): SQ and CQ are counted and reported; its traffic does not disturb the other queues."""
    clock, link, model = make(SEED + 45)
    boot(model, 2, sizes=(16, 64))
    create_queues(model, 3, (16, 64), only=(64,))
    workload(model, 120)
    clock.run()
    model.ended = [c for c in model.ended if c.qid != 64]
    model.events = [e for e in model.events if not (e[1] == "QUEUE_CREATED" and e[3] == 64)]
    bench = Bench(dut, WIDTH, TICKS)
    await bench.start()
    await bench.play(link.sent)
    counters = await bench.counters()
    assert counters["lost_queues"] == told(bench, 3) == 2
    assert counters["unmatched"] > 0 and counters["in_flight"] == 0
    compare(bench, model, ignore=("LOSS",))


@cocotb.test()
async def nothing_comes_out_while_stopped(dut):
    """run = 0: no record, event or raw TLP; what happens meanwhile is tracked, and counts once run is 1 again."""
    clock, link, model = make(SEED + 46)

    def quiet() -> int:
        clock.run()
        link.drain()
        clock.now += 20_000
        return clock.now

    boot(model, 1, sizes=(16, 64))
    workload(model, 20)
    stop = quiet()
    create_queues(model, 2, (16, 64), only=(2,))
    workload(model, 30)
    model.admin(0x06, cdw=(1, 0), prp1=model.pages(1)[0], length=4096)
    model.ring(0)
    quiet()
    model.work = (300_000, 400_000)
    across = [model.io(qid, FLUSH) for qid in (1, 2)]
    for qid in (1, 2):
        model.ring(qid)
    go = clock.now + 150_000
    clock.run()
    model.work = (500, 20_000)
    workload(model, 30)
    clock.run()
    model.ended = [c for c in model.ended if not stop < c.ticks["cqe"] < go]
    model.events = [e for e in model.events if not stop < e[0] < go]
    bench = await run(dut, model, link, pins=[Pin(stop - 10_000, "run", 0), Pin(go, "run", 1)])
    assert not bench.raw
    assert all(c.ticks["doorbell"] < go < c.ticks["cqe"] and c in model.ended for c in across)


@cocotb.test()
async def a_capture_is_from_a_tick_to_before_a_tick(dut):
    """TLPs' ticks decide, whenever the tracker gets to them: the tick in which run falls is the first outside the run."""
    clock, link, model = make(SEED + 50)
    boot(model, 1, sizes=(16, 64))
    clock.run()
    stop = (clock.now // TICKS + 10_000) * TICKS
    go = stop + 10_000 * TICKS
    refused = []
    for direction in (0, 1):
        raw = min((s.raw for s in link.sent if s.direction == direction), key=len)
        raw = bytes([raw[0] | 0xA0]) + raw[1:]  # no such format
        refused += [Sent(edge + n, direction, raw) for edge in (stop, go) for n in range(-3 * TICKS, 3 * TICKS)]
    bench = Bench(dut, WIDTH, TICKS)
    await bench.start()
    await bench.play(link.sent + refused, pins=[Pin(stop, "run", 0), Pin(go, "run", 1)])
    told_at = Counter((e["tick"], e["arg8"]) for e in bench.events if NAMES[e["type"]] == "MALFORMED")
    assert told_at == Counter((s.tick, s.direction) for s in refused if not stop <= s.tick < go)


def bells_of_queue_1(model: Model, link: Link) -> list[int]:
    """Which of the TLPs are its SQ doorbells."""
    register = model.bar0 + 0x1000 + 2 * (4 << model.stride)
    return [
        n
        for n, s in enumerate(link.sent)
        if s.direction == 0 and s.raw[0] & 0x5F == 0x40 and len(s.raw) in (16, 20) and int.from_bytes(s.raw[8:-4], "big") == register
    ]


@cocotb.test()
async def late_doorbell(dut):
    """A doorbell lost to the tap comes again after the next one: no lap of the queue, every command once."""
    clock, link, model = make(SEED + 49)
    boot(model, 1, sizes=(64, 64))
    for _ in range(6):
        model.io(1, FLUSH)
        model.ring(1)
        clock.run()
    bells = bells_of_queue_1(model, link)
    late, following = bells[3], bells[4]
    again = dataclasses.replace(link.sent[late], tick=link.sent[following].tick + 48, lost=True)
    link.sent[following].lost = True
    del link.sent[late]
    link.sent.append(again)
    bench = Bench(dut, WIDTH, TICKS)
    await bench.start()
    await bench.play(link.sent)
    counters = await bench.counters()
    mine = [r for r in bench.records if r["qid"] == 1]
    assert len(mine) == 7 and len({r["cid"] for r in mine}) == 7, mine
    assert counters["in_flight"] == 0 and counters["lost_commands"] == 0


@cocotb.test()
async def doorbell_unseen(dut):
    """The tap misses a doorbell, and no loss says so: the read looks like an early one. The SQ head in the CQE shows the tail. So the next
    doorbell announces its commands, though its value is the old tail."""
    clock, link, model = make(SEED + 51)
    boot(model, 1, sizes=(4, 4))
    for commands in (1, 3):  # after that of boot
        for _ in range(commands):
            model.io(1, FLUSH)
        model.ring(1)
        clock.run()
    bells = bells_of_queue_1(model, link)
    assert [link.sent[n].raw[-4] for n in bells] == [1, 2, 1]
    del link.sent[bells[1]]
    bench = Bench(dut, WIDTH, TICKS)
    await bench.start()
    await bench.play(link.sent)
    assert [r["flags"] for r in bench.records if r["qid"] == 1] == [0, NO_SQE, 0, 0, 0]
    assert (await bench.counters())["in_flight"] == 0
