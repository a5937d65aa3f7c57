"""Queue depth over time: an exact step function from the instants of submission and completion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from .table import Commands

Int64 = npt.NDArray[np.int64]
_PIECE = 1 << 16


@dataclass(frozen=True)
class DepthSteps:
    """Commands in flight over time: ``depth[i]`` from ``ticks[i]`` until ``ticks[i + 1]``. Both int64, same length.

    Ticks strictly increase, and the depth is 0 before the first. ``at_start`` has for each start, in order, the number in flight just after
    it. This includes the command itself, but not later starts at the same tick.
    """

    ticks: Int64
    depth: Int64
    at_start: npt.NDArray[np.int32]


def depth_steps(starts: Int64, ends: Int64) -> DepthSteps:
    """The step function of intervals ``[starts[i], ends[i])`` (ticks, int64, any order, ends >= starts)."""
    n = len(starts)
    keys = np.empty(2 * n, np.int64)
    np.multiply(starts, 2, out=keys[:n])
    keys[:n] += 1
    np.multiply(ends, 2, out=keys[n:])
    return _steps(keys)


def depth_of(commands: Commands) -> DepthSteps:
    """The same of commands, each in flight from its start until its CQE."""
    n = len(commands)
    keys = np.empty(2 * n, np.int64)
    done = 0
    for piece in commands.pieces():
        begins, ends = slice(done, done + len(piece)), slice(n + done, n + done + len(piece))
        np.multiply(piece.start_tick, 2, out=keys[begins])
        keys[begins] += 1
        np.multiply(np.maximum(piece.cqe_tick, piece.start_tick), 2, out=keys[ends])
        done += len(piece)
    return _steps(keys)


def _steps(keys: Int64) -> DepthSteps:
    """Make steps from tick * 2 + (1 for a start) of each start and end, in any order.

    One sort replaces an argsort of pairs. Ticks stay below 2^62; ``keys`` are overwritten.
    """
    if not len(keys):
        return DepthSteps(keys, keys, np.empty(0, np.int32))
    keys.sort()
    # Pieces fit in the cache. Writing never overtakes reading.
    depths = np.empty(len(keys), np.int64)
    at_start = np.empty(len(keys) // 2, np.int32)
    kept = reached = begun = 0
    for low in range(0, len(keys), _PIECE):
        piece = keys[low : low + _PIECE + 1]
        ticks = piece >> 1
        last_of_tick = ticks[1:] != ticks[:-1]
        if len(piece) <= _PIECE:
            last_of_tick = np.append(last_of_tick, True)
        ticks, piece = ticks[:_PIECE], piece[:_PIECE]
        begins = (piece & 1).astype(np.bool_)
        depth = np.cumsum(begins * np.int8(2) - np.int8(1), dtype=np.int64) + reached
        reached = int(depth[-1])
        starts = depth[begins]
        at_start[begun : begun + len(starts)] = starts
        begun += len(starts)
        found = int(np.count_nonzero(last_of_tick))
        keys[kept : kept + found] = ticks[last_of_tick]
        depths[kept : kept + found] = depth[last_of_tick]
        kept += found
    return DepthSteps(keys[:kept], depths[:kept], at_start)


def depth_histogram(steps: DepthSteps, first_tick: int, last_tick: int) -> npt.NDArray[np.int64]:
    """Ticks spent at each depth in ``[first_tick, last_tick)``: index = depth. Sums to the length of the window."""
    if last_tick <= first_tick:
        return np.zeros(1, np.int64)
    inside_from = int(np.searchsorted(steps.ticks, first_tick, side="right"))
    inside_to = int(np.searchsorted(steps.ticks, last_tick, side="left"))
    depth_at_first = int(steps.depth[inside_from - 1]) if inside_from > 0 else 0
    inside = range(inside_from, inside_to)
    deepest = int(steps.depth[inside_from:inside_to].max()) if inside else 0
    found = np.zeros(1 + max(depth_at_first, deepest), np.int64)
    found[depth_at_first] = (int(steps.ticks[inside_from]) if inside else last_tick) - first_tick
    for low in inside[::_PIECE]:
        high = min(low + _PIECE, inside_to)
        until = int(steps.ticks[high]) if high < inside_to else last_tick
        # bincount with weights goes through float64: exact below 2^53 ticks (104 days).
        part = np.bincount(steps.depth[low:high], weights=np.diff(steps.ticks[low:high], append=until))
        found[: len(part)] += np.rint(part).astype(np.int64)
    return found


class DepthSummary(TypedDict):
    """Queue depth of a window.

    mean: over the whole window
    mean_busy: over its time with depth >= 1
    histogram: share of the whole window by depth, depth 0 included
    """

    mean: float | None
    mean_busy: float | None
    max: int | None
    busy_fraction: float | None
    histogram: dict[str, float]


def depth_summary(steps: DepthSteps, first_tick: int, last_tick: int) -> DepthSummary:
    """Time-weighted figures of the window."""
    histogram = depth_histogram(steps, first_tick, last_tick)
    total = int(histogram.sum())
    if total == 0:
        return {"mean": None, "mean_busy": None, "max": None, "busy_fraction": None, "histogram": {}}
    weighted = float(np.dot(histogram, np.arange(len(histogram))))
    busy = total - int(histogram[0])
    return {
        "mean": weighted / total,
        "mean_busy": weighted / busy if busy else None,
        "max": int(np.max(np.nonzero(histogram)[0])),
        "busy_fraction": busy / total,
        "histogram": {str(d): int(t) / total for d, t in enumerate(histogram) if t},
    }


def idle_gaps(steps: DepthSteps, minimum_ticks: int) -> Int64:
    """Intervals with depth 0 of at least ``minimum_ticks`` between commands: shape (n, 2), [last CQE, next start]."""
    if len(steps.ticks) < 2:
        return np.empty((0, 2), np.int64)
    zero = np.nonzero(steps.depth[:-1] == 0)[0]
    gaps = np.stack((steps.ticks[zero], steps.ticks[zero + 1]), axis=1)
    long = gaps[:, 1] - gaps[:, 0] >= minimum_ticks
    kept: Int64 = gaps[long]
    return kept
