"""The next or the previous of something, from a tick on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from .build import idle_behind
from .table import CommandFilter, ZoomTable

Int64 = npt.NDArray[np.int64]
MOST_ZONES = 128
"""Read at once: a million rows."""


def find_command(table: ZoomTable, at: int, forward: bool, wanted: CommandFilter, beside: int | None = None) -> dict[str, Any] | None:
    """Return the wanted command with the nearest start behind tick ``at`` (before it); None if there is none.

    It is a row with ``start_tick``, ``bytes`` and ``index``. Commands that start together come by their index: ``beside``, the index of the
    last one found, continues from there.
    """
    zones = table.pyramid.zones
    starts = np.array([table.start_min, zones.start_max])
    may = wanted.zones(zones, table.pyramid.classes)
    may &= (starts[1] >= at) if forward else (starts[0] <= at)
    start, index = pl.col("start_tick"), pl.col("index")
    if beside is None:
        behind = start > at if forward else start < at
    elif forward:
        behind = (start > at) | ((start == at) & (index > beside))
    else:
        behind = (start < at) | ((start == at) & (index < beside))
    best: tuple[int, int] | None = None
    numbers = np.flatnonzero(may)
    # in the order in which a better one can still come; more at once the longer nothing is found
    numbers = numbers[np.argsort(starts[0][numbers] if forward else -starts[1][numbers], kind="stable")]
    place, batch = 0, 1
    while place < len(numbers):
        some = numbers[place : place + batch]
        if best is not None and (starts[0][some[0]] > best[0] if forward else starts[1][some[0]] < best[0]):
            break
        for first, last in table.runs(np.sort(some)):
            rows = table.keys(first, last, behind & wanted.expression(), wanted.columns)
            if len(rows):
                key = rows.sort("start_tick", "index", descending=not forward).row(0)
                best = key if best is None else min(best, key) if forward else max(best, key)
        place, batch = place + batch, min(batch * 2, MOST_ZONES)
    return None if best is None else table.read(best[1], best[1] + 1).row(0, named=True)


def find_wake_up(table: ZoomTable, at: int, forward: bool, least_ticks: int) -> tuple[int, int] | None:
    """Return (end of the last command before, start of the first one after) of the nearest idle time of at least ``least_ticks``.

    The idle time ends behind tick ``at`` (before it). Asynchronous Event Requests, and other commands of more than a second, do not count.
    """
    zones = table.pyramid.zones
    may = np.flatnonzero(zones.idle_max >= least_ticks)
    for number in may.tolist() if forward else may[::-1].tolist():
        if forward and zones.cqe_max[number] + zones.idle_max[number] <= at:
            continue
        found = [(low, high) for low, high in _idle_of(table, number, least_ticks) if (high > at if forward else high < at)]
        if found:
            return found[0] if forward else found[-1]
    return None


def _idle_of(table: ZoomTable, number: int, least_ticks: int) -> Iterator[tuple[int, int]]:
    zones = table.pyramid.zones
    first, last = int(zones.row[number]), int(zones.row[number] + zones.rows[number])
    core = table.reader.rows_of(first, last)
    later = int(np.minimum(zones.start_min[number + 1 :], zones.cqe_min[number + 1 :]).min()) if number + 1 < len(zones.row) else None
    idle = idle_behind(core, later, table.long_ticks)
    ended = np.maximum.accumulate(np.maximum(core.cqe, np.where(core.latency > table.long_ticks, core.cqe, core.start)))
    for i in np.flatnonzero(idle >= least_ticks).tolist():
        yield int(ended[i]), int(ended[i] + idle[i])
