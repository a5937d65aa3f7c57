"""Calibration lines as the rig's registers hold them."""

from __future__ import annotations

from dataclasses import dataclass

from wattbell_spec.units import GAIN_FRACTION_BITS, OFFSET_BITS, OFFSET_FRACTION_BITS

from ...errors import CalibrationError
from .line import CalibrationLine

__all__ = ["ChannelRegisters", "registers"]

_GAIN_BITS = 32


@dataclass(frozen=True)
class ChannelRegisters:
    """Contents of V_OFFSET and V_GAIN, or I_OFFSET and I_GAIN: a signed and an unsigned number."""

    offset: int
    gain: int

    def value(self, code: int) -> int:
        """The gateware's conversion of a code to wire units: ``floor((code * 2^8 - offset) * gain / 2^32 + 1/2)``."""
        product = ((code << OFFSET_FRACTION_BITS) - self.offset) * self.gain
        return (product + (1 << (OFFSET_FRACTION_BITS + GAIN_FRACTION_BITS - 1))) >> (OFFSET_FRACTION_BITS + GAIN_FRACTION_BITS)


def registers(line: CalibrationLine, unit: float) -> ChannelRegisters:
    """Return the registers of a line. ``unit``: the wire's (20e-6 V, 500e-9 A). Raises CalibrationError if a value does not fit."""
    offset = round(line.offset * (1 << OFFSET_FRACTION_BITS))
    gain = round(line.scale / unit * (1 << GAIN_FRACTION_BITS))
    if not -(1 << (OFFSET_BITS - 1)) <= offset < 1 << (OFFSET_BITS - 1):
        raise CalibrationError(f"An offset of {line.offset:g} codes does not fit its register.")
    if not 0 < gain < 1 << _GAIN_BITS:
        raise CalibrationError(f"A scale of {line.scale:g} a code does not fit its register.")
    return ChannelRegisters(offset, gain)
