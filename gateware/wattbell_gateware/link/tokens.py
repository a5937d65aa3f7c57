"""Decoder of the framing tokens of 8 GT/s: the meaning of four symbols, if a token begins with them."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..pcs.blocks import near

__all__ = ["EDB", "EDS", "LONGEST", "SHORTEST", "TokenDecoder"]

EDS, EDB, _SDP = 0x0090801F, 0xC0C0C0C0, 0xACF0
SHORTEST, LONGEST = 5, 1151
"""Double words of the shortest and the longest TLP, with token and LCRC.

The shortest has a header of three double words. Greater lengths are reserved (PCIe Base 3.0, 4.2.2.3.3).
"""
_LENGTH = 11


def _power(n: int) -> int:
    """Return x**n modulo x^4 + x + 1."""
    value = 1
    for _ in range(n):
        value <<= 1
        if value & 16:
            value ^= 0b10011
    return value


_LENGTH_CODE = [_power(14 - n) for n in range(_LENGTH)]
"""Bits of the frame CRC that each bit of the length inverts."""
_CODE = _LENGTH_CODE + [1 << n for n in range(4)]
"""The same for the length and for the bits of the frame CRC itself.

All 15 values differ, so together with the parity one wrong bit can be located and corrected.
"""


class TokenDecoder(wiring.Component):
    """Decodes a token and corrects one wrong bit; combinational.

    Length, frame CRC and parity of an STP form a code of distance 4; the other tokens differ from each other in many bits. Two
    wrong bits give no token. The specification's receiver stops at any of these errors and has the link retrained, which a tap
    cannot ask for. If a guess is wrong, the LCRC or CRC of the resulting packet fails. The decoder does not know which tokens may stand
    here: ``sdp``, ``edb``, ``eds`` and ``idle`` answer as if theirs could.

    Ports
    -----
    word : four symbols, the first in bits 7:0.
    stp : an STP with a possible length.
    exact : with ``stp``: every bit is right.
    length : length in double words, token and LCRC included.
    sequence : sequence number of the STP.
    sdp : an SDP, with at most one wrong bit.
    edb : an EDB, with at most one wrong bit.
    eds : an EDS, with at most one wrong bit.
    idle : four symbols of zero, with at most one wrong bit.
    wrong : with one of these: one bit was wrong.
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
            low.eq(self.word[:4] == 0xF),
            code_right.eq(~odd & (syndrome == 0)),
            code_near.eq(odd),
            self.length.eq(length ^ Cat(odd & (syndrome == column) for column in _LENGTH_CODE)),
            self.sequence.eq(Cat(self.word[24:], self.word[16:20])),
            self.exact.eq(low & code_right),
            self.stp.eq(
                (self.length >= SHORTEST)
                & (self.length <= LONGEST)
                & Mux(low, code_right | code_near, near(self.word[:4], 0xF) & code_right)
            ),
            self.sdp.eq(near(self.word[:16], _SDP)),
            self.edb.eq(near(self.word, EDB)),
            self.eds.eq(near(self.word, EDS)),
            self.idle.eq(near(self.word, 0)),
            self.wrong.eq(
                Mux(self.stp, ~self.exact, (self.word != EDB) & (self.word != EDS) & (self.word != 0) & (self.word[:16] != _SDP))
            ),
        ]
        return m
