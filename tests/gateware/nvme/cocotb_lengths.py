"""Lengths of data: due lengths by opcode and format, counted data, and reads of zero bytes."""

from __future__ import annotations

import struct
from collections import Counter

import cocotb

from tests.gateware.nvme.expect import PARTIAL, READ, WRITE, Command
from tests.gateware.nvme.link import UP
from tests.gateware.nvme.model import Model
from tests.gateware.nvme.scenario import SEED, boot, create_queues, make, run, workload

FORMATS = ((0, 9), (0, 12), (8, 9), (64, 9), (6, 9), (0, 8), (0, 13))
"""MS and LBADS of the formats of every namespace here (NVMe, LBA Format)."""
APART, BEHIND = 0x00, 0x10
"""FLBAS bit 4: metadata in a buffer of its own, or behind each block."""


def identify(model: Model, nsid: int, flbas: int, *, cns: int = 0, length: int = 4096, offset: int = 0) -> Command:
    """Identify Namespace to its end, with data at `offset` in a page; the drive sends the first `length` bytes."""
    data = bytearray(model.random.randbytes(4096))
    data[26] = flbas
    for number in range(16):
        metadata, lbads = FORMATS[number] if number < len(FORMATS) else (0, 0)
        struct.pack_into("<HBB", data, 128 + 4 * number, metadata, lbads, number & 3)
    pages = model.pages(2)
    command = model.admin(0x06, cdw=(cns, 0), prp1=pages[0] + offset, length=length)
    command.nsid, command.ranges = nsid, bytes(data)
    if offset:
        command.pages.append(pages[1])
    second = struct.pack("<Q", pages[1] * bool(offset))
    command.sqe = command.sqe[:4] + struct.pack("<L", nsid) + command.sqe[8:32] + second + command.sqe[40:]
    model.ring(0)
    model.clock.run()
    return command


def format_nvm(model: Model, nsid: int, cdw10: int, *, status: int = 0) -> Command:
    """Format NVM to its end."""
    command = model.admin(0x80, cdw=(cdw10, 0), status=status)
    command.nsid = nsid
    command.sqe = command.sqe[:4] + struct.pack("<L", nsid) + command.sqe[8:]
    model.ring(0)
    model.clock.run()
    return command


def one(model: Model, opcode: int = READ, blocks: int = 1, **options) -> Command:
    """One I/O command to its end."""
    command = model.io(1, opcode, blocks, offset=0, **options)
    model.ring(1)
    model.clock.run()
    return command


@cocotb.test()
async def formats_of_namespaces(dut):
    """Namespaces of every format, the last 33 behind the first, with Identify data at any place in two pages. Whole transfers are checked
    and right; a format that is none, and metadata that ends within a double word, leave the length unknown."""
    clock, link, model = make(SEED + 60)
    boot(model, 1, sizes=(16, 64))
    known = {1: (APART | 0, 512), 2: (BEHIND | 1, 4096), 3: (BEHIND | 2, 520), 4: (BEHIND | 3, 576), 31: (APART | 0, 512)}
    for nsid, (flbas, size) in known.items():
        identify(model, nsid, flbas, offset=model.random.choice((0, 64, 100, 3996)))
        model.lbas[nsid] = model.blocks[nsid] = size
    for nsid, flbas in ((5, BEHIND | 4), (6, 5), (7, 0x20), (0xFFFE, 0), (0xFFFFFFFF, 0)):
        identify(model, nsid, flbas)
    model.interleaved = {3, 4}
    identify(model, 8, 0, cns=3)
    identify(model, 9, 0, length=1024 + 64)
    identify(model, 10, 0, length=128 + 32)  # its last formats do not come
    model.lbas[9] = model.blocks[9] = 512
    model.nsids = (*known, 5, 6, 7, 8, 9, 10, 0xFFFE, 0xFFFFFFFF, 0x10001)
    workload(model, 150, opcodes=(READ, WRITE), big=0.1, most=64)
    clock.run()
    identify(model, 33, APART | 1)  # in the place of 1
    del model.blocks[1]
    model.lbas[33] = model.blocks[33] = 4096
    model.nsids = (1, 33)
    workload(model, 40, opcodes=(READ, WRITE))
    clock.run()
    bench = await run(dut, model, link)
    checked = Counter((r["nsid"], r["length_checked"]) for r in bench.records if r["qid"])
    assert all(checked[nsid, 1] for nsid in (1, 2, 3, 4, 9, 31, 33)) and all(checked[nsid, 0] for nsid in (1, 5, 6, 7, 8, 10))


@cocotb.test()
async def data_that_does_not_come_to_its_length(dut):
    """Too little is flagged, unless the command failed; too much always is. Nothing is, where the length is not known."""
    clock, link, model = make(SEED + 61)
    boot(model, 1, sizes=(16, 64))
    identify(model, 1, 0)
    model.blocks[1], model.nsids = 512, (1, 2)
    for status in (0, 0x281):
        for opcode in (READ, WRITE):
            for length in (0, 4, 508, 512, 516, 1024):
                for _ in range(2):
                    command = model.io(1, opcode, 1, offset=0)
                    command.length = length
                    execute, model.execute = model.execute, model.move  # whatever its status is
                    command.status = status
                    model.ring(1)
                    clock.run()
                    model.execute = execute
    model.brief = True
    workload(model, 60, opcodes=(READ, WRITE))
    clock.run()
    bench = await run(dut, model, link)
    seen = Counter((bool(r["status"]), r["length_checked"], r["flags"]) for r in bench.records if r["qid"])
    assert seen[False, 1, PARTIAL] > 5 and seen[True, 1, PARTIAL] and seen[True, 1, 0] and seen[False, 0, 0] and not seen[False, 0, PARTIAL]


@cocotb.test()
async def format_nvm_changes_the_length(dut):
    """From the SQE of Format NVM on no format is known; at its end its own format is, if it did not fail. Namespace Management
    and a reset leave no format known."""
    clock, link, model = make(SEED + 62)
    boot(model, 1, sizes=(16, 64))

    def both(*sizes: int) -> None:
        model.interleaved = {2} if sizes[1] == 520 else set()
        model.blocks = {nsid: size for nsid, size in zip((1, 2), sizes, strict=True) if size}
        for nsid in (1, 2):
            model.nsids, model.lbas[nsid] = (nsid,), model.blocks.get(nsid, 512)
            one(model, READ, 3)

    identify(model, 1, 0)
    identify(model, 2, 0)
    both(512, 512)
    format_nvm(model, 1, 1)
    both(4096, 0)
    format_nvm(model, 2, BEHIND | 2)
    both(0, 520)
    format_nvm(model, 2, BEHIND | 2, status=0x10A)
    both(0, 0)
    format_nvm(model, 2, 1 << 12 | 1)
    both(0, 0)
    format_nvm(model, 0xFFFFFFFF, 1)
    both(0, 0)
    identify(model, 1, 1)
    both(4096, 0)
    model.admin(0x0D, cdw=(1, 0))
    model.ring(0)
    clock.run()
    both(0, 0)
    format_nvm(model, 1, 1)
    both(0, 0)
    identify(model, 1, 0)
    both(512, 0)
    model.disable()
    model.enable(8, 8, wide=True)
    clock.run()
    create_queues(model, 1, (16, 64))
    both(0, 0)
    await run(dut, model, link)


@cocotb.test()
async def metadata_that_does_not_come(dut):
    """Commands with a pointer to metadata in a buffer of its own: the metadata is due, too. With PRACT it may not come, so the data is
    flagged; where the metadata is behind each block, its length is not known. A pointer and an unknown format are flagged, too."""
    _clock, link, model = make(SEED + 63)
    boot(model, 1, sizes=(16, 64))
    identify(model, 1, APART | 2)
    identify(model, 2, BEHIND | 2)
    model.lbas, model.blocks = {1: 512, 2: 520, 3: 512}, {1: 512, 2: 520}
    pract = 1 << 29
    for nsid, pointer, bits in ((1, 0, 0), (1, 0x7000, 0), (1, 0x7000, pract), (1, 0x7002, 0), (2, 0x7000, 0), (2, 0, pract), (3, 8, 0)):
        for opcode in (READ, WRITE):
            model.nsids = (nsid,)
            command = model.io(1, opcode, 2, offset=0)
            words = list(struct.unpack("<16L", command.sqe))
            words[4], words[12] = pointer, words[12] & ~pract | bits
            command.sqe = struct.pack("<16L", *words)
            command.flags |= PARTIAL if nsid == 3 or (nsid == 1 and pointer) else 0
            command.due = None if (nsid, bits) == (2, pract) or nsid == 3 else 2 * model.blocks[nsid]
            if (nsid, pointer, bits) == (1, 0x7000, 0):
                command.due += 16
            model.ring(1)
            model.clock.run()
    await run(dut, model, link)


@cocotb.test()
async def lengths_by_opcode(dut):
    """Admin commands with data: whole, a double word short, and one too long. Reads of zero bytes and writes without bytes are no data."""
    clock, link, model = make(SEED + 64)
    boot(model, 1, sizes=(16, 64))
    cases = [
        (0x02, (2 | 127 << 16, 0)),
        (0x02, (2, 1 << 16)),
        (0x02, (2 | 0xFFFF << 16, 0xFFFF)),
        (0x09, (0x0C, 0)),
        (0x0A, (0x0E, 0)),
        (0x09, (0x0E, 0)),
        (0x0A, (0x20C, 0)),
        (0x0A, (0x03, 0)),
        (0x11, (255, 0)),
        (0x11, (1 << 23, 0)),
        (0x15, (0, 0)),
        (0x81, (0, 512)),
        (0x81, (0, 510)),
        (0x82, (0, 512)),
        (0x19, (0, 0)),
        (0x0A, (0x07, 0)),
        (0x09, (0x02, 0)),
    ]
    for opcode, cdw in cases:
        for change in (0, -4, 4):
            page = model.pages(1)[0]
            command = model.admin(opcode, cdw=cdw, prp1=page)
            due = command.due
            if due is not None and (due > 1 << 25 or due % 4):
                command.due = due = None
            command.length = 64 if due is None else max(0, min(4096, due + change))
            command.pages = [page]
            model.ring(0)
            clock.run()
            if opcode == 0x09 and cdw[0] == 0x02:
                model.events.append((command.ticks["cqe"], "POWER_STATE", 0, 0, 0))
    identify(model, 1, 0)
    model.blocks[1], model.nsids = 512, (1,)
    move = model.move

    def with_flushes(q, command) -> None:
        if command.qid and command.pages:
            tag = model.free_tags.pop(0)
            for kind in (0x00, 0x40):
                address = command.pages[0] & ~0xFFF
                wide = address >> 32 != 0
                header = struct.pack(">BxHHBB", kind | 0x20 * wide, 1, 0x0100, tag & 0xFF, 0)
                header = header[:1] + bytes(((tag >> 8 & 1) << 3 | (tag >> 9 & 1) << 7,)) + header[2:]
                header += struct.pack(">Q" if wide else ">L", address)
                link.raw(UP, header + bytes(4 if kind else 0))
            seen = link.completion(0, address, bytes(4), tag, 4)
            model.later(seen, 0, lambda: model.free_tags.append(tag))
        move(q, command)

    model.move = with_flushes
    workload(model, 40, opcodes=(READ, WRITE))
    clock.run()
    bench = await run(dut, model, link)
    flags = Counter((r["length_checked"], r["flags"]) for r in bench.records if not r["qid"])
    assert flags[1, PARTIAL] >= 15 and flags[1, 0] >= 15 and flags[0, 0] >= 15 and not flags[0, PARTIAL]
