"""Reads a capture directory."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from ..errors import CaptureError
from . import meta, schema
from .rail import RailReader
from .recover import recover

DEFAULT_LBA_BYTES = 512


class Capture:
    """A finished capture. Tables are Polars lazy frames with the columns of docs/capture.md."""

    def __init__(self, path: Path, description: meta.Meta) -> None:
        self.path = path
        self.meta = description
        """``meta.json`` as a dict."""

    # -- tables ----------------------------------------------------------------------------------------------------

    def table(self, name: str) -> pl.LazyFrame:
        """Table `name` (a key of ``schema.TABLES``). Raises CaptureError when its file is missing or damaged."""
        path = self.path / f"{name}.parquet"
        try:
            frame = pl.scan_parquet(path)
            columns = set(frame.collect_schema().names())
        except (OSError, pl.exceptions.PolarsError) as error:
            raise CaptureError(f"{path} is missing or damaged ({str(error).splitlines()[0]}).") from None
        missing = set(schema.TABLES[name].names) - columns
        if missing:
            raise CaptureError(f"{path} lacks the column {', '.join(sorted(missing))}; it was not written by wattbell.")
        return frame

    @property
    def commands(self) -> pl.LazyFrame:
        """One row a command, in order of arrival (by queue position this is nearly, not strictly, CQE order)."""
        return self.table("commands")

    @property
    def events(self) -> pl.LazyFrame:
        """One row an event."""
        return self.table("events")

    @property
    def rail_blocks(self) -> pl.LazyFrame:
        """One row a RAIL block, with the energy accumulator."""
        return self.table("rail_blocks")

    @property
    def tlps(self) -> pl.LazyFrame:
        """One row a raw TLP."""
        return self.table("tlps")

    @property
    def gaps(self) -> pl.LazyFrame:
        """One row an interval in which something is missing."""
        return self.table("gaps")

    @property
    def status(self) -> pl.LazyFrame:
        """One row a STATUS block."""
        return self.table("status")

    @cached_property
    def rail(self) -> RailReader | None:
        """The rail waveform; None when the capture has no sample."""
        about = self.meta["rail"]
        if about.get("first_tick") is None or not about.get("samples"):
            return None
        return RailReader(self.path, about["first_tick"], about["interval_ticks"], self.tick_ps)

    # -- meta ------------------------------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """``complete`` or ``recovered``."""
        return str(self.meta["state"])

    @property
    def tick_ps(self) -> int:
        """Picoseconds a tick."""
        return int(self.meta["clock"]["tick_ps"])

    @property
    def phases(self) -> list[dict[str, Any]]:
        """``workload.phases``; empty when the capture has none."""
        return list(self.meta.get("workload", {}).get("phases", []))

    @property
    def workload_dir(self) -> Path:
        """Where the workload source left its files (may not exist)."""
        return self.path / "workload"

    def seconds(self, ticks: int) -> float:
        """A span in ticks, in seconds."""
        return ticks * self.tick_ps * 1e-12

    def lba_size_bytes(self, nsid: int | None = None) -> int:
        """Bytes of a logical block of a namespace; of the first one when `nsid` is None or was not identified.

        :data:`DEFAULT_LBA_BYTES` where no Identify was seen; :attr:`lba_size_known` tells which.
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


def open_capture(path: str | Path, progress: Callable[[int, int], None] | None = None) -> Capture:
    """Open a capture; one whose recorder died is rebuilt from its journal first.

    `progress` is called with bytes done and to do while rebuilding. Raises CaptureError when there is no capture, it
    is damaged beyond that, or it is still being recorded.
    """
    directory = Path(path)
    description = meta.load(directory)
    if description["state"] == "recording":
        description = recover(directory, progress)
    return Capture(directory, description)
