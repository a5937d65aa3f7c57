"""The hand-written encoder and the streams made with it, for the tests of this folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wattbell.capture import Capture, CaptureWriter, open_capture

from tests.host.wire import encoder


def recorded(path: Path, *pieces: bytes, **options: Any) -> Capture:
    """A capture made from these pieces of a stream."""
    with CaptureWriter(path, **options) as writer:
        for piece in pieces:
            writer.feed(piece)
    return open_capture(path)


def recorded_in_time(path: Path, *blocks: bytes) -> Capture:
    """A capture of blocks that come when their rig's counter says so."""
    with CaptureWriter(path) as writer:
        for block in blocks:
            writer.feed(block, 1_700_000_000_000_000_000 + int.from_bytes(block[16:24], "little"))
    return open_capture(path)


def run(*blocks: bytes, commands: int = 0, first: int = 500, last: int = 1 << 50) -> list[bytes]:
    """Blocks (numbered from 2) as a whole run: with STATUS and RUN before and after them."""
    e, n = encoder, len(blocks) + 2
    head = [e.status(0, first, run=1), e.events(1, first, [(first, 15, 1, 0, 0)])]
    return [*head, *blocks, e.events(n, last, [(last, 15, 0, 0, 0)]), e.status(n + 1, last, run=0, commands=commands)]
