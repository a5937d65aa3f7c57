"""Hosts that others wrote on the SSD model: the root complex of cocotbext-pcie and the NVMe host of cocotbext-nvmetap, with its monitor.

The model, the root complex and the monitor have three authors and no line in common.
"""

from __future__ import annotations

import logging
import random

import cocotb
import pytest
from cocotb.triggers import Timer
from cocotb.utils import get_sim_time
from cocotbext.nvmetap import Monitor, PcieLinkSource
from cocotbext.nvmetap.host import CommandError, NvmeHost
from cocotbext.nvmetap.power import SupplyRail
from cocotbext.pcie.core import RootComplex
from wattbell_ssd import Drive
from wattbell_ssd.pcie import ModelDevice

logging.getLogger("cocotb.pcie").setLevel(logging.ERROR)
COUNT = 24
"""Blocks' places that are written and read."""


def bench(interrupts: bool = True) -> tuple[NvmeHost, Drive, Monitor]:
    """A host, a drive, and a monitor on their link."""
    root, drive = RootComplex(), Drive("samsung-980-pro", rail=True, ready_us=50)
    device = ModelDevice(drive)
    root.make_port().connect(device)
    source = PcieLinkSource(device.upstream_port)
    monitor = Monitor(source, timeout_ps=20_000_000_000)
    return NvmeHost(root, timeout_ns=2_000_000, interrupts=interrupts), drive, monitor


async def work(host: NvmeHost, seed: int, iodepth: int = 8) -> int:
    """Write and read blocks side by side in two queues; return the number of commands."""
    chance, kept = random.Random(seed), {}
    places = [(64 * k, chance.choice((1, 2, 8, 17, 64)), 4 * chance.randrange(1024)) for k in range(COUNT)]

    async def write(k: int) -> None:
        slba, blocks, offset = places[k]
        kept[k] = chance.randbytes(512 * blocks)
        await host.write(slba, kept[k], queue=host.queues[k % 2], offset=offset)

    async def read(k: int) -> None:
        slba, blocks, offset = places[k]
        data = await host.read(slba, blocks, queue=host.queues[1 - k % 2], offset=4092 - offset)
        assert data == kept[k], f"{blocks} blocks at {slba}"

    await host.run((write(k) for k in range(COUNT)), iodepth=iodepth)
    await host.flush()
    await host.run((read(k) for k in range(COUNT)), iodepth=iodepth)
    return 2 * COUNT + 1


@cocotb.test()
async def others_hosts_write_and_read_and_no_rule_is_broken(_dut: object) -> None:
    for interrupts, iodepth in ((True, 1), (True, 8), (False, 8)):
        host, drive, monitor = bench(interrupts)
        await host.start(queues=2, depth=16)
        assert host.namespace_blocks and host.block_bytes == 512
        count = await work(host, 1 + interrupts, iodepth)
        await host.write_zeroes(0, 8)
        assert await host.read(0, 8) == bytes(4096)
        with pytest.raises(CommandError, match="status type 0, code 80h"):
            await host.read(host.namespace_blocks, 1)
        await host.shut_down()
        await Timer(10, "us")
        io = [command for command in monitor.finished() if command.sqid]
        assert len(io) == count + 3, len(io)
        assert monitor.checker.passed, monitor.checker.violations
        assert not monitor.observer.unmatched
        assert drive.discarded_tlps == 0 and drive.outstanding_reads == 0
        for command in io:
            assert command.doorbell_ps < command.fetch_ps < command.cqe_ps, command
            assert interrupts or command.interrupt_ps is None, command


@cocotb.test()
async def a_reset_in_the_middle_of_work_leaves_a_drive_that_works(_dut: object) -> None:
    host, drive, monitor = bench()
    await host.start(queues=2, depth=16)
    lost = [cocotb.start_soon(_quietly(host, slba)) for slba in range(0, 512, 64)]
    await Timer(3, "us")
    await host.reset()
    for task in lost:
        task.cancel()
    await host.enable()
    for _ in range(2):
        await host.create_queue(16)
    await work(host, seed=5)
    assert monitor.checker.passed, monitor.checker.violations
    assert drive.discarded_tlps == 0 and drive.outstanding_reads == 0


async def _quietly(host: NvmeHost, slba: int) -> None:
    await host.write(slba, bytes(64 * 512))


@cocotb.test()
async def power_of_the_rail_is_the_energy_of_the_drive(_dut: object) -> None:
    host, drive, _monitor = bench()
    await host.start(queues=2, depth=16)
    began_ps, began_pj = drive.now_ps, drive.energy_pj
    await work(host, seed=9)
    drive.advance(round(get_sim_time("ps")))
    ended_ps, ended_pj = drive.now_ps, drive.energy_pj
    await Timer(10, "us")
    rail = SupplyRail()
    for time_ps, current_na, voltage_nv in drive.take_rail():
        rail.set(time_ps, voltage_nv * 1e-9, current_na * 1e-9)
    joules = rail.energy_j(began_ps, ended_ps)
    assert joules == pytest.approx((ended_pj - began_pj) * 1e-12, rel=1e-4)
    assert 0.3 < joules / ((ended_ps - began_ps) * 1e-12) < 9, "watts of an NVMe drive at work"
