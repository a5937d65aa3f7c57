"""Ctrl-C again while a capture is being closed: at every step of the writer the capture stays complete or can be rebuilt, whole.

Each recorder is a process of its own. The interrupt comes where Python delivers signals, between two lines of a function of
``wattbell.capture``; then the process ends by itself.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import polars as pl
from wattbell.capture import CaptureWriter, open_capture

from tests.e2e import stream_maker as maker

STEPS = int(os.environ.get("WATTBELL_INTERRUPTS", "60"))
PROCESSES = multiprocessing.get_context("forkserver")


class Interrupter:
    """Counts lines of the capture's code; raises KeyboardInterrupt at line number `at`, as a signal's handler would."""

    def __init__(self, at: int) -> None:
        self.at, self.lines = at, 0
        self.where = "the end"

    def trace(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if "/wattbell/capture/" not in frame.f_code.co_filename:
            return None
        if event == "line":
            self.lines += 1
            if self.lines == self.at:
                self.where = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} ({frame.f_code.co_name})"
                sys.settrace(None)
                raise KeyboardInterrupt
        return self.trace


def record(path: Path, at: int, told: Path) -> None:
    """Record a stream into `path`, interrupted at a line of the end of the ``with`` block."""
    interrupter = Interrupter(at)
    try:
        with CaptureWriter(path, lba_size_bytes=512) as writer:
            writer.feed(b"".join(maker.stream(12)))
            sys.settrace(interrupter.trace)
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
        told.write_text(f"{interrupter.lines} {interrupter.where}")


def interrupted(path: Path, at: int) -> tuple[int, str]:
    """Lines until the interrupt, and where it came; the recorder's process has ended."""
    told = path.with_suffix(".told")
    process = PROCESSES.Process(target=record, args=(path, at, told))
    process.start()
    process.join()  # a recorder that hangs is found by tests/progress.py
    assert process.exitcode == 0
    lines, _, where = told.read_text().partition(" ")
    return int(lines), where


def test_an_interrupt_at_any_step_of_the_end(tmp_path: Path) -> None:
    PROCESSES.set_forkserver_preload(["wattbell.capture", "tests.e2e.stream_maker"])
    total, where = interrupted(tmp_path / "whole", 0)
    capture = open_capture(tmp_path / "whole")
    rows, samples = capture.commands.select(pl.len()).collect().item(), capture.meta["rail"]["samples"]
    assert where == "the end" and capture.state == "complete" and rows and samples and total > 1000
    found: dict[str, int] = {}
    for k in range(STEPS):
        path = tmp_path / str(k)
        _, where = interrupted(path, 1 + k * total // STEPS)
        state = "complete" if '"complete"' in (path / "meta.json").read_text() else "to be rebuilt"
        found[state] = found.get(state, 0) + 1
        capture = open_capture(path)
        assert capture.commands.select(pl.len()).collect().item() == rows, where
        assert capture.meta["rail"]["samples"] == samples, where
    assert found.keys() == {"complete", "to be rebuilt"}
