"""Steady state as SNIA SSS PTS 2.0 defines it: over five rounds, range and slope small against the mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

WINDOW = 5
RANGE_LIMIT = 0.20
SLOPE_LIMIT = 0.10


@dataclass(frozen=True)
class SteadyWindow:
    """Rounds ``first .. first + 4`` (from 1). ``range_share``: (max - min) / mean. ``slope_share``: excursion of the least-squares
    line over the window / mean. ``mean``: of the five values."""

    first: int
    mean: float
    range_share: float
    slope_share: float

    @property
    def steady(self) -> bool:
        rounding = 1e-9
        return self.range_share <= RANGE_LIMIT + rounding and self.slope_share <= SLOPE_LIMIT + rounding


def window(values: Sequence[float], first: int) -> SteadyWindow:
    """The window of ``values`` (one a round) that begins with round ``first`` (from 1). Raises ValueError when it is not whole."""
    part = np.array(values[first - 1 : first - 1 + WINDOW], np.float64)
    if len(part) < WINDOW:
        raise ValueError(f"a window has {WINDOW} rounds")
    mean = float(part.mean())
    if mean <= 0:
        return SteadyWindow(first, mean, float("inf"), float("inf"))
    slope = float(np.polyfit(np.arange(WINDOW), part, 1)[0])
    return SteadyWindow(first, mean, float(part.max() - part.min()) / mean, abs(slope) * (WINDOW - 1) / mean)


def find_steady(tracked: Sequence[Sequence[float]]) -> int | None:
    """First round (from 1) of the first window in which every tracked quantity is steady; None when there is none.

    ``tracked``: one sequence of values by round for each tracked quantity; the shortest decides.
    """
    if not tracked:
        return None
    rounds = min(len(values) for values in tracked)
    for first in range(1, rounds - WINDOW + 2):
        if all(window(values, first).steady for values in tracked):
            return first
    return None
