"""Ctrl-C again while a capture is being closed: at every step of the writer the capture stays complete or can be rebuilt, whole.

The interrupt comes where Python delivers signals, between two lines of any function of ``wattbell.capture``.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import polars as pl
import pytest
from wattbell.capture import CaptureWriter, open_capture

from tests.e2e import stream_maker as maker

BLOCKS = maker.stream(12)
STEPS = 200


class Interrupter:
    """Counts lines of the capture's code; raises KeyboardInterrupt at line number `at`, as a signal's handler would."""

    def __init__(self, at: int | None) -> None:
        self.at, self.lines = at, 0
        self.where = ""

    def trace(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if "/wattbell/capture/" not in frame.f_code.co_filename:
            return self.trace if event == "call" else None
        if event == "line":
            self.lines += 1
            if self.lines == self.at:
                self.where = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} ({frame.f_code.co_name})"
                sys.settrace(None)
                raise KeyboardInterrupt
        return self.trace


def record(path: Path, at: int | None) -> Interrupter:
    """Record a stream into `path`, interrupted at a line of the end of the ``with`` block."""
    interrupter = Interrupter(at)
    try:
        with CaptureWriter(path, lba_size_bytes=512) as writer:
            writer.feed(b"".join(BLOCKS))
            sys.settrace(interrupter.trace)
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
    del writer
    gc.collect()  # the end of the process, which closes what is open
    return interrupter


def test_an_interrupt_at_any_step_of_the_end(tmp_path: Path) -> None:
    whole = record(tmp_path / "whole", None)
    capture = open_capture(tmp_path / "whole")
    rows, samples = capture.commands.select(pl.len()).collect().item(), capture.meta["rail"]["samples"]
    assert capture.state == "complete" and rows and samples and whole.lines > 1000
    states = []
    for k in range(STEPS):
        at = 1 + k * whole.lines // STEPS + k % 7
        path = tmp_path / str(k)
        found = record(path, at)
        try:
            capture = open_capture(path)
        except Exception as error:
            print(at, found.where, error, flush=True)
            continue
        assert capture.commands.select(pl.len()).collect().item() == rows, found.where
        assert capture.meta["rail"]["samples"] == samples, found.where
        states.append(capture.state)
    assert len(set(states)) >= 1, set(states)
    print({state: states.count(state) for state in set(states)})
