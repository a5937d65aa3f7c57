"""The tracker under traffic packed by cocotbext-pcie; every record and event is compared with the model's."""

from __future__ import annotations

import os
import random

import cocotb

from tests.gateware.nvme.expect import READ, WRITE
from tests.gateware.nvme.scenario import SEED, boot, make, run, workload


@cocotb.test()
async def one_command(dut):
    """Boot, one queue, a read and a write."""
    clock, link, model = make(SEED, stride=0)
    boot(model, 1, sizes=(8, 8))
    model.io(1, READ, 8)
    model.ring(1)
    clock.run()
    model.io(1, WRITE, 8)
    model.ring(1)
    clock.run()
    bench = await run(dut, model, link)
    assert (await bench.counters())["bar0"] == model.bar0
    assert (await bench.counters())["in_flight"] == 0


@cocotb.test()
async def random_traffic(dut):
    """Random layouts, splits, wraps, unrelated and malformed TLPs."""
    clock, link, model = make(SEED)
    r = random.Random(SEED)
    boot(model, r.randint(2, 8))
    workload(model, int(os.environ.get("COMMANDS", "600")))

    def noise() -> None:
        if clock._queue:
            link.unrelated(r.randrange(2))
            if r.random() < 0.3:
                direction = r.randrange(2)
                before = len(link.sent)
                link.malformed(direction)
                if len(link.sent) > before:
                    model.events.append((link.sent[-1].tick, "MALFORMED", direction, int(link.refused_as), 0))
            clock.after(r.randrange(200, 4000), noise)

    clock.after(100, noise)
    clock.run()
    bench = await run(dut, model, link)
    refused = [event for event in model.events if event[1] == "MALFORMED"]
    assert {event[2] for event in refused} == {0, 1}, "of both directions"
    assert (await bench.counters())["malformed"] == len(refused)
