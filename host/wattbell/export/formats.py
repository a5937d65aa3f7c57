"""The register of formats of export. A format is one file that registers its writer with :func:`export_format`."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from wattbell import durable
from wattbell.capture import Capture
from wattbell.errors import CaptureError
from wattbell.plugins import PartRegister

from .window import ExportWindow, of_ticks

Write = Callable[[Capture, int, int, Path], Path]


@dataclass(frozen=True)
class ExportFormat:
    """A format.

    ``write(capture, begin_tick, end_tick, path)`` writes the data in ``[begin_tick, end_tick)`` (ticks of the capture) to ``path``, and
    returns the path. It raises UsageError if the window lies outside the capture or is too long for the format. It raises CaptureError if
    the file cannot be written or the capture is damaged.
    """

    title: str
    suffix: str
    media_type: str
    write: Write


FORMATS: PartRegister[ExportFormat] = PartRegister("wattbell.exports", "wattbell.export")
Writer = TypeVar("Writer", bound=Write)


def export_format(name: str, title: str, suffix: str, media_type: str = "application/octet-stream") -> Callable[[Writer], Writer]:
    """Register a function that writes a window; the parameters are fields of :class:`ExportFormat`."""

    def register(write: Writer) -> Writer:
        FORMATS.add(name, ExportFormat(title, suffix, media_type, write))
        return write

    return register


def zipped(
    capture: Capture,
    begin_tick: int,
    end_tick: int,
    path: Path,
    write: Callable[[Capture, ExportWindow, Path], list[Path]],
    compression: int,
) -> Path:
    """Write the files of a window into a ZIP archive. Raises CaptureError.

    compression: of :mod:`zipfile`
    """
    window = of_ticks(capture, begin_tick, end_tick)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
            files = write(capture, window, Path(folder))
            made = Path(folder) / path.name
            with zipfile.ZipFile(made, "w", compression, compresslevel=1) as archive:
                for file in files:
                    archive.write(file, file.name)
            durable.replace(made, path)
    except OSError as error:
        raise CaptureError(f"{path} cannot be written ({error.strerror or error}); choose another place.") from None
    return path
