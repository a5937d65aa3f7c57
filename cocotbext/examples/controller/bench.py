"""Test bench of controller.v: the host model drives it, the monitor watches it, and the rules judge it."""

from __future__ import annotations

import logging
import struct
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import Timer
from cocotbext.nvmetap.host import NvmeHost
from cocotbext.nvmetap.stream import StreamEndpoint
from cocotbext.pcie.core import Device, RootComplex

logging.getLogger("cocotb.pcie").setLevel(logging.ERROR)


async def read(host: NvmeHost, slba: int, blocks: int, offset: int) -> None:
    """Read blocks, and compare each dword with its number."""
    words = range(128 * slba, 128 * (slba + blocks))
    assert await host.read(slba, blocks, offset=offset) == struct.pack(f"<{len(words)}I", *words)


@cocotb.test()
async def reads(dut: Any) -> None:
    cocotb.start_soon(Clock(dut.clk, 4, unit="ns").start())
    endpoint = StreamEndpoint(dut)
    dut.rst.value = 1
    await Timer(40, "ns")
    dut.rst.value = 0
    root, device = RootComplex(), Device()
    device.append_function(endpoint)
    root.make_port().connect(device)
    host = NvmeHost(root, timeout_ns=100_000)
    await host.start(depth=8)
    await host.run((read(host, 3 * n, 1 + n % 8, 128 * n % 4096) for n in range(16)), iodepth=4)
