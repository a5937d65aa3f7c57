"""Reads a rig's stream while the rig calibrates itself or executes a command."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from ...errors import CalibrationError, RigError
from ...wire.decode import Batch, StreamDecoder
from .. import Rig

__all__ = ["batches", "follow", "meanwhile"]

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


def meanwhile(rig: Rig, view: memoryview, do: Callable[[], object], feed: Callable[[bytes], None] | None = None) -> None:
    """Run something while the stream is read: a rig that cannot send may never get to its next command. Without ``feed`` the stream is
    discarded, until no more comes."""
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(do)
        while True:
            got = rig.read_into(view)
            if feed is not None and got:
                feed(bytes(view[:got]))
            if done.done() and (feed is not None or not got):
                break
        done.result()
