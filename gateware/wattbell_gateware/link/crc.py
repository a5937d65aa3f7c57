"""LCRC and DLLP CRC, some bytes a clock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from amaranth import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["DLLP_CRC", "LCRC", "CrcPolynomial", "CrcStep"]


class CrcPolynomial(NamedTuple):
    """A CRC that takes the low bit of a byte first and is sent complemented, low byte first."""

    bits: int
    reflected: int
    """The polynomial without its highest term, x**0 in the highest bit."""
    residue: int
    """State behind a body and its CRC, if both are whole."""

    @property
    def init(self) -> int:
        return (1 << self.bits) - 1


LCRC = CrcPolynomial(32, 0xEDB88320, 0xDEBB20E3)
"""Of a TLP: over sequence number and TLP (Base 2.1, 3.6.3)."""
DLLP_CRC = CrcPolynomial(16, 0xD008, 0x556F)
"""Of a DLLP: over its four bytes (Base 2.1, 3.5.1); polynomial 100Bh."""


class CrcStep(wiring.Component):
    """``after`` from ``before`` and the first ``count`` bytes of ``data``; combinational.

    A body starts from ``crc.init``; after the body and its CRC the state is ``crc.residue``.

    Parameters
    ----------
    crc : :data:`LCRC` or :data:`DLLP_CRC`.
    width : bytes of ``data``, the first in bits 7:0.
    counts : the numbers of bytes that occur; ``after`` is ``before`` for any other.
    """

    def __init__(self, crc: CrcPolynomial, width: int, counts: Sequence[int]):
        if not counts or min(counts) < 1 or max(counts) > width:
            raise ValueError(f"counts of a CRC over up to {width} bytes must be 1 .. {width}, not {list(counts)}")
        self._crc, self._counts = crc, sorted(set(counts))
        super().__init__({
            "before": In(crc.bits), "data": In(8 * width), "count": In(range(width + 1)), "after": Out(crc.bits),
        })  # fmt: skip

    def _reached(self, bit: int, shifts: int) -> int:
        state = 1 << bit
        for _ in range(shifts):
            state = state >> 1 ^ (self._crc.reflected if state & 1 else 0)
        return state

    def _parities(self, count: int):
        """Every bit of the state after `count` bytes, as the parity of bits of state and data."""
        bits, steps = self._crc.bits, 8 * count
        of_state = [self._reached(k, steps) for k in range(bits)]
        # Data bit k meets the state at bit 0 after k shifts, so it has the rest of the shifts before it.
        of_data = [self._reached(0, steps - k) for k in range(steps)]
        both = [*self.before, *self.data[:steps]]
        columns = of_state + of_data
        # Picked out bit by bit: `both & mask` comes out of Yosys as dozens of assignments, which takes C++ compilers seven times as long.
        return Cat(Cat(bit for bit, c in zip(both, columns) if c >> n & 1).xor() for n in range(bits))

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.after.eq(self.before)
        with m.Switch(self.count):
            for count in self._counts:
                after = Signal(self._crc.bits, name=f"after{count}")
                m.d.comb += after.eq(self._parities(count))
                with m.Case(count):
                    m.d.comb += self.after.eq(after)
        return m
