"""Offset and drift of a clock from certain limits: at an instant of the source, the reference stood no earlier, or no later, than a value.

Every such limit is a half-plane in the plane of (drift, offset). All lines that satisfy all limits form a convex polygon. Only limits on
the convex hulls of their two sets of points are sides of the polygon. The map lies, at both ends of its span, in the middle of the
polygon's lines. Its bound is half their width there, and no line has a smaller bound: a result of the limits, not an estimate. A late upper
limit (or an early lower one) only makes the polygon larger, so delays of any distribution need no model.

If no line satisfies all limits, the clocks do not run along a line. One was set (NTP), restarted, or stood still while its host was
suspended. That is an error that says where, never an average.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..errors import ClockError
from .map import ClockMap

Int64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

DRIFT_LIMIT = 500e-6
"""No two clocks differ in rate by more. Crystals: 100 ppm each; NTP slews by at most 500 ppm."""
_SLACK_NS = 1e-3
"""Rounding of the sums: float64 of numbers below 2^53."""


@dataclass(frozen=True)
class ClockLimits:
    """Limits of a clock, in any order.

    low_source_ns, low_ns: at this instant of the source the reference stood here or later
    high_source_ns, high_ns: at this instant of the source the reference stood here or earlier
    """

    low_source_ns: Int64
    low_ns: Int64
    high_source_ns: Int64
    high_ns: Int64

    def __len__(self) -> int:
        return len(self.low_ns) + len(self.high_ns)

    @property
    def span(self) -> tuple[int, int]:
        """First and last instant of the source with a limit."""
        ends = [f(part) for part in (self.low_source_ns, self.high_source_ns) if len(part) for f in (np.min, np.max)]
        return int(min(ends)), int(max(ends))

    def between(self, first_ns: int, last_ns: int) -> ClockLimits:
        """Those with an instant of the source in ``[first_ns, last_ns]``."""
        low = (self.low_source_ns >= first_ns) & (self.low_source_ns <= last_ns)
        high = (self.high_source_ns >= first_ns) & (self.high_source_ns <= last_ns)
        return ClockLimits(self.low_source_ns[low], self.low_ns[low], self.high_source_ns[high], self.high_ns[high])


def limits(source_ns: npt.ArrayLike, earliest_ns: npt.ArrayLike, latest_ns: npt.ArrayLike) -> ClockLimits:
    """Limits on both sides of the same instants of the source."""
    source = np.asarray(source_ns, np.int64)
    return ClockLimits(source, np.asarray(earliest_ns, np.int64), source, np.asarray(latest_ns, np.int64))


def joined(parts: Iterable[ClockLimits]) -> ClockLimits:
    """All limits of several ways together."""
    every = list(parts)
    names = ("low_source_ns", "low_ns", "high_source_ns", "high_ns")
    return ClockLimits(*(np.concatenate([np.empty(0, np.int64), *(getattr(part, name) for part in every)]) for name in names))


def fit(
    given: ClockLimits,
    method: str,
    *,
    span: tuple[int, int] | None = None,
    drift_limit: float = DRIFT_LIMIT,
    wander_ns: int = 0,
) -> ClockMap:
    """Return the map within all limits, and its bound over ``span`` of the source, by default the limits' span.

    span: may be longer than the limits' span; the limits then give the bound there
    wander_ns: possible departure of the clocks from any line; widens every limit and the bound

    Raises ClockError when one side has no limit at all, and when no line satisfies all. The latter error names the instants of the source
    between which the clocks parted (s since the first limit), and by how much.
    """
    if not len(given.low_ns) or not len(given.high_ns):
        side = "earliest" if not len(given.low_ns) else "latest"
        raise ClockError(f"{method}: nothing says when the host's clock stood at {side}, so the offset has no bound on that side.")
    found = _lines(given, drift_limit, wander_ns)
    if found is None:
        raise ClockError(_where(given, method, drift_limit, wander_ns))
    origin, base, polygon = found
    first, last = given.span if span is None else span
    ends = [float(first - origin), float(last - origin)]
    low = [float((polygon[:, 1] + polygon[:, 0] * x).min()) for x in ends]
    high = [float((polygon[:, 1] + polygon[:, 0] * x).max()) for x in ends]
    middle = [(a + b) / 2 for a, b in zip(low, high)]
    drift = (middle[1] - middle[0]) / (ends[1] - ends[0]) if last > first else float(polygon[:, 0].mean())
    at = (first + last) // 2
    level = middle[0] + drift * (at - origin - ends[0])
    # 1 ns for rounding both the point of the map and the mapped value
    bound = max(b - a for a, b in zip(low, high)) / 2 + wander_ns + 1
    return ClockMap(at, at + base + round(level), drift, bound * 1e-9, method, first, last)


def possible(given: ClockLimits, *, drift_limit: float = DRIFT_LIMIT, wander_ns: int = 0) -> bool:
    """Whether a line satisfies all limits."""
    return not len(given.low_ns) or not len(given.high_ns) or _lines(given, drift_limit, wander_ns) is not None


def pieces(given: ClockLimits, *, drift_limit: float = DRIFT_LIMIT, wander_ns: int = 0) -> list[tuple[int, int]]:
    """Stretches ``[first_ns, last_ns]`` of the source, in order, each as long as one line satisfies all limits in it. More than one:
    the clocks parted between them."""
    found, (begin, end) = [], given.span
    instants = np.unique(np.concatenate((given.low_source_ns, given.high_source_ns)))
    while True:
        last = _longest(given, instants[instants >= begin], drift_limit, wander_ns)
        found.append((begin, last))
        if last == end:
            return found
        begin = int(instants[np.searchsorted(instants, last, side="right")])


def _longest(given: ClockLimits, instants: Int64, drift_limit: float, wander_ns: int, *, backwards: bool = False) -> int:
    """The last of ``instants`` up to which (backwards: the first from which) one line satisfies all limits."""
    first, last = int(instants[0]), int(instants[-1])

    def agree(k: int) -> bool:
        part = given.between(int(instants[len(instants) - 1 - k]), last) if backwards else given.between(first, int(instants[k]))
        return possible(part, drift_limit=drift_limit, wander_ns=wander_ns)

    good, bad = 0, len(instants)
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if agree(middle) else (good, middle)
    return int(instants[len(instants) - 1 - good] if backwards else instants[good])


def _where(given: ClockLimits, method: str, drift_limit: float, wander_ns: int) -> str:
    """Return the error message for limits that no line satisfies."""
    begin, end = given.span
    instants = np.unique(np.concatenate((given.low_source_ns, given.high_source_ns)))
    before = _longest(given, instants, drift_limit, wander_ns)
    behind = _longest(given, instants, drift_limit, wander_ns, backwards=True)
    first, last = sorted((before, behind))
    text = (
        f"{method}: the two clocks do not run along one line; they part between {(first - begin) * 1e-9:.6f} s and "
        f"{(last - begin) * 1e-9:.6f} s of the recording"
    )
    maps = []
    for part in (given.between(begin, before), given.between(max(behind, before + 1), end)):
        if len(part.low_ns) and len(part.high_ns) and _lines(part, drift_limit, wander_ns) is not None:
            maps.append(fit(part, method, span=(first, last), drift_limit=drift_limit, wander_ns=wander_ns))
    if len(maps) == 2:
        step = int(maps[1].to_reference((first + last) // 2)) - int(maps[0].to_reference((first + last) // 2))
        text += f", by {step * 1e-6:+.6g} ms (+-{(maps[0].bound_s + maps[1].bound_s) * 1e3:.3g} ms)"
    return (
        f"{text}. A clock was set or restarted, the host was suspended, or one instant is wrong: "
        "align the parts before and behind it on their own."
    )


def _lines(given: ClockLimits, drift_limit: float, wander_ns: int) -> tuple[int, int, F64] | None:
    """The polygon of (drift, offset) at a source's origin, with the reference less source there: vertices (n, 2), the offset in ns. None:
    empty."""
    origin = (int(given.low_source_ns[0]) + int(given.high_source_ns[0])) // 2
    base = int(given.low_ns[0]) - int(given.low_source_ns[0])

    def points(source: Int64, reference: Int64, sign: int) -> tuple[F64, F64]:
        # differences of integers, exact in float64 up to 2^53 ns (104 days)
        return _upper_hull((source - origin).astype(np.float64), sign * (reference - source - base).astype(np.float64))

    low_x, low_y = points(given.low_source_ns, given.low_ns, 1)
    high_x, high_y = points(given.high_source_ns, given.high_ns, -1)
    low_y, high_y = low_y - wander_ns, -high_y + wander_ns

    def lowest(drift: F64) -> F64:
        return _most(low_x, low_y, drift)

    def highest(drift: F64) -> F64:
        return -_most(high_x, -high_y, -drift)

    corners = [np.diff(y) / np.diff(x) for x, y in ((low_x, low_y), (high_x, high_y))]
    drifts = np.unique(np.clip(np.concatenate((*corners, [-drift_limit, drift_limit])), -drift_limit, drift_limit))
    room = highest(drifts) - lowest(drifts) + _SLACK_NS
    # The room is concave in the drift and straight between the corners, so its sign changes at most once on either side of its top.
    top = int(np.argmax(room))
    if room[top] < 0:
        return None
    inside = np.flatnonzero(room >= 0)
    kept = [drifts[inside]]
    for k, neighbour in ((inside[0], inside[0] - 1), (inside[-1], inside[-1] + 1)):
        if 0 <= neighbour < len(drifts):
            share = room[k] / (room[k] - room[neighbour])
            kept.append(np.array([drifts[k] + share * (drifts[neighbour] - drifts[k])]))
    drifts = np.concatenate(kept)
    floor, ceiling = lowest(drifts), highest(drifts)
    return (
        origin,
        base,
        np.concatenate((np.stack((drifts, np.minimum(floor, ceiling)), 1), np.stack((drifts, np.maximum(floor, ceiling)), 1))),
    )


def _most(x: F64, y: F64, drift: F64) -> F64:
    """max over the points of y - drift x, for each drift; the points are an upper hull in order of x."""
    slopes = np.diff(y) / np.diff(x)
    at = np.searchsorted(-slopes, -drift, side="left")
    found: F64 = y[at] - drift * x[at]
    return found


def _upper_hull(x: F64, y: F64) -> tuple[F64, F64]:
    """Return the upper convex hull of points, in order of x.

    There are millions of points. Points on or below the line of their two neighbours are dropped, all at once, again and again. A corner of
    the hull is never dropped. The monotone chain then runs over the few remaining points.
    """
    order = np.lexsort((y, x))
    x, y = x[order], y[order]
    last = np.append(x[1:] != x[:-1], True)
    x, y = x[last], y[last]
    while len(x) > 64:
        above = np.ones(len(x), bool)
        above[1:-1] = (y[1:-1] - y[:-2]) * (x[2:] - x[:-2]) > (y[2:] - y[:-2]) * (x[1:-1] - x[:-2])
        if np.count_nonzero(above) > 0.9 * len(x):
            break
        x, y = x[above], y[above]
    chain: list[tuple[float, float]] = []
    for px, py in zip(x.tolist(), y.tolist()):
        while len(chain) > 1:
            (ax, ay), (bx, by) = chain[-2], chain[-1]
            if (by - ay) * (px - ax) > (py - ay) * (bx - ax):
                break
            chain.pop()
        chain.append((px, py))
    found = np.array(chain)
    return found[:, 0], found[:, 1]
