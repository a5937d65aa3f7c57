"""Rail in bins of equal length, and each command's share of the time: vectorised, a million commands at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wattbell.measure.depth import DepthSteps
from wattbell.measure.rail import CHUNK, Rail

Int64 = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]

BIN_S = 2.5e-3
"""Shortest bin: longer than a page's way from the write buffer into flash."""
MOST_BINS = 4000
POWERS_W = np.geomspace(1e-3, 32.0, 61)
"""Controller powers for which :func:`on_after` returns how long the controller was on."""
_MIN_SAMPLES = 8
_LEAST_PART = 1e-6
"""Least part of a sample's interval that counts."""
_PIECE = 1 << 20
"""Commands at a time."""


@dataclass(frozen=True)
class EnergyBins:
    """``n`` bins of equal length in bus time. ``joules``: (n,), NaN where a sample is missing. ``edges``: (n + 1,), ticks."""

    edges: Float
    joules: Float
    seconds: float

    def __len__(self) -> int:
        return len(self.joules)


def rail_bins(rail: Rail, first_tick: float, last_tick: float) -> EnergyBins:
    """Return whole bins within a window of bus time: at least 2.5 ms and 8 samples each, at most 4000 bins.

    Samples are summed in one pass. Their sum is scaled to the accumulator's, if the capture has an accumulator.
    """
    late = rail.model.front_end_delay_s / rail.tick_s
    step = rail.interval_ticks
    low, high = rail.indices(math.ceil(first_tick + late + step / 2), math.floor(last_tick + late - step / 2))
    width = max(_MIN_SAMPLES, round(BIN_S / rail.interval_s), -(-(high - low) // MOST_BINS))
    n = max(0, (high - low) // width)
    # A sample covers the interval around it.
    edges: Float = rail.reader.tick_of(low) - step / 2 - late + np.arange(n + 1, dtype=np.float64) * (width * step)
    sums = np.zeros(n)
    for start, stop, stored in rail.reader.chunks(low, low + n * width, CHUNK):
        if not stored:
            sums[(start - low) // width : (stop - 1 - low) // width + 1] = np.nan
            continue
        power = rail.reader.power(start, stop).astype(np.float64)
        bins = np.arange(start - low, stop - low) // width
        sums += np.bincount(bins, weights=power, minlength=n)
    joules = sums * rail.interval_s
    if n and rail.has_accumulator and np.isfinite(joules).all():
        exact, total = rail.energy(edges[0], edges[-1]).joules, float(joules.sum())
        joules *= exact / total if total > 0 and abs(exact / total - 1) < 0.05 else 1.0
    return EnergyBins(edges, joules, width * rail.interval_s)


def on_after(rail: Rail, steps: DepthSteps, at_work: list[tuple[float, float]], idle_w: float) -> Float:
    """Return how long the controller was on with nothing in flight, within ``at_work`` (ticks).

    The result is in s, for each of ``POWERS_W`` that it may draw above ``idle_w``; NaN if samples are missing. The controller stays on,
    since a write is over before its data is in flash. A sample between commands counts as on if it exceeds idle by more than half of that
    power. In a sample partly covered by commands, the controller was on for the share that its excess over idle is of that power. The
    covered part is subtracted.
    """
    late = rail.model.front_end_delay_s / rail.tick_s
    step = rail.interval_ticks
    low, high = rail.indices(math.floor(at_work[0][0] + late), math.ceil(at_work[-1][1] + late))
    ticks = np.array(at_work, np.float64)
    lengths = np.diff(ticks, axis=1).ravel()
    worked = np.cumsum(np.column_stack((np.zeros_like(lengths), lengths)).ravel())
    out = np.zeros(len(POWERS_W))
    for start, stop, stored in rail.reader.chunks(low, high, CHUNK):
        edges = rail.reader.tick_of(start) - step / 2 - late + np.arange(stop - start + 1, dtype=np.float64) * step
        within = np.diff(np.interp(edges, ticks.ravel(), worked)) / step
        busy = np.diff(busy_ticks(steps, edges)) / step
        rest = within - busy
        mine = rest > _LEAST_PART
        if not mine.any():
            continue
        if not stored:
            return np.full(len(POWERS_W), np.nan)
        above = rail.reader.power(start, stop).astype(np.float64)[mine] - idle_w
        if np.isnan(above).any():
            return np.full(len(POWERS_W), np.nan)
        rest, busy = rest[mine], busy[mine]
        alone = busy < _LEAST_PART
        order = np.argsort(above[alone])
        at_least = np.concatenate(([0.0], np.cumsum(rest[alone][order])))
        out += at_least[-1] - at_least[np.searchsorted(above[alone][order], POWERS_W / 2)]
        above, rest, busy = above[~alone], rest[~alone], busy[~alone]
        out += [float(np.clip(np.minimum(above / power, 1.0) - busy, 0.0, rest).sum()) for power in POWERS_W]
    return out * rail.interval_s


def busy_ticks(steps: DepthSteps, edges: Float) -> Float:
    """Ticks with anything in flight until each of ``edges``, from any beginning. The first of the edges is the least, the last the
    greatest."""
    first = max(0, int(np.searchsorted(steps.ticks, edges[0], side="right")) - 1)
    last = int(np.searchsorted(steps.ticks, edges[-1])) + 1
    ticks = steps.ticks[first:last]
    grown = np.concatenate(([0.0], np.cumsum(np.diff(ticks) * (steps.depth[first:last][:-1] > 0))))
    return np.interp(edges, ticks, grown)


def equal_shares(steps: DepthSteps, starts: Int64, ends: Int64) -> Float:
    """Ticks that each command is booked when all in flight at a time share it equally; they add up to the busy time."""
    parts = np.diff(steps.ticks) / np.maximum(steps.depth[:-1], 1)
    parts[steps.depth[:-1] == 0] = 0.0
    grown = np.concatenate(([0.0], np.cumsum(parts)))
    out = np.empty(len(starts))
    for low in range(0, len(starts), _PIECE):
        part = slice(low, low + _PIECE)
        out[part] = grown[np.searchsorted(steps.ticks, ends[part])] - grown[np.searchsorted(steps.ticks, starts[part])]
    return out
