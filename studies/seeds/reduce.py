"""Reduces many values to one figure: over the points of a test, or over the seconds of a series."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from wattbell.measure.figure import Known

Float = npt.NDArray[np.float64]
Points = Sequence[tuple[float, Known]]

REACHED = 0.97
"""Share of its best value from which on a curve counts as being at its best."""
SPIKE_IOPS = 50_000.0
"""Above this, a second of the 600p's steady state is a spike (seed 001: its sawtooth stays far below)."""
SETTLED = 1.5
DROPPED = 0.5


def _ratio(top: Known, bottom: Known) -> Known:
    value = top.value / bottom.value
    relative = [q.u / abs(q.value) for q in (top, bottom) if q.u and q.value]
    u = abs(value) * math.hypot(*relative) if relative else None
    return Known(value, u, lost=top.lost + bottom.lost)


def _largest_step(points: Points) -> Known:
    steps = [_ratio(after, before) for (_, before), (_, after) in zip(points, points[1:]) if before.value]
    return max(steps, key=lambda q: q.value)


def _linear_rise(points: Points) -> Known:
    """Coefficient of determination of the least-squares line; 0 if the line does not rise."""
    x = np.array([at for at, _ in points])
    y = np.array([q.value for _, q in points])
    slope, offset = np.polyfit(x, y, 1)
    total = float(((y - y.mean()) ** 2).sum())
    if slope <= 0 or total == 0:
        return Known(0.0)
    return Known(1.0 - float(((y - slope * x - offset) ** 2).sum()) / total)


def _best(points: Points) -> Known:
    return max((q for _, q in points), key=lambda q: q.value)


def _worst(points: Points) -> Known:
    return min((q for _, q in points), key=lambda q: q.value)


def _reaches_max_at(points: Points) -> Known:
    top = _best(points).value
    return Known(next(x for x, q in points if q.value >= REACHED * top))


def _middle_over_ends(points: Points) -> Known:
    return _ratio(_worst(points[1:-1]), min(points[0][1], points[-1][1], key=lambda q: q.value))


POINTS: dict[str, tuple[int, Callable[[Points], Known]]] = {
    "max": (1, _best),
    "min": (1, _worst),
    "last": (1, lambda points: points[-1][1]),
    "last_over_first": (2, lambda points: _ratio(points[-1][1], points[0][1])),
    "min_over_max": (2, lambda points: _ratio(_worst(points), _best(points))),
    "largest_step": (2, _largest_step),
    "linear_rise": (3, _linear_rise),
    "reaches_max_at": (2, _reaches_max_at),
    "middle_over_ends": (3, _middle_over_ends),
}
"""Minimum number of points, and the reduction of (x, quantity) ordered by x."""


def _std(values: Float) -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else 0.0


def _first_drop_s(t: Float, values: Float, scale: float) -> float:
    """First second below half the mean of the first ten; infinite if there is none."""
    level = float(values[: max(3, round(10 * scale))].mean())
    below = np.nonzero(values < DROPPED * level)[0]
    return float(t[below[0]]) if len(below) else math.inf


def _settles_s(t: Float, values: Float, scale: float) -> float:
    """Return the end of the last minute with a mean above 1.5 times the mean of the last 400 s."""
    final = float(values[t > t[-1] - 400.0 * scale].mean())
    window = max(3, round(60 * scale))
    means = np.convolve(values, np.ones(window) / window, mode="valid")
    above = np.nonzero(means > SETTLED * final)[0]
    return float(t[above[-1] + window - 1]) if len(above) else 0.0


def _without_spikes(values: Float) -> float:
    return float(values[values <= SPIKE_IOPS].mean() / values.mean()) if (values <= SPIKE_IOPS).any() else 0.0


SERIES: dict[str, Callable[[Float], float]] = {
    "max": lambda v: float(v.max()),
    "min": lambda v: float(v.min()),
    "mean": lambda v: float(v.mean()),
    "median": lambda v: float(np.median(v)),
    "mean_over_std": lambda v: float(v.mean()) / _std(v) if _std(v) else math.inf,
    "p5": lambda v: float(np.percentile(v, 5)),
    "p5_over_mean": lambda v: float(np.percentile(v, 5) / v.mean()),
    "mean_without_spikes": _without_spikes,
}
"""Reductions of the values of a series."""

WHOLE_SERIES: dict[str, Callable[[Float, Float, float], float]] = {
    "first_drop_s": _first_drop_s,
    "settles_s": _settles_s,
}
"""Reductions of times, values and the scale of the run; seconds as they passed in the run, scaled or not."""
