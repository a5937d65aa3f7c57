"""Endpoint of cocotbext-pcie for a design: configuration space in Python, memory requests over two streams of TLPs.

    endpoint = StreamEndpoint(dut)
    device = Device()
    device.append_function(endpoint)

The streams have the signals `down_*` (to the design) and `up_*` (from it): valid, ready, data and last. Byte 0 of a TLP is in bits 7:0 of
its first beat. The design also gets `function_id`, `msi_enable`, `msi_address` and `msi_data`, as a PCIe core gives them.
"""

from __future__ import annotations

from typing import Any

import cocotb
from cocotb.queue import Queue
from cocotb.triggers import ReadOnly, RisingEdge
from cocotbext.pcie.core import Endpoint  # type: ignore[import-untyped]
from cocotbext.pcie.core.caps import MsiCapability  # type: ignore[import-untyped]
from cocotbext.pcie.core.tlp import Tlp, TlpType  # type: ignore[import-untyped]

_CONFIGURATION = {TlpType.CFG_READ_0, TlpType.CFG_WRITE_0}


class StreamEndpoint(Endpoint):  # type: ignore[misc]
    """PCIe function of an NVMe controller; a design takes and sends its TLPs.

    dut: the design, with the signals that the module describes, and `clk`
    bar_bytes: bytes of BAR 0, a 64-bit BAR
    """

    def __init__(self, dut: Any, *, bar_bytes: int = 0x4000) -> None:
        super().__init__()
        self.class_code = 0x010802
        self._dut = dut
        self._msi = MsiCapability()
        self.register_capability(self._msi)
        self.configure_bar(0, bar_bytes, ext=True)
        self._to_design: Queue[bytes] = Queue()
        self._from_design: Queue[bytes] = Queue()
        for name in ("down_valid", "down_data", "down_last", "up_ready", "function_id", "msi_enable", "msi_address", "msi_data"):
            getattr(dut, name).value = 0
        cocotb.start_soon(self._send_down())
        cocotb.start_soon(self._take_up())
        cocotb.start_soon(self._send_up())

    async def write_config_register(self, reg: int, data: int, mask: int) -> None:
        """Write a register of the configuration space, and update the design's signals."""
        await super().write_config_register(reg, data, mask)
        self._dut.function_id.value = int(self.pcie_id)
        self._dut.msi_enable.value = int(bool(self._msi.msi_enable))
        self._dut.msi_address.value = self._msi.msi_message_address & 0xFFFFFFFF
        self._dut.msi_data.value = self._msi.msi_message_data & 0xFFFF

    async def handle_tlp(self, tlp: Any) -> None:
        """Answer configuration requests; give every other TLP to the design."""
        if tlp.fmt_type in _CONFIGURATION:
            await super().handle_tlp(tlp)
        else:
            tlp.release_fc()
            self._to_design.put_nowait(bytes(tlp.pack()))

    async def _send_down(self) -> None:
        dut = self._dut
        beat_bytes = len(dut.down_data) // 8
        while True:
            data = await self._to_design.get()
            await RisingEdge(dut.clk)
            for at in range(0, len(data), beat_bytes):
                dut.down_valid.value = 1
                dut.down_data.value = int.from_bytes(data[at : at + beat_bytes], "little")
                dut.down_last.value = int(at + beat_bytes >= len(data))
                taken = False
                while not taken:
                    await ReadOnly()
                    taken = bool(dut.down_ready.value)
                    await RisingEdge(dut.clk)
            dut.down_valid.value = 0

    async def _take_up(self) -> None:
        """Collect beats; after ReadOnly a valid beat is stable, and the next edge of the clock takes it, as `up_ready` stays 1."""
        dut = self._dut
        beat_bytes = len(dut.up_data) // 8
        data = bytearray()
        dut.up_ready.value = 1
        await RisingEdge(dut.clk)
        await ReadOnly()
        while True:
            if str(dut.up_valid.value) != "1":
                await RisingEdge(dut.up_valid)
                await ReadOnly()
            data += int(dut.up_data.value).to_bytes(beat_bytes, "little")
            if dut.up_last.value:
                self._from_design.put_nowait(bytes(data))
                data = bytearray()
            await RisingEdge(dut.clk)
            await ReadOnly()

    async def _send_up(self) -> None:
        while True:
            data = await self._from_design.get()
            tlp = Tlp.unpack_header(data)
            size = tlp.get_header_size() + (4 * tlp.length if tlp.has_data() else 0)
            if not size <= len(data) < size + len(self._dut.up_data) // 8:
                raise ValueError(f"the design sent {len(data)} bytes for a TLP of {size} bytes")
            tlp.data = bytearray(data[tlp.get_header_size() : size])
            await self.send(tlp)
