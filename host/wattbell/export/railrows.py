"""The rail of a window as rows for formats that cannot hold millions: each sample, or means of equal numbers of samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .window import Selection

Float = npt.NDArray[np.float64]
_CHUNK = 1 << 20


@dataclass(frozen=True)
class RailRows:
    """Rows in order of time: tick of the middle of each, V, A, W; NaN where any of its samples is missing."""

    tick: npt.NDArray[np.int64]
    voltage: Float
    current: Float
    power: Float


def thinning(selection: Selection, most: int) -> int:
    """Samples a row so that there are at most ``most`` rows; 1: every sample."""
    low, high = selection.samples()
    return max(1, -(-(high - low) // most))


def rail_rows(selection: Selection, every: int) -> Iterator[RailRows]:
    """The rows of ``every`` samples, the last of fewer. A long gap is one row of NaN."""
    rail = selection.rail
    if rail is None:
        return
    low, high = selection.samples()
    for first, last, stored in rail.chunks(low, high, max(1, _CHUNK // every) * every):
        if not stored:
            nan = np.full(1, np.nan)
            yield RailRows(np.array([rail.tick_of(first)], np.int64), nan, nan, nan)
            continue
        part = rail.read(first, last)
        starts = np.arange(0, last - first, every)
        sizes = np.minimum(every, last - first - starts)
        columns = [np.add.reduceat(values.astype(np.float64), starts) / sizes for values in (part.voltage, part.current, part.power)]
        middle = rail.tick_of(first) + starts * rail.interval_ticks + (sizes - 1) * rail.interval_ticks // 2
        yield RailRows(middle.astype(np.int64), *columns)
