"""Configuration space: BAR0, capabilities, resets by capability."""

from __future__ import annotations

import struct
from collections.abc import Callable

from .command import Command
from .interrupts import Interrupts
from .state import (
    Function,
)
from .tlp import Tlp

_OTHER_BARS = range(0x18, 0x28, 4)
_SIZING = 0xFFFFFFFF
"""Value by which the host asks a BAR for its size."""
CMBMSC = 0x50
"""Controller memory buffer memory space control."""


class ConfigurationSpace(Interrupts):
    """Follows reads and writes of configuration space."""

    def __init__(self, on_command: Callable[[Command], None] | None, timeout_ps: int) -> None:
        """Start without an address of BAR0."""
        super().__init__(on_command, timeout_ps)
        self._bars: list[Function] = []

    def _sort_bars(self) -> None:
        self._bars = sorted((f for f in self._functions.values() if f.bar is not None), key=lambda f: f.bar or 0)

    def _at_bar(self, address: int) -> tuple[Function, int] | None:
        """Return the function with ``address`` in its registers, and the offset."""
        found: tuple[Function, int] | None = None
        for function in self._bars:
            if function.bar is not None and function.bar <= address and address < function.bar + self._bar_bytes(function):
                found = function, address - function.bar
        return found

    @staticmethod
    def _bar_bytes(function: Function) -> int:
        """Return the size of BAR0; without its sizing on the link, the room of the registers and all doorbells."""
        return function.bar_size or 0x1000 + 2 * 65536 * (function.stride or 4)

    def _config_value(self, function: Function, register: int, value: int) -> None:
        if register == 0x10 and function.sizing:
            low = value & ~15
            if low:
                function.bar_size = low & -low
                self._place_own(function)
            return
        if register in _OTHER_BARS and function.bars.get(register) == _SIZING:
            function.bar_masks[register] = value
            return
        function.config[register] = value

    def _capability(self, function: Function, wanted: int) -> int | None:
        """Return the offset of a capability, or None before the host has read its header."""
        at = function.config.get(0x34, 0) & 0xFC
        for _ in range(48):
            header = function.config.get(at)
            if not at or header is None:
                return None
            if header & 0xFF == wanted:
                return at
            at = header >> 8 & 0xFC
        return None

    def _msix_location(self, function: Function) -> tuple[int, int] | None:
        """Return where the MSI-X table lies in BAR0, if the host has read it."""
        at = self._capability(function, 0x11) if 0x34 in function.config else None
        if at is None:
            return None
        place = function.config.get(at + 4)
        if place is None or place & 7:
            return None
        count = (function.config[at] >> 16 & 0x7FF) + 1
        return place & ~7, (place & ~7) + 16 * count

    def _config_write(self, tlp: Tlp) -> None:
        function = self._function(tlp.completer)
        if function.subsystem_reset:
            self._reset(function, tlp.time_ps, forget=True)
        value = struct.unpack_from("<L", tlp.payload)[0]
        register = tlp.register
        if tlp.first_be != 15:
            old = function.config.get(register, 0)
            mask = sum(0xFF << 8 * byte for byte in range(4) if tlp.first_be >> byte & 1)
            value = old & ~mask | value & mask
        if register == 0x10:
            function.sizing = value == _SIZING
            if not function.sizing:
                function.bar_low = value & ~15
                self._place_bar(function)
        elif register == 0x14:
            function.sizing = value == _SIZING
            if not function.sizing:
                function.bar_high = value
                self._place_bar(function)
        elif register in _OTHER_BARS:
            function.bars[register] = value
            self._place_own(function)
        elif register >= 0x40:
            self._capability_write(function, register, value, tlp)

    def _place_bar(self, function: Function) -> None:
        if function.bar_low is None:
            return
        place = function.bar_high << 32 | function.bar_low
        if not place:
            return
        for other in list(self._functions.values()):
            if other is not function and other.bar == place and other.ident & 0xFF == function.ident & 0xFF:
                self._reset(other, self._now, forget=True)
                other.bar = None
        function.bar = place
        self._sort_bars()
        self._place_own(function)

    def _place_own(self, function: Function) -> None:
        """List the controller's memory: BARs, and the controller memory buffer where CMBMSC gives it an address (NVMe 1.4, 3.1.18)."""
        own = []
        if function.bar is not None:
            own.append((function.bar, function.bar + self._bar_bytes(function)))
        upper = -1
        for register in _OTHER_BARS:
            mask, value = function.bar_masks.get(register), function.bars.get(register, _SIZING)
            if register == upper or mask is None or mask & 1 or value == _SIZING:
                continue
            if mask & 6 == 4:
                upper = register + 4
                mask |= function.bar_masks.get(upper, _SIZING) << 32
                value |= function.bars.get(upper, 0) << 32
            mask, base = mask & ~15, value & ~15
            if mask and base:
                own.append((base, base + (mask & -mask)))
        place = struct.unpack_from("<Q", function.registers, CMBMSC)[0]
        if place & 2 and function.cmb_bytes:
            own.append((place & ~4095, (place & ~4095) + function.cmb_bytes))
        function.own = own
        function.own_lo = min((lo for lo, _ in own), default=0)
        function.own_hi = max((hi for _, hi in own), default=0)

    def _capability_write(self, function: Function, register: int, value: int, tlp: Tlp) -> None:
        express = self._capability(function, 0x10)
        if express is not None and register == express + 8 and value & 0x8000 and tlp.first_be & 2:
            self._reset(function, tlp.time_ps, forget=True)
            return
        power = self._capability(function, 0x01)
        if power is not None and register == power + 4:
            if function.d3 and value & 3 == 0 and not function.config.get(register, 0) & 8:
                self._reset(function, tlp.time_ps, forget=True)
            function.d3 = value & 3 == 3
        message = self._capability(function, 0x05)
        if message is not None and message <= register < message + 0x14:
            function.config[register] = value
            self._place_msi(function, message)

    @staticmethod
    def _place_msi(function: Function, at: int) -> None:
        """Take the MSI capability: a vector changes the low bits of the data."""
        control = function.config.get(at, 0) >> 16
        if not control & 1:
            return
        wide = control & 0x80
        address = function.config.get(at + 4, 0) | (function.config.get(at + 8, 0) << 32 if wide else 0)
        data = function.config.get(at + (12 if wide else 8), 0) & 0xFFFF
        count = 1 << (control >> 4 & 7)
        function.vector_of = {(address, data & ~(count - 1) | vector): vector for vector in range(count)}
