"""Cycles per TLP as stated in docs/gateware.md: each TLP alone, from acceptance of its header to idle."""

from __future__ import annotations

from collections import defaultdict

import cocotb
from cocotb.triggers import ReadOnly, RisingEdge

from tests.gateware.nvme.bench import Bench
from tests.gateware.nvme.expect import FLUSH, READ, WRITE
from tests.gateware.nvme.link import UP, Sent
from tests.gateware.nvme.memory import Pool
from tests.gateware.nvme.scenario import TICKS, WIDTH, boot, make


async def clocks(dut, bench: Bench, sent: Sent) -> int:
    """Plays one TLP; returns the cycles from the one in which the engine takes its header to the last before it is idle again."""
    valid, payload = (dut.tlp_up__valid, dut.tlp_up__payload) if sent.direction == UP else (
        dut.tlp_down__valid, dut.tlp_down__payload)  # fmt: skip
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
    boot(model, 1, sizes=(8, 8))
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
    assert took["flush"][-1] == [7, 9, 24, 12, 9, 11]  # doorbell, fetch, SQE, CQE, interrupt, CQ head doorbell
    for rounds in (took["4k"], took["w4k"]):
        assert all(r[2] in (28, 30) for r in rounds), rounds  # SQE, with its place in the page empty, or stale
    assert took["4k"][-1][3:-3] == [4]
    assert took["w4k"][-1][3:-3] == [4, 2]
    assert all(r[2] <= 36 for r in took["sector"]), took["sector"]
    assert all(r[2] <= 46 for r in took["list"]), took["list"]
    lists = [sum(n for n in r[4:-3] if n > 4) for r in took["list"]]  # 31 entries
    assert all(7 * 31 <= n <= 9 * 31 + 20 for n in lists), lists
