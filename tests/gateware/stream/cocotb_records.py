"""Records through FIFO, builder and writer: order, block limits, flush time, and the exact position of drops."""

import os
import random
import struct

import cocotb
from cocotb.triggers import Timer

from tests.gateware import blockparser

WORDS = int(os.environ["WORDS"])
RELATIVE = WORDS == 11
BY_WORD = os.environ.get("BY_WORD") == "1"
"""A record queue takes a record in four cycles; idle cycles are not reported."""
APART = WORDS + (8 if BY_WORD else 2)
"""Sufficient cycles from record to record."""
CAPACITY = 2048 // (4 * WORDS)


class Bench:
    def __init__(self, dut):
        self.dut, self.stream, self.sent, self.lost = dut, bytearray(), [], []

    async def reset(self):
        for name in ("i_valid", "also", "flush", "step", "clk"):
            getattr(self.dut, name).value = 0
        self.dut.rst.value = 1
        await self.clock()
        self.dut.rst.value = 0

    async def clock(self, record=None, ready=True, also=0, step=0):
        """Clock once; `record` is (tick, words as bytes)."""
        dut = self.dut
        dut.i_valid.value, dut.also.value, dut.step.value, dut.out__ready.value = record is not None, also, step, ready
        if record is not None:
            dut.i_tick.value, dut.i_record.value = record[0], int.from_bytes(record[1], "little")
        await Timer(1, "ns")
        if record is not None:
            (self.lost if dut.lost.value else self.sent).append((record, len(self.sent), sum(1 for _ in self.lost)))
        if ready and dut.out__valid.value:
            self.stream += (int(dut.out__payload.value) & 0xFFFFFFFF).to_bytes(4, "little")
        dut.clk.value = 1
        await Timer(1, "ns")
        dut.clk.value = 0
        await Timer(1, "ns")

    async def drain(self):
        self.dut.flush.value = 1
        for _ in range(4000):
            await self.clock()
            if self.dut.idle.value:
                break
        self.dut.flush.value = 0

    def records(self):
        """Return [(absolute tick or None, record bytes)] of all blocks, and the blocks."""
        out = []
        found = blockparser.blocks(bytes(self.stream))
        for block in found:
            assert len(block.payload) % (4 * WORDS) == 0
            for k in range(0, len(block.payload), 4 * WORDS):
                record = block.payload[k : k + 4 * WORDS]
                if RELATIVE:
                    out.append((block.first_tick + struct.unpack_from("<i", record)[0], record[4:]))
                else:
                    out.append((struct.unpack_from("<Q", record)[0], record[8:]))
        return out, found


def make(rng, tick):
    body = rng.randbytes(4 * WORDS)
    return (tick, body if RELATIVE else tick.to_bytes(8, "little") + body[8:])


def strip(record):
    return (record[0], record[1][4 if RELATIVE else 8 :])


@cocotb.test()
async def order_and_capacity(dut):
    rng = random.Random(5)
    bench = Bench(dut)
    await bench.reset()
    tick = 10**12
    for _ in range(3 * CAPACITY + 5):
        tick += rng.randint(-500, 1000)
        await bench.clock(make(rng, tick))
        for _ in range(APART):
            await bench.clock()
    await bench.drain()
    records, found = bench.records()
    assert not bench.lost and records == [strip(r) for r, *_ in bench.sent]
    assert [len(b.payload) // (4 * WORDS) for b in found] == [CAPACITY] * 3 + [5]
    assert {b.dropped for b in found} == {0}


@cocotb.test()
async def rate_is_two_clocks_more_than_the_words_or_eight_when_it_goes_by_words(dut):
    rng = random.Random(6)
    bench = Bench(dut)
    await bench.reset()
    for k in range(CAPACITY * 4 * APART):
        await bench.clock(make(rng, k) if k % APART == 0 else None)
    assert not bench.lost


@cocotb.test()
async def offset_limits(dut):
    if not RELATIVE:
        return
    bench = Bench(dut)
    await bench.reset()
    rng = random.Random(7)
    base = 1 << 40
    ticks = [base, base + 2**31 - 1, base - 2**31, base + 2**31, base, base - 2**33, base]
    for tick in ticks:
        await bench.clock(make(rng, tick))
        for _ in range(3 * BY_WORD):
            await bench.clock()
    await bench.drain()
    records, found = bench.records()
    assert [r[0] for r in records] == ticks
    assert [(b.first_tick, len(b.payload) // 44) for b in found] == [(base, 3), (base + 2**31, 1 + 1), (base - 2**33, 1), (base, 1)]


@cocotb.test(skip=BY_WORD)
async def flush_by_deadline(dut):
    bench = Bench(dut)
    await bench.reset()
    rng = random.Random(8)
    await bench.clock(make(rng, 123))
    for _ in range(20):
        await bench.clock()
    assert dut.quiet.value and not bench.stream
    opened = int(dut.deadline.value) - 10_000_000
    assert 0 < opened < 100
    # One step to the deadline; nothing a step short of it, the block after it.
    await bench.clock(step=0)
    while int(dut.now.value) < opened + 10_000_000:
        left = (opened + 10_000_000 - int(dut.now.value)) // 4
        assert dut.quiet.value
        await bench.clock(step=min(left, 65536) - 1)
    assert not bench.stream and not dut.quiet.value
    for _ in range(40):
        await bench.clock()
    assert len(blockparser.blocks(bytes(bench.stream))) == 1 and int(dut.deadline.value) == 2**64 - 1


@cocotb.test()
async def what_is_missing_is_counted_where_it_is_missing(dut):
    bench = Bench(dut)
    await bench.reset()
    rng = random.Random(9)
    serial = 0
    also_lost = 0
    for clock in range(30_000):
        blocked = clock % 6000 < 5000 and rng.random() < 0.995
        record = None
        also = 0
        if rng.random() < 0.0005:
            also = rng.randint(1, 7)
            serial += also
            also_lost += also
        elif rng.random() < 0.12:
            serial += 1
            record = make(rng, serial)
        await bench.clock(record, ready=not blocked, also=also)
    await bench.drain()
    # One more record carries the losses after the last record.
    serial += 1
    await bench.clock(make(rng, serial))
    await bench.drain()
    records, found = bench.records()
    assert len(records) + len(bench.lost) + also_lost == serial and len(bench.lost) > 100
    # Ticks number the records: a gap in them must match the next block's count, and lie between blocks.
    expected = 1
    at = 0
    for block in found:
        count = len(block.payload) // (4 * WORDS)
        expected += block.dropped
        assert [r[0] for r in records[at : at + count]] == list(range(expected, expected + count))
        expected += count
        at += count
    assert expected == serial + 1
