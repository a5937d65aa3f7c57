"""ZIP files of samples: their members, and one error for a cut or damaged file."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .. import door
from ..errors import CaptureError
from .text import Head

MOST_METADATA = 1 << 20
"""Bytes of a file that describes the others."""
_BEGIN = b"PK\x03\x04"
_BROKEN = (zipfile.BadZipFile, OSError, EOFError, zlib.error, NotImplementedError, RuntimeError)


def inside(head: Head) -> frozenset[str] | None:
    """The names in a ZIP; none for a file that is no ZIP, None for a ZIP that is cut."""
    if not head.raw.startswith(_BEGIN):
        return frozenset()
    try:
        with door.archive(head.path) as archive:
            return frozenset(archive.namelist())
    except _BROKEN:
        return None


@contextmanager
def opened(path: Path) -> Iterator[tuple[zipfile.ZipFile, dict[str, zipfile.ZipInfo]]]:
    """Open a ZIP and yield it with its entries by name. Raises CaptureError if it cannot be read, even later within the block."""
    try:
        with door.archive(path) as archive:
            yield archive, {entry.filename: entry for entry in archive.infolist()}
    except _BROKEN as error:
        raise CaptureError(f"{path} cannot be read ({error}); it seems to be cut or damaged.") from None
