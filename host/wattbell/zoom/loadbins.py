"""The drive's load in bins of equal width: commands and bytes by their completion, commands in flight."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .bins import CommandBins, merged
from .build import LOAD_TILE
from .table import ZoomTable

Int64 = npt.NDArray[np.int64]


def load_bins(table: ZoomTable, begin: int, end: int, points: int) -> LoadBins:
    """Return the load over ticks ``[begin, end]`` in at most ``points`` + 2 bins. Exact, whether from the pyramid or from rows.

    Bins are a power of 2 wide, with edges at multiples of their width. So they stay the same while the picture moves.
    """
    width = 1 << max(0, (-(-(end - begin) // max(points, 1)) - 1).bit_length())
    low = begin // width * width
    high = -(-max(end, begin + 1) // width) * width
    return _of_width(table, low, high, width)


def _of_width(table: ZoomTable, low: int, high: int, width: int) -> LoadBins:
    made = LoadBins.empty(low, width, (high - low) // width)
    level = table.pyramid.load_level(width)
    if level is None:
        _add_rows(made, table, low, high)
        return made
    narrow = table.pyramid.width(level)
    widest = narrow * LOAD_TILE
    if width > widest:  # a bin has many tiles, nearly all empty
        first, last = table.pyramid.bounds or (low, low)
        within = max(low, first) // widest * widest, min(high, -(-(last + 1) // widest) * widest)
        if within[1] > within[0]:
            _fold(made, _of_width(table, *within, widest))
        return made
    for first, last, bins in table.pyramid.load_parts(level, low, high):
        if bins is None:
            _add_rows(made, table, first, last)
        else:
            _add_bins(made, merged(bins, narrow, width // narrow, 0), first, last)
    return made


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


def _fold(made: LoadBins, narrow: LoadBins) -> None:
    """Add narrow bins to wider ones."""
    place = (narrow.first_tick + np.arange(len(narrow)) * narrow.width_ticks - made.first_tick) // made.width_ticks
    for name in ("count", "read_bytes", "write_bytes", "depth_ticks"):
        np.add.at(getattr(made, name), place, getattr(narrow, name))
    np.maximum.at(made.depth_max, place, narrow.depth_max)


def _add_bins(made: LoadBins, bins: CommandBins, low: int, high: int) -> None:
    """Bins of the same width, of all that happens in ticks ``[low, high)``; the first is at or before ``low``."""
    begin, stop = (low - made.first_tick) // made.width_ticks, (high - made.first_tick) // made.width_ticks
    wanted = np.arange(low, high, made.width_ticks) // made.width_ticks
    place = np.searchsorted(bins.bin, wanted, side="right") - 1
    there = bins.bin[place] == wanted
    depth = bins.depth_end[place]  # between two bins nothing changes
    for into, of in ((made.count, bins.count), (made.read_bytes, bins.read), (made.write_bytes, bins.write)):
        into[begin:stop] = np.where(there, of[place], 0)
    made.depth_ticks[begin:stop] = np.where(there, bins.depth_ticks[place], depth * made.width_ticks)
    made.depth_max[begin:stop] = np.where(there, bins.depth_max[place], depth)


def _add_rows(made: LoadBins, table: ZoomTable, low: int, high: int) -> None:
    """The same from rows."""
    parts = [core.take(core.io) for core in table.overlapping(low, high)]
    long = table.long_between(low, high)
    long = long[long[:, 3] > 0]

    def column(of: list[Int64], listed: Int64) -> Int64:
        return np.concatenate([*of, listed])

    add_intervals(
        made,
        column([core.start for core in parts], long[:, 1]),
        column([core.end for core in parts], np.maximum(long[:, 1], long[:, 2])),
        column([core.good.astype(np.int64) for core in parts], long[:, 4]),
        column([core.read for core in parts], long[:, 5]),
        column([core.write for core in parts], long[:, 6]),
        low,
        high,
    )


def add_intervals(bins: LoadBins, start: Int64, end: Int64, count: Int64, read: Int64, write: Int64, low: int, high: int) -> None:
    """Add the load in ticks ``[low, high)`` (edges of bins) to bins.

    Arrays of one length, for every I/O command that overlaps the span. They have ticks in flight, and the sums that count at the end: 1
    without error, bytes read and written.
    """
    width, first = bins.width_ticks, bins.first_tick
    begin, stop = (low - first) // width, (high - first) // width
    inside = (end >= low) & (end < high)
    place = (end[inside] - low) // width
    for into, booked in ((bins.count, count), (bins.read_bytes, read), (bins.write_bytes, write)):
        np.add.at(into[begin:stop], place, booked[inside])
    bins.depth_ticks[begin:stop], bins.depth_max[begin:stop] = depth_of(start, end, low, width, stop - begin)


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
    order = np.argsort(ticks * 2 + (delta > 0), kind="stable")  # at a tick ends before starts: one command follows the other
    ticks, delta = ticks[order], delta[order]
    depth = np.cumsum(delta)
    place = (ticks - low) // width
    integral = np.zeros(n, np.int64)
    np.add.at(integral, place, delta * (low + (place + 1) * width - ticks))
    net = np.zeros(n, np.int64)
    np.add.at(net, place, delta)
    at_begin = np.concatenate(([0], np.cumsum(net)[:-1]))
    integral += at_begin * width
    most = at_begin.copy()
    np.maximum.at(most, place, depth)
    return integral, most
