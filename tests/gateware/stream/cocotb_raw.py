"""Raw TLPs of all lengths into TLP blocks."""

import random
import struct

import cocotb
from cocotb.triggers import Timer

from tests.gateware import blockparser

LAYOUT = (("data", 32), ("first", 1), ("last", 1), ("tick", 64), ("length", 16), ("direction", 1), ("flags", 8))


def pack(**values):
    word, at = 0, 0
    for name, bits in LAYOUT:
        word |= (values[name] & ((1 << bits) - 1)) << at
        at += bits
    return word


@cocotb.test()
async def whole_and_cut_tlps(dut):
    rng = random.Random(10)
    for name in ("raw__valid", "lost", "flush", "clk"):
        getattr(dut, name).value = 0
    stream = bytearray()

    async def clock(ready):
        dut.out__ready.value = ready
        await Timer(1, "ns")
        if ready and dut.out__valid.value:
            stream.extend((int(dut.out__payload.value) & 0xFFFFFFFF).to_bytes(4, "little"))
        taken = bool(dut.raw__ready.value)
        dut.clk.value = 1
        await Timer(1, "ns")
        dut.clk.value = 0
        return taken

    tlps = []
    tick = 1 << 36
    lengths = [12, 16, 13, 2040, 2041, 2044, 4112, 4, 2032] + [rng.choice((12, 16, 80, 144, 528)) for _ in range(60)]
    lost, reported = 0, 0
    for number, length in enumerate(lengths):
        tick += rng.randint(1, 1000) if number != 40 else 1 << 32
        direction, flags = rng.randint(0, 1), rng.choice((0, 2))
        data = rng.randbytes((length + 3) // 4 * 4)
        tlps.append((tick, length, direction, flags, data))
        if number in (20, 50):
            lost += number
            dut.lost.value = lost
        for k in range(0, len(data), 4):
            dut.raw__payload.value = pack(
                data=int.from_bytes(data[k : k + 4], "little"),
                first=k == 0,
                last=k + 4 == len(data),
                tick=tick,
                length=length,
                direction=direction,
                flags=flags,
            )
            while rng.random() < 0.2:
                dut.raw__valid.value = 0
                await clock(rng.random() < 0.8)
            dut.raw__valid.value = 1
            while not await clock(rng.random() < 0.8):
                pass
        dut.raw__valid.value = 0
    dut.flush.value = 1
    while not dut.idle.value:
        await clock(True)
    found = blockparser.blocks(bytes(stream))
    got = []
    for block in found:
        assert block.kind == blockparser.TLP
        reported += block.dropped
        at = 0
        while at < len(block.payload):
            offset, length, direction, flags = struct.unpack_from("<iHBB", block.payload, at)
            padded = (length + 3) // 4 * 4
            got.append((block.first_tick + offset, length, direction, flags, block.payload[at + 8 : at + 8 + padded]))
            at += 8 + padded
    assert reported == lost
    assert got == [(t, min(n, 2040), d, f | (n > 2040), data[:2040]) for t, n, d, f, data in tlps]
