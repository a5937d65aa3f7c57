"""Cocotb tests of the monitor; test_cocotb.py runs them. No design is under test: the top module has nothing but a supply.

A few lines of host and drive on cocotbext-pcie's root complex and memory endpoint make the traffic: nothing of the package but its monitor.
"""

from __future__ import annotations

import struct
from typing import Any

import cocotb
from cocotb.triggers import Timer, with_timeout
from cocotb.utils import get_sim_time
from cocotbext.nvmetap import CallSource, Command, Direction, Monitor, PcieLinkSource, SupplyRail, watch_rail
from cocotbext.pcie.core import MemoryEndpoint, RootComplex  # type: ignore[import-untyped]
from cocotbext.pcie.core.device import Device  # type: ignore[import-untyped]

from tests.nvmetap.traffic import traffic

CAP = 0x0000_0030_1400_00FF & ~(15 << 32)


def _now() -> int:
    return round(get_sim_time("ps"))


async def _play_admin(function: Any, bar: Any, base: int, memory: Any, slot: int, cid: int) -> dict[str, int]:
    """Let the host submit an Identify Controller, and the drive do it. Returns instants of the calls in ps."""
    sqe = struct.pack("<BBHLQQQQ6L", 6, 0, cid, 0, 0, 0, base + 0x3000, 0, 1, 0, 0, 0, 0, 0)
    memory[64 * slot : 64 * slot + 64] = sqe
    times = {"doorbell": _now()}
    await bar.write(0x1000, struct.pack("<L", slot + 1))
    await Timer(500, "ns")
    assert bytes(await function.mem_read(base + 64 * slot, 64)) == sqe
    await function.mem_write(base + 0x3000, bytes(4096))
    times["data"] = _now()
    await function.mem_write(base + 0x1000 + 16 * slot, struct.pack("<LLHHHH", 0, 0, slot + 1, 0, cid, 1))
    await Timer(2, "us")
    times["head"] = _now()
    await bar.write(0x1004, struct.pack("<L", slot + 1))
    await Timer(500, "ns")
    return times


@cocotb.test()
async def watches_a_link_of_cocotbext_pcie(_dut: Any) -> None:
    """The monitor finds the queues and the commands on a link that it does not touch."""
    root = RootComplex()
    function = MemoryEndpoint()
    registers = function.add_mem_region(0x4000)
    registers[0:8] = struct.pack("<Q", CAP)
    device = Device()
    device.append_function(function)
    root.make_port().connect(device)
    monitor = Monitor(PcieLinkSource(device.upstream_port))
    await root.enumerate()
    tree = root.find_device(function.pcie_id)
    await tree.enable_device()
    await tree.set_master()
    bar = tree.bar_window[0]
    memory = root.mem_pool.alloc_region(0x4000)
    base = memory.get_absolute_address(0)
    assert await bar.read(0, 8) == struct.pack("<Q", CAP)
    await bar.write(0x24, struct.pack("<LQQ", 3 << 16 | 3, base, base + 0x1000))
    await bar.write(0x14, struct.pack("<L", 0x0046_0001))
    told = [await _play_admin(function, bar, base, memory, slot, 0x100 + slot) for slot in range(3)]
    for slot, times in enumerate(told):
        command: Command = await with_timeout(monitor.command(), 1, "us")
        assert (command.sqid, command.cid, command.opcode, command.status) == (0, 0x100 + slot, 6, 0)
        assert command.data_bytes == 4096
        assert command.doubts == ()
        assert command.interrupt_ps is None
        instants = [
            times["doorbell"],
            command.doorbell_ps,
            command.fetch_ps,
            command.first_data_ps,
            command.last_data_ps,
            command.cqe_ps,
            times["head"],
            command.head_ps,
        ]
        assert all(one is not None and two is not None and one <= two for one, two in zip(instants, instants[1:])), instants
        assert command.doorbell_ps is not None
        assert command.doorbell_ps - times["doorbell"] < 200_000
    assert monitor.checker.passed, monitor.checker.violations
    assert monitor.finished() == []
    assert not monitor.observer.unmatched, "enumeration is understood, with the completions of configuration writes"


@cocotb.test()
async def takes_any_source(dut: Any) -> None:
    """A test bench of one's own shows TLPs, and waits for commands meanwhile. The supply changes with each doorbell and CQE."""
    source, rail = CallSource(), SupplyRail()
    cocotb.start_soon(watch_rail(rail, dut.volts, dut.amps))
    monitor = Monitor(source, rail=rail)
    played = traffic(7, 20)
    in_flight = 0

    async def play() -> None:
        nonlocal in_flight
        for packet in played.packets:
            await Timer(packet.time_ps - _now(), "ps")
            in_flight += (packet.label == "fetch") - (packet.label == "cqe")
            dut.amps.value = 0.25 * in_flight
            source.show(Direction.DOWN if packet.down else Direction.UP, bytes(packet.data))

    start_ps = _now()
    for packet in played.packets:
        packet.time_ps += start_ps
    task = cocotb.start_soon(play())
    number, powers = 0, []
    async for command in monitor:
        number += 1
        assert command.doubts == ()
        assert command.fetch_ps is not None and command.cqe_ps is not None
        powers.append((command, command.mean_w))
        if number == len(played.truth):
            break
    await task
    spans = [(command.fetch_ps, command.cqe_ps) for command, _ in powers]
    for command, mean_w in powers:
        length = command.cqe_ps - command.fetch_ps
        beside = sum(max(0, min(stop, command.cqe_ps) - max(start, command.fetch_ps)) for start, stop in spans)
        assert mean_w is not None and abs(mean_w - 3.3 * 0.25 * beside / length) < 1e-6, (mean_w, beside / length)
    assert monitor.checker.passed
    assert not monitor.observer.unmatched
