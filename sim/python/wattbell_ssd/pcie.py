"""The SSD model on a link of cocotbext-pcie.

    device = ModelDevice(Drive("samsung-980-pro"))
    root.make_port().connect(device)

It needs cocotb 2 and cocotbext-pcie, which this package does not bring.
"""

from __future__ import annotations

from typing import Any

import cocotb
from cocotb.queue import Queue
from cocotb.triggers import Event, First, Timer
from cocotb.utils import get_sim_time
from cocotbext.pcie.core import Device  # type: ignore[import-untyped]
from cocotbext.pcie.core.tlp import Tlp  # type: ignore[import-untyped]

from . import Drive


class ModelDevice(Device):  # type: ignore[misc]
    """A device that a drive answers for: configuration space, registers, and all else.

    The drive's time is the simulation's. cocotbext-pcie's link adds its own time to each TLP.

    drive: a drive without a past
    """

    def __init__(self, drive: Drive) -> None:
        super().__init__()
        self.drive = drive
        self.upstream_port.max_link_speed, self.upstream_port.max_link_width = 3, 4
        self._pushed = Event()
        self._to_host: Queue[bytes] = Queue()
        cocotb.start_soon(self._run())
        cocotb.start_soon(self._send())

    async def upstream_recv(self, tlp: Any) -> None:
        """Give the drive a TLP of the host. Raises DriveError."""
        tlp.release_fc()
        self.drive.push(_now_ps(), bytes(tlp.pack()))
        self._pushed.set()

    async def _run(self) -> None:
        while True:
            self._pushed.clear()
            for _, tlp in self.drive.advance(_now_ps()):
                self._to_host.put_nowait(tlp)
            due_ps = self.drive.next_ps()
            waits = [self._pushed.wait()]
            if due_ps is not None:
                waits.append(Timer(max(1, due_ps - _now_ps()), "ps", round_mode="ceil"))
            await First(*waits)

    async def _send(self) -> None:
        while True:
            await self.upstream_send(Tlp.unpack(await self._to_host.get()))


def _now_ps() -> int:
    return round(get_sim_time("ps"))
