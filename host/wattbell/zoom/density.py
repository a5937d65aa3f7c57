"""Latencies over time where there are too many commands to draw each: counts by bin of time and bucket of latency."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from .build import FACTOR
from .core import AER, CoreRows
from .latencies import BUCKETS, CELLS, COARSE, bucket, edges_s
from .table import CommandFilter, ZoomTable

Int64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]
MOST_COLUMNS = 640


@dataclass(frozen=True)
class Density:
    """Commands by time and latency.

    ``counts[i, j]``: commands with the CQE in ``[t_edges[i], t_edges[i + 1])`` and the latency in bucket j of ``latency_edges_s``. Two
    kinds are left out: commands without a captured start, and Asynchronous Event Requests, which wait by design.
    """

    t_edges: Int64
    latency_edges_s: F64
    counts: Int64


def density(table: ZoomTable, begin: int, end: int, wanted: CommandFilter | None = None) -> Density:
    """Return the density of the ``wanted`` commands of ticks ``[begin, end]``.

    The pyramid answers if it keeps them separately (:attr:`CommandFilter.group`). Else every row is read: some 10^7 commands a second.
    """
    wanted = wanted or CommandFilter()
    made, low, width = _empty(begin, end)
    high = low + width * len(made)
    level = table.pyramid.density_level(width)
    if not wanted.of_core:
        for frame in table.rows(begin, end, wanted):
            aer = (pl.col("qid") == 0) & (pl.col("opcode") == AER)
            shown = frame.filter(~aer & (pl.col("doorbell_tick").is_not_null() | pl.col("fetch_tick").is_not_null()))
            start, cqe = shown["start_tick"].to_numpy(), shown["cqe_tick"].to_numpy()
            _add(made, cqe, np.maximum(cqe - start, 0), low, width, table.tick_s)
    elif level is None or (wanted.group is None and not wanted.any):
        _add_rows(made, table, low, high, low, width, wanted)
    else:
        for first, last, cells in table.pyramid.density_parts(level, low, high):
            if cells is None:
                _add_rows(made, table, first, last, low, width, wanted)
                continue
            keys, counts = cells
            place = (keys // CELLS * table.pyramid.width(level) - low) // width
            inside = (place >= 0) & (place < len(made))
            if wanted.group is not None:
                inside &= keys // BUCKETS % (CELLS // BUCKETS) == wanted.group
            np.add.at(made, (place[inside], keys[inside] % BUCKETS), counts[inside])
    return Density(low + np.arange(len(made) + 1, dtype=np.int64) * width, edges_s(COARSE), made)


def _empty(begin: int, end: int) -> tuple[Int64, int, int]:
    """Return (no counts, first tick, width of a bin) for a quarter of the columns or more.

    The width is a power of ``FACTOR``, like the widths of the pyramid.
    """
    width = 1
    while width * MOST_COLUMNS < end - begin:
        width *= FACTOR
    low = begin // width * width
    return np.zeros((-(-(max(end, begin + 1) - low) // width), BUCKETS), np.int64), low, width


def _add_rows(made: Int64, table: ZoomTable, first: int, last: int, low: int, width: int, wanted: CommandFilter) -> None:
    zones = table.pyramid.zones
    near = (zones.cqe_min < last) & (zones.cqe_max >= first) & wanted.zones(zones, table.pyramid.classes)
    for core in table.cores(np.flatnonzero(near)):
        shown = _shown(core) & (core.cqe >= first) & (core.cqe < last) & wanted.mask(core)
        _add(made, core.cqe[shown], core.latency[shown], low, width, table.tick_s)


def _shown(core: CoreRows) -> Bool:
    found: Bool = core.timed & ~((core.qid == 0) & (core.opcode == AER))
    return found


def _add(made: Int64, cqe: Int64, latency: Int64, low: int, width: int, tick_s: float) -> None:
    place = (cqe - low) // width
    inside = (place >= 0) & (place < len(made))
    keys = place[inside] * BUCKETS + bucket(latency[inside], tick_s, COARSE)
    made += np.bincount(keys, minlength=made.size).reshape(made.shape)
