"""Parquet: commands and events of a window, with names in place of numbers, and a footer that describes the file."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq

from wattbell import durable
from wattbell.capture import Capture, schema
from wattbell.capture.eventtext import event_text
from wattbell.errors import CaptureError

from .formats import export_format, zipped
from .window import ExportWindow, Selection, command_bytes, command_name, resolve


def export_parquet(capture: Capture, out: str | Path, *, start_s: float | None = None, stop_s: float | None = None) -> list[Path]:
    """Write ``commands.parquet`` and ``events.parquet`` to the folder ``out``; return their paths.

    Commands are those in flight at any instant of the window, in order of their starts. They have the columns of the capture's own file and
    ``opcode_name``, ``is_admin``, ``bytes``, ``latency_ticks``. Events within the window have ``text``. The footer of each file has the
    capture's id, the tick and the units of the columns (docs/capture.md).
    """
    return parquet_files(capture, resolve(capture, start_s, stop_s), Path(out))


@export_format("parquet", "Parquet", ".zip", "application/zip")
def write_parquet_zip(capture: Capture, begin_tick: int, end_tick: int, path: Path) -> Path:
    """The Parquet files of a window, in a ZIP archive."""
    return zipped(capture, begin_tick, end_tick, path, parquet_files, zipfile.ZIP_STORED)


def parquet_files(capture: Capture, window: ExportWindow, folder: Path) -> list[Path]:
    """Write the Parquet files of a window, as :func:`export_parquet`."""
    selection = Selection(capture, window)
    commands = selection.overlapping_rows.with_columns(
        command_name().alias("opcode_name"),
        (pl.col("qid") == 0).alias("is_admin"),
        command_bytes(capture).alias("bytes"),
        (pl.col("cqe_tick") - pl.coalesce("doorbell_tick", "fetch_tick")).alias("latency_ticks"),
    ).collect()
    rows = selection.events
    texts = [event_text(*row) for row in rows.select("type", "arg8", "arg16", "arg32").iter_rows()]
    events = rows.with_columns(pl.Series("text", texts, pl.String))
    written = []
    try:
        durable.make_folder(folder)
        for name, frame in (("commands", commands), ("events", events)):
            about = schema.metadata(name, capture.meta, frame.columns)
            about["wattbell.window"] = f"{window.first_tick} {window.last_tick}"
            write_table(frame, folder / f"{name}.parquet", about)
            written.append(folder / f"{name}.parquet")
        durable.flush_all([*written, folder])
    except OSError as error:
        raise CaptureError(f"The tables cannot be written to {folder} ({error.strerror or error}); choose another place.") from None
    return written


def write_table(frame: pl.DataFrame, path: Path, about: Mapping[str, str]) -> None:
    """Write a table with key-value metadata. Raises OSError on failure: Polars' writer hides a full disk in errors of its own."""
    table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
    pq.write_table(table.replace_schema_metadata(dict(about)), path, compression="zstd")
