"""CRCs of the data link layer (LCRC and DLLP CRC), several bytes a clock."""

from __future__ import annotations

from typing import NamedTuple

from amaranth import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["DLLP_CRC", "LCRC", "CrcPolynomial", "CrcStep"]


class CrcPolynomial(NamedTuple):
    """A CRC that takes the low bit of a byte first and is sent complemented, low byte first."""

    bits: int
    reflected: int
    """The polynomial without its highest term, x**0 in the highest bit."""
    residue: int
    """State after a body and its CRC, if both are intact."""

    @property
    def init(self) -> int:
        return (1 << self.bits) - 1

    def shifted(self, state: int, bits: int) -> int:
        """Return the state after `bits` zero bits."""
        for _ in range(bits):
            state = state >> 1 ^ (self.reflected if state & 1 else 0)
        return state


LCRC = CrcPolynomial(32, 0xEDB88320, 0xDEBB20E3)
"""CRC of a TLP, over sequence number and TLP (PCIe Base 2.1, 3.6.3)."""
DLLP_CRC = CrcPolynomial(16, 0xD008, 0x556F)
"""CRC of a DLLP, over its four bytes (PCIe Base 2.1, 3.5.1); polynomial 100Bh."""


class CrcStep(wiring.Component):
    """Advances a CRC by `width` bytes; combinational.

    A body starts from ``crc.init``. After the body and its CRC the state is ``crc.residue``. Raises :class:`ValueError` if `width`
    is below 1.

    Parameters
    ----------
    crc : :data:`LCRC` or :data:`DLLP_CRC`.
    width : bytes of ``data``.

    Ports
    -----
    before : state before the bytes.
    data : `width` bytes, the first in bits 7:0.
    after : state after the bytes.
    """

    def __init__(self, crc: CrcPolynomial, width: int):
        if width < 1:
            raise ValueError(f"a CRC takes at least a byte at a time, not {width!r}")
        self._crc, self._width = crc, width
        super().__init__({"before": In(crc.bits), "data": In(8 * width), "after": Out(crc.bits)})

    def elaborate(self, platform):
        m = Module()
        crc, steps = self._crc, 8 * self._width
        of_state = [crc.shifted(1 << k, steps) for k in range(crc.bits)]
        # Data bit k enters the state at bit 0 after k shifts; the other shifts then act on it.
        of_data = [crc.shifted(1, steps - k) for k in range(steps)]
        both, columns = [*self.before, *self.data], of_state + of_data
        # Bits are selected one by one: Yosys turns `both & mask` into dozens of assignments, and C++ compilers then take seven
        # times as long.
        m.d.comb += self.after.eq(Cat(Cat(bit for bit, c in zip(both, columns) if c >> n & 1).xor() for n in range(crc.bits)))
        return m
