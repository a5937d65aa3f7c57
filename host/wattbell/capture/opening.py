"""Open a capture, and rebuild an unfinished one from its journals first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from . import hashes, meta
from .reader import Capture
from .recover import recover


def open_capture(path: str | Path, progress: Callable[[int, int], None] | None = None, verify: bool = True) -> Capture:
    """Open a capture. If its recorder died, the capture is first rebuilt from its journal.

    progress: called with bytes done and in total while rebuilding
    verify: compare each file with its hash before reading it (about 0.7 GB/s)

    Raises CaptureError when there is no capture, it is damaged beyond that, or it is still being recorded.
    """
    directory = Path(path)
    description = meta.load(directory)
    if description["state"] == "recording":
        description = recover(directory, progress)
    hashes.compare_sizes(directory, description.get("files") or {})
    return Capture(directory, description, verify)
