"""The host model and the drive model on one link."""

from __future__ import annotations

import logging
import random
from collections.abc import Coroutine
from typing import Any

import cocotb
import pytest
from cocotb.triggers import Timer
from cocotb.utils import get_sim_time
from cocotbext.nvmetap.drive import DriveFault, NvmeDrive
from cocotbext.nvmetap.entries import Submission
from cocotbext.nvmetap.host import HostError, NvmeHost
from cocotbext.pcie.core import Device, RootComplex

logging.getLogger("cocotb.pcie").setLevel(logging.ERROR)


def bench(host: dict[str, Any] | None = None, **drive: Any) -> tuple[NvmeHost, NvmeDrive]:
    """A host and a drive on a link of 8 GT/s with four lanes."""
    root, device, model = RootComplex(), Device(), NvmeDrive(**drive)
    device.append_function(model)
    device.upstream_port.max_link_speed, device.upstream_port.max_link_width = 3, 4
    root.make_port().connect(device)
    return NvmeHost(root, **(host or {})), model


MOVES = [(1, 0, False), (8, 512, False), (16, 4, False), (17, 4092, False), (24, 0, True), (1, 8, True), (9, 100, False)]
"""Blocks, offset of the data in its first page, and whether an SGL names it."""


@cocotb.test()
async def data_read_equals_data_written(_dut: object) -> None:
    host, drive = bench()
    await host.start(depth=16)
    assert host.namespace_blocks == drive.blocks and host.block_bytes == drive.block_bytes
    chance = random.Random(1)
    for blocks, offset, sgl in [
        (1, 0, False),
        (8, 512, False),
        (16, 4, False),
        (17, 4092, False),
        (24, 0, True),
        (1, 8, True),
        (9, 100, False),
    ]:
        slba = chance.randrange(drive.blocks - blocks)
        data = chance.randbytes(512 * blocks)
        await host.write(slba, data, offset=offset, sgl=sgl)
        assert drive.data[512 * slba : 512 * (slba + blocks)] == data
        assert await host.read(slba, blocks, offset=4096 - 4 - offset, sgl=not sgl) == data
    await host.write_zeroes(0, 8)
    assert await host.read(0, 8) == bytes(4096)
    await host.flush()
    assert not drive.problems


@cocotb.test()
async def commands_run_side_by_side(_dut: object) -> None:
    """Eight reads of 10 us each end after little more than 10 us, in both ways of waiting, over a queue that wraps around."""
    for interrupts in (True, False):
        host, drive = bench({"interrupts": interrupts})
        await host.start(depth=9)
        for slba in range(64):
            drive.data[512 * slba : 512 * slba + 512] = bytes([slba]) * 512
        began = get_sim_time("ns")
        results = await host.run((host.read(slba, 1) for slba in range(64)), iodepth=8)
        assert [data[0] for data in results] == list(range(64)) and all(len(set(data)) == 1 for data in results)
        assert 80_000 < get_sim_time("ns") - began < 125_000
        assert host.queues[0].vector == (1 if interrupts else None)


@cocotb.test()
async def latency_is_the_function_s(_dut: object) -> None:
    host, _drive = bench(latency_ns=lambda entry: 40_000 if entry.opcode == 1 else 5_000)
    await host.start()
    for opcode, least_ns in ((1, 40_000), (2, 5_000)):
        began = get_sim_time("ns")
        await (host.write(0, bytes(512)) if opcode == 1 else host.read(0, 1))
        assert least_ns < get_sim_time("ns") - began < least_ns + 5_000


@cocotb.test()
async def errors_are_one_line(_dut: object) -> None:
    host, drive = bench()
    await expect("call enable", host.identify(1))
    await host.start()
    await expect("read .*failed: status type 0, code 80h", host.read(drive.blocks, 1))
    await expect("failed: status type 0, code 0Bh", host.read(0, 1, nsid=2))
    await expect("opcode 7Fh .*code 01h", host.queues[0].execute(Submission(0x7F, nsid=1)))
    await expect("delete CQ .*status type 1, code 0Ch", host.admin.execute(Submission(4, cdw10=1)))
    await expect("create SQ .*status type 1, code 01h", host.admin.execute(Submission(1, prp1=4096, cdw10=0x100063, cdw11=1)))
    await expect("no multiple of 4", host.read(0, 1, offset=2))
    await expect("register 90000000h could not be read: Invalid address", host.read_register(0x9000_0000))
    await host.queues[0].ring(5000)
    await Timer(2, "us")
    assert drive.problems == ["doorbell 2: 5000 is past the last slot, 63"]


@cocotb.test()
async def a_reset_ends_queues_and_the_next_life_works(_dut: object) -> None:
    host, drive = bench(latency_ns=50_000)
    await host.start(queues=2)
    await host.write(7, bytes(range(256)) * 2)
    lost = [await host.queues[1].submit(Submission(0, nsid=1)) for _ in range(3)]
    await host.reset()
    await host.enable()
    queue = await host.create_queue(4)
    assert await host.read(7, 1, queue=queue) == bytes(range(256)) * 2
    assert all(command.completion is None for command in lost)
    await host.shut_down()
    assert not host.queues and not drive.problems


SEEN = {
    DriveFault.WRONG_CID: "has no completion.*last completion without a command has SQID 1, CID 327",
    DriveFault.WRONG_SQID: "last completion without a command has SQID 2",
    DriveFault.WRONG_CQ: "has no completion after",
    DriveFault.SKIPPED_SLOT: "has no completion after",
    DriveFault.STALE_PHASE: "has no completion after",
    DriveFault.NO_COMPLETION: "has no completion after",
    DriveFault.NO_INTERRUPT: "an entry is in the completion queue, but no interrupt came",
    DriveFault.EARLY_INTERRUPT: "an entry is in the completion queue, but no interrupt came",
}
"""Faults that the host's own error names. The others only a monitor sees, or the data."""


@cocotb.test()
async def each_fault_happens_once_and_to_its_command(_dut: object) -> None:
    for fault in DriveFault:
        host, drive = bench({"timeout_ns": 60_000})
        await host.start(depth=8)
        drive.data[:4096] = b"\x11" * 4096
        order = drive.inject(fault, opcode=2, skip=1)
        assert await host.read(0, 8) == b"\x11" * 4096 and order.at_ps is None
        if fault in SEEN:
            await expect(SEEN[fault], host.read(0, 8))
        else:
            data = await host.read(0, 8)
            await Timer(5, "us")
            short = fault in (DriveFault.SHORT_DATA, DriveFault.EARLY_COMPLETION)
            assert (data != b"\x11" * 4096) == short, fault
            if fault is DriveFault.SHORT_DATA:
                assert data == b"\x11" * 3968 + b"\xa5" * 128
        assert order.at_ps is not None and order.sqid == 1
        assert host.memory.read(0x40, 64) == (b"\xee" if fault is DriveFault.OUTSIDE_WRITE else b"\0") * 64
        assert not drive.problems
        if fault is DriveFault.DOUBLE_COMPLETION:
            assert [stray.cid for stray in host.queues[0].strays] == [order.cid]


async def expect(pattern: str, work: Coroutine[Any, Any, Any]) -> None:
    """Await work that must fail with a line that fits the pattern."""
    with pytest.raises(HostError, match=pattern) as caught:
        await work
    assert "\n" not in str(caught.value)
