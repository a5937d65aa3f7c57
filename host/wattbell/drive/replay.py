"""A trace as a fio job: idle cut, addresses on the drive under test."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from ..errors import DriveError
from ..suites.traces import read_iolog, write_iolog

IDLE_CUT_S = 0.025
DEPTH = 64


def replay_job(files: Path, results: Path, step: Mapping[str, Any], capacity_bytes: int) -> str:
    """Writes the cut trace and a job file that replays it into ``results``; returns the job file's path.

    ``step``: ``trace`` (an iolog in ``files``), ``trace_idle_cut_s``, ``trace_iodepth``. A pause longer than the cut
    becomes the cut. DriveError when an entry lies beyond the drive.
    """
    source = files / str(step["trace"])
    entries = read_iolog(source)
    last = int((entries["offset"] + entries["length"]).max() or 0)  # type: ignore[arg-type]
    if last > capacity_bytes:
        raise DriveError(f"{source} reaches to byte {last}; the drive ends at {capacity_bytes}.")
    cut_us = round(float(step.get("trace_idle_cut_s", IDLE_CUT_S)) * 1e6)
    pause = pl.col("t_us").diff().fill_null(0).clip(0, cut_us)
    trace = results / f"{source.stem}-cut.iolog"
    write_iolog(trace, entries.with_columns(pause.cum_sum().alias("t_us")))
    lines = [
        "[replay]", "ioengine=libaio", "direct=1", f"iodepth={int(step.get('trace_iodepth', DEPTH))}",
        f"read_iolog={trace.name}", "replay_redirect=${WATTBELL_DRIVE}", "",
    ]  # fmt: skip
    job = results / "replay.fio"
    job.write_text("\n".join(lines), encoding="utf-8")
    return str(job)
