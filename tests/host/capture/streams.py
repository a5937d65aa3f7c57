"""The hand-written encoder and the streams made with it, for the tests of this folder."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

from wattbell.capture import Capture, CaptureWriter, open_capture

TESTS = Path(__file__).parents[2]


def _load(path: Path, name: str) -> Any:
    if name in sys.modules:
        return sys.modules[name]
    described = importlib.util.spec_from_file_location(name, path)
    assert described is not None
    assert described.loader is not None
    module = importlib.util.module_from_spec(described)
    sys.modules[name] = module
    described.loader.exec_module(module)
    return module


encoder = _load(TESTS / "host" / "wire" / "encoder.py", "wattbell_test_encoder")
maker = _load(TESTS / "e2e" / "stream_maker.py", "wattbell_stream_maker")


def recorded(path: Path, *pieces: bytes, **options: Any) -> Capture:
    """A capture of these pieces of a stream."""
    with CaptureWriter(path, **options) as writer:
        for piece in pieces:
            writer.feed(piece)
    return open_capture(path)


def run(*blocks: bytes, commands: int = 0, first: int = 500, last: int = 1 << 50) -> list[bytes]:
    """Blocks (numbered from 2) as a whole run: STATUS and RUN before and behind them."""
    e, n = encoder, len(blocks) + 2
    head = [e.status(0, first, run=1), e.events(1, first, [(first, 15, 1, 0, 0)])]
    return [*head, *blocks, e.events(n, last, [(last, 15, 0, 0, 0)]), e.status(n + 1, last, run=0, commands=commands)]
