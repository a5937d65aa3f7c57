"""How two gain paths become one current: the reference that the gateware (`rail/merge.py`) is held against.

For every conversion there are two corrected currents in units of the wire (500 nA): ``coarse``, whose path reaches 4.096 A,
and ``fine``, whose path reaches 113.8 mA. The result is

    merged = coarse + floor(((fine - coarse) * w + 128) / 256),    w = 0 .. 256

* By level: ``w`` falls from 256 where ``|coarse|`` is at most 81.92 mA to 0 where it is 98.304 mA or more, in a straight line. No
  threshold is crossed, so there is no step, and nothing to remember: no hysteresis. Where the two paths differ by d, the slope
  of the scale is off by d / 16.4 mA in the band, and by nothing else anywhere.
* After an overload: while a fine code is at an end of the scale, and for ``HOLD`` conversions after the last one that was, w is 0;
  then it may rise by 16 a conversion. The fine path is wrong for so long because its filter is emptying, though its codes are
  inside the scale again.
* Flags: an overload of the fine path is not an overload of the result. The result's is the coarse path's. ``coarse_used`` says that
  w was below 256: noise and offset are then (also) those of the coarse path.

Integers throughout, so that gateware and reference agree to the bit.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BAND", "HOLD", "LOW", "RISE", "WEIGHT", "Merged", "Merger", "level_weight"]

LOW = 5 << 15
"""Begin of the band: 163 840 units, 81.92 mA."""
BAND = 1 << 15
"""How wide it is: 16.384 mA."""
WEIGHT = 256
RISE = 16
HOLD = 24
"""Conversions: 15.4 us at the fastest (640 ns), and the decks say 13 us (docs/front-end.md)."""


def level_weight(coarse: int) -> int:
    """The fine path's share (of 256) at a level of the coarse path."""
    return min(max((LOW + BAND - abs(coarse)) >> 7, 0), WEIGHT)


@dataclass(frozen=True)
class Merged:
    """One result."""

    value: int
    overload: bool
    coarse_used: bool


class Merger:
    """Merges conversions into results. The state is ``hold`` and the rest of the rise."""

    def __init__(self) -> None:
        self._hold = 0
        self._ceiling = WEIGHT

    def step(self, coarse: int, fine: int, *, coarse_overload: bool = False, fine_overload: bool = False) -> Merged:
        """One conversion: corrected currents in units of the wire, and whether each code was at an end of its scale."""
        if fine_overload:
            self._hold, self._ceiling = HOLD, 0
        elif self._hold:
            self._hold -= 1
        elif self._ceiling < WEIGHT:
            self._ceiling += RISE
        weight = min(level_weight(coarse), self._ceiling)
        value = coarse + (((fine - coarse) * weight + WEIGHT // 2) >> 8)
        return Merged(value, coarse_overload, weight < WEIGHT)
