"""Framing tokens of 8 GT/s: what four symbols of the data stream are, if a token begins there."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..pcs.blocks import near

__all__ = ["EDB", "EDS", "LONGEST", "SHORTEST", "TokenDecoder"]

EDS, EDB, _SDP = 0x0090801F, 0xC0C0C0C0, 0xACF0
SHORTEST, LONGEST = 5, 1151
"""Double words of a TLP with token and LCRC: a header of three at least; greater lengths are reserved (PCIe Base 3.0, 4.2.2.3.3)."""
_LENGTH = 11


def _power(n: int) -> int:
    """x**n modulo x^4 + x + 1."""
    value = 1
    for _ in range(n):
        value <<= 1
        if value & 16:
            value ^= 0b10011
    return value


_LENGTH_CODE = [_power(14 - n) for n in range(_LENGTH)]
"""Which bits of the frame CRC each bit of the length turns over."""
_CODE = _LENGTH_CODE + [1 << n for n in range(4)]
"""The same for the bits of the frame CRC. These 15 are all different, so that with the parity one wrong bit is found and put right."""


class TokenDecoder(wiring.Component):
    """Combinational. ``word``: four symbols, the first in bits 7:0.

    One wrong bit is put right: length, frame CRC and parity of an STP are a code of distance 4; the others are far from each other. The
    specification's receiver stops at any of these errors and has the link retrained, which a tap cannot ask for. Two wrong bits
    are no token. What a wrong guess would frame has its LCRC or CRC against it.

    Ports
    -----
    stp : an STP of a possible length; exact : with every bit right. length : in double words, token and LCRC included; sequence.
    sdp, edb, eds, idle : as if that could be here. edb, eds and idle (four symbols of zero) may have one wrong bit, sdp as well.
    wrong : with one of these, a bit of it was wrong.
    """

    word: In(32)
    stp: Out(1)
    exact: Out(1)
    length: Out(_LENGTH)
    sequence: Out(12)
    sdp: Out(1)
    edb: Out(1)
    eds: Out(1)
    idle: Out(1)
    wrong: Out(1)

    def elaborate(self, platform):
        m = Module()
        length, check = self.word[4:15], self.word[20:24]
        syndrome, odd = Signal(4), Signal()
        m.d.comb += [
            syndrome.eq(Cat(Cat(*(length[k] for k in range(_LENGTH) if _LENGTH_CODE[k] >> n & 1), check[n]).xor() for n in range(4))),
            odd.eq(Cat(length, check, self.word[15]).xor()),
        ]
        low, code_right, code_near = Signal(), Signal(), Signal()
        m.d.comb += [
            low.eq(self.word[:4] == 0xF), code_right.eq(~odd & (syndrome == 0)), code_near.eq(odd),
            self.length.eq(length ^ Cat(odd & (syndrome == column) for column in _LENGTH_CODE)),
            self.sequence.eq(Cat(self.word[24:], self.word[16:20])),
            self.exact.eq(low & code_right),
            self.stp.eq((self.length >= SHORTEST) & (self.length <= LONGEST)
                        & Mux(low, code_right | code_near, near(self.word[:4], 0xF) & code_right)),
            self.sdp.eq(near(self.word[:16], _SDP)), self.edb.eq(near(self.word, EDB)), self.eds.eq(near(self.word, EDS)),
            self.idle.eq(near(self.word, 0)),
            self.wrong.eq(
                Mux(self.stp, ~self.exact, (self.word != EDB) & (self.word != EDS) & (self.word != 0) & (self.word[:16] != _SDP))
            ),
        ]  # fmt: skip
        return m
