"""Interrupt messages of :mod:`messages` in the tracker: instants, and which instants are a guess."""

from __future__ import annotations

import cocotb
from cocotb.triggers import RisingEdge

from tests.gateware.nvme.bench import Bench, Pin
from tests.gateware.nvme.link import Sent
from tests.gateware.nvme.messages import SCENARIOS
from tests.gateware.nvme.scenario import TICKS, WIDTH


@cocotb.test()
async def scenarios(dut):
    """Each after a fundamental reset, which leaves the capabilities of the one before; scenarios without a view are the first."""
    bench, begins = Bench(dut, WIDTH, TICKS), 0
    await bench.start()
    for name in sorted(SCENARIOS, key=lambda name: name not in ("no view", "unseen walk")):
        bus, guesses = SCENARIOS[name]()
        bus.finish()
        sent = [Sent(begins + put.time_ps // 1000, put.up, put.raw, lost=put.missed) for put in bus.put]
        pins = [Pin(begins + time_ps // 1000, "perst_n", level) for time_ps, level in ((0, 0), (1_000, 1), *bus.resets)]
        await bench.play(sent, pins)
        await RisingEdge(dut.clk)
        found = {record["cid"] - 1: (record["msix_after"], record["interrupt_guessed"]) for record in bench.records}
        assert found == bus.due(guesses), name
        bench.records.clear()
        begins = bench.now + 1_000_000
