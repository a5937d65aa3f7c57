"""Registers and doorbells in parts or together, a second function, sizes of entries, CQEs in halves, early reads and parts of SQEs."""

from __future__ import annotations

import struct

import cocotb
from cocotbext.pcie.core.tlp import Tlp, TlpType
from cocotbext.pcie.core.utils import PcieId
from wattbell_spec import wire as spec

from tests.gateware.nvme.bench import Bench, Pin
from tests.gateware.nvme.expect import FLUSH, GUESS, READ, WRITE
from tests.gateware.nvme.link import DOWN, HOST, UP, Link
from tests.gateware.nvme.model import Model
from tests.gateware.nvme.scenario import SEED, TICKS, WIDTH, boot, make, run, workload

OTHER = PcieId(1, 0, 1)
"""Another function of the drive."""
READS, WRITES, COMPLETIONS = (0x00, 0x20), (0x40, 0x60), (0x0A, 0x4A)
"""Formats and types of TLPs."""


def in_halves(model: Model) -> None:
    """The host writes each double word as two TLPs of two bytes, the upper ones first."""
    link, bar0 = model.link, model.bar0

    def register(offset: int, data: bytes) -> int:
        tick = 0
        for at in range(0, len(data), 4):
            link.write(DOWN, bar0 + offset + at + 2, data[at + 2 : at + 4])
            tick = link.write(DOWN, bar0 + offset + at, data[at : at + 2])
        return tick

    model.register = register


@cocotb.test()
async def double_words_in_halves(dut):
    """CC, AQA, ASQ, ACQ and doorbells, two bytes at a time: those that are not enabled stay as they were."""
    clock, link, model = make(SEED + 80)
    in_halves(model)
    boot(model, 2, sizes=(8, 600))
    workload(model, 40)
    clock.run()
    model.disable()
    model.enable(8, 8, wide=True)
    await run(dut, model, link)


@cocotb.test()
async def a_byte_of_a_doorbell(dut):
    """One byte of a position is no position: it is counted, and changes nothing. So do bytes above it, which count for nothing."""
    clock, link, model = make(SEED + 81)
    boot(model, 1, sizes=(300, 600))
    workload(model, 20)
    clock.run()
    bell = model.bar0 + 0x1000 + 2 * (4 << model.stride)
    for at in (0, 1):
        link.write(DOWN, bell + at, b"\x05")
    link.write(DOWN, bell + 2, b"\x01\x02")
    clock.now += 1000
    workload(model, 20)
    clock.run()
    bench = await run(dut, model, link)
    assert (await bench.counters())["unmatched"] == 2


@cocotb.test()
async def doorbells_in_one_tlp(dut):
    """The host rings an SQ and its CQ by one write, up to the doorbells of the next queues, each with the values of before."""
    clock, link, model = make(SEED + 82, stride=0)
    boot(model, 2, sizes=(16, 64))
    rung: dict[tuple[int, int], int] = {(q.qid, 0): q.tail for q in model.queues.values()}
    rung |= {(q.cqid, 1): q.head for q in model.cqs.values()}
    plain = model.doorbell

    def doorbell(qid: int, cq: int, value: int) -> int:
        rung[qid, cq] = value
        if not qid:
            return plain(qid, cq, value)
        values = [rung[number >> 1, number & 1] for number in range(2, 6)]
        return model.register(0x1008, struct.pack("<4L", *values))

    model.doorbell = doorbell
    workload(model, 60)
    clock.run()
    await run(dut, model, link)


@cocotb.test()
async def a_bar_of_another_function(dut):
    """BAR0 of function 1 is written after BAR0 of function 0, and is not ours."""
    clock, link, model = make(SEED + 83)
    boot(model, 1, sizes=(16, 64))
    for register, value in ((0x10, 0xFFFFFFFF), (0x10, 0x8000_0004), (0x14, 0x12)):
        tlp = Tlp()
        tlp.fmt_type, tlp.address, tlp.first_be = TlpType.CFG_WRITE_0, register, 0xF
        tlp.set_data(struct.pack("<L", value))
        tlp.requester_id, tlp.completer_id = HOST, OTHER
        link.send(DOWN, tlp)
    clock.now += 2000
    workload(model, 20)
    clock.run()
    bench = await run(dut, model, link)
    assert (await bench.counters())["bar0"] == model.bar0


def doubled(link: Link) -> list[int]:
    """Each TLP of the drive, and each completion for it, comes again as one of its second function. Return the ticks of those."""
    send, ticks = link.send, []

    def both(direction: int, tlp: Tlp) -> int:
        tick = send(direction, tlp)
        raw = bytearray(link.sent[-1].raw)
        if raw[0] in (READS + WRITES if direction == UP else COMPLETIONS):
            at = 4 if direction == UP else 8
            raw[at : at + 2] = int(OTHER).to_bytes(2, "big")
            ticks.append(link.raw(direction, bytes(raw)))
        return tick

    link.send = both
    return ticks


@cocotb.test()
async def a_second_function(dut):
    """It uses the tags and addresses of the first function. It changes nothing, each of its TLPs is counted, and one event names it."""
    clock, link, model = make(SEED + 84)
    ticks = doubled(link)
    boot(model, 2, sizes=(16, 64))
    workload(model, 60, opcodes=(READ, WRITE, FLUSH))
    clock.run()
    model.events.append((ticks[0], "GUESSING", int(spec.GuessReason.SECOND_FUNCTION), int(OTHER), 0))
    bench = await run(dut, model, link)
    assert (await bench.counters())["unmatched"] == len(ticks)


@cocotb.test()
async def each_capture_names_the_second_function(dut):
    """A second capture has an event of its own, though no TLP of that function came between the two."""
    clock, link, model = make(SEED + 88)
    doubled(link)
    boot(model, 1, sizes=(16, 64))
    workload(model, 5, opcodes=(READ,))
    clock.run()
    clock.now += 20000
    pins = [Pin(clock.now, "run", 0), Pin(clock.now + 10000, "run", 1)]
    clock.now += 20000
    workload(model, 5, opcodes=(READ,))
    clock.run()
    bench = Bench(dut, WIDTH, TICKS)
    await bench.start()
    await bench.play(link.sent, pins)
    reasons = [event["arg8"] for event in bench.events if event["type"] == int(spec.EventType.GUESSING)]
    assert reasons == 2 * [int(spec.GuessReason.SECOND_FUNCTION)]


@cocotb.test()
async def entries_of_an_unknown_size(dut):
    """CC.IOSQES = 10 and IOCQES = 5: I/O queues are not followed, each is counted, and the admin queue is right."""
    clock, link, model = make(SEED + 85)
    register = model.register

    def wide(offset: int, data: bytes) -> int:
        return register(offset, struct.pack("<L", 0x005A0001) if offset == 0x14 else data)

    model.register = wide
    boot(model, 1, sizes=(16, 64))
    clock.run()
    bench = Bench(dut, WIDTH, TICKS)
    await bench.start()
    await bench.play(link.sent)
    assert (await bench.counters())["lost_queues"] == 2
    mine = [r for r in bench.records if r["qid"] == 0]
    assert len(mine) == 2 and not any(r["flags"] for r in mine)


@cocotb.test()
async def cqes_in_halves(dut):
    """The first half of a CQE by itself, then the second one, with other CQEs behind it: each is there with its second half."""
    clock, link, model = make(SEED + 86)
    write = link.write

    def halves(direction: int, address: int, data: bytes) -> int:
        write(direction, address, data[:8])
        return write(direction, address + 8, data[8:])

    post = model.post

    def posted(cq, address):
        link.write = halves
        post(cq, address)
        link.write = write

    model.post = posted
    model.cqes, model.work = 3, (500, 2000)
    boot(model, 2, sizes=(16, 64))
    workload(model, 40)
    clock.run()
    assert any(s.direction == UP and s.raw[0] in WRITES and s.raw[3] in (6, 10) for s in link.sent)
    await run(dut, model, link)


@cocotb.test()
async def early_reads(dut):
    """The drive reads SQEs beyond the tail, and again after their doorbell: no command comes of the first read, no slot stays taken."""
    clock, link, model = make(SEED + 87)
    boot(model, 1, sizes=(32, 64))
    queue = model.queues[1]
    for _ in range(12):
        ahead = min(4, queue.size - queue.tail)
        model.read_host(queue.base + 64 * queue.tail, bytes(64 * ahead), lambda *_: None)
        clock.run()
        for _ in range(2):
            model.io(1, FLUSH)
        model.ring(1)
        clock.run()
    bench = await run(dut, model, link)
    assert (await bench.counters())["in_flight"] == 0
    assert not any(r["flags"] & GUESS for r in bench.records)


@cocotb.test()
async def sqes_in_parts(dut):
    """Reads of parts of SQEs are counted, and one event says so. Reads behind the queue in its page, and whole SQEs, are no parts."""
    clock, link, model = make(SEED + 88)
    boot(model, 1, sizes=(16, 64))
    workload(model, 20)
    clock.run()
    queue = model.queues[1]

    def read(offset: int, size: int) -> int:
        model.read_host(queue.base + offset, bytes(size), lambda *_: None)
        clock.run()
        return next(s.tick for s in reversed(link.sent) if s.direction == UP and s.raw[0] in READS)

    read(64 * queue.size + 32, 32)
    first = read(64 * 3, 32)
    read(64 * 3 + 32, 32)
    read(64 * 3, 96)
    workload(model, 20)
    clock.run()
    model.events.append((first, "GUESSING", int(spec.GuessReason.SQE_PARTS), 1, 0))
    bench = await run(dut, model, link)
    assert (await bench.counters())["unmatched"] == 4
