"""The scrambler of 8 GT/s, one bit at a time as the specification draws it (PCIe Base 3.0, 4.2.2.4)."""

from __future__ import annotations

SEEDS = (0x1DBFBC, 0x0607BB, 0x1EC760, 0x18C0DB, 0x010F12, 0x19CFC9, 0x0277CE, 0x1BB807)
"""Register after an EIEOS, for lane 0 .. 7."""


class Scrambler:
    """Shift register for x^23 + x^21 + x^16 + x^8 + x^5 + x^2 + 1; the bit that leaves D22 is the key, low bit of a symbol first."""

    def __init__(self, lane: int):
        self.lane = lane
        self.register: list[int] = []
        self.reset()

    def reset(self) -> None:
        self.register = [SEEDS[self.lane % 8] >> n & 1 for n in range(23)]

    def key(self) -> int:
        """Return eight bits of key; advance the register by eight."""
        value = 0
        for n in range(8):
            out = self.register[22]
            following = [out, *self.register[:22]]
            for tap in (2, 5, 8, 16, 21):
                following[tap] ^= out
            self.register = following
            value |= out << n
        return value

    @property
    def state(self) -> int:
        """D22 .. D0 as a number."""
        return sum(bit << n for n, bit in enumerate(self.register))
