"""Every format by its name, each with one function that writes a window of ticks to one file."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from wattbell import durable
from wattbell.capture import Capture
from wattbell.errors import CaptureError

from .csvs import csv_files
from .jls import jls_file
from .parquet import parquet_files
from .perfetto import perfetto_file
from .sigrok import sigrok_file
from .vcd import vcd_file
from .window import ExportWindow, of_ticks

Write = Callable[[Capture, int, int, Path], Path]


@dataclass(frozen=True)
class ExportFormat:
    """A format.

    ``write(capture, begin_tick, end_tick, path)`` writes the data in ``[begin_tick, end_tick)`` (ticks of the capture) to ``path``, and
    returns the path. It raises UsageError if the window lies outside the capture or is too long for the format. It raises CaptureError if
    the file cannot be written or the capture is damaged.
    """

    suffix: str
    media_type: str
    write: Write


def write_jls(capture: Capture, begin_tick: int, end_tick: int, path: Path) -> Path:
    """The rail as JLS, with annotations."""
    return jls_file(capture, of_ticks(capture, begin_tick, end_tick), path)


def write_perfetto(capture: Capture, begin_tick: int, end_tick: int, path: Path) -> Path:
    """A Perfetto trace."""
    return perfetto_file(capture, of_ticks(capture, begin_tick, end_tick), path)


def write_vcd(capture: Capture, begin_tick: int, end_tick: int, path: Path) -> Path:
    """A VCD file."""
    return vcd_file(capture, of_ticks(capture, begin_tick, end_tick), path)


def write_sigrok(capture: Capture, begin_tick: int, end_tick: int, path: Path) -> Path:
    """A sigrok session."""
    return sigrok_file(capture, of_ticks(capture, begin_tick, end_tick), path).path


def write_csv_zip(capture: Capture, begin_tick: int, end_tick: int, path: Path) -> Path:
    """The CSV files of a window, in a ZIP archive."""
    return _zipped(capture, of_ticks(capture, begin_tick, end_tick), path, csv_files, zipfile.ZIP_DEFLATED)


def write_parquet_zip(capture: Capture, begin_tick: int, end_tick: int, path: Path) -> Path:
    """The Parquet files of a window, in a ZIP archive."""
    return _zipped(capture, of_ticks(capture, begin_tick, end_tick), path, parquet_files, zipfile.ZIP_STORED)


def _zipped(
    capture: Capture, window: ExportWindow, path: Path, write: Callable[[Capture, ExportWindow, Path], list[Path]], how: int
) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
            files = write(capture, window, Path(folder))
            made = Path(folder) / path.name
            with zipfile.ZipFile(made, "w", how, compresslevel=1) as archive:
                for file in files:
                    archive.write(file, file.name)
            durable.replace(made, path)
    except OSError as error:
        raise CaptureError(f"{path} cannot be written ({error.strerror or error}); choose another place.") from None
    return path


FORMATS = {
    "csv": ExportFormat(".zip", "application/zip", write_csv_zip),
    "parquet": ExportFormat(".zip", "application/zip", write_parquet_zip),
    "jls": ExportFormat(".jls", "application/octet-stream", write_jls),
    "sr": ExportFormat(".sr", "application/octet-stream", write_sigrok),
    "perfetto": ExportFormat(".pftrace", "application/octet-stream", write_perfetto),
    "vcd": ExportFormat(".vcd", "application/octet-stream", write_vcd),
}
