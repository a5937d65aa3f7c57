"""Distribution of a set of latencies: moments, percentiles with distribution-free intervals, honest nulls.

A percentile is the nearest rank, so every printed value was observed. Its interval is the pair of order statistics that holds the true
quantile with 95.45 %, whatever the distribution (binomial argument; David & Nagaraja, Order Statistics, 7.1). A percentile above the median
is given only if the sample bounds that interval from above, that is if p^n <= 2.275 %. The least samples are:

- 36 for p90
- 377 for p99
- 3 780 for p99.9
- 37 800 for p99.99
- 378 000 for p99.999
"""

from __future__ import annotations

import math
from typing import Any, TypedDict, cast

import numpy as np
import numpy.typing as npt

from .errormodel import ErrorModel
from .figure import Figure, K, absent

Int64 = npt.NDArray[np.int64]

QUANTILES: tuple[tuple[str, float], ...] = (
    ("p50", 0.5),
    ("p90", 0.9),
    ("p99", 0.99),
    ("p99_9", 0.999),
    ("p99_99", 0.9999),
    ("p99_999", 0.99999),
)
TAIL = 0.02275
"""One-sided tail of a k = 2 normal interval."""
_BATCHES = 32


def _binomial_ranks(n: int, q: float) -> tuple[int | None, int | None]:
    """Return, for K ~ Bin(n, q), (largest m with P(K <= m) <= TAIL, smallest j with P(K >= j) <= TAIL), or None."""
    mean = n * q
    if mean > 200 and n * (1 - q) > 200:
        spread = 2.0 * math.sqrt(mean * (1 - q))
        return math.floor(mean - spread) - 1, math.ceil(mean + spread) + 1
    low: int | None = None
    high: int | None = None
    cumulative = 0.0
    log_q, log_p = math.log(q), math.log1p(-q)
    for k in range(n + 1):
        log_pmf = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) + k * log_q + (n - k) * log_p
        cumulative += math.exp(log_pmf)
        if cumulative <= TAIL:
            low = k
        if cumulative >= 1 - TAIL:
            high = k + 1
            break
    return low, high


def quantile_ranks(n: int, p: float) -> tuple[int, int | None, int | None]:
    """1-based ranks (value, lower limit, upper limit) of quantile ``p`` in a sorted sample of ``n``.

    The value is the nearest rank, ceil(p n). A limit is None if the sample does not bound it.
    """
    exact = p * n
    rank = max(1, math.ceil(round(exact, 6)))
    few, many = _binomial_ranks(n, 1 - p)
    upper = None if few is None else n - few
    lower = None if many is None or many > n else n - many + 1
    return rank, lower, upper


def supported(n: int, p: float) -> bool:
    """Whether ``n`` samples bound quantile ``p`` from above (p50: always)."""
    return n > 0 and (p <= 0.5 or n * math.log(p) <= math.log(TAIL))


def standard_error(values: npt.NDArray[np.float64] | Int64) -> float | None:
    """Standard error of the mean, by means of 32 consecutive batches: latencies in time order are not independent.

    Below 64 samples: plain s / sqrt(n). None below 2.
    """
    n = len(values)
    if n < 2:
        return None
    if n < 2 * _BATCHES:
        return float(np.std(values, ddof=1)) / math.sqrt(n)
    size = n // _BATCHES
    means = values[: size * _BATCHES].reshape(_BATCHES, size).mean(axis=1)
    return float(np.std(means, ddof=1)) / math.sqrt(_BATCHES)


class Distribution(TypedDict, total=False):
    """Distribution of ``n`` times, in s; None if there is no honest number.

    u: k = 2 of each
    interval: [low, high] of the percentiles
    guessed: times with an instant that the tap guessed; absent for none
    """

    n: int
    mean: float | None
    min: float | None
    p50: float | None
    p90: float | None
    p99: float | None
    p99_9: float | None
    p99_99: float | None
    p99_999: float | None
    max: float | None
    u: dict[str, float | None]
    interval: dict[str, list[float | None]]
    guessed: int


def describe(ticks: Int64, tick_s: float, model: ErrorModel, full: bool = True) -> Distribution:
    """Return the distribution of ``ticks`` (n int64 durations in time order, any sign). ``full`` False leaves out p90 and all above p99."""
    names = [(name, p) for name, p in QUANTILES if full or name in ("p50", "p99")]
    n = len(ticks)
    quantiles: dict[str, float | None] = {}
    u: dict[str, float | None] = {}
    interval: dict[str, list[float | None]] = {}
    if n == 0:
        nothing = {"mean": None, "min": None, **{name: None for name, _ in names}, "max": None}
        return cast(Distribution, {"n": n, **nothing, "u": u, "interval": interval})
    ordered = np.sort(ticks)
    # Sums of int64 nanoseconds fit: 10^7 commands of 10 s are 10^17.
    mean_s = float(np.sum(ticks)) / n * tick_s
    error = standard_error(ticks)
    least, greatest = float(ordered[0]) * tick_s, float(ordered[-1]) * tick_s
    u["mean"] = None if error is None else math.hypot(K * error * tick_s, model.clocks_u(), model.timebase * mean_s)
    u["min"] = model.interval_u(least)
    for name, p in names:
        if not supported(n, p):
            quantiles[name] = None
            continue
        rank, lower, upper = quantile_ranks(n, p)
        value = float(ordered[rank - 1]) * tick_s
        low = None if lower is None else float(ordered[lower - 1]) * tick_s
        high = None if upper is None else float(ordered[upper - 1]) * tick_s
        quantiles[name] = value
        interval[name] = [low, high]
        u[name] = None if low is None or high is None else math.hypot((high - low) / 2, model.interval_u(value))
    u["max"] = model.interval_u(greatest)
    return cast(Distribution, {"n": n, "mean": mean_s, "min": least, **quantiles, "max": greatest, "u": u, "interval": interval})


def mean_and_p99(ticks: npt.NDArray[Any], tick_s: float, model: ErrorModel, lost: int = 0) -> tuple[Figure, Figure]:
    """Return (mean, 99th percentile) of durations in ticks, as s, without sorting them: a phase of a suite may have 10^8.

    The values equal the values of :func:`describe`, except for the last digit of the percentile's ``u``; absent below 377 samples.
    """
    n = len(ticks)
    if n == 0:
        return absent("no command", "s", lost), absent("no command", "s", lost)
    error = standard_error(ticks)
    mean_s = float(ticks.sum()) / n * tick_s
    u = None if error is None else math.hypot(K * error * tick_s, model.clocks_u(), model.timebase * mean_s)
    mean = Figure(mean_s, u, "s", lost)
    if not supported(n, 0.99):
        return mean, absent("too few commands", "s", lost)
    rank, low, high = quantile_ranks(n, 0.99)
    wanted = sorted({rank - 1, *(r - 1 for r in (low, high) if r is not None)})
    part = np.partition(ticks, wanted)
    value = float(part[rank - 1]) * tick_s
    half = None if low is None or high is None else float(part[high - 1] - part[low - 1]) / 2 * tick_s
    p99_u = None if half is None else math.hypot(half, model.interval_u(value))
    return mean, Figure(value, p99_u, "s", lost)
