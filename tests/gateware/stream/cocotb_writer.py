"""Blocks of random contents through the two buffers, with random backpressure."""

import random

import cocotb
from cocotb.triggers import Timer

from tests.gateware import blockparser

KINDS = (3, 4)


@cocotb.test()
async def every_block_comes_out_once_and_whole(dut):
    rng = random.Random(4)
    sent = {k: [] for k in KINDS}
    todo = {
        k: [(rng.choice((1, 2, 3, 511, 512, rng.randint(1, 512))), rng.getrandbits(64), rng.getrandbits(32)) for _ in range(20)]
        for k in (0, 1)
    }
    filling = {0: None, 1: None}
    stream = bytearray()
    lasts = []
    dut.clk.value = 0
    dut.run.value = 0x8C0FFEE1
    for port in (dut.fill0__write, dut.fill1__write, dut.fill0__close, dut.fill1__close):
        port.value = 0
    for clock in range(40_000):
        for k in (0, 1):
            port = {
                n: getattr(dut, f"fill{k}__{n}") for n in ("free", "write", "address", "data", "close", "words", "first_tick", "dropped")
            }
            port["write"].value = port["close"].value = 0
            if filling[k] is None:
                if todo[k] and port["free"].value and rng.random() < 0.01:
                    words, tick, dropped = todo[k].pop(0)
                    filling[k] = ([rng.getrandbits(32) for _ in range(words)], 0, tick, dropped)
            else:
                content, at, tick, dropped = filling[k]
                if at < len(content):
                    port["write"].value, port["address"].value, port["data"].value = 1, at, content[at]
                    filling[k] = (content, at + 1, tick, dropped)
                else:
                    port["close"].value, port["words"].value = 1, len(content) % 512
                    port["first_tick"].value, port["dropped"].value = tick, dropped
                    sent[KINDS[k]].append((dropped, tick, b"".join(w.to_bytes(4, "little") for w in content)))
                    filling[k] = None
        ready = rng.random() < (0.9 if clock % 8000 < 6000 else 0.05)
        dut.out__ready.value = ready
        await Timer(1, "ns")
        if ready and dut.out__valid.value:
            payload = int(dut.out__payload.value)
            stream += (payload & 0xFFFFFFFF).to_bytes(4, "little")
            if payload >> 32:
                lasts.append(len(stream))
        dut.clk.value = 1
        await Timer(1, "ns")
        dut.clk.value = 0
        if not any(todo.values()) and not any(filling.values()) and dut.idle.value and clock > 20:
            break
    found = blockparser.blocks(bytes(stream))
    assert [b.sequence for b in found] == list(range(40)) and {b.run for b in found} == {0x8C0FFEE1}
    for kind in KINDS:
        assert [(b.dropped, b.first_tick, b.payload) for b in found if b.kind == kind] == sent[kind]
    ends, at = [], 0
    for b in found:
        at += 32 + len(b.payload)
        ends.append(at)
    assert lasts == ends, "`last` stands on every CRC and nowhere else"
