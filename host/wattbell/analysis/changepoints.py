"""Find changes of the rail's level: PELT (``ruptures``) on means of a millisecond or more, then each change on the samples around it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from wattbell.measure.rail import Rail

Float = npt.NDArray[np.float64]

WINDOW = 1024
"""Bins that PELT sees at once: without a change in them its time goes with their square."""
RESOLUTION = 0.02
"""Relative scatter below which bins count as equal."""
PENALTY = 6.0
"""Penalty of a change in logarithms of the window's length, for squared residuals in units of the scatter.

BIC has 1 for each parameter and assumes independent residuals; the residuals of a drive are not independent.
"""
SAME = 0.05
"""Neighbours closer than this, relative, are one segment."""
FLOOR_W = 4e-4
_MOST_TRIMMED = 3
_READ = 1 << 21
_LIKELY = 4.0
"""Twice the logarithm of a likelihood ratio that 95 % of true places stay within."""


@dataclass(frozen=True)
class LevelPiece:
    """Bins ``first`` to ``last`` (not included) of one level, and their scatter."""

    first: int
    last: int
    mean_w: float
    std_w: float


def bins(rail: Rail, low: int, high: int, width: int) -> Float:
    """Mean power of consecutive bins of ``width`` samples from sample ``low`` on; NaN where samples are missing."""
    out: list[Float] = []
    step = max(width, _READ // width * width)
    for start in range(low, high - width + 1, step):
        stop = min(start + step, high)
        if not any(rail.reader.stored(start, stop)):  # of a long gap
            out.append(np.full((stop - start) // width, np.nan))
            continue
        power = rail.reader.power(start, stop).astype(np.float64)
        n = len(power) // width
        out.append(power[: n * width].reshape(n, width).mean(axis=1))
    return np.concatenate(out) if out else np.empty(0)


def scatter_of(means: Float) -> float:
    """Return the least scatter in W of bins about their level, from differences of neighbours: noise without the drive's own changes."""
    steps = np.abs(np.diff(means))
    steps = steps[np.isfinite(steps)]
    if len(steps) < 2:
        return 0.0
    parts = np.array_split(steps, max(1, len(steps) // 64))
    return 1.4826 / math.sqrt(2) * min(float(np.median(part)) for part in parts)


def pieces(means: Float, scatter_w: float) -> list[LevelPiece]:
    """Segments of one level, in order; bins that are NaN belong to none."""
    # A scale on which the scatter is RESOLUTION at most at every level: linear below, logarithmic above.
    knee = max(FLOOR_W, scatter_w / RESOLUTION)
    found: list[LevelPiece] = []
    for first, last in _finite(means):
        scaled = np.arcsinh(means[first:last] / knee)
        cuts = [first + cut for cut in _cuts(scaled)]
        for low, high in zip([first, *cuts], [*cuts, last], strict=True):
            part = means[low:high]
            made = LevelPiece(low, high, float(part.mean()), float(part.std()))
            previous = found[-1] if found else None
            if previous is not None and previous.last == low and _same(previous, made):
                whole = means[previous.first : high]
                found[-1] = LevelPiece(previous.first, high, float(whole.mean()), float(whole.std()))
            else:
                found.append(made)
    return [_trimmed(piece, means, scatter_w) for piece in found]


def _trimmed(piece: LevelPiece, means: Float, scatter_w: float) -> LevelPiece:
    """Cut outermost bins in which the level was not reached yet, or was left."""
    part = means[piece.first : piece.last]
    level = float(np.median(part))
    near = np.abs(part - level) <= SAME * abs(level) + FLOOR_W / 2 + 4 * scatter_w
    near[_MOST_TRIMMED:-_MOST_TRIMMED] = True
    inside = np.flatnonzero(near)
    if len(part) <= 2 * _MOST_TRIMMED or inside[-1] - inside[0] + 1 == len(part):
        return piece
    low, high = piece.first + int(inside[0]), piece.first + int(inside[-1]) + 1
    return LevelPiece(low, high, float(means[low:high].mean()), float(means[low:high].std()))


def _same(a: LevelPiece, b: LevelPiece) -> bool:
    apart = abs(a.mean_w - b.mean_w)
    if apart <= SAME * max(abs(a.mean_w), abs(b.mean_w)) + FLOOR_W / 2:
        return True
    return apart <= 3 * math.sqrt(a.std_w**2 / (a.last - a.first) + b.std_w**2 / (b.last - b.first))


def _finite(means: Float) -> Iterator[tuple[int, int]]:
    """Runs without NaN."""
    known = np.concatenate(([False], np.isfinite(means), [False]))
    edges = np.flatnonzero(known[1:] != known[:-1])
    yield from ((int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True))


def _cuts(scaled: Float) -> list[int]:
    """Return the places of changes in level. Edges of windows are included, and equal neighbours are joined later."""
    penalty = PENALTY * math.log(WINDOW) * RESOLUTION**2
    out: list[int] = []
    for start in range(0, len(scaled), WINDOW):
        part = scaled[start : start + WINDOW]
        if start:
            out.append(start)
        if len(part) < 4 or np.ptp(part) < 4 * RESOLUTION:
            continue
        import ruptures  # half a second, for scipy.stats: only where it is needed

        out += [start + int(cut) for cut in ruptures.KernelCPD(kernel="linear", min_size=2).fit(part[:, None]).predict(pen=penalty)[:-1]]
    return out


def locate(rail: Rail, tick: int, before_w: float, after_w: float, reach_ticks: int) -> tuple[int, float]:
    """Return the tick near ``tick`` at which the rail changes from one level to the other, and its limit of error in s.

    The limit is half the width of the 95 % interval by likelihood, but at least two samples. The front end's delay is subtracted.
    """
    first, power = rail.power_between(tick - reach_ticks, tick + reach_ticks)
    least = 2 * rail.interval_s + rail.model.front_end_delay_u_s
    late = round(rail.model.front_end_delay_s / rail.tick_s)
    if len(power) < 2 or not np.isfinite(power).all():
        return tick - late, max(least, reach_ticks * rail.tick_s)
    # squared residuals with the change before sample k
    cost = np.concatenate(([0.0], np.cumsum((power - before_w) ** 2 - (power - after_w) ** 2)))
    best = int(np.argmin(cost))
    residual = np.where(np.arange(len(power)) < best, power - before_w, power - after_w)
    noise = float(np.mean(residual**2))
    near = np.flatnonzero(cost - cost[best] <= _LIKELY * noise)
    half = float(max(near[-1] - best, best - near[0])) * rail.interval_s
    # A sample covers the interval around its tick, so the change lies half an interval before the first sample behind it.
    return first + best * rail.interval_ticks - rail.interval_ticks // 2 - late, max(least, half)
