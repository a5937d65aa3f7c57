"""One direction of a board (direction_tops.py) against simulation time: every TLP arrives once, with the tick of its first bit."""

from __future__ import annotations

import os
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge, Timer
from cocotb.utils import get_sim_time
from wattbell_spec.link_events import LinkEvent

from tests.gateware.lanes.sender import Sender, Wiring
from tests.gateware.phy.traffic import some_tlp
from tests.gateware.phy.transmitter.fast import words

BOARD = os.environ["BOARD"]
MOST_OFF_NS = {"ecp5": 6, "kintex7": 4}[BOARD]
"""Limit in ns of a tick's error against the rail (docs/accuracy.md). It is less than a word, so a miscounted delay shows."""
CLOCKS, CORE, CORE_NS, LATE = {
    "ecp5": (("words_clk", "other_clk"), "fast_clk", 8, 1),
    "kintex7": (("link_clk",) * 4, "clk", 4, 2),
}[BOARD]
"""Clock of the lanes; the clock from which the instrument's is derived; cycles from a word's first bit to the cycle that takes the
word.
"""
RATES = {"2.5": (0, 20, 8), "5": (1, 20, 4), "8": (2, 32, 4)}
"""Number of lanes, bits per word of a lane, its clock in ns."""
LONGER_PS = (-2, 22)
"""Deviation of the links' clock from 4 ns: 500 ppm faster than the instrument, 5470 slower. The simulator has no finer steps."""


class Bench:
    def __init__(self, dut):
        self.dut, self.tlps, self.acks, self.dropped = dut, [], [], 0
        self.origin = 0

    async def start(self):
        dut = self.dut
        for name in {*CLOCKS, CORE}:
            getattr(dut, name).value = 0
            getattr(dut, name.replace("clk", "rst")).value = 0
        dut.up.value, dut.down.value = (1 << len(CLOCKS)) - 1, 1
        Clock(getattr(dut, CORE), CORE_NS, unit="ns").start()
        await ClockCycles(dut.core, 8)
        dut.down.value = 0
        await RisingEdge(dut.core)
        edge = get_sim_time("ps")
        await FallingEdge(dut.core)
        self.origin = int(dut.now.value) - edge / 1000
        cocotb.start_soon(self._listen())

    async def _listen(self):
        dut, tlp = self.dut, None
        while True:
            await FallingEdge(dut.core)
            self.dropped += int(dut.dropped.value)
            if dut.told.value and int(dut.kind.value) == LinkEvent.ACK.value:
                self.acks.append(int(dut.told_tick.value))
            if not dut.valid.value:
                continue
            assert dut.first.value == (tlp is None) and not dut.error.value and not (dut.first.value and dut.lost.value)
            tlp = (tlp or b"") + int(dut.data.value).to_bytes(16, "little")[: 4 * int(dut.dws.value)]
            if dut.last.value:
                self.tlps.append((tlp, int(dut.tick.value)))
                tlp = None

    async def play(self, sender: Sender, *, longer_ps: int, phase: float):
        """Play the whole direction, with the lanes' clocks longer than the instrument's and lane 1's `phase` of a cycle later.

        Returns the times of first bits in ticks, with fractions: of each TLP, and of each Ack.
        """
        tlps, acks = [], []
        for stretch, (speed, _, wires) in zip(sender.stretches, sender.wires(), strict=True):
            number, bits, clock_ns = RATES[speed]
            self.dut.rate.value = number
            await Timer(600, "ns")
            clock_ps = (4000 + longer_ps) * clock_ns // 4
            began = await self._stretch([words(wire, bits).tolist() for wire in wires], clock_ps, phase)
            late = sender.wiring.late[0]

            def at(bit, *, clock_ps=clock_ps, began=began, late=late, bits=bits):
                return self.origin + (began + (bit + late) / bits * clock_ps) / 1000

            tlps += [at(copy.first) for copy in stretch.copies]
            acks += [at(first) for first, body in stretch.dllps if body[0] == 0]
        await Timer(2000, "ns")
        return tlps, acks

    async def _stretch(self, lanes: list[list[int]], clock_ps: int, phase: float) -> float:
        """Play words; return the time of the first bit of lane 0's first word in ps."""
        names, clocks = list(dict.fromkeys(CLOCKS)), []
        for name in names:
            clock = Clock(getattr(self.dut, name), clock_ps, unit="ps")
            clock.start()
            clocks.append(clock)
            if len(names) > 1:
                await Timer(max(round(clock_ps * phase), 1), "ps")
        tasks = [cocotb.start_soon(self._lane(n, lane, clock_ps)) for n, lane in enumerate(lanes)]
        began = [await task for task in tasks]
        for clock in clocks:
            clock.stop()
        return began[0]

    async def _lane(self, n: int, lane: list[int], clock_ps: int) -> float:
        clock, word, began = getattr(self.dut, CLOCKS[n]), getattr(self.dut, f"word{n}"), None
        for value in lane:
            await FallingEdge(clock)
            word.value = value
            if began is None:
                began = get_sim_time("ps") + clock_ps // 2 - LATE * clock_ps
        return began


def traffic(speed: str, lanes: int, seed: int, *, apart: int) -> Sender:
    r = random.Random(seed)
    wiring = Wiring([r.randrange(apart + 1) for _ in range(lanes)], [r.random() < 0.5 for _ in range(lanes)], False)
    sender = Sender(speed, lanes, seed=seed, tick=0, wiring=wiring)
    for n in range(140):
        # Back to back, and with a pause; some with many beats, and 40 of those with the most beats for their length.
        sender.send(some_tlp(r) if n < 100 else bytes([0x60, 0, 0, 1]) + r.randbytes(16))
        if n < 100 and r.random() < 0.3:
            sender.acknowledge()
        if n % 10 == 5:
            sender.link.idle(r.randrange(200))
        if n == 60:
            sender.retrain()
    sender.finish()
    return sender


@cocotb.test()
@cocotb.parametrize(speed=("2.5", "5", "8") if BOARD == "kintex7" else ("2.5", "5"), longer_ps=LONGER_PS)
async def every_tlp_at_its_tick(dut, speed, longer_ps):
    bench = Bench(dut)
    await bench.start()
    seed = abs(longer_ps) + len(speed)
    sender = traffic(speed, len(CLOCKS), seed, apart=20 if BOARD == "ecp5" else 40)
    tlps, acks = await bench.play(sender, longer_ps=longer_ps, phase=random.Random(seed).random())
    assert bench.dropped == 0
    assert [raw for raw, _ in bench.tlps] == sender.raws
    off = [tick - time for (_, tick), time in zip(bench.tlps, tlps, strict=True)]
    off_acks = [tick - time for tick, time in zip(bench.acks, acks, strict=True)]
    dut._log.info(f"ticks are off by {min(off):.2f} to {max(off):.2f}, of Acks {min(off_acks):.2f} to {max(off_acks):.2f}")
    assert max(map(abs, off + off_acks)) <= MOST_OFF_NS
    # Neighbours are as far apart as on the wire, but for the tick and the steps by which the counter follows.
    for (before, here), (then, now) in zip(zip(off, off[1:]), zip(tlps, tlps[1:])):
        if now - then < 1000:
            assert abs(here - before) <= 1 + 2 * (1 + (now - then) // 128)
