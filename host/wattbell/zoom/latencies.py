"""Latencies counted in buckets of a logarithmic scale."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from wattbell_spec.nvme import io

Int64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

LEAST_S, DECADES = 1e-7, 8
COARSE = 16
"""Buckets a decade of a density."""
FINE = 128
"""Buckets a decade that percentiles are read from: 1.8 % wide."""
BUCKETS = DECADES * COARSE
GROUPS = 4
"""Kinds of commands that a density knows apart: :func:`group`."""
CELLS = GROUPS * BUCKETS


def group(opcode: npt.NDArray[np.uint8], qid: npt.NDArray[np.uint8]) -> Int64:
    """0 Read, 1 Write, 2 any other command of an I/O queue, 3 of the admin queue."""
    found: Int64 = np.where(qid == 0, 3, np.where(opcode == io("read"), 0, np.where(opcode == io("write"), 1, 2)))
    return found


def edges_s(a_decade: int) -> F64:
    """Return the ``DECADES * a_decade + 1`` edges of the buckets, in s.

    The first bucket also counts shorter latencies, the last one longer latencies.
    """
    edges: F64 = LEAST_S * 10 ** (np.arange(DECADES * a_decade + 1) / a_decade)
    return edges


def bucket(ticks: Int64, tick_s: float, a_decade: int) -> Int64:
    """Bucket of each latency."""
    place = np.searchsorted(_edges_ticks(tick_s, a_decade), ticks, side="right") - 1
    return np.clip(place, 0, DECADES * a_decade - 1)


def _edges_ticks(tick_s: float, a_decade: int) -> Int64:
    """The first tick at or above each edge; searchsorted is three times as fast as a logarithm, and exact."""
    return np.ceil(edges_s(a_decade) / tick_s).astype(np.int64)
