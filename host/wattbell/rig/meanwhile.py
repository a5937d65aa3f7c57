"""Reads a rig's stream while the rig executes a command: a rig that cannot send may never get to its next command."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from .port import Rig

__all__ = ["command_while_reading"]


def command_while_reading(
    rig: Rig,
    view: memoryview,
    do: Callable[[], object],
    feed: Callable[[bytes], None] | None = None,
) -> None:
    """Run ``do`` in another thread, and read the stream until it has ended.

    view: room for the data of one read
    feed: takes the data; without it all data is discarded, and reading goes on until no more comes

    Raises whatever ``do`` raises, and RigError when the line is cut.
    """
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(do)
        while True:
            got = rig.read_into(view)
            if feed is not None and got:
                feed(bytes(view[:got]))
            if done.done() and (feed is not None or not got or done.exception() is not None):
                break
        done.result()
