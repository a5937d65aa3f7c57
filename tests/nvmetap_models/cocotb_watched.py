"""The monitor and its rules on the link between the host model and the drive model."""

from __future__ import annotations

import logging
import random

import cocotb
from cocotb.triggers import Timer
from cocotbext.nvmetap import Monitor, PcieLinkSource, Rule
from cocotbext.nvmetap.coverage import Coverage
from cocotbext.nvmetap.drive import DriveFault, NvmeDrive
from cocotbext.nvmetap.host import HostError, NvmeHost
from cocotbext.pcie.core import Device, RootComplex

logging.getLogger("cocotb.pcie").setLevel(logging.ERROR)
BROKEN = {
    DriveFault.WRONG_CID: Rule.CQE_NO_COMMAND,
    DriveFault.WRONG_SQID: Rule.CQE_NO_COMMAND,
    DriveFault.WRONG_CQ: Rule.CQE_QUEUE,
    DriveFault.WRONG_SQ_HEAD: Rule.CQE_SQHD,
    DriveFault.SKIPPED_SLOT: Rule.CQE_SLOT,
    DriveFault.STALE_PHASE: Rule.CQE_PHASE,
    DriveFault.DOUBLE_COMPLETION: Rule.CQE_NO_COMMAND,
    DriveFault.NO_COMPLETION: Rule.TIMEOUT,
    DriveFault.EARLY_COMPLETION: Rule.DATA_COUNT,
    DriveFault.SHORT_DATA: Rule.DATA_COUNT,
    DriveFault.REPEATED_DATA: Rule.DATA_COUNT,
    DriveFault.OUTSIDE_WRITE: Rule.WRITE_OUTSIDE,
    DriveFault.OUTSIDE_READ: Rule.READ_OUTSIDE,
    DriveFault.EARLY_INTERRUPT: Rule.INTERRUPT_EARLY,
}
"""Rule that each fault breaks. A completion without an interrupt breaks none: the host may poll."""


def watched(**drive: object) -> tuple[NvmeHost, NvmeDrive, Monitor]:
    """A host, a drive, and a monitor on their link; the monitor gives a command 100 us."""
    root, device, model = RootComplex(), Device(), NvmeDrive(**drive)
    device.append_function(model)
    root.make_port().connect(device)
    return NvmeHost(root, timeout_ns=60_000), model, Monitor(PcieLinkSource(device.upstream_port), timeout_ps=100_000_000)


@cocotb.test()
async def legal_traffic_breaks_no_rule(_dut: object) -> None:
    host, drive, monitor = watched(latency_ns=lambda entry: 1000 * (1 + entry.slba % 7))
    await host.start(queues=2, depth=7)
    chance = random.Random(4)
    wanted = []

    async def one(number: int) -> None:
        queue, sgl, offset = host.queues[number % 2], number % 3 == 0, 4 * chance.randrange(1024)
        slba, blocks = chance.randrange(2048), chance.choice((1, 2, 8, 17))
        wanted.append((queue.qid, 1 + number % 2, slba, blocks, sgl))
        if number % 2:
            await host.read(slba, blocks, queue=queue, offset=offset, sgl=sgl)
        else:
            await host.write(slba, bytes(512 * blocks), queue=queue, offset=offset, sgl=sgl)

    await host.run((one(number) for number in range(60)), iodepth=9)
    await host.flush()
    await Timer(2, "us")
    assert monitor.checker.passed and not drive.problems
    coverage = Coverage()
    finished = monitor.finished()
    for command in finished:
        coverage.add(command)
    seen = [command for command in finished if command.sqid and command.opcode]
    assert sorted((c.sqid, c.opcode, c.slba, c.blocks, c.sgl) for c in seen) == sorted(wanted)
    assert all(c.data_bytes == 512 * c.blocks and not c.doubts for c in seen)
    assert coverage.along("pointer")["SGL"] == 20 and coverage.along("opcode")["00h flush"] == 1
    assert coverage.along("depth")["3-4"] + coverage.along("depth")["5-8"] > 10


@cocotb.test()
async def each_fault_breaks_its_rule(_dut: object) -> None:
    assert set(DriveFault) - set(BROKEN) == {DriveFault.NO_INTERRUPT}
    for fault, rule in BROKEN.items():
        host, drive, monitor = watched()
        await host.start(queues=2, depth=8)
        await host.read(0, 16)
        assert monitor.checker.passed
        order = drive.inject(fault, opcode=2)
        try:
            await host.read(0, 16)
        except HostError:
            assert fault not in (DriveFault.SHORT_DATA, DriveFault.OUTSIDE_WRITE)
        await Timer(150, "us")
        monitor.close()
        assert rule in monitor.checker.counts, (fault, monitor.checker.counts)
        assert order.at_ps is not None and all(violation.time_ps >= order.at_ps for violation in monitor.checker.violations)
