"""Scatter gather lists, metadata in a buffer of its own, old entries in PRP lists, the host memory buffer, and address types."""

from __future__ import annotations

import struct

import cocotb

from tests.gateware.nvme.bench import Bench
from tests.gateware.nvme.cocotb_lengths import APART, BEHIND, identify
from tests.gateware.nvme.expect import PARTIAL, READ, WRITE, Command, Queue
from tests.gateware.nvme.link import DRIVE, UP
from tests.gateware.nvme.memory import Pool
from tests.gateware.nvme.model import Model
from tests.gateware.nvme.scenario import SEED, TICKS, WIDTH, boot, make, run, workload

BLOCK, BUCKET, SEGMENT, LAST, KEYED = range(5)
"""SGL descriptor types (NVMe, SGL Descriptor Type)."""
Part = tuple[int, int, int]


def descriptor(address: int, length: int, kind: int, sub: int = 0) -> bytes:
    return struct.pack("<QL3xB", address, length, kind << 4 | sub)


def answer(model: Model, tick: int, at: int, data: bytes, tag: int) -> None:
    """Complete the drive's read of `tick` once it has passed."""
    model.later(tick, 300, lambda: model.link.completion(0, at, data, tag, len(data)))


def with_pieces(model: Model) -> None:
    """Commands with an attribute ``pieces`` (address, offset in the data, length) move these."""
    parts = model.parts
    model.parts = lambda command: getattr(command, "pieces", None) or parts(command)


def scatter(model: Model, command: Command, length: int, *, bucket: bool = False, links: int = 0) -> None:
    """Give `command` an SGL over `length` bytes in several buffers, in the SQE alone or in up to `links` segments."""
    r, reads = model.random, command.opcode & 3 == 2
    pieces, made, offset = [], [], 0
    while offset < length:
        size = length - offset if not links else min(length - offset, r.randrange(1, length // 4 + 1) * 4)
        if bucket and (links or reads) and r.random() < 0.3:
            made.append(descriptor(0, size, BUCKET))
            if reads:  # else it takes nothing
                offset += size
                command.due -= size
            continue
        count = -(-size // model.page) + 1
        base = model.contiguous(count * model.page)
        at = base + r.choice((0, 0, r.randrange(model.page // 4) * 4))
        made.append(descriptor(at, size, BLOCK))
        end = at + size
        while at < end:
            step = min(end - at, model.page - at % model.page)
            pieces.append((at, offset, step))
            at, offset = at + step, offset + step
    if links:
        made.insert(r.randrange(len(made) + 1), descriptor(0x1230, 0, BLOCK))
    command.pieces, command.pages, command.lists = pieces, [p[0] for p in pieces], []
    command.own_pages = command.pooled = False
    command.length = sum(p[2] for p in pieces)
    first = made[0]
    if links:
        cut = sorted(r.randrange(1, len(made) + 1) for _ in range(links - 1))
        runs = [made[a:b] for a, b in zip((0, *cut), (*cut, len(made)), strict=True) if b > a]
        link = b""
        for number, one in enumerate(reversed(runs)):
            content = b"".join(one) + link
            page = model.contiguous(2 * model.page)
            at = page + r.randrange((2 * model.page - len(content)) // 8 + 1) // 2 * 16
            command.lists.insert(0, (at, content))
            link = descriptor(at, len(content), SEGMENT if number else LAST)
        first = link
    command.sqe = command.sqe[:1] + bytes((0x40,)) + command.sqe[2:24] + first + command.sqe[40:]
    if not command.length:
        command.pages = []


def namespaces(model: Model, **sizes: tuple[int, int]) -> None:
    """Namespaces 1 and so on of known formats: FLBAS and bytes of a block in the data buffer."""
    for number, (flbas, size) in enumerate(sizes.values(), 1):
        identify(model, number, flbas)
        model.lbas[number] = model.blocks[number] = size
    model.nsids = tuple(range(1, len(sizes) + 1))


@cocotb.test()
async def scatter_gather_lists(dut):
    """A data block in the SQE; segments in a chain, with blocks of any length, and bit buckets in commands that read. All are right, but
    for flags on PRP lists of unknown length.
    """
    clock, link, model = make(SEED + 80)
    boot(model, 1, sizes=(16, 64))
    with_pieces(model)
    model.list_read = 128
    namespaces(model, small=(0, 512), large=(1, 4096), longer=(BEHIND | 2, 520))
    model.interleaved = {3}
    for number in range(90):
        command = model.io(1, READ if number % 3 else WRITE, model.random.choice((1, 2, 9, 40)), offset=0)
        if command.due is not None:
            scatter(model, command, command.due, bucket=number % 2 == 0, links=number % 4)
        if number % 5 == 0:
            model.ring(1)
            clock.run()
    model.ring(1)
    clock.run()
    bench = await run(dut, model, link)
    assert sum(r["length_checked"] for r in bench.records if r["qid"]) > 50
    assert not any(r["flags"] for r in bench.records if r["length_checked"])


@cocotb.test()
async def descriptors_that_are_not_followed(dut):
    """Sub types and types that mean no address, odd lengths, a segment read by 8 bytes: the data is flagged."""
    clock, link, model = make(SEED + 81)
    boot(model, 1, sizes=(16, 64))
    with_pieces(model)
    model.nsids = (1,)  # of no known format: no length flags anything
    cases = [
        (descriptor(0x5000, 512, BLOCK, 1), 0x40),
        (descriptor(0x5000, 512, KEYED), 0x40),
        (descriptor(0x5000, 511, BLOCK), 0x40),
        (descriptor(0x5002, 512, BLOCK), 0x80),
        (descriptor(0x5000, 1 << 25, BLOCK), 0x80),
        (descriptor(0x5000, 24, LAST), 0x40),
        (descriptor(0x5004, 32, LAST), 0x40),
        (descriptor(0x5000, 1 << 16, SEGMENT), 0x40),
        (descriptor(0, 510, BUCKET), 0x40),
        (descriptor(0x5000, 512, BLOCK), 0xC0),
        (descriptor(0x5000, 512, BLOCK), 0x40),
        (descriptor(0x5008, 32, LAST), 0x80),
    ]
    for number, (first, flags) in enumerate(cases):
        command = model.io(1, READ, 1, offset=0)
        command.sqe = command.sqe[:1] + bytes((flags,)) + command.sqe[2:24] + first + command.sqe[40:]
        command.flags |= PARTIAL if number < len(cases) - 2 else 0
        command.pages, command.own_pages = [], False
        model.ring(1)
        clock.run()
    command = model.io(1, READ, 4, offset=0)
    scatter(model, command, command.length, links=1)
    command.flags |= PARTIAL
    (at, content) = command.lists.pop()
    tags = iter(range(900, 900 + len(content)))

    def halves(_q: Queue, _command: Command) -> None:
        for offset in range(0, len(content), 8):
            tag = next(tags)
            tick = link.read(UP, at + offset, 8, tag)
            answer(model, tick, at + offset, content[offset : offset + 8], tag)
        command.pages = []
        model.later(tick, 5000, lambda: model.complete(model.queues[1], command))

    move, model.move = model.move, halves
    model.ring(1)
    clock.run()
    model.move = move
    bench = await run(dut, model, link)
    assert sum(r["flags"] == PARTIAL for r in bench.records) == len(cases) - 1


@cocotb.test()
async def old_entries_in_lists(dut):
    """PRP lists in a pool of blocks that keep their old entries. The drive reads more than it needs, with blocks of 512 to 8192
    bytes. Where the length is known, all are right."""
    clock, link, model = make(SEED + 82)
    boot(model, 2, sizes=(64, 256))
    namespaces(model, small=(0, 512), large=(1, 4096), larger=(6, 8192))
    model.lists = Pool(256, model.pages(4), model.page)
    model.list_step, model.limit = 64, 12
    workload(model, 60, opcodes=(READ, WRITE), big=0.4, most=24)
    clock.run()
    bench = await run(dut, model, link)
    assert not any(r["flags"] for r in bench.records if r["length_checked"])


@cocotb.test()
async def metadata_pointers(dut):
    """Metadata in a buffer of its own is data of the command: before and behind the other data, over a page's end, beside another
    command's. A long buffer is not followed."""
    clock, link, model = make(SEED + 83)
    boot(model, 1, sizes=(16, 64))
    with_pieces(model)
    namespaces(model, apart=(APART | 2, 512), wide=(APART | 3, 512))
    shared = model.contiguous(model.page)
    for number in range(60):
        command = model.io(1, READ if number % 3 else WRITE, model.random.choice((1, 2, 30)), offset=0)
        each = {1: 8, 2: 64}[command.nsid]
        length = command.length // 512 * each
        base = model.contiguous(2 * model.page)
        at = shared + number % 16 * 16 if length <= 16 else base + model.random.randrange(model.page // 4) * 4
        data, first = model.parts(command), []
        end = at + length
        while at < end:
            step = min(end - at, model.page - at % model.page)
            first.append((at, 0, step))
            at += step
        command.pieces = first + data if number % 2 else data + first
        pointer = struct.pack("<Q", first[0][0])
        command.sqe = command.sqe[:16] + pointer + command.sqe[24:48] + struct.pack("<L", command.length // 512 - 1) + command.sqe[52:]
        command.due = command.length + length
        if number % 4 == 3:
            model.ring(1)
            clock.run()
    for blocks in (1023, 1024):  # of 64 bytes: below and from 64 KiB on
        command = model.io(1, READ, blocks, offset=0)
        while command.nsid != 2:
            command.nsid = 2
        words = list(struct.unpack("<16L", command.sqe))
        words[1], words[4], words[5], words[12] = 2, 0x7000, 0, blocks - 1
        command.sqe = struct.pack("<16L", *words)
        command.due = command.length + blocks * 64 * (blocks < 1024)
        command.flags |= PARTIAL
        model.ring(1)
        clock.run()
    await run(dut, model, link)


@cocotb.test()
async def host_memory_buffer(dut):
    """The drive reads the list of descriptors and uses the memory. No write of a double word there is an interrupt. All TLPs count each
    way, until the host takes the memory back or resets the controller."""
    clock, link, model = make(SEED + 84)
    boot(model, 1, sizes=(16, 64))
    namespaces(model, small=(0, 512))
    base = model.contiguous(64 * model.page)
    counts = {"hmb_reads": 0, "hmb_writes": 0, "hmb_read_bytes": 0, "hmb_written_bytes": 0, "unmatched": 0, "unmatched_reads": 0}
    # Two that are one behind the other, one that is apart, and one without pages.
    lent = [(base, 2), (base + 2 * model.page, 3), (base + 9 * model.page, 1), (base + 20 * model.page, 0)]
    entries = b"".join(struct.pack("<QL4x", at, count) for at, count in lent)
    where = base + 40 * model.page + 48
    tags = list(range(900, 1000))

    def read(at: int, data: bytes) -> None:
        tag = tags.pop(0)
        tags.append(tag)
        answer(model, link.read(UP, at, len(data), tag), at, data, tag)

    def use(lives: bool) -> None:
        for page, good in ((0, True), (4, True), (5, False), (8, False), (9, True), (10, False)):
            for length in (4, 64):
                at = base + page * model.page + model.random.randrange(model.page // 64) * 64
                read(at, bytes(length))
                link.write(UP, at, bytes(length))
                if good and lives:
                    for name in ("read", "written"):
                        counts[f"hmb_{name}_bytes"] += length
                    counts["hmb_reads"] += 1
                    counts["hmb_writes"] += 1
                else:
                    counts["unmatched_reads"] += 1
                    counts["unmatched"] += 1 + (length > 4)
        clock.run()
        clock.now += 20000

    def feature(flags: int, *rest: int, status: int = 0) -> None:
        model.admin(0x09, cdw=(0x0D, flags, *rest), status=status)
        model.ring(0)
        clock.run()

    def read_list() -> None:
        read(where, entries)
        clock.run()
        clock.now += 20000

    use(False)
    feature(1, 6, where & 0xFFFFFFFF, where >> 32, len(lent))
    read_list()
    read_list()
    use(True)
    workload(model, 20, opcodes=(READ, WRITE))
    clock.run()
    use(True)
    feature(0, status=0x0C)  # that it failed leaves the memory to the drive
    use(True)
    feature(0)
    use(False)
    feature(1, 6, where & 0xFFFFFFFF, where >> 32, 1)
    read_list()
    at = base
    read(at, bytes(4))
    counts["hmb_reads"], counts["hmb_read_bytes"] = counts["hmb_reads"] + 1, counts["hmb_read_bytes"] + 4
    read(base + 2 * model.page, bytes(4))  # a list of one has one
    counts["unmatched"], counts["unmatched_reads"] = counts["unmatched"] + 1, counts["unmatched_reads"] + 1
    clock.run()
    clock.now += 20000
    model.disable()
    model.enable(8, 8, wide=True)
    clock.run()
    use(False)
    bench = await run(dut, model, link)
    counters = await bench.counters()
    assert {name: counters[name] for name in counts} == counts


@cocotb.test()
async def more_ranges_than_have_room(dut):
    """40 ranges apart: the list and 31 are known, each other is a LOSS event PAGES; so is one of 64 GiB, and a list of 4096."""
    clock, link, model = make(SEED + 85)
    boot(model, 1, sizes=(16, 64))
    base = model.contiguous(100 * model.page)
    entries = b"".join(struct.pack("<QL4x", base + 2 * k * model.page, 1) for k in range(40)) + struct.pack("<QL4x", 1 << 50, 1 << 24)
    where = base + 90 * model.page
    model.admin(0x09, cdw=(0x0D, 1, 40, where & 0xFFFFFFFF, where >> 32, 41))
    model.ring(0)
    clock.run()
    for part in (0, *range(0, len(entries), 256)):  # the drive reads the list's begin twice
        data = entries[part : part + 256]
        answer(model, link.read(UP, where + part, len(data), 1000), where + part, data, 1000)
        clock.run()
    clock.now += 20000
    model.admin(0x09, cdw=(0x0D, 1, 40, where & 0xFFFFFFFF, where >> 32, 1 << 12))
    model.ring(0)
    clock.run()
    for page in (60, 62):
        link.write(UP, base + page * model.page, bytes(64))
    clock.now += 20000
    bench = Bench(dut, WIDTH, TICKS)
    await bench.start()
    await bench.play(link.sent)
    counters = await bench.counters()
    assert (counters["hmb_writes"], counters["unmatched"], counters["lost_pages"]) == (1, 1, 9 + 1 + 1)


@cocotb.test()
async def a_list_right_before_its_memory(dut):
    """The list ends where the memory that it lends begins. It stays a list: reading it again is no use of the memory.

    A read that begins within a descriptor is not followed. Lent pages have the size of CC.MPS, here 8 KiB.
    """
    clock, link, model = make(SEED + 87, mps=1)
    boot(model, 1, sizes=(16, 64))
    base = model.contiguous(8 * model.page)
    entries = struct.pack("<QL4x", base + model.page, 2) + bytes(48)
    where = base + model.page - len(entries)
    model.admin(0x09, cdw=(0x0D, 1, 2, where & 0xFFFFFFFF, where >> 32, 4))
    model.ring(0)
    clock.run()
    for _ in range(2):
        answer(model, link.read(UP, where, len(entries), 1000), where, entries, 1000)
        clock.run()
        clock.now += 20000
    answer(model, link.read(UP, where + 4, 16, 1000), where + 4, entries[4:20], 1000)
    clock.run()
    clock.now += 20000
    for page in (1, 2, 3):  # two pages are lent
        link.write(UP, base + page * model.page + 4096, bytes(64))
    clock.now += 20000
    bench = Bench(dut, WIDTH, TICKS)
    await bench.start()
    await bench.play(link.sent)
    counters = await bench.counters()
    assert (counters["hmb_reads"], counters["hmb_writes"], counters["unmatched"], counters["unmatched_reads"]) == (0, 2, 2, 1)


@cocotb.test()
async def address_types(dut):
    """A translation request for a page of a command is no data. Requests at translated addresses fit nothing, whatever their address, and
    commands without a known length are flagged from then on."""
    clock, link, model = make(SEED + 86)
    boot(model, 1, sizes=(16, 64))
    namespaces(model, small=(0, 512))
    move, tags = model.move, iter(range(900, 1000))
    translated = []

    def typed(raw: bytes, kind: int) -> bytes:
        return raw[:2] + bytes((raw[2] | kind << 2,)) + raw[3:]

    def asks(q: Queue, command: Command) -> None:
        if command.qid and command.pages:
            tag, at = next(tags), command.pages[0] & ~0xFFF
            tick = link.raw(UP, typed(bytes(link.request(False, at, 8, tag=tag, who=DRIVE).pack()), 1))
            answer(model, tick, at, bytes(8), tag)
            if translated:
                link.raw(UP, typed(bytes(link.request(True, at, 0, bytes(64), who=DRIVE).pack()), 2))
                tag = next(tags)
                tick = link.raw(UP, typed(bytes(link.request(False, at, 64, tag=tag, who=DRIVE).pack()), 2))
                answer(model, tick, at, bytes(64), tag)
        move(q, command)

    model.move = asks
    for number in range(16):
        if number == 8:
            translated.append(1)
        model.nsids = (1,)
        model.io(1, READ if number % 2 else WRITE, 1, offset=0)
        model.ring(1)
        clock.run()
    model.move = move
    for nsid in (1, 2):
        model.nsids = (nsid,)
        model.io(1, READ, 1, offset=0).flags |= PARTIAL if nsid == 2 else 0
        model.ring(1)
        clock.run()
    bench = await run(dut, model, link)
    counters = await bench.counters()
    assert (counters["unmatched"], counters["unmatched_reads"]) == (16, 8)
