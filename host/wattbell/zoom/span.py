"""Statistics of a span: of the rail, and of the commands that completed in it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from ..capture.rail import SIGNALS, RailReader
from ..measure.latency import quantile_ranks, supported
from .latencies import FINE, bucket, edges_s
from .table import ZoomTable

Int64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
EXACT_ROWS = 600_000
"""Up to so many commands are read, and percentiles are exact."""
READ_SAMPLES = 1 << 20
"""Most samples that are read for statistics; beyond, the summaries give them.

The summaries have means and limits exactly, and the standard deviation to 0.02 % (JLS weighs 2560 samples as 2559).
"""
MOST_HOLES = 2_000


@dataclass(frozen=True)
class Signal:
    """One signal over a span, in SI units. ``std``: of its samples."""

    mean: float
    low: float
    high: float
    std: float


@dataclass(frozen=True)
class RailSpan:
    """``signals`` is empty if no sample lies in the span. ``samples``: that do; ``missing``: that should, and were not received."""

    signals: dict[str, Signal]
    samples: int
    missing: int


@dataclass(frozen=True)
class ClassSpan:
    """The commands of a class that completed in a span.

    good: without error. Latencies are over these, in s, doorbell (else fetch) to CQE; None if there are none, or too few for the
        percentile.
    p_u: by what share of itself a percentile may be off
    """

    opcode: int
    admin: bool
    count: int
    good: int
    bytes: int
    min_s: float | None
    p50_s: float | None
    p99_s: float | None
    max_s: float | None
    p_u: float


def rail_span(reader: RailReader, gaps: pl.DataFrame, begin: int, end: int) -> RailSpan:
    """The samples at ticks ``[begin, end)``. ``gaps``: of the capture. Nothing is summarised over a hole: of the 128 samples around one,
    JLS has no mean."""
    first, last = reader.sample_at(begin), reader.sample_at(end)
    if last - first <= READ_SAMPLES:
        return _of_samples(reader, first, last)
    parts, missing = _without_holes(reader, gaps, first, last)
    signals = {}
    samples = last - first - missing
    for _, name, _ in SIGNALS:
        found = [(reader.statistics(name, a, b, b - a)[0], b - a) for a, b in parts]
        found = [(row, n) for row, n in found if math.isfinite(row[0])]
        if not found:
            continue
        rows, weights = np.array([row for row, _ in found]), np.array([n for _, n in found], np.float64)
        mean = float(np.average(rows[:, 0], weights=weights))
        sizes = np.maximum(weights - 1, 0)  # JLS gives the standard deviation of a sample
        spread = float((sizes * np.nan_to_num(rows[:, 1]) ** 2 + weights * (rows[:, 0] - mean) ** 2).sum())
        signals[name] = Signal(mean, float(rows[:, 2].min()), float(rows[:, 3].max()), math.sqrt(spread / weights.sum()))
    return RailSpan(signals, samples if signals else 0, missing if signals else last - first)


def _of_samples(reader: RailReader, first: int, last: int) -> RailSpan:
    part = reader.read(first, last)
    known = np.isfinite(part.power)
    samples = int(known.sum())
    signals = {}
    for _, name, _ in SIGNALS:
        values = getattr(part, name)[known].astype(np.float64)
        if samples:
            signals[name] = Signal(float(values.mean()), float(values.min()), float(values.max()), float(values.std()))
    return RailSpan(signals, samples, last - first - samples)


def _without_holes(reader: RailReader, gaps: pl.DataFrame, first: int, last: int) -> tuple[list[tuple[int, int]], int]:
    """(stretches of samples without a hole, samples missing between them)."""
    holes = gaps.filter(pl.col("kind").is_in(["RAIL", "ANY"]) & (pl.col("last_tick") >= pl.col("first_tick")))
    edges = sorted(
        (max(reader.sample_at(a), first), min(reader.sample_at(b + 1), last))
        for a, b in holes.select("first_tick", "last_tick").iter_rows()
    )
    edges = [(a, b) for a, b in edges if b > a]
    parts, at, missing = [], first, 0
    for a, b in edges:
        if a > at:
            parts.append((at, a))
        missing += max(0, b - max(a, at))
        at = max(at, b)
    if last > at:
        parts.append((at, last))
    return (parts if len(parts) <= MOST_HOLES else [(first, last)]), missing


def command_span(table: ZoomTable, begin: int, end: int) -> list[ClassSpan]:
    """Return the commands with a CQE at ticks ``[begin, end)`` by class, most commands first."""
    zones = table.pyramid.zones
    whole, near = table.segments_between(begin, end)
    if int(table.pyramid.segment_rows(whole)) + int(zones.rows[near].sum()) <= EXACT_ROWS:
        whole, near = np.empty(0, np.int64), np.flatnonzero((zones.cqe_min < end) & (zones.cqe_max >= begin))
    found = {key: _Class(table.tick_s) for key, _ in table.pyramid.classes}
    keys = [key for key, _ in table.pyramid.classes]
    if len(whole):
        _add_segments(table, whole, found, keys)
    for core in table.cores(near):
        inside = core.take((core.cqe >= begin) & (core.cqe < end))
        for key in np.flatnonzero(np.bincount(inside.class_key)).tolist():
            mine = inside.take(inside.class_key == key)
            usable = mine.good & mine.timed
            entry = found[key]
            entry.count += len(mine)
            entry.good += int(mine.good.sum())
            entry.bytes += int(mine.read.sum() + mine.write.sum())
            entry.ticks.append(mine.latency[usable])
    made = [entry.finished(key & 0xFF, key > 0xFF) for key, entry in found.items() if entry.count]
    return sorted(made, key=lambda row: (-row.count, row.admin, row.opcode))


def _add_segments(table: ZoomTable, whole: Int64, found: dict[int, _Class], keys: list[int]) -> None:
    rows = table.pyramid.segments()
    mine = np.isin(rows["segment"], whole)
    for number, key in enumerate(keys):
        here = mine & (rows["class"] == number)
        entry = found[key]
        entry.count += int(rows["count"][here].sum())
        entry.good += int(rows["good"][here].sum())
        entry.bytes += int(rows["bytes"][here].sum())
        timed = here & (rows["timed"] > 0)
        if timed.any():
            entry.limits = [int(rows["latency_min"][timed].min()), int(rows["latency_max"][timed].max())]
    for first, last in runs(whole):
        cells = table.pyramid.latencies(first, last)
        for number, key in enumerate(keys):
            here = cells["class"] == number
            np.add.at(found[key].buckets, cells["bucket"][here], cells["count"][here])


def runs(numbers: Int64) -> list[tuple[int, int]]:
    """Consecutive numbers as (first, behind the last)."""
    cut = np.flatnonzero(np.diff(numbers) != 1) + 1
    return [(int(run[0]), int(run[-1]) + 1) for run in np.split(numbers, cut) if len(run)]


class _Class:
    def __init__(self, tick_s: float) -> None:
        self.count = self.good = self.bytes = 0
        self.ticks: list[Int64] = []
        self.limits: list[int] = []
        self.buckets = np.zeros(len(edges_s(FINE)) - 1, np.int64)
        self._tick_s = tick_s

    def finished(self, opcode: int, admin: bool) -> ClassSpan:
        """Latencies exact where all are here one by one, else to a bucket."""
        ticks = np.concatenate([np.empty(0, np.int64), *self.ticks])
        n = len(ticks) + int(self.buckets.sum())
        if not n:
            return ClassSpan(opcode, admin, self.count, self.good, self.bytes, None, None, None, None, 0.0)
        limits = [*self.limits, int(ticks.min()), int(ticks.max())] if len(ticks) else self.limits
        low, high = min(limits) * self._tick_s, max(limits) * self._tick_s
        exact = not self.buckets.any()
        if not exact:
            counts = self.buckets + np.bincount(bucket(ticks, self._tick_s, FINE), minlength=len(self.buckets))
            ends = np.cumsum(counts)

        def percentile(share: float) -> float | None:
            if not supported(n, share):
                return None
            rank, _, _ = quantile_ranks(n, share)
            if exact:
                return float(np.partition(ticks, rank - 1)[rank - 1]) * self._tick_s
            edges = edges_s(FINE)
            place = int(np.searchsorted(ends, rank))
            return min(max(math.sqrt(edges[place] * edges[place + 1]), low), high)

        u = 0.0 if exact else 10 ** (0.5 / FINE) - 1
        return ClassSpan(opcode, admin, self.count, self.good, self.bytes, low, percentile(0.5), percentile(0.99), high, u)
