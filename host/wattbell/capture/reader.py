"""Reads a capture directory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from .. import door
from ..errors import CaptureError
from ..jsondata import JsonObject
from ..text import in_lines
from . import hashes, meta, schema
from .rail import NAME as RAIL
from .rail import RailReader

DEFAULT_LBA_BYTES = 512


_DAMAGED = (OSError, pa.ArrowException, pl.exceptions.PolarsError, pl.exceptions.PanicException)
"""Errors of the door, Arrow and Polars for a file that is not Parquet, or is truncated."""


class CaptureTable(pl.LazyFrame):
    """A table of a capture: damage that shows only on reading becomes a CaptureError that names the file."""

    path = Path()

    @staticmethod
    def scan(path: Path) -> CaptureTable:
        """Return the table of a file. Raises Polars' errors."""
        frame = pl.scan_parquet(path, glob=False)
        # Polars gives derived frames this frame's class, so they all know the path
        at_path: type[CaptureTable] = type("CaptureTable", (CaptureTable,), {"path": path})
        made = at_path._from_pyldf(frame._ldf)
        assert isinstance(made, CaptureTable)
        return made

    def collect(self, *arguments: Any, **options: Any) -> Any:
        """Collect as Polars does. Raises CaptureError when the file is damaged."""
        try:
            return super().collect(*arguments, **options)
        except _DAMAGED as error:
            raise damaged(self.path, error) from None


def damaged(path: Path, error: BaseException | str) -> CaptureError:
    """Return the error for a file of a capture that cannot be read or has the wrong content."""
    said = (str(error).splitlines() or ["unreadable"])[0]
    return CaptureError(f"{path} is missing or damaged ({said}). `wattbell check {path.parent}` tells what is whole.")


class Capture:
    """A finished capture. Tables are Polars lazy frames with the columns of docs/capture.md.

    Every file is compared with its hash once, before it is first read; ``verify`` False skips that.
    """

    def __init__(self, path: Path, description: meta.Meta, verify: bool = True) -> None:
        self.path = path
        self.meta: meta.Meta = {**in_lines(description), **({"files": description["files"]} if "files" in description else {})}
        """``meta.json`` as a dict, with every text on one line and printable; names of files are as they are."""
        self._unverified = dict(description.get("files") or {}) if verify else {}
        self._admitted: set[str] = set()

    # -- tables ----------------------------------------------------------------------------------------------------

    def table(self, name: str) -> pl.LazyFrame:
        """Table `name` (a key of ``schema.TABLES``). Raises CaptureError when its file is missing or damaged."""
        path = self.path / f"{name}.parquet"
        self._verify(path.name)
        try:
            if name not in self._admitted:
                door.check_parquet(path)
                self._admitted.add(name)
            frame: pl.LazyFrame = CaptureTable.scan(path)
            found = frame.collect_schema()
        except _DAMAGED as error:
            raise damaged(path, error) from None
        wanted = _KINDS[name]
        missing = set(wanted) - set(found)
        later = [column for column in schema.LATER_COLUMNS.get(name, ()) if column in missing]
        if later:
            frame = frame.with_columns(pl.lit(0).cast(_DTYPES[name][column]).alias(column) for column in later)
            found = frame.collect_schema()
            missing -= set(later)
        if missing:
            raise CaptureError(f"{path} lacks the column {', '.join(sorted(missing))}; it was not written by wattbell.")
        odd = [column for column, kind in wanted.items() if _kind(found[column]) != kind]
        if odd:
            raise CaptureError(f"{path} holds {found[odd[0]]} in the column {odd[0]}; it was not written by wattbell.")
        return frame

    def _verify(self, name: str) -> None:
        """Compare a file with its hash, if it has one and was not compared yet."""
        if name in self._unverified:
            hashes.verify(self.path, name, self._unverified[name])
            del self._unverified[name]

    @property
    def commands(self) -> pl.LazyFrame:
        """One row per command, in order of arrival (by queue position this is nearly, not strictly, CQE order)."""
        return self.table("commands")

    def command_rows(self, first_tick: int, last_tick: int) -> int:
        """Upper bound on the number of commands with a CQE in ``[first_tick, last_tick]``, without reading them."""
        return sum(rows for _, rows in self._command_groups(first_tick, last_tick))

    def command_pieces(self, first_tick: int, last_tick: int, columns: Sequence[str], rows: int) -> Iterator[pl.DataFrame]:
        """All commands with a CQE in ``[first_tick, last_tick]``, and some others, in order of arrival, in pieces of about ``rows`` and at
        least a row group. A phase may have 10^9 commands."""
        near = {group for group, _ in self._command_groups(first_tick, last_tick)}
        begin = end = 0
        for group, (_, _, count) in enumerate(self._command_bounds):
            if end > begin and (group not in near or end + count - begin > rows):
                yield self._command_slice(begin, end, columns)
                begin = end
            end += count
            if group not in near:
                begin = end
        if end > begin:
            yield self._command_slice(begin, end, columns)

    def _command_slice(self, begin: int, end: int, columns: Sequence[str]) -> pl.DataFrame:
        """Rows ``[begin, end)`` of the commands."""
        frame: pl.DataFrame = self.commands.slice(begin, end - begin).select(*columns).collect()
        return frame

    def _command_groups(self, first_tick: int, last_tick: int) -> list[tuple[int, int]]:
        """(number, rows) of the row groups that may hold commands with a CQE in that interval."""
        near = []
        for group, (low, high, rows) in enumerate(self._command_bounds):
            if low is None or high is None or (low <= last_tick and high >= first_tick):
                near.append((group, rows))
        return near

    @cached_property
    def _command_bounds(self) -> list[tuple[int | None, int | None, int]]:
        """(lowest CQE tick, highest, rows) of each row group; None if the file has no statistics."""
        path = self.path / "commands.parquet"
        self._verify(path.name)
        try:
            about = door.parquet_metadata(path)
        except (OSError, pa.ArrowException) as error:
            raise damaged(path, error) from None
        bounds: list[tuple[int | None, int | None, int]] = []
        for number in range(about.num_row_groups):
            group = about.row_group(number)
            columns = (group.column(i) for i in range(group.num_columns))
            told = next((c.statistics for c in columns if c.path_in_schema == "cqe_tick"), None)
            try:
                limits = (told.min, told.max) if told is not None and told.has_min_max else (None, None)
            except (ValueError, OverflowError) as error:
                raise damaged(path, error) from None
            if not all(limit is None or isinstance(limit, int) for limit in limits):
                raise damaged(path, "its statistics are of another kind")
            bounds.append((*limits, group.num_rows))
        return bounds

    @property
    def events(self) -> pl.LazyFrame:
        """One row per event."""
        return self.table("events")

    @property
    def rail_blocks(self) -> pl.LazyFrame:
        """One row per RAIL block, with the energy accumulator."""
        return self.table("rail_blocks")

    @property
    def rail_ranges(self) -> pl.DataFrame | None:
        """Changes of the meter's range in order of time, of one that has several (``schema.RAIL_RANGES``)."""
        path = self.path / "rail_ranges.parquet"
        if not path.exists():
            return None
        self._verify(path.name)
        try:
            return pl.read_parquet(door.check_parquet(path))
        except _DAMAGED as error:
            raise damaged(path, error) from None

    @property
    def tlps(self) -> pl.LazyFrame:
        """One row per raw TLP."""
        return self.table("tlps")

    @property
    def gaps(self) -> pl.LazyFrame:
        """One row per interval in which something is missing."""
        return self.table("gaps")

    @property
    def status(self) -> pl.LazyFrame:
        """One row per STATUS block."""
        return self.table("status")

    @property
    def link(self) -> pl.LazyFrame:
        """One row per direction and LINK block; none where the rig does not tap lanes, or the capture is older than that."""
        if not (self.path / "link.parquet").exists():
            return pl.from_arrow(schema.LINK.empty_table()).lazy()  # type: ignore[union-attr]
        return self.table("link")

    @cached_property
    def rail(self) -> RailReader | None:
        """The rail waveform; None when the capture has no sample."""
        about = self.meta["rail"]
        if about.get("first_tick") is None or not about.get("samples"):
            return None
        self._verify(RAIL)
        breaks = about.get("breaks") or 0
        if breaks:
            self._verify("rail_blocks.parquet")  # which says where they are
        stored = about.get("stored_samples") or about["samples"]
        reader = RailReader(self.path, about["first_tick"], about["interval_ticks"], self.tick_ps, stored, breaks)
        if len(reader) != about["samples"]:
            raise damaged(self.path / RAIL, f"{len(reader)} samples of the {about['samples']} that were recorded")
        return reader

    # -- meta ------------------------------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """``complete``, ``incomplete`` or ``recovered``."""
        return str(self.meta["state"])

    @property
    def tick_ps(self) -> int:
        """Picoseconds per tick."""
        return int(self.meta["clock"]["tick_ps"])

    @property
    def phases(self) -> list[JsonObject]:
        """``workload.phases``; empty when the capture has none."""
        return list((self.meta.get("workload") or {}).get("phases") or [])

    @property
    def workload_dir(self) -> Path:
        """Folder of the workload source's files (may not exist).

        Files that an analysis reads there are first compared with their hashes.
        """
        for name in [name for name in self._unverified if name.startswith(f"{hashes.WORKLOAD}/") and name.endswith((".json", ".csv"))]:
            self._verify(name)
        return self.path / "workload"

    def seconds(self, ticks: int) -> float:
        """Duration of a number of ticks, in seconds."""
        return ticks * self.tick_ps * 1e-12

    def lba_size_bytes(self, nsid: int | None = None) -> int:
        """Return the block size in bytes of a namespace; of the first one when `nsid` is None or was not identified.

        Without a captured Identify it is :data:`DEFAULT_LBA_BYTES`, and :attr:`lba_size_known` is False.
        """
        spaces = (self.meta.get("drive") or {}).get("namespaces", [])
        known = {space["nsid"]: space["lba_size_bytes"] for space in spaces if space.get("lba_size_bytes")}
        if nsid in known:
            return int(known[nsid])
        return int(next(iter(known.values()), DEFAULT_LBA_BYTES))

    @property
    def lba_size_known(self) -> bool:
        """False when :meth:`lba_size_bytes` is an assumption."""
        return any(space.get("lba_size_bytes") for space in (self.meta.get("drive") or {}).get("namespaces", []))


def try_to_open(directory: Path) -> None:
    """Open every table and the waveform of a finished capture, without reading them through. Raises CaptureError as a reader would."""
    description = meta.load(directory)
    hashes.compare_sizes(directory, description.get("files") or {})
    capture = Capture(directory, description, verify=False)
    for name in schema.TABLES:
        capture.table(name)
    capture.rail_ranges  # noqa: B018 - read
    if capture.rail is not None:
        capture.rail.close()


def _kind(dtype: pl.DataType) -> str:
    """Whether two column types are interchangeable: integers of any width, or else the same type."""
    return "integer" if dtype.is_integer() else str(dtype)


def _dtypes(table: pa.Schema) -> dict[str, pl.DataType]:
    empty = pl.from_arrow(pa.Table.from_batches([], table))  # empty_table() imports pandas where it is installed
    assert isinstance(empty, pl.DataFrame)
    return dict(empty.schema)


_DTYPES = {name: _dtypes(table) for name, table in schema.TABLES.items()}
_KINDS = {name: {column: _kind(dtype) for column, dtype in dtypes.items()} for name, dtypes in _DTYPES.items()}
