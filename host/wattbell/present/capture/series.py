"""Time series of a capture on uniform bins, the data of the plots.

Time zero of all series is the first tick of the capture. An envelope keeps minimum, mean and maximum of each bin, so
that no short peak disappears when it is drawn coarser.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from wattbell_spec.nvme import TRANSFER_OPCODES, io
from wattbell_spec.wire import CommandFlag

from wattbell.analysis.context import Context
from wattbell.measure.depth import DepthSteps
from wattbell.measure.table import NONE, Commands
from wattbell.present.chart import F32, Envelope

Float = npt.NDArray[np.float64]

POWER_BINS = 1 << 16
LOAD_BINS = 1 << 13
MIN_BIN_S = 1e-3
_CHUNK = 1 << 21
WRITE_OPCODES = (io("write"),)


def power(context: Context, bins: int = POWER_BINS) -> Envelope | None:
    """Power in W; None without a rail."""
    rail = context.rail
    if rail is None:
        return None
    samples = len(rail.reader)
    width = max(1, math.ceil(samples / bins))
    parts: list[tuple[F32, F32, F32]] = []
    step = max(width, _CHUNK // width * width)
    for start in range(0, samples, step):
        if not any(rail.reader.stored(start, min(start + step, samples))):  # of a long gap
            nothing = np.full(-(-(min(start + step, samples) - start) // width), np.nan, np.float32)
            parts.append((nothing, nothing, nothing))
            continue
        values = rail.reader.power(start, start + step)
        pad = -len(values) % width
        table = np.append(values, np.full(pad, np.nan, np.float32)).reshape(-1, width)
        empty = np.isnan(table).all(axis=1)
        table[empty] = 0
        low: F32 = np.asarray(np.nanmin(table, axis=1), np.float32)
        high: F32 = np.asarray(np.nanmax(table, axis=1), np.float32)
        mean: F32 = np.asarray(np.nanmean(table, axis=1, dtype=np.float64), np.float32)
        for column in (low, mean, high):
            column[empty] = np.nan
        parts.append((low, mean, high))
    columns = [np.concatenate([p[i] for p in parts]) for i in range(3)]
    t0 = (rail.first_tick - rail.interval_ticks / 2 - context.first_tick) * context.tick_s
    return Envelope(t0, width * rail.interval_s, *columns)


@dataclass(frozen=True)
class Bins:
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


def load_bins(context: Context, bins: int = LOAD_BINS) -> Bins:
    """Bins for throughput, queue depth and latency: at most ``bins``, none shorter than 1 ms."""
    duration_s = max((context.last_tick - context.first_tick) * context.tick_s, MIN_BIN_S)
    count = max(1, min(bins, round(duration_s / MIN_BIN_S)))
    edges = np.linspace(context.first_tick, context.last_tick, count + 1)
    return Bins(edges, duration_s / count)


def _io(context: Context) -> Commands:
    table = context.commands
    keep = (table.qid > 0) & ~table.has(CommandFlag.ABORTED) & ~table.has(CommandFlag.NO_SQE)
    return table.take(keep)


def throughput(context: Context, bins: Bins) -> dict[str, F32]:
    """``read`` and ``write`` in MB/s (decimal) and ``iops`` (all I/O commands), by bin of the CQE."""
    io = _io(context)
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


def queue_depth(steps: DepthSteps, bins: Bins) -> Envelope:
    """Commands in flight: time-weighted mean, minimum and maximum of each bin."""
    ticks, depth = steps.ticks, steps.depth
    edges = bins.edges_tick
    zeros = np.zeros(bins.count, np.float32)
    if len(ticks) == 0:
        return Envelope(0.0, bins.dt_s, zeros, zeros, zeros)
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
    return Envelope(0.0, bins.dt_s, low.astype(np.float32), mean.astype(np.float32), high.astype(np.float32))


def latency(context: Context, bins: Bins) -> Envelope:
    """Latency in s by bin of the CQE: minimum, median, maximum. Counted from the doorbell, else from the SQE fetch."""
    io = _io(context)
    known = (io.doorbell_tick != NONE) | (io.fetch_tick != NONE)
    io = io.take(known)
    value = (io.cqe_tick - io.start_tick).astype(np.float64) * context.tick_s
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
    return Envelope(0.0, bins.dt_s, low, middle, high)


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
