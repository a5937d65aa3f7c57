"""CRC-32 of a block, one word a clock."""

from amaranth import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["CRC32_INIT", "Crc32Word"]

CRC32_INIT = 0xFFFFFFFF
_POLY_REFLECTED = 0xEDB88320


def _shift(state: int, bits: int) -> int:
    for _ in range(bits):
        state = (state >> 1) ^ (_POLY_REFLECTED if state & 1 else 0)
    return state


class Crc32Word(wiring.Component):
    """Advances CRC-32/ISO-HDLC (zlib's) by one 32-bit little-endian word; combinational.

    The state starts at :data:`CRC32_INIT`; the CRC is the complement of the last state. A step is linear in ``before ^ word``. Bit
    i of the result is the parity of the input bits that reach it in 32 bit-serial steps. (:mod:`amaranth.lib.crc` computes the same
    as chains of two-input XORs, which cost a simulator some thousand operations a clock. The parity of a masked word costs three
    operations. tests/gateware/formal proves this form.)

    Ports
    -----
    enable : compute ``after``. While low, ``after`` is meaningless, and a simulator does not compute it.
    before : state before the word.
    word : the word.
    after : state after the word.
    """

    enable: In(1)
    before: In(32)
    word: In(32)
    after: Out(32)

    def elaborate(self, platform):
        m = Module()
        mixed = Signal(32)
        m.d.comb += mixed.eq(self.before ^ self.word)
        reached = [_shift(1 << k, 32) for k in range(32)]
        masks = [sum((reached[k] >> i & 1) << k for k in range(32)) for i in range(32)]
        with m.If(self.enable):
            m.d.comb += self.after.eq(Cat((mixed & mask).xor() for mask in masks))
        return m
