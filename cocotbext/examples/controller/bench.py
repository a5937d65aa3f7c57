"""Test bench of controller.v: a host model drives it, a monitor watches it, and rules judge it.

run.py starts it. Its results are files in $OUT: violations as JUnit, coverage, a trace for Perfetto, a bus trace, and a capture of
Wattbell where that is installed.
"""

import importlib
import importlib.util
import logging
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import Timer
from cocotbext.nvmetap import Command, Monitor, PcieLinkSource, TraceWriter, write_perfetto
from cocotbext.nvmetap.coverage import Coverage
from cocotbext.nvmetap.host import CommandError, HostError, NvmeHost
from cocotbext.nvmetap.stream import StreamEndpoint
from cocotbext.pcie.core import Device, RootComplex

logging.getLogger("cocotb.pcie").setLevel(logging.ERROR)


async def read(host: NvmeHost, slba: int, blocks: int, offset: int = 0) -> None:
    """Read blocks, and compare each dword with its number on the drive."""
    words = range(128 * slba, 128 * (slba + blocks))
    data = await host.read(slba, blocks, offset=offset)
    assert data == struct.pack(f"<{len(words)}I", *words), f"wrong data in {blocks} blocks from {slba}"


async def exercise(host: NvmeHost, end_life: Callable[[], None]) -> None:
    """Read in several sizes and depths, flush, ask for too much, and read again after a reset."""
    await host.start(depth=8)
    for iodepth in (1, 2, 4):
        await host.run((read(host, 3 * n, (1, 8, 15)[n % 3], 128 * n % 512) for n in range(12)), iodepth)
    await host.flush()
    try:
        await host.read(65536, 1)
    except CommandError as error:
        assert "code 80h" in str(error)
    await Timer(1, "us")  # until the last completion is released
    end_life()
    await host.enable()
    await host.create_queue(4)
    await read(host, 7, 1)


@cocotb.test()
async def reads_are_right_and_legal(dut: Any) -> None:
    cocotb.start_soon(Clock(dut.clk, 4, unit="ns").start())
    dut.rst.value = 1
    device, root, coverage, out = Device(), RootComplex(), Coverage(), Path(os.environ["OUT"])
    device.append_function(StreamEndpoint(dut))
    root.make_port().connect(device)
    source = PcieLinkSource(device.upstream_port)
    monitor, trace = Monitor(source), TraceWriter(out / "run.wbt", source)
    await Timer(40, "ns")
    dut.rst.value = 0
    commands: list[Command] = []

    def take() -> None:
        for command in monitor.finished():
            coverage.add(command)
            commands.append(command)

    def end_life() -> None:
        take()
        coverage.begin_life()

    failure = None
    try:
        await exercise(NvmeHost(root, timeout_ns=100_000), end_life)
    except (HostError, AssertionError) as error:
        failure = str(error).splitlines()[0]
    monitor.close()
    trace.close()
    take()
    coverage.save(out / "coverage.json")
    write_perfetto(out / "trace.json", commands)
    if importlib.util.find_spec("wattbell"):
        importlib.import_module("cocotbext.nvmetap.capture").write_capture(out / "capture", commands)
    monitor.checker.write_junit(out / "rules.xml", "controller")
    broken = ", ".join(rule.name for rule in monitor.checker.counts)
    assert not failure and not broken, f"the host: {failure or 'no error'}; rules broken: {broken or 'none'}"
