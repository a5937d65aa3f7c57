"""What the drive was given to do, in bins of equal width: commands and bytes by their completion, commands in flight."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LoadBins:
    """``n`` bins of ``width_ticks`` from ``first_tick`` on, arrays of length n.

    ``count``: I/O commands completed; ``read_bytes``, ``write_bytes``: moved by those that succeeded. ``depth_ticks``: sum over the
    commands in flight (doorbell to CQE) of the ticks that each was in flight within the bin; ``depth_max``: the most at once.
    """

    first_tick: int
    width_ticks: int
    count: Int64
    read_bytes: Int64
    write_bytes: Int64
    depth_ticks: Int64
    depth_max: Int64

    def __len__(self) -> int:
        return len(self.count)

    @staticmethod
    def empty(first_tick: int, width_ticks: int, bins: int) -> LoadBins:
        """Bins without a command."""
        return LoadBins(first_tick, width_ticks, *(np.zeros(bins, np.int64) for _ in range(5)))


def add_rows(bins: LoadBins, start: Int64, end: Int64, moved_read: Int64, moved_write: Int64, low: int, high: int) -> None:
    """Add to bins what lies in ticks ``[low, high)`` (edges of bins). Arrays of one length, of every I/O command that overlaps it: first
    tick in flight, CQE tick, bytes read and written without error."""
    width, first = bins.width_ticks, bins.first_tick
    begin, stop = (low - first) // width, (high - first) // width
    if stop <= begin:
        return
    n = stop - begin
    inside = (end >= low) & (end < high)
    place = (end[inside] - low) // width
    bins.count[begin:stop] += np.bincount(place, minlength=n)
    for into, moved in ((bins.read_bytes, moved_read), (bins.write_bytes, moved_write)):
        into[begin:stop] += np.rint(np.bincount(place, weights=moved[inside], minlength=n)).astype(np.int64)
    integral, most = depth_of(start, end, low, width, n)
    bins.depth_ticks[begin:stop] += integral
    bins.depth_max[begin:stop] = np.maximum(bins.depth_max[begin:stop], most)


def depth_of(start: Int64, end: Int64, low: int, width: int, n: int) -> tuple[Int64, Int64]:
    """(integral in ticks, maximum) of the number of intervals ``[start, end)`` that cover each tick, in ``n`` bins from ``low`` on. Exact.
    An interval of no length counts for the maximum of none."""
    high = low + n * width
    keep = (end > low) & (start < high) & (end > start)
    begun, ended = np.maximum(start[keep], low), end[keep]
    ended = ended[ended < high]
    ticks = np.concatenate((begun, ended))
    delta = np.ones(len(ticks), np.int64)
    delta[len(begun) :] = -1
    order = np.lexsort((delta, ticks))  # an end before a start at the same tick: one command follows the other
    ticks, delta = ticks[order], delta[order]
    depth = np.cumsum(delta)
    place = (ticks - low) // width
    integral = np.zeros(n, np.int64)
    np.add.at(integral, place, delta * (low + (place + 1) * width - ticks))
    net = np.bincount(place, weights=delta, minlength=n).astype(np.int64)
    at_begin = np.concatenate(([0], np.cumsum(net)[:-1]))
    integral += at_begin * width
    most = at_begin.copy()
    np.maximum.at(most, place, depth)
    return integral, most
