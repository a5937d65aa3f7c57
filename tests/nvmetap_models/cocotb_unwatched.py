"""A test bench without the monitor. It writes its own commands to a file."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import cocotb
from cocotb.triggers import Timer
from cocotbext.nvmetap.drive import NvmeDrive
from cocotbext.nvmetap.host import NvmeHost
from cocotbext.pcie.core import Device, RootComplex

logging.getLogger("cocotb.pcie").setLevel(logging.ERROR)


@cocotb.test()
async def reads_and_writes(_dut: object) -> None:
    root, device = RootComplex(), Device()
    device.append_function(NvmeDrive())
    root.make_port().connect(device)
    RootComplex().make_port().connect(Device())  # a link without traffic
    host = NvmeHost(root, timeout_ns=60_000)
    await host.start(queues=1, depth=8)
    issued = []
    for number in range(20):
        slba, blocks = 100 + 7 * number, 1 + number % 3
        issued.append((1 + number % 2, slba, blocks))
        if number % 2:
            await host.read(slba, blocks)
        else:
            await host.write(slba, bytes(512 * blocks))
    await Timer(2, "us")
    Path(os.environ["ISSUED"]).write_text(json.dumps(issued))
