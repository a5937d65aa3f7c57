"""Configuration space of a function: BARs, and the capabilities PM, MSI, PCI Express and MSI-X in a drawn order."""

from __future__ import annotations

import random
import struct

from tests.traffic.kinds import Setup

BAR_MASK = 0xFFE0_0000
"""BAR0 has 2 MiB."""
_PM, _MSI, _PCIE, _MSIX = 0x01, 0x05, 0x10, 0x11
"""Capability IDs (PCI Code and ID Assignment)."""
_SIZES = {_PM: 0x08, _MSI: 0x18, _PCIE: 0x3C, _MSIX: 0x0C}


class Configuration:
    """4096 bytes of registers, with their writable bits."""

    def __init__(self, rng: random.Random, setup: Setup, function: int) -> None:
        self._setup = setup
        self._function = function
        order = [_PM, _MSI, _PCIE, _MSIX]
        rng.shuffle(order)
        at, self.capabilities = 0x40, {}
        for capability in order:
            self.capabilities[capability] = at
            at += _SIZES[capability] + rng.choice((0, 0, 8, 0x10)) + 3 & ~3
        self._order = order
        self.registers = bytearray(4096)
        self.reset()

    @property
    def power(self) -> int:
        """Register of PMCSR (PM 3.2.4)."""
        return self.capabilities[_PM] + 4

    @property
    def device_control(self) -> int:
        """Register of Device Control (PCIe 7.5.3.4)."""
        return self.capabilities[_PCIE] + 8

    @property
    def msi(self) -> int:
        """Offset of the MSI capability."""
        return self.capabilities[_MSI]

    @property
    def msix(self) -> int:
        """Offset of the MSI-X capability."""
        return self.capabilities[_MSIX]

    def reset(self) -> None:
        """Registers as after a conventional reset or a function level reset (PCIe 6.6)."""
        self.registers = r = bytearray(4096)
        struct.pack_into("<HHHH", r, 0, 0x1B96, 0x2600 + self._function, 0, 0x0010)
        struct.pack_into("<LB", r, 8, 0x01080200, 0x10)  # class 01 08 02, revision 0; cache line size
        r[8] = 0
        struct.pack_into("<BBBB", r, 0xC, 0x10, 0, 0x80 if self._setup.functions > 1 else 0, 0)
        struct.pack_into("<L", r, 0x10, 4)  # 64-bit memory
        r[0x34] = self.capabilities[self._order[0]]
        r[0x3D] = 1  # INTA
        for here, there in zip(self._order, [*self._order[1:], 0]):
            at = self.capabilities[here]
            r[at], r[at + 1] = here, self.capabilities.get(there, 0)
        struct.pack_into("<H", r, self.capabilities[_PM] + 2, 0x0003)
        struct.pack_into("<H", r, self.msi + 2, 0x0080 | 5 << 1)  # 64-bit, 32 messages
        struct.pack_into("<HL", r, self.capabilities[_PCIE] + 2, 0x0002, 0x1000_8002)  # FLR capable, MPS 512
        struct.pack_into("<HLL", r, self.msix + 2, 63, 0x8000, 0x9000)  # 64 vectors in BAR0

    def read(self, register: int) -> bytes:
        """A register of 4 bytes."""
        return bytes(self.registers[register : register + 4])

    def write(self, register: int, data: bytes, enables: int) -> None:
        """Write the enabled bytes of a register."""
        before = self.registers[register : register + 4]
        merged = bytes(data[k] if enables >> k & 1 else before[k] for k in range(4))
        if register == 0x10:
            merged = (int.from_bytes(merged, "little") & BAR_MASK | 4).to_bytes(4, "little")
        elif register in (self.msix, self.msi, self.capabilities[_PCIE], self.capabilities[_PM]):
            merged = bytes(before[:2]) + merged[2:]
        elif 0x18 <= register < 0x28 or register in (0, 8, 0x30):
            merged = bytes(before)
        self.registers[register : register + 4] = merged

    def delivery(self) -> str:
        """How interrupts leave, as the host has enabled them: ``msix``, ``msi``, ``intx`` or not at all."""
        if self.registers[self.msix + 3] & 0x80:
            return "msix"
        if self.registers[self.msi + 2] & 1:
            return "msi"
        return "" if self.registers[5] & 4 else "intx"

    def msi_message(self, number: int) -> tuple[int, bytes]:
        """Address and data of a message: its low bits name the vector (PCIe 7.7.1)."""
        control, address, data = struct.unpack_from("<HQH", self.registers, self.msi + 2)
        return address, struct.pack("<L", data | number & ((1 << (control >> 4 & 7)) - 1))
