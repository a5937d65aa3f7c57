"""The rail over a span: every sample where there is at most about one a point, else mean, least and greatest of each point."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..capture.rail import SIGNALS, RailReader

F64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]
_ENTRIES = tuple(128 * 20**level for level in range(12))
"""Samples an entry of each summary level of JLS."""


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


def increment_for(samples: int, points: int) -> int:
    """Samples a point: a multiple of an entry of the summary that JLS answers from (the coarsest that is not coarser than a point). Else
    entries lie on two points each, and JLS gives them to either: 0.3 W were seen on the wrong side of an edge of 4 W."""
    wanted = max(1, -(-samples // max(points, 1)))
    entry = max((size for size in _ENTRIES if size <= wanted), default=1)
    return -(-wanted // entry) * entry


def rail_points(reader: RailReader, begin: int, end: int, points: int) -> RailPoints:
    """At most ``points`` + 2 points that cover the ticks ``[begin, end]``; where samples are drawn singly, one more to each side."""
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
    rows = {}
    for _, name, _ in SIGNALS:
        found = reader.statistics(name, first, last, step)
        rows[name] = Row(found[:, 0], found[:, 2], found[:, 3])
    return RailPoints(False, step * interval, middle, rows)
