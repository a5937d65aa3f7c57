"""Find changes in the level of a rate: the size of the SLC cache from the write rate over the fill.

The method is binary segmentation of the logarithm of the rate, so that a level that halves weighs the same anywhere. The split that reduces
the sum of squared residuals most is kept under two conditions. It reduces the sum by more than noise would, and the levels differ by a
sixth or more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Float = npt.NDArray[np.float64]

MIN_BINS = 3
MIN_STEP = math.log(7 / 6)
_PENALTY = 12.0
"""A split must reduce the residuals by more than this many times their variance (about 3 ln n for n of some hundred)."""


@dataclass(frozen=True)
class Change:
    """A change of level.

    at: index of the first bin of the new level
    low, high: 95 % interval of ``at``, by the likelihood of the neighbouring splits
    place: the change within the bins, in bins from the start
    before, after: mean rates of the two levels (amount over time)
    """

    at: int
    low: int
    high: int
    place: float
    before: float
    after: float


def _costs(values: Float) -> Float:
    """Residual sum of squares of the two levels for a split before index k = 0 .. n (whole part's cost at 0 and n)."""
    n = len(values)
    sums, squares = np.zeros(n + 1), np.zeros(n + 1)
    np.cumsum(values, out=sums[1:])
    np.cumsum(values**2, out=squares[1:])
    k = np.arange(n + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        left = np.where(k > 0, squares - sums**2 / np.maximum(k, 1), 0.0)
        rest = n - k
        right = np.where(rest > 0, squares[-1] - squares - (sums[-1] - sums) ** 2 / np.maximum(rest, 1), 0.0)
    found: Float = np.maximum(left, 0) + np.maximum(right, 0)
    return found


def _noise(values: Float) -> float:
    """Variance of the noise, robust against steps: from the median difference of neighbours."""
    if len(values) < 2:
        return 0.0
    spread = float(np.median(np.abs(np.diff(values)))) / (0.6745 * math.sqrt(2))
    return max(spread**2, 1e-6)


def find_changes(rate: Float) -> list[Change]:
    """Return the changes of level in ``rate`` (amount a second of bins of equal amount), in order; empty: one level.

    A change falls inside a bin and mixes two rates there. So the bins on both sides of a split belong to no level.
    """
    if len(rate) < 2 * MIN_BINS or bool(np.any(rate <= 0)):
        return []
    values = np.log(rate)
    variance = _noise(values)
    splits: list[int] = []
    todo = [(0, len(values))]
    while todo:
        first, last = todo.pop()
        part = values[first:last]
        if len(part) < 2 * MIN_BINS:
            continue
        costs = _costs(part)
        k = MIN_BINS + int(np.argmin(costs[MIN_BINS:-MIN_BINS]))
        step = abs(float(part[:k].mean() - part[k:].mean()))
        if costs[0] - costs[k] > _PENALTY * variance and step >= MIN_STEP:
            splits.append(first + k)
            todo += [(first, first + k - 1), (first + k + 1, last)]
    splits.sort()
    edges = [-1, *splits, len(values) + 1]
    return [_change(rate, values, variance, *edges[i - 1 : i + 2]) for i in range(1, len(edges) - 1)]


def _change(rate: Float, values: Float, variance: float, left: int, at: int, right: int) -> Change:
    """The change at ``at`` between the ones at ``left`` and ``right``."""
    first, last = left + 1, right - 1
    costs = _costs(values[first:last])
    near = np.flatnonzero(costs <= costs[at - first] + 3.84 * variance)  # likelihood ratio, 95 %
    before, after = _level(rate[first : at - 1]), _level(rate[at + 1 : last])
    return Change(at, first + int(near.min()), first + int(near.max()), _place(rate, at, before, after), before, after)


def _level(rate: Float) -> float:
    """Amount over time of bins of equal amount."""
    return len(rate) / float(np.sum(1 / rate))


def _place(rate: Float, at: int, before: float, after: float) -> float:
    """Return where in the two bins around the split the rate changed, in bins, from the time that both took."""
    took = float(np.sum(1 / rate[at - 1 : at + 1]))
    fast = (took - 2 / after) / (1 / before - 1 / after)
    return at - 1 + min(2.0, max(0.0, fast))
