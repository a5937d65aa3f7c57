"""Resets of a function and its link: what is taken for a reset, when, and what it ends. PCIe 6.6; NVMe, Controller Level Reset."""

from __future__ import annotations

import cocotb
from cocotb.triggers import RisingEdge
from wattbell_spec.wire import CommandFlag, EventType, ResetCause

from tests.gateware.nvme.bench import Bench, Pin
from tests.gateware.nvme.link import Sent
from tests.gateware.nvme.messages import BAR0, HOST, IO, US, Bus
from tests.gateware.nvme.scenario import TICKS, WIDTH
from tests.traffic import packets

POWER, CONTROL = 0x44, 0x88
"""Registers with the power state, and with Device Control."""
D0, D3HOT, FLR = 0, 3, 0x8000
CC, AQA, ASQ = 0x14, 0x24, 0x28


def enumerated(*, soft: bool = True) -> Bus:
    """A host that has seen the capabilities of power management and of PCI Express. ``soft``: D3hot to D0 resets the function."""
    bus = Bus()
    bus.write(0x10, BAR0)
    bus.read(0x34, 0x40, 0x1)
    bus.read(0x40, 0x01 | 0x80 << 8, 0x3)
    bus.read(POWER, 0 if soft else 8)
    bus.read(0x80, 0x10, 0x3)
    return bus


def working(bus: Bus) -> Bus:
    """Enable the controller, create a queue, run a command, and leave one in flight."""
    bus.start()
    bus.queue(1, 0)
    bus.command(1, head=True)
    tail = bus.tails[1] = bus.tails[1] + 1
    bus.bar(0x1008, tail)
    bus.send(1, packets.memory(True, IO + 0x1_0000 + 64 * (tail - 1), 16, 0x0100, 20))
    return bus


def again(bus: Bus) -> None:
    """Set up all anew, and run a command."""
    bus.now += 10 * US
    bus.write(0x10, BAR0)
    bus.start()
    bus.queue(1, 0)
    bus.command(1, head=True)


def read_cc(bus: Bus, value: int, wide: bool = False) -> int:
    """Read CC, alone or with the register before it; return the instant of the answer."""
    bus.tag = (bus.tag + 1) % 32
    words = 1 + wide
    bus.send(0, packets.memory(True, BAR0 + CC - 4 * wide, words, HOST, bus.tag))
    data = bytes(4 * wide) + value.to_bytes(4, "little")
    return bus.send(1, packets.completion(words, 0x0100, HOST, bus.tag, 4 * words, 0) + data)


class Case:
    """One reset at a time on one tracker, each a while after the one before."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.begins = bench, 0

    async def play(self, bus: Bus, *pins: tuple[int, str, int]) -> tuple[list[tuple[int, int]], list[dict[str, int]]]:
        """Return each reset with its tick since the begin, and the records. The first reset is PERST#'s."""
        bench = self.bench
        bench.records.clear()
        bench.events.clear()
        first = [Pin(self.begins, "perst_n", 0), Pin(self.begins + 1, "perst_n", 1)]
        more = [Pin(self.begins + time_ps // 1000, name, level) for time_ps, name, level in pins]
        await bench.play([Sent(self.begins + put.time_ps // 1000, put.up, put.raw) for put in bus.put], first + more)
        await RisingEdge(bench.dut.clk)
        resets = [(event["arg8"], event["tick"] - self.begins) for event in bench.events if event["type"] == EventType.TRACKER_RESET]
        self.begins = bench.now + 1_000_000
        assert resets[0][0] == ResetCause.PERST
        return resets[1:], bench.records

    async def check(self, bus: Bus, cause: ResetCause, at_ps: int, *pins: tuple[int, str, int], late: int = 0) -> None:
        """The reset is seen at its instant (at most ``late`` ticks behind), and ends the command in flight; all others are whole."""
        (enabled, reset, *rest), records = await self.play(bus, *pins)
        assert enabled[0] == ResetCause.CC_EN and reset[0] == cause, (enabled, reset)
        assert 0 <= reset[1] - at_ps // 1000 <= late, (cause, reset, at_ps)
        assert [found for found, _ in rest] == [ResetCause.CC_EN], rest
        ended = [record for record in records if record["flags"] & CommandFlag.ABORTED]
        assert [record["qid"] for record in ended] == [1], ended
        whole = [record for record in records if not record["flags"]]
        assert len(whole) == len(bus.ends) == len(records) - 1, (cause, records)

    async def no_reset(self, bus: Bus) -> None:
        """Nothing resets but CC.EN."""
        resets, records = await self.play(bus)
        assert [found for found, _ in resets] == [ResetCause.CC_EN], resets
        assert not any(record["flags"] for record in records)


@cocotb.test()
async def each_reset(dut):
    """FLR, D3hot, Detect, and setting up an enabled controller."""
    bench = Bench(dut, WIDTH, TICKS)
    await bench.start()
    case = Case(bench)

    bus = working(enumerated())
    bus.write(CONTROL, FLR | 0x2810, 0x3)
    at = bus.now
    again(bus)
    await case.check(bus, ResetCause.FLR, at)

    bus = working(enumerated())
    bus.write(POWER, D3HOT, 0x3)
    bus.write(POWER, D0, 0x3)
    at = bus.now
    again(bus)
    await case.check(bus, ResetCause.D3HOT, at)

    bus = working(enumerated())
    at = bus.now + US
    again(bus)
    await case.check(bus, ResetCause.LINK, at, (at, "unlinked", 1), (at + 5 * US, "unlinked", 0), late=2 * TICKS)

    for register, words in ((AQA, (0xF_000F,)), (ASQ, (0x1000_0000, 0)), (0x34, (0,))):
        bus = working(enumerated())
        bus.bar(register, *words)
        at = bus.now
        again(bus)
        await case.check(bus, ResetCause.UNSEEN, at)

    for wide in (False, True):
        bus = working(enumerated())
        at = read_cc(bus, 0x0046_0000, wide)
        again(bus)
        await case.check(bus, ResetCause.UNSEEN, at)


@cocotb.test()
async def no_resets(dut):
    """Other writes of these registers, and other values of CC, reset nothing."""
    bench = Bench(dut, WIDTH, TICKS)
    await bench.start()
    case = Case(bench)

    def busy(bus: Bus) -> Bus:
        bus.start()
        bus.queue(1, 0)
        return bus

    def lasts(bus: Bus) -> Bus:
        bus.command(1, head=True)
        return bus

    bus = busy(enumerated(soft=False))  # No_Soft_Reset
    for state in (D3HOT, D0):
        bus.write(POWER, state, 0x3)
    await case.no_reset(lasts(bus))

    bus = busy(enumerated())
    for state, enables in ((1, 0x3), (D0, 0x3), (D3HOT, 0x2), (D0, 0x3)):  # D1; a byte beside the power state
        bus.write(POWER, state, enables)
    bus.write(CONTROL, 0x2810, 0x3)  # no FLR
    bus.write(CONTROL, FLR, 0x1)  # a byte beside that bit
    bus.write(CONTROL + 4, FLR, 0x3)
    bus.write(CONTROL, FLR, 0x3, function=1)
    bus.bar(AQA, 0, enables=0)
    bus.bar(CC, 0x0046_4001)  # a shutdown
    read_cc(bus, 0x0046_4001)
    read_cc(bus, 0xFFFF_FFFF)
    await case.no_reset(lasts(bus))

    bus = enumerated()
    bus.tag = (bus.tag + 1) % 32
    bus.send(0, packets.memory(True, BAR0 + CC, 1, HOST, bus.tag))
    bus.start()  # the answer is older than this
    bus.send(1, packets.completion(1, 0x0100, HOST, bus.tag, 4, 0) + bytes(4))
    bus.queue(1, 0)
    await case.no_reset(lasts(bus))
