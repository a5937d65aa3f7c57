"""The rail over a span: every sample where there is at most about one a point, else mean, least and greatest of each point."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ..capture.rail import SIGNALS, RailReader

F64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]
_ENTRIES = tuple(128 * 20**level for level in range(12))
"""Samples an entry of each summary level of JLS."""
MOST_MENDED = 1 << 19
"""Samples read for points with holes."""


@dataclass(frozen=True)
class Row:
    """One signal, an array a kind, in SI units; NaN where nothing was received."""

    mean: F64
    low: F64
    high: F64


@dataclass(frozen=True)
class RailPoints:
    """``raw``: one value a sample (mean, low and high are the same array), at the sample's tick; else statistics of ``width_ticks`` each,
    at its middle. ``ticks``: float64, because the middle may lie between two ticks."""

    raw: bool
    width_ticks: int
    ticks: F64
    rows: dict[str, Row]

    def moved(self, ticks: int) -> RailPoints:
        """The same, so much later."""
        return replace(self, ticks=self.ticks + ticks)


def increment_for(samples: int, points: int) -> int:
    """Return samples a point: a multiple of an entry of JLS's summary, the coarsest that is not coarser than a point.

    Else an entry would overlap two points, and JLS would count it in either: 0.3 W were seen on the wrong side of an edge of 4 W.
    """
    wanted = max(1, -(-samples // max(points, 1)))
    entry = max((size for size in _ENTRIES if size <= wanted), default=1)
    return -(-wanted // entry) * entry


def _mend(reader: RailReader, found: dict[str, F64], starts: Int64, stops: Int64) -> None:
    """Fill points that JLS leaves empty because of a hole, as long as they are few, beginning beside known points.

    JLS gives nothing for an entry of 128 samples with a hole, nor for a point made of such entries. In wider points the entries around a
    hole do not count.
    """
    empty = np.any([np.isnan(of[:, 0]) for of in found.values()], axis=0)
    beside = empty & ~(np.append(True, empty[:-1]) & np.append(empty[1:], True))
    points = np.concatenate((np.flatnonzero(beside), np.flatnonzero(empty & ~beside)))
    for point in points[: MOST_MENDED // max(1, int(stops[0] - starts[0]))].tolist():
        part = reader.read(int(starts[point]), int(stops[point]))
        for name, of in found.items():
            values = getattr(part, name)
            known = values[np.isfinite(values)]
            if len(known):
                of[point] = known.mean(dtype=np.float64), np.nan, known.min(), known.max()
    for of in found.values():  # of a point without a sample JLS gives limits that are none: the least is the greatest double
        of[np.isnan(of[:, 0])] = np.nan


def rail_points(reader: RailReader, begin: int, end: int, points: int) -> RailPoints:
    """Return at most ``points`` + 2 points that cover the ticks ``[begin, end]``; where samples are drawn singly, one more to each side."""
    first = max(reader.sample_at(begin) - 1, 0)
    last = min(reader.sample_at(end) + 1, reader.samples)
    interval = reader.interval_ticks
    if last - first <= points + 2:
        part = reader.read(first, last)
        ticks = reader.first_tick + np.arange(first, last, dtype=np.float64) * interval
        values = {"voltage": part.voltage, "current": part.current, "power": part.power}
        rows = {name: Row(*[v.astype(np.float64)] * 3) for name, v in values.items()}
        return RailPoints(True, interval, ticks, rows)
    step = increment_for(last - first, points)
    first, last = first // step * step, min(-(-last // step) * step, reader.samples)
    count = -(-(last - first) // step)
    starts = first + np.arange(count, dtype=np.int64) * step
    stops = np.minimum(starts + step, last)
    middle = reader.first_tick + (starts + stops - 1) / 2 * interval
    found = {name: reader.statistics(name, first, last, step) for _, name, _ in SIGNALS}
    _mend(reader, found, starts, stops)
    rows = {name: Row(of[:, 0], of[:, 2], of[:, 3]) for name, of in found.items()}
    return RailPoints(False, step * interval, middle, rows)
