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
_MIN_SAMPLES = 8
_PIECE = 1 << 20
"""Commands at a time."""


@dataclass(frozen=True)
class Bins:
    """``n`` bins of equal length in bus time. ``joules``: (n,), NaN where a sample is missing. ``edges``: (n + 1,), ticks."""

    edges: Float
    joules: Float
    seconds: float

    def __len__(self) -> int:
        return len(self.joules)


def rail_bins(rail: Rail, first_tick: float, last_tick: float) -> Bins:
    """Whole bins within a window of bus time, of at least 2.5 ms and 8 samples, at most 4000 of them.

    Samples are summed in one pass; their sum is brought to that of the accumulator, where there is one.
    """
    late = rail.model.front_end_delay_s / rail.tick_s
    step = rail.interval_ticks
    low, high = rail.indices(math.ceil(first_tick + late + step / 2), math.floor(last_tick + late - step / 2))
    width = max(_MIN_SAMPLES, round(BIN_S / rail.interval_s), -(-(high - low) // MOST_BINS))
    n = max(0, (high - low) // width)
    # A sample stands for the interval around it.
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
    return Bins(edges, joules, width * rail.interval_s)


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
