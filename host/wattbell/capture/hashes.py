"""Size and SHA-256 of the files of a capture: stored in ``meta.json``, and verified against the files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import TypedDict

from .. import door
from ..errors import CaptureError
from . import schema
from .journal import NAME as JOURNAL
from .rail import NAME as RAIL

WORKLOAD = "workload"
ASIDE = ".damaged"
"""Suffix of a file that a repair has set aside."""
_PIECE = 1 << 20


class Sum(TypedDict):
    """Size and SHA-256 (hexadecimal) of a file."""

    bytes: int
    sha256: str


def names(directory: Path) -> Iterator[str]:
    """The existing files of a capture, by relative path: tables, waveform, journal, all of ``workload/``. No links, and nothing that
    somebody put beside them."""
    for name in (*(f"{table}.parquet" for table in (*schema.TABLES, *schema.BESIDE)), RAIL, JOURNAL):
        if (directory / name).is_file() and not (directory / name).is_symlink():
            yield name
    for folder, folders, files in os.walk(directory / WORKLOAD):
        folders.sort()
        for file in sorted(files):
            path = Path(folder, file)
            if path.is_file() and not path.is_symlink() and not file.endswith(ASIDE):
                yield path.relative_to(directory).as_posix()


def sums(directory: Path, leave_out: Collection[str] = (), progress: Callable[[int, int], None] | None = None) -> dict[str, Sum]:
    """:data:`Sum` of every file of a capture but ``leave_out``, read in pieces. ``progress``: bytes done, bytes in total."""
    chosen = [name for name in names(directory) if name not in leave_out]
    total = sum((directory / name).stat().st_size for name in chosen)
    made: dict[str, Sum] = {}
    for name in chosen:
        done = sum(entry["bytes"] for entry in made.values())
        made[name] = of_file(directory / name, lambda here, done=done: progress and progress(done + here, total))  # type: ignore[misc]
    return made


def of_file(path: Path, progress: Callable[[int], object] | None = None) -> Sum:
    """:data:`Sum` of a file. Raises OSError when it cannot be read."""
    digest, size = hashlib.sha256(), 0
    with door.open_file(path, door.RECORDING) as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
            size += len(piece)
            if progress:
                progress(size)
    return {"bytes": size, "sha256": digest.hexdigest()}


def size_of(directory: Path, name: str) -> int | None:
    """Size in bytes of a file of the capture; None when it is missing, not a plain file, or lies outside (a link)."""
    path = directory / name
    try:
        inside = path.resolve().is_relative_to(directory.resolve())
        return path.stat().st_size if inside and path.is_file() else None
    except (OSError, ValueError):
        return None


def _not_there(path: Path) -> str:
    """Why a file of a capture has no size."""
    return "is no plain file of the capture" if os.path.lexists(path) else "is missing"


def compare_sizes(directory: Path, files: Mapping[str, Sum]) -> None:
    """Look for damage that shows without reading the files. Raises CaptureError for a file that is missing or not of its sealed size."""
    for name, stated in files.items():
        size = size_of(directory, name)
        if size != stated["bytes"]:
            found = _not_there(directory / name) if size is None else f"has {size} bytes of {stated['bytes']}"
            raise CaptureError(f"{directory / name} is missing or damaged: it {found}. `wattbell check {directory}` tells what is whole.")


def verify(directory: Path, name: str, stated: Sum) -> None:
    """Raise CaptureError when a file's content differs from the sealed content."""
    try:
        found = of_file(directory / name)
    except OSError as error:
        raise CaptureError(f"{directory / name} cannot be read ({error.strerror}).") from None
    if found["sha256"] != stated["sha256"]:
        raise CaptureError(
            f"{directory / name} is damaged: it is not as it was recorded (its SHA-256 differs). "
            f"`wattbell check {directory}` tells what is whole and what can be rebuilt."
        )
