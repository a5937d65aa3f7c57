"""Hosts of :mod:`hosts`, compared record by record; and records of commands that the tap saw in part."""

from __future__ import annotations

import cocotb
from wattbell_spec import wire as spec

from tests.gateware.nvme.bench import Bench
from tests.gateware.nvme.expect import ABORTED, GUESS, LOSS, NO_SQE, READ, REUSED, SHADOW, WRITE, WRITE_ZEROES
from tests.gateware.nvme.hosts import make_host, several_lives
from tests.gateware.nvme.link import DOWN, UP
from tests.gateware.nvme.scenario import NAMES, SEED, TICKS, WIDTH, boot, make, run, workload

CPLD = 0x4A
"""First byte of a completion with data."""


@cocotb.test()
async def drawn_hosts(dut):
    """Doorbells 16, 32 and 64 bytes apart (4 and 8 are other tests'): no record, event or tick differs from the model's."""
    for stride in (2, 3, 4):
        _, link, model = make_host(SEED + 60 + stride, stride)
        several_lives(model, 60)
        bench = await run(dut, model, link)
        assert (await bench.counters())["dstrd"] == stride
        assert (await bench.counters())["in_flight"] == 0


@cocotb.test()
async def shadow_doorbells_told(dut):
    """The host says that shadow doorbells are in use, and then that they are not: doorbells on the bus count again."""
    clock, link, model = make(SEED + 70)
    boot(model, 2, sizes=(16, 64))
    pins = []
    for shadow in (1, 0):
        pins.append(Bench.config(clock.now, op=5, size=shadow))
        model.shadow = bool(shadow)
        clock.now += 10_000
        workload(model, 20)
        clock.run()
        link.drain()
    bench = await run(dut, model, link, pins=pins)
    assert sum(r["flags"] == SHADOW for r in bench.records) == 20


@cocotb.test()
async def lists_that_end_their_page(dut):
    """The last entry of a list's page points to data if nothing follows, and otherwise to the rest of the list."""
    clock, link, model = make(SEED + 73)
    boot(model, 1, sizes=(16, 64))
    model.brief, model.list_offset = True, model.page - 16
    for pages in (3, 4, 5):
        for opcode in (WRITE, READ):
            model.io(1, opcode, 8 * pages, offset=0)
            model.ring(1)
            clock.run()
    await run(dut, model, link)


@cocotb.test()
async def completions_cut_elsewhere(dut):
    """SQEs in completions that do not end at multiples of 64 bytes: none is accepted, each is counted and reported."""
    clock, link, model = make(SEED + 71)
    boot(model, 1, sizes=(16, 64))
    model.boundary = 8
    start = clock.now
    cut = []
    for _ in range(5):
        cut.append(model.io(1, WRITE_ZEROES, 8))
        model.ring(1)
        clock.run()
    bench = Bench(dut, WIDTH, TICKS)
    await bench.start()
    await bench.play(link.sent)
    lost = sum(s.direction == DOWN and s.raw[0] == CPLD and s.tick > start for s in link.sent)
    assert (await bench.counters())["lost_tags"] == lost > 5
    assert sum(e["arg32"] for e in bench.events if NAMES[e["type"]] == "LOSS" and e["arg8"] == spec.LossSource.TAGS) == lost
    got = [r for r in bench.records if r["cqe_tick"] > start]
    assert [(r["cid"], r["cqe_tick"]) for r in got] == [(c.cid, c.ticks["cqe"]) for c in cut]
    assert all(r["flags"] == NO_SQE and r["opcode"] == r["slba"] == 0 for r in got)


@cocotb.test()
async def cid_used_again(dut):
    """The tap missed a CQE: the command ends where its CID is reused, and says why."""
    clock, link, model = make(SEED + 72)
    boot(model, 1, sizes=(16, 64))
    commands = []
    for _ in range(2):
        commands.append(model.io(1, WRITE_ZEROES, 8))
        model.ring(1)
        clock.run()
        model.queues[1].cids -= 1
    first, second = commands
    assert first.cid == second.cid
    up = [s for s in link.sent if s.direction == UP]
    missed = next(n for n, s in enumerate(up) if s.tick == first.ticks["cqe"])
    link.sent.remove(up[missed])
    up[missed + 1].lost = True
    bench = Bench(dut, WIDTH, TICKS)
    await bench.start()
    await bench.play(link.sent)
    ended, done = (r for r in bench.records if (r["qid"], r["cid"]) == (1, first.cid))
    assert ended["flags"] == ABORTED | REUSED | LOSS and ended["cqe_tick"] == second.ticks["sqe"]
    assert ended["slba"] == first.record[0] and ended["doorbell_before"] == second.ticks["sqe"] - first.ticks["doorbell"]
    assert done["flags"] == GUESS and (done["slba"], done["cqe_tick"]) == (second.record[0], second.ticks["cqe"])
    assert (await bench.counters())["in_flight"] == 0
