"""The scrambler of 2.5 and 5 GT/s, one bit at a time as the specification draws it (PCIe Base 2.1, 4.2.3)."""

from __future__ import annotations


class Scrambler:
    """Shift register for x^16 + x^5 + x^4 + x^3 + 1; the bit that leaves D15 is the key of a data bit, low bit first."""

    SEED = [1] * 16

    def __init__(self):
        self.register = list(self.SEED)

    def reset(self) -> None:
        self.register = list(self.SEED)

    def key(self) -> int:
        """Return eight bits of key; advance the register by eight."""
        value = 0
        for n in range(8):
            out = self.register[15]
            following = [out, *self.register[:15]]
            for tap in (3, 4, 5):
                following[tap] ^= out
            self.register = following
            value |= out << n
        return value

    @property
    def state(self) -> int:
        """D15 .. D0 as a number, as appendix C of the specification lists it."""
        return sum(bit << n for n, bit in enumerate(self.register))
