"""Judge whether two sides differ by the spread between repeated runs of each.

The uncertainty within one run says how well that run is known, but not how far the next run of the same drive would lie from it. The spread
takes repeats. From :data:`LEAST_RUNS` runs of each side on, Welch's t-test (SciPy) judges the difference of the means. The level is divided
by the number of rows that are judged together (Bonferroni). So among twenty comparisons of equal drives, at most one is expected to have
any verdict.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

FALSE_CALLS = 0.05
"""Chance that any row of a comparison of equal drives gets a verdict."""
LEAST_RUNS = 3
"""Least runs of a side for its spread.

The spread of two runs is very uncertain. Welch's test, against a side of more runs, then makes up to forty times the false calls that it
should (at the levels that many rows need).
"""
_SURE = 0.95


@dataclass(frozen=True)
class MeansApart:
    """Difference between the means of two sides.

    difference: the second less the first
    u: half the width of the interval that holds it in 95 % of cases; None if a side has too few runs
    seen_from: the least difference that the spread lets see, with the level divided by the number of rows; None if neither side has repeats
    p: of Welch's test, before any correction
    """

    difference: float
    u: float | None = None
    seen_from: float | None = None
    p: float | None = None


def means_apart(a: Sequence[float], b: Sequence[float], rows: int) -> MeansApart:
    """The two sides' runs of one figure; ``rows``: how many figures are judged together. Raises ValueError for a side without a run."""
    if not a or not b:
        raise ValueError("a side without a run")
    apart = float(np.mean(b) - np.mean(a))
    level = FALSE_CALLS / max(rows, 1)
    if min(len(a), len(b)) < LEAST_RUNS:
        return MeansApart(apart, seen_from=_of_one_side(a, b, level))
    if np.ptp(a) == 0 and np.ptp(b) == 0:
        return MeansApart(apart, 0.0, 0.0, 1.0 if apart == 0 else 0.0)
    from scipy import stats  # half a second: only where two sides are judged

    found = stats.ttest_ind(b, a, equal_var=False)
    sure, level_of_all = (found.confidence_interval(share) for share in (_SURE, 1 - level))
    return MeansApart(apart, float(sure.high - sure.low) / 2, float(level_of_all.high - level_of_all.low) / 2, float(found.pvalue))


def _of_one_side(a: Sequence[float], b: Sequence[float], level: float) -> float | None:
    """Return the visible difference if the side with too few runs scattered as the other one does; None with too few runs on both sides."""
    known = max((a, b), key=len)
    n, m = len(known), min(len(a), len(b))
    if n < LEAST_RUNS:
        return None
    spread = float(np.std(known, ddof=1))
    return float(stdtrit(n - 1, 1 - level / 2)) * spread * math.sqrt(1 / n + 1 / m)


def spread_u(values: Sequence[float]) -> float | None:
    """Return half the 95 % interval of the mean of repeated runs; None for too few."""
    n = len(values)
    if n < LEAST_RUNS:
        return None
    return float(stdtrit(n - 1, (1 + _SURE) / 2) * np.std(values, ddof=1) / math.sqrt(n))
