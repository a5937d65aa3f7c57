"""An open capture that answers questions over any span of its ticks."""

from __future__ import annotations

import threading
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl
from wattbell_spec.nvme import TRANSFER_OPCODES
from wattbell_spec.wire import CommandFlag

from ..capture import Capture, open_capture
from ..measure.phases import Phase, find_phases
from ..measure.table import SIZED_OPCODES, lba_sizes
from .loadbins import LoadBins, add_rows
from .railpoints import RailPoints, rail_points

START = pl.coalesce("doorbell_tick", "fetch_tick", "cqe_tick")
TO_HOST = 2
"""Bits 1:0 of an opcode whose data go from the drive to the host."""


def open_zoom(path: str | Path) -> Zoom:
    """Open a capture to look at it. Its files are not hashed (a day of samples would take half an hour): `wattbell check` does that.

    Raises CaptureError as :func:`~wattbell.capture.open_capture`.
    """
    return Zoom(open_capture(path, verify=False))


class Zoom:
    """A capture's rail, commands and events over any span. Every method may be called from any thread."""

    def __init__(self, capture: Capture) -> None:
        self.capture = capture
        self.tick_s = capture.tick_ps * 1e-12
        self.sizes, self.notes = lba_sizes(capture.meta)
        self._rail_lock = threading.Lock()

    # -- what there is ---------------------------------------------------------------------------------------------

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """First tick of anything recorded, and the tick behind the last; (0, 0) for a capture without anything."""
        edges: list[int] = []
        start, end = self.capture.commands.select(START.min().alias("a"), pl.col("cqe_tick").max()).collect().row(0)
        if start is not None:
            edges += [start, end]
        rail = self.capture.rail
        if rail is not None:
            edges += [rail.first_tick, rail.tick_of(rail.samples)]
        first, last = self.capture.events.select(pl.col("tick").min().alias("a"), pl.col("tick").max().alias("b")).collect().row(0)
        if first is not None:
            edges += [first, last]
        return (min(edges), max(edges) + 1) if edges else (0, 0)

    @cached_property
    def phases(self) -> list[Phase]:
        """In order of time."""
        events = self.capture.events.select("tick", "type", "arg8", "arg32").collect()
        return find_phases(events, self.capture.meta.get("workload") or {}, self.bounds[1])

    @cached_property
    def classes(self) -> list[tuple[int, bool, int]]:
        """(opcode, admin, commands) of each class, most first."""
        rows = self.capture.commands.group_by("opcode", (pl.col("qid") == 0).alias("admin")).len().collect()
        return sorted(((int(o), bool(a), int(n)) for o, a, n in rows.iter_rows()), key=lambda row: (-row[2], row[1], row[0]))

    @cached_property
    def command_count(self) -> int:
        """Number of commands."""
        return int(self.capture.commands.select(pl.len()).collect().item())

    # -- over a span -----------------------------------------------------------------------------------------------

    def rail(self, begin: int, end: int, points: int) -> RailPoints | None:
        """The rail over ticks ``[begin, end]``; None without one."""
        reader = self.capture.rail
        if reader is None:
            return None
        with self._rail_lock:
            return rail_points(reader, begin, end, points)

    def load(self, begin: int, end: int, points: int) -> LoadBins:
        """The load over ticks ``[begin, end]`` in at most ``points`` + 2 bins; their edges are multiples of their width."""
        width = max(1, -(-(end - begin) // max(points, 1)))
        low = begin // width * width
        count = -(-(end - low) // width)
        bins = LoadBins.empty(low, width, count)
        high = low + count * width
        known = (pl.col("flags") & int(CommandFlag.NO_SQE)) == 0
        near = (pl.col("cqe_tick") >= low) & START.lt(high) & (pl.col("qid") > 0) & known
        good = ((pl.col("status") & 0x7FF) == 0) & ((pl.col("flags") & int(CommandFlag.ABORTED)) == 0)
        moved = pl.when(good & pl.col("opcode").is_in(TRANSFER_OPCODES)).then(self._nbytes()).otherwise(0)
        data = self.capture.commands.filter(near).select(START.alias("start"), "cqe_tick", "opcode", moved.alias("moved")).collect()
        is_read = (data["opcode"].to_numpy() & 3) == TO_HOST
        nbytes = data["moved"].to_numpy()
        start, end_tick = data["start"].to_numpy(), data["cqe_tick"].to_numpy()
        add_rows(bins, start, end_tick, np.where(is_read, nbytes, 0), np.where(is_read, 0, nbytes), low, high)
        return bins

    def rows(self, begin: int, end: int) -> pl.DataFrame:
        """The commands that overlap ticks ``[begin, end]``, with ``start_tick``, ``bytes`` and ``index`` (row of commands.parquet)."""
        frame = self.capture.commands.with_row_index("index").with_columns(START.alias("start_tick"), self._nbytes().alias("bytes"))
        return frame.filter((pl.col("cqe_tick") >= begin) & (pl.col("start_tick") <= end)).sort("start_tick", maintain_order=True).collect()

    def _nbytes(self) -> pl.Expr:
        lba = pl.lit(self.sizes[0], dtype=pl.Int64)
        for nsid, size in self.sizes.items():
            if nsid and size != self.sizes[0]:
                lba = pl.when(pl.col("nsid") == nsid).then(pl.lit(size, dtype=pl.Int64)).otherwise(lba)
        known = (pl.col("flags") & int(CommandFlag.NO_SQE)) == 0
        sized = pl.col("opcode").is_in(SIZED_OPCODES) & (pl.col("qid") > 0) & known
        return pl.when(sized).then(pl.col("blocks").cast(pl.Int64) * lba).otherwise(0)
