"""Reads a rig's stream while the rig calibrates itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from ...errors import CalibrationError, RigError
from ...wire.decode import Batch, StreamDecoder
from .. import Rig

__all__ = ["batches", "follow"]

_SILENCE_S = 10.0
"""Longest silence of a rig in s before the awaited data has arrived."""


def batches(decoder: StreamDecoder, data: bytes) -> Iterator[Batch]:
    """Batches that ``data`` completes. Raises CalibrationError when part of the stream is missing: a gap may hide a change of the input."""
    yield from decoder.feed(data)
    if not decoder.counters.lossless:
        raise CalibrationError("Part of the stream was lost; calibrate again with the rig on a port of its own.")


def follow(rig: Rig, view: memoryview, feed: Callable[[bytes], None], complete: Callable[[], bool], awaited: str) -> None:
    """Read the stream until ``complete``. Raises RigError, naming ``awaited``, when nothing arrives for ten seconds."""
    heard = time.monotonic()
    while not complete():
        got = rig.read_into(view)
        if got:
            heard = time.monotonic()
            feed(bytes(view[:got]))
        elif time.monotonic() > heard + _SILENCE_S:
            raise RigError(f"Rig {rig.port.serial} stopped sending before {awaited}.")
