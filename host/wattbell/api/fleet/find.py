"""Captures by the folders they lie in."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from wattbell.capture import meta
from wattbell.errors import CaptureError
from wattbell.nearest import did_you_mean_folder


def captures_below(folders: Iterable[Path]) -> list[Path]:
    """Return the captures among ``folders`` and below them, each once, in order of their paths.

    Links to folders are not followed. Hidden folders and the inside of a capture are left out. Raises CaptureError for a folder that is
    missing or has no capture.
    """
    found: dict[Path, None] = {}
    for folder in folders:
        if not folder.is_dir():
            hint = did_you_mean_folder(folder, meta.NAME)
            raise CaptureError(f"{folder} is not a directory; give captures, or folders that hold some.{hint}")
        here = sorted(_below(folder))
        if not here:
            raise CaptureError(f"{folder} is not a capture, and none lies below it (a capture has a {meta.NAME}).")
        found.update((path.resolve(), None) for path in here)
    return list(found)


def _below(folder: Path) -> Iterable[Path]:
    for place, names, files in os.walk(folder):
        if meta.NAME in files:
            names.clear()
            yield Path(place)
        names[:] = [name for name in names if not name.startswith(".")]
