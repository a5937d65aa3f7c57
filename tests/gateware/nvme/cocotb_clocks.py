"""Cycles per TLP as stated in docs/gateware-figures.md: each TLP alone, from leaving the merge to idle; and data TLPs in a row."""

from __future__ import annotations

from collections import defaultdict

import cocotb
from cocotb.triggers import ReadOnly, RisingEdge

from tests.gateware.nvme.bench import Bench
from tests.gateware.nvme.expect import FLUSH, READ, WRITE
from tests.gateware.nvme.link import DOWN, UP, Sent
from tests.gateware.nvme.memory import Pool
from tests.gateware.nvme.scenario import TICKS, WIDTH, boot, make


async def in_a_row(dut, bench: Bench, several: list[Sent]) -> int:
    """Plays TLPs of one direction so that all wait, and lets them go; returns the cycles until there is rest."""
    up = several[0].direction == UP
    valid, payload = (dut.up__tlps__valid, dut.up__tlps__payload) if up else (dut.down__tlps__valid, dut.down__tlps__payload)
    dut.now.value = several[0].tick
    for sent in several:
        assert sent.direction == several[0].direction
        for beat in bench.beats(sent):
            valid.value, payload.value = 1, beat
            await RisingEdge(dut.clk)
    valid.value = 0
    for _ in range(10):
        await RisingEdge(dut.clk)
    dut.now.value = several[-1].tick + 400
    for count in range(100_000):
        await ReadOnly()
        busy = int(dut.busy.value)
        await RisingEdge(dut.clk)
        if count > 2 and not busy:
            return count
    raise AssertionError("it does not come to rest")


async def clocks(dut, bench: Bench, sent: Sent) -> int:
    """Plays one TLP; returns the cycles from the one in which the engine takes its header to the last before it is idle again."""
    valid, payload = (
        (dut.up__tlps__valid, dut.up__tlps__payload) if sent.direction == UP else (dut.down__tlps__valid, dut.down__tlps__payload)
    )
    dut.now.value = sent.tick
    for beat in bench.beats(sent):
        valid.value, payload.value = 1, beat
        await RisingEdge(dut.clk)
    valid.value = 0
    dut.now.value = sent.tick + 400  # the other direction has been silent for long enough
    count = None
    for _ in range(3000):
        await ReadOnly()
        taken = int(dut.tlps__valid.value) and int(dut.tlps__ready.value)
        busy = int(dut.busy.value)
        await RisingEdge(dut.clk)
        if count is None:
            count = 0 if taken else None
        elif not busy:
            return count
        else:
            count += 1
    raise AssertionError("it does not come to rest")


@cocotb.test()
async def as_documented(dut):
    clock, link, model = make(3)
    boot(model, 1, sizes=(8, 8), known=True)
    model.brief, model.fetch_burst, model.coalesce = True, 1, 100
    model.lists = Pool(256, model.pages(1), model.page)
    model.lists.take()  # the one at the start of the page would not be a piece
    first: dict[int, str] = {}

    def one(name: str, opcode: int, blocks: int, offset: int = 0) -> None:
        first[len(link.sent)] = name
        model.io(1, opcode, blocks, offset=offset)
        model.ring(1)
        clock.run()
        link.drain()

    for _ in range(3):
        for case in (("flush", FLUSH, 0), ("4k", READ, 8), ("w4k", WRITE, 8), ("sector", READ, 1, 512), ("list", READ, 256)):
            one(*case)
    bench = Bench(dut, WIDTH, TICKS)
    await bench.start()
    for _ in range(1100):
        await RisingEdge(dut.clk)
    took: dict[str, list[list[int]]] = defaultdict(list)
    name = "boot"
    for number, sent in enumerate(sorted(link.sent, key=lambda s: s.tick)):
        name = first.get(number, name)
        if number in first:
            took[name].append([])
        count = await clocks(dut, bench, sent)
        if name != "boot":
            took[name][-1].append(count)
    # Two of them in the queue, and one in which it is accepted, which is the last of the TLP before. Of the last one, one more until it is
    # known that no queue has completed commands.
    assert took["flush"][-1] == [8, 9, 9, 10, 11, 9]  # doorbell, fetch, SQE, CQE, interrupt, CQ head doorbell
    assert sum(took["flush"][-1]) - 2 * 6 - 1 == 43
    for rounds in (took["4k"], took["w4k"]):
        assert all(r[2] in (16, 19) for r in rounds), rounds  # SQE, with its place in the page empty, or stale
    assert took["4k"][-1][3:-3] == [7]
    assert took["w4k"][-1][3:-3] == [7, 7]
    assert all(r[2] <= 27 for r in took["sector"]), took["sector"]
    assert all(r[2] <= 35 for r in took["list"]), took["list"]
    lists = [sum(n for n in r[4:-3] if n > 7) for r in took["list"]]  # 31 entries
    assert all(7 * 31 <= n <= 10 * 31 + 20 for n in lists), lists


@cocotb.test()
async def several_at_once(dut):
    """Commands without data that share a doorbell, a fetch, a completion, a write of CQEs, an interrupt, and a CQ head doorbell."""
    clock, link, model = make(4)
    boot(model, 1, sizes=(16, 16), known=True)
    model.brief, model.coalesce, model.work = True, 51, (500, 501)
    first: dict[int, int] = {}
    for several in (1, 2, 4) * 4:
        model.fetch_burst = model.cqes = several
        first[len(link.sent)] = several
        for _ in range(several):
            model.io(1, FLUSH, 0)
        model.ring(1)
        clock.run()
        link.drain()
    bench = Bench(dut, WIDTH, TICKS)
    await bench.start()
    for _ in range(1100):
        await RisingEdge(dut.clk)
    took: dict[str, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    several, left, message = 0, 0, False
    for number, sent in enumerate(sorted(link.sent, key=lambda s: s.tick)):
        count = await clocks(dut, bench, sent) - 2  # as above
        dws = int.from_bytes(sent.raw[2:4], "big") & 0x3FF
        if number in first:
            several = left = first[number]
            took["doorbell"][several].add(count)
        elif not several:  # boot
            continue
        elif sent.direction == DOWN and dws >= 16:
            took["SQEs"][dws // 16].add(count)
        elif sent.direction == DOWN:  # one that releases what an earlier one had left has fewer
            if left == 0 and message:
                took["CQ head doorbell"][several].add(count - 1)
        elif dws >= 16 and len(sent.raw) == 16:  # 4 double words of header, and no data
            took["fetch"][dws // 16].add(count)
        elif dws >= 4:
            took["CQEs"][dws // 4].add(count)
            left, message = left - dws // 4, dws // 4 == several
        elif message:
            took["interrupt"][several].add(count)
    expected = {
        "doorbell": {n: {5 + n} for n in (1, 2, 4)},
        "fetch": {n: {5 + 2 * n} for n in took["fetch"]},
        "SQEs": {n: {1 + 6 * n} for n in (1, 2)},  # of 128 bytes at the most
        "CQEs": {1: {8}, 2: {6 + 9 * 2}, 4: {6 + 9 * 4}},
        "interrupt": {n: {8 + n} for n in (1, 2, 4)},
        "CQ head doorbell": {n: {2 + 4 * n} for n in (1, 2, 4)},
    }
    assert {1, 2} <= took["fetch"].keys()
    assert {name: dict(by) for name, by in took.items()} == expected


@cocotb.test()
async def data_in_a_row(dut):
    """One TLP a clock, of one command and of one tag, too."""
    clock, link, model = make(5)
    boot(model, 1, sizes=(8, 8))
    model.brief, model.fetch_burst, model.coalesce = False, 1, 100
    starts: dict[int, str] = {}
    for name, opcode in (("read", READ), ("write", WRITE)) * 3:
        starts[len(link.sent)] = name
        model.io(1, opcode, 8, offset=0)
        model.ring(1)
        clock.run()
        link.drain()
    bench = Bench(dut, WIDTH, TICKS)
    await bench.start()
    for _ in range(1100):
        await RisingEdge(dut.clk)
    took: list[tuple[str, int, int]] = []
    name, row = "boot", []
    for number, sent in enumerate([*sorted(link.sent, key=lambda s: s.tick), None]):
        name = starts.get(number, name)
        of_data = sent is not None and name != "boot" and len(sent.raw) > 76
        if of_data and (not row or row[0].direction == sent.direction):
            row.append(sent)
            continue
        if row:
            took.append((name, len(row), await in_a_row(dut, bench, row)))
        row = []
        if sent is not None:
            await clocks(dut, bench, sent)
    assert [n for name, n, _ in took if name == "read"] == [32] * 3
    assert max(n for name, n, _ in took if name == "write") >= 3
    assert all(count <= n + 11 for _, n, count in took), took  # with the queue and the pipeline
