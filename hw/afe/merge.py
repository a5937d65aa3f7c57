"""Merge of two gain paths into one current: the reference for the gateware (`rail/merge.py`).

Every conversion has two corrected currents in units of the wire (500 nA). ``coarse`` comes from the path up to 4.096 A, ``fine``
from the path up to 113.8 mA. The result is

    merged = coarse + floor(((fine - coarse) * w + 128) / 256),    w = 0 .. 256

* By level: ``w`` is 256 where ``|coarse|`` is at most 81.92 mA, and falls in a straight line to 0 at 98.304 mA. No threshold is
  crossed, so there is no step, and no hysteresis to remember. If the two paths differ by d, the slope of the scale is off by d /
  16.4 mA in the band, and nowhere else.
* After an overload: w is 0 while a fine code is at an end of the scale, and for ``HOLD`` conversions after the last such code. Then
  it may rise by 16 a conversion. The fine path stays wrong for this long because its filter is emptying, although its codes are
  inside the scale again.
* Flags: only an overload of the coarse path is an overload of the result. ``coarse_used`` means that w was below 256: noise and
  offset then come (also) from the coarse path.

All values are integers, so gateware and reference agree to the bit.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BAND", "HOLD", "LOW", "RISE", "WEIGHT", "Merged", "Merger", "level_weight"]

LOW = 5 << 15
"""Start of the band: 163 840 units, 81.92 mA."""
BAND = 1 << 15
"""Width of the band: 16.384 mA."""
WEIGHT = 256
RISE = 16
HOLD = 24
"""Conversions: 15.4 us at the fastest (640 ns); the decks give 13 us (docs/accuracy.md)."""


def level_weight(coarse: int) -> int:
    """Return the fine path's share (of 256) at a level of the coarse path."""
    return min(max((LOW + BAND - abs(coarse)) >> 7, 0), WEIGHT)


@dataclass(frozen=True)
class Merged:
    """One result."""

    value: int
    overload: bool
    coarse_used: bool


class Merger:
    """Turns conversions into results. Its only state is the remaining hold and the remaining rise."""

    def __init__(self) -> None:
        self._hold = 0
        self._ceiling = WEIGHT

    def step(self, coarse: int, fine: int, *, coarse_overload: bool = False, fine_overload: bool = False) -> Merged:
        """Merge one conversion: corrected currents in units of the wire, and whether each code was at an end of its scale."""
        if fine_overload:
            self._hold, self._ceiling = HOLD, 0
        elif self._hold:
            self._hold -= 1
        elif self._ceiling < WEIGHT:
            self._ceiling += RISE
        weight = min(level_weight(coarse), self._ceiling)
        value = coarse + (((fine - coarse) * weight + WEIGHT // 2) >> 8)
        return Merged(value, coarse_overload, weight < WEIGHT)
