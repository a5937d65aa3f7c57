"""The commands of a capture: few from rows, many from the pyramid."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl
from wattbell_spec.nvme import io

from ..capture import Capture
from .build import LONG_S, SEGMENT_ROWS, Zones
from .core import START, CoreReader, CoreRows, nbytes
from .pyramid import Pyramid, open_pyramid

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]
PIECE_ROWS = 1 << 19


@dataclass(frozen=True)
class CommandFilter:
    """Which commands; None: any. ``above_ticks``: those that took longer from start to CQE; ``status``: SCT and SC of the CQE, -1: any but
    success."""

    opcode: int | None = None
    admin: bool | None = None
    qid: int | None = None
    cid: int | None = None
    status: int | None = None
    slba: int | None = None
    above_ticks: int | None = None

    @property
    def any(self) -> bool:
        """Whether all commands are wanted."""
        return all(getattr(self, field.name) is None for field in fields(self))

    @property
    def of_core(self) -> bool:
        """Whether :meth:`mask` can tell."""
        return self.cid is None and self.slba is None

    @property
    def group(self) -> int | None:
        """The kind of commands (:func:`.latencies.group`) if just all of that are wanted: Read, or Write."""
        only = self.of_core and self.qid is None and self.status is None and self.above_ticks is None and self.admin is False
        return {io("read"): 0, io("write"): 1}.get(self.opcode) if only and self.opcode is not None else None

    def mask(self, core: CoreRows) -> Bool:
        """Which of some commands; for a choice that is :attr:`of_core`."""
        found = np.ones(len(core), np.bool_)
        if self.opcode is not None:
            found &= core.opcode == self.opcode
        if self.admin is not None:
            found &= (core.qid == 0) == self.admin
        if self.qid is not None:
            found &= core.qid == self.qid
        if self.status is not None:
            told = core.status & 0x7FF
            found &= (told != 0) if self.status < 0 else (told == self.status)
        if self.above_ticks is not None:
            found &= core.timed & (core.latency > self.above_ticks)
        return found

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of :meth:`expression`, besides ticks."""
        own = [name for name in ("opcode", "qid", "cid", "status") if getattr(self, name) is not None]
        own += ["qid"] if self.admin is not None else []
        own += ["slba", "blocks", "nsid", "opcode", "qid", "flags"] if self.slba is not None else []
        return tuple(own)

    def expression(self) -> pl.Expr:
        """Return the expression for a row of commands.parquet with ``start_tick``. A command is found by any block that it covers."""
        found = pl.lit(True)
        for name in ("opcode", "qid", "cid"):
            if getattr(self, name) is not None:
                found &= pl.col(name) == getattr(self, name)
        if self.admin is not None:
            found &= (pl.col("qid") == 0) if self.admin else (pl.col("qid") > 0)
        if self.status is not None:
            told = pl.col("status") & 0x7FF
            found &= (told != 0) if self.status < 0 else (told == self.status)
        if self.slba is not None:
            first, blocks = pl.col("slba").cast(pl.Int128), pl.col("blocks").cast(pl.Int128)
            covers = (first <= self.slba) & (self.slba < first + blocks)
            found &= (pl.col("bytes") > 0) & covers
        if self.above_ticks is not None:
            timed = pl.col("doorbell_tick").is_not_null() | pl.col("fetch_tick").is_not_null()
            found &= timed & ((pl.col("cqe_tick") - pl.col("start_tick")) > self.above_ticks)
        return found

    def zones(self, zones: Zones, classes: list[tuple[int, int]]) -> Bool:
        """Which zones may have one."""
        may = np.ones(len(zones.row), np.bool_)
        if self.above_ticks is not None:
            may &= zones.latency_max > self.above_ticks
        if self.status is not None and self.status != 0:
            may &= zones.failed
        if self.opcode is not None or self.admin is not None:
            mask = 0
            for number, (key, _) in enumerate(classes):
                if self.opcode in (None, key & 0xFF) and self.admin in (None, key > 0xFF):
                    mask |= 1 << min(number, 63)
            may &= (zones.classes & np.uint64(mask)) != 0
        return may


class ZoomTable:
    """Rows and pyramid of one capture. Every method may be called from any thread. Raises CaptureError for damaged files."""

    def __init__(self, capture: Capture, sizes: dict[int, int], tick_s: float, progress: Callable[[int, int], None] | None = None) -> None:
        self.capture = capture
        self.tick_s = tick_s
        self.reader = CoreReader(capture, sizes)
        self.pyramid: Pyramid = open_pyramid(capture, self.reader, tick_s, progress)
        self.long_ticks = round(LONG_S / tick_s)
        self._frame = capture.commands  # its footer is read once
        self._bytes = nbytes(sizes)
        self._edges = frozenset(self.reader.pieces)
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return self.reader.rows

    @cached_property
    def start_min(self) -> Int64:
        """The least start tick by zone, including the long commands."""
        found, long = np.array(self.pyramid.zones.start_min), self.pyramid.long
        np.minimum.at(found, np.searchsorted(self.pyramid.zones.row, long[:, 0], side="right") - 1, long[:, 1])
        return found

    def narrowed(self, wanted: CommandFilter | None) -> CommandFilter:
        """The same commands, said as narrowly as the capture's classes allow."""
        wanted = wanted or CommandFilter()
        of_admin = any(key == 256 + (wanted.opcode or 0) for key, _ in self.pyramid.classes)
        return replace(wanted, admin=False) if wanted.opcode is not None and wanted.admin is None and not of_admin else wanted

    # -- by zones --------------------------------------------------------------------------------------------------

    def zones_between(self, low: int, high: int) -> Int64:
        """Numbers of the zones with a command that may overlap ticks ``[low, high]``; long ones aside."""
        zones = self.pyramid.zones
        return np.flatnonzero((zones.start_min <= high) & (zones.cqe_max >= low))

    def cores(self, numbers: Int64) -> Iterator[CoreRows]:
        """The rows of zones, in runs that lie in one piece."""
        zones = self.pyramid.zones
        edges = self._edges
        begin = end = -1
        for number in numbers.tolist():
            first, last = int(zones.row[number]), int(zones.row[number] + zones.rows[number])
            if first != end or first in edges:
                if end > begin:
                    yield self.reader.rows_of(begin, end)
                begin = first
            end = last
        if end > begin:
            yield self.reader.rows_of(begin, end)

    def overlapping(self, low: int, high: int) -> Iterator[CoreRows]:
        """The commands that overlap ticks ``[low, high]``, long ones aside."""
        for core in self.cores(self.zones_between(low, high)):
            yield core.take((core.start <= high) & (core.end >= low) & (core.latency <= self.long_ticks))

    def long_between(self, low: int, high: int) -> Int64:
        """The long ones that do; columns as in :attr:`Pyramid.long`."""
        long = self.pyramid.long
        found: Int64 = long[(long[:, 1] <= high) & (np.maximum(long[:, 1], long[:, 2]) >= low)]
        return found

    def count(self, low: int, high: int, wanted: CommandFilter | None = None) -> int:
        """Return how many commands overlap ``[low, high]``. Only zones on the edges are read, or all if only rows show which are
        ``wanted``.
        """
        if wanted is not None and not wanted.any:
            return self._count_wanted(low, high, wanted)
        zones = self.pyramid.zones
        near = self.zones_between(low, high)
        within = (zones.start_min[near] >= low) & (zones.cqe_max[near] <= high)
        edges = sum(int(((c.start <= high) & (c.end >= low) & (c.latency <= self.long_ticks)).sum()) for c in self.cores(near[~within]))
        whole = near[within]
        listed = self.pyramid.long[:, 0]
        beside = int(np.isin(np.searchsorted(zones.row, listed, side="right") - 1, whole).sum()) if len(listed) else 0
        return int(zones.rows[whole].sum()) - beside + edges + len(self.long_between(low, high))

    def _count_wanted(self, low: int, high: int, wanted: CommandFilter) -> int:
        if not wanted.of_core:
            return sum(len(frame) for frame in self.rows(low, high, wanted))
        zones = self.pyramid.zones
        near, found = self._near(low, high), 0
        if wanted.group is not None:  # of whole segments the number is known
            whole, rest = self.segments_between(low, high, within=True)
            keys = [key for key, _ in self.pyramid.classes]
            number = keys.index(wanted.opcode) if wanted.opcode in keys else -1
            rows = self.pyramid.segments()
            found = int(rows["count"][np.isin(rows["segment"], whole) & (rows["class"] == number)].sum())
            near = np.intersect1d(near, rest)
        may = near[wanted.zones(zones, self.pyramid.classes)[near]]
        return found + sum(int(((c.start <= high) & (c.end >= low) & wanted.mask(c)).sum()) for c in self.cores(may))

    def _near(self, low: int, high: int) -> Int64:
        """Numbers of the zones with a command that overlaps ticks ``[low, high]``."""
        listed = np.searchsorted(self.pyramid.zones.row, self.long_between(low, high)[:, 0], side="right") - 1
        return np.union1d(self.zones_between(low, high), listed).astype(np.int64)

    # -- rows ------------------------------------------------------------------------------------------------------

    def rows(self, low: int, high: int, wanted: CommandFilter | None = None) -> Iterator[pl.DataFrame]:
        """The commands that overlap ticks ``[low, high]``, in pieces, with ``start_tick``, ``bytes`` and ``index`` besides the columns of
        commands.parquet."""
        wanted = wanted or CommandFilter()
        zones = self.pyramid.zones
        near = self._near(low, high)
        may = wanted.zones(zones, self.pyramid.classes)
        for first, last in self.runs(near[may[near]]):
            yield self.read(first, last).filter((pl.col("start_tick") <= high) & (pl.col("cqe_tick") >= low) & wanted.expression())

    def runs(self, numbers: Int64) -> Iterator[tuple[int, int]]:
        """Zones as stretches of consecutive rows, first and behind the last, of at most :data:`PIECE_ROWS`."""
        zones = self.pyramid.zones
        begin = end = -1
        for number in numbers.tolist():
            first, last = int(zones.row[number]), int(zones.row[number] + zones.rows[number])
            if first != end or last - begin > PIECE_ROWS:
                if end > begin:
                    yield begin, end
                begin = first
            end = last
        if end > begin:
            yield begin, end

    def read(self, first: int, last: int) -> pl.DataFrame:
        """Return rows ``first`` .. ``last - 1``, with all columns and the columns of :meth:`rows`."""
        frame = self._frame.slice(first, last - first).with_row_index("index", offset=first)
        with self._lock:
            found: pl.DataFrame = frame.with_columns(START.alias("start_tick"), self._bytes.alias("bytes")).collect()
        return found

    def keys(self, first: int, last: int, which: pl.Expr, columns: tuple[str, ...]) -> pl.DataFrame:
        """Return ``start_tick`` and ``index`` of the rows in ``first`` .. ``last - 1`` that an expression of ``columns`` chooses."""
        needed = {"cqe_tick", "doorbell_tick", "fetch_tick", *columns}
        frame = self._frame.slice(first, last - first).select(sorted(needed)).with_row_index("index", offset=first)
        made = frame.with_columns(START.alias("start_tick"), *([self._bytes.alias("bytes")] if "blocks" in needed else []))
        with self._lock:
            found: pl.DataFrame = made.filter(which).select("start_tick", "index").collect()
        return found

    # -- segments --------------------------------------------------------------------------------------------------

    def segments_between(self, low: int, high: int, within: bool = False) -> tuple[Int64, Int64]:
        """Return (segments with all CQEs in ticks ``[low, high)``, zones of other segments that may have one there).

        within: segments with all commands there from start to CQE, and all zones of the others
        """
        zones = self.pyramid.zones
        if not len(zones.row):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        firsts = np.concatenate([np.arange(a, b, SEGMENT_ROWS) for a, b in zip(self.reader.starts, self.reader.starts[1:])])
        first_zone = np.searchsorted(zones.row, firsts)
        lowest, highest = np.minimum.reduceat(zones.cqe_min, first_zone), np.maximum.reduceat(zones.cqe_max, first_zone)
        whole = (lowest >= low) & (highest < high)
        of_zone = np.searchsorted(first_zone, np.arange(len(zones.row)), side="right") - 1
        if within:
            whole &= np.minimum.reduceat(self.start_min, first_zone) >= low
            return np.flatnonzero(whole), np.flatnonzero(~whole[of_zone])
        near = (zones.cqe_min < high) & (zones.cqe_max >= low) & ~whole[of_zone]
        return np.flatnonzero(whole), np.flatnonzero(near)


__all__ = ["CommandFilter", "ZoomTable"]
