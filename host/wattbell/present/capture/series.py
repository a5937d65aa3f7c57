"""Time series of a capture on uniform bins, the data of the plots.

Time zero of all series is the first tick of the capture. An envelope keeps minimum, mean and maximum of each bin, so
that no short peak disappears when it is drawn coarser.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from wattbell_spec.nvme import TRANSFER_OPCODES, io
from wattbell_spec.wire import CommandFlag

from wattbell.analysis.context import Context
from wattbell.capture import RailReader
from wattbell.capture.rail import SIGNALS
from wattbell.measure.depth import DepthSteps
from wattbell.measure.table import NONE, Commands
from wattbell.present.chart import F32, Envelope

Float = npt.NDArray[np.float64]

RAIL = tuple(name for _, name, _ in SIGNALS)
LOAD_BINS = 1 << 13
MIN_BIN_S = 1e-3
_ENTRIES = tuple(128 * 20**level for level in range(12))
"""Samples an entry of each level of JLS's summaries."""
WRITE_OPCODES = (io("write"),)


@dataclass(frozen=True)
class RailStatistics:
    """Statistics of intervals of the rail.

    edges: sample indices (n + 1)
    rows: by signal, arrays (n, 4) of mean, std, min, max in SI units, NaN where all of an interval is missing
    """

    edges: npt.NDArray[np.int64]
    rows: dict[str, Float]


def rail_statistics(reader: RailReader, begin: int, end: int, points: int, signals: Sequence[str] = RAIL) -> RailStatistics:
    """Return exact statistics of at most ``points`` equal intervals of samples ``begin`` .. ``end - 1``, from JLS's summaries.

    The last interval may be shorter.
    """
    step = max(1, -(-(end - begin) // points))
    entry = max((size for size in _ENTRIES if size <= step), default=1)
    if begin == 0:  # Intervals of whole entries: an entry that lies on an edge between two rows of one answer counts in either.
        step = -(-step // entry) * entry
    edges = np.append(np.arange(begin, end, step, dtype=np.int64), end)
    rows = {}
    for name in signals:
        if begin == 0 or entry == 1:
            table = reader.statistics(name, begin, end, step)
        else:
            singly = zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
            table = np.concatenate([reader.statistics(name, low, high, high - low) for low, high in singly])
        table[np.isnan(table[:, 0])] = np.nan  # JLS gives 0 for the extremes of nothing
        rows[name] = table
    return RailStatistics(edges, rows)


def rail(
    reader: RailReader, origin_tick: int, tick_s: float, begin: int, end: int, points: int, signals: Sequence[str] = RAIL
) -> dict[str, Envelope]:
    """The same as envelopes over time, which counts from ``origin_tick``."""
    found = rail_statistics(reader, begin, end, points, signals)
    step = int(found.edges[1] - found.edges[0]) if len(found.edges) > 1 else 1
    t0_s = (reader.tick_of(int(found.edges[0])) - reader.interval_ticks / 2 - origin_tick) * tick_s
    out = {}
    for name, table in found.rows.items():
        mean, _, low, high = (np.asarray(column, np.float32) for column in table.T)
        out[name] = Envelope(t0_s, step * reader.interval_ticks * tick_s, low, mean, high)
    return out


@dataclass(frozen=True)
class TimeBins:
    """Uniform bins over the capture: ``edges_tick`` has ``count + 1`` ticks (float64)."""

    edges_tick: Float
    dt_s: float

    @property
    def count(self) -> int:
        return len(self.edges_tick) - 1

    def index(self, ticks: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The bin of each tick, clipped to the capture."""
        width = self.edges_tick[1] - self.edges_tick[0]
        found = ((ticks - self.edges_tick[0]) // width).astype(np.int64)
        return np.asarray(np.clip(found, 0, self.count - 1), np.int64)


def load_bins(first_tick: int, last_tick: int, tick_s: float, bins: int = LOAD_BINS, shortest_s: float = MIN_BIN_S) -> TimeBins:
    """Bins for throughput, queue depth and latency between two ticks: at most ``bins``, none shorter than 1 ms."""
    duration_s = max((last_tick - first_tick) * tick_s, shortest_s)
    count = max(1, min(bins, round(duration_s / shortest_s)))
    edges = np.linspace(first_tick, max(last_tick, first_tick + 1), count + 1)
    return TimeBins(edges, duration_s / count)


def completed(commands: Commands) -> Commands:
    """The I/O commands that are known and ended."""
    return commands.take((commands.qid > 0) & ~commands.has(CommandFlag.ABORTED) & ~commands.has(CommandFlag.NO_SQE))


def throughput(io: Commands, bins: TimeBins) -> dict[str, F32]:
    """``read`` and ``write`` in MB/s (decimal) and ``iops`` (all I/O commands), by bin of the CQE; ``io``: :func:`completed`."""
    good = (io.status & 0x7FF) == 0
    where = bins.index(io.cqe_tick)
    out: dict[str, F32] = {}
    moved = good & np.isin(io.opcode, TRANSFER_OPCODES)
    writes = np.isin(io.opcode, WRITE_OPCODES)
    for name, chosen in (("read", moved & ~writes), ("write", moved & writes)):
        total = np.bincount(where[chosen], weights=io.nbytes[chosen], minlength=bins.count)
        out[name] = (total / 1e6 / bins.dt_s).astype(np.float32)
    out["iops"] = (np.bincount(where[good], minlength=bins.count) / bins.dt_s).astype(np.float32)
    return out


def queue_depth(steps: DepthSteps, bins: TimeBins, t0_s: float = 0.0) -> Envelope:
    """Commands in flight: time-weighted mean, minimum and maximum of each bin. ``t0_s``: when the first bin begins."""
    ticks, depth = steps.ticks, steps.depth
    edges = bins.edges_tick
    zeros = np.zeros(bins.count, np.float32)
    if len(ticks) == 0:
        return Envelope(t0_s, bins.dt_s, zeros, zeros, zeros)
    integral = np.concatenate(([0.0], np.cumsum(np.diff(ticks) * depth[:-1].astype(np.float64))))
    before = np.searchsorted(ticks, edges, side="right") - 1
    at_edge = np.where(before >= 0, depth[np.maximum(before, 0)], 0).astype(np.float64)
    nearest = np.maximum(before, 0)
    reached = np.where(before >= 0, integral[nearest] + at_edge * (edges - ticks[nearest]), 0.0)
    mean = np.diff(reached) / np.diff(edges)
    high, low = at_edge[:-1].copy(), at_edge[:-1].copy()
    where = bins.index(ticks)
    np.maximum.at(high, where, depth)
    np.minimum.at(low, where, depth)
    return Envelope(t0_s, bins.dt_s, low.astype(np.float32), mean.astype(np.float32), high.astype(np.float32))


def latency(io: Commands, bins: TimeBins, tick_s: float, t0_s: float = 0.0) -> Envelope:
    """Latency in s by bin of the CQE: minimum, median, maximum. Counted from the doorbell, else from the SQE fetch."""
    known = (io.doorbell_tick != NONE) | (io.fetch_tick != NONE)
    io = io.take(known)
    value = (io.cqe_tick - io.start_tick).astype(np.float64) * tick_s
    where = bins.index(io.cqe_tick)
    low, middle, high = (np.full(bins.count, np.nan, np.float32) for _ in range(3))
    if len(value):
        order = np.lexsort((value, where))
        value, where = value[order], where[order]
        first = np.nonzero(np.append(True, where[1:] != where[:-1]))[0]
        last = np.append(first[1:], len(where)) - 1
        filled = where[first]
        low[filled], high[filled] = value[first], value[last]
        middle[filled] = value[(first + last) // 2]
    return Envelope(t0_s, bins.dt_s, low, middle, high)


def cdf(latency_ticks: npt.NDArray[np.int64], tick_s: float, points: int = 400) -> tuple[Float, Float]:
    """(latency in s, share of commands at most that slow), thinned out except in the tail.

    The points are spaced evenly in -log10(1 - share), the scale on which the curve is drawn.
    """
    n = len(latency_ticks)
    if n == 0:
        return np.empty(0), np.empty(0)
    ordered = np.sort(latency_ticks)
    nines = np.linspace(0, math.log10(n) if n > 1 else 0, points)
    ranks = np.unique(np.append(np.clip(np.ceil(n * (1 - 10.0**-nines)).astype(np.int64), 1, n), n))
    return (ordered[ranks - 1] * tick_s).astype(np.float64), ((ranks - 0.5) / n).astype(np.float64)


def detail(context: Context, centre: int, before_s: float, after_s: float) -> tuple[Float, Float]:
    """(time in s relative to tick ``centre``, power in W) from ``before_s`` before it to ``after_s`` after it, at most 4000 points."""
    rail = context.rail
    assert rail is not None
    first, last = centre - round(before_s / context.tick_s), centre + round(after_s / context.tick_s)
    tick, values = rail.power_between(first, last)
    k = max(1, math.ceil(len(values) / 4000))
    n = len(values) // k
    power_w: Float = values[: n * k].reshape(n, k).mean(axis=1) if n else np.empty(0)
    middle: Float = tick + (np.arange(n, dtype=np.float64) * k + (k - 1) / 2) * rail.interval_ticks
    return (middle - centre) * context.tick_s, power_w
