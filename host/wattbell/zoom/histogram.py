"""How often each latency came in a span."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .latencies import FINE, bucket, edges_s
from .span import EXACT_ROWS, runs
from .table import ZoomTable

Int64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]


def latency_histogram(table: ZoomTable, begin: int, end: int, bins: int) -> tuple[F64, Int64]:
    """Return (edges in s, counts) of at most ``bins`` bins on a logarithmic scale, over commands without error and with a CQE in the span.

    The span is ticks ``[begin, end)``. With very many commands, the edges are the edges of buckets (1.8 % wide).
    """
    zones = table.pyramid.zones
    whole, near = table.segments_between(begin, end)
    if table.pyramid.segment_rows(whole) + int(zones.rows[near].sum()) <= EXACT_ROWS:
        ticks = _read(table, np.flatnonzero((zones.cqe_min < end) & (zones.cqe_max >= begin)), begin, end)
        if not len(ticks):
            return np.empty(0), np.empty(0, np.int64)
        seconds = np.maximum(ticks, 1) * table.tick_s
        low, high = float(seconds.min()), float(seconds.max())
        edges = np.geomspace(low, high * (1 + 1e-9) if high > low else low * 1.01, bins + 1)
        edges[0], edges[-1] = low, max(edges[-1], high)
        counts, _ = np.histogram(seconds, edges)
        return edges, counts.astype(np.int64)
    found = np.bincount(bucket(_read(table, near, begin, end), table.tick_s, FINE), minlength=len(edges_s(FINE)) - 1)
    for first, last in runs(whole):
        cells = table.pyramid.latencies(first, last)
        np.add.at(found, cells["bucket"], cells["count"])
    used = np.flatnonzero(found)
    low_bucket, high_bucket = int(used[0]), int(used[-1]) + 1
    together = -(-(high_bucket - low_bucket) // bins)
    places = np.arange(low_bucket, high_bucket, together)
    edges = edges_s(FINE)[np.append(places, min(int(places[-1]) + together, len(found)))]
    return edges, np.add.reduceat(found[: min(int(places[-1]) + together, len(found))], places)


def _read(table: ZoomTable, near: Int64, begin: int, end: int) -> Int64:
    parts = [np.empty(0, np.int64)]
    for core in table.cores(near):
        parts.append(core.latency[core.good & core.timed & (core.cqe >= begin) & (core.cqe < end)])
    return np.concatenate(parts)
