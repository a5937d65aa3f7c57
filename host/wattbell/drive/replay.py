"""A trace as a fio job: idle cut, addresses on the drive under test."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from ..errors import DriveError
from ..hostlog.iolog import read_iolog, write_iolog
from ..suites.step import Step

IDLE_CUT_S = 0.025
DEPTH = 64


def replay_job(files: Path, results: Path, trace: str, step: Step, capacity_bytes: int) -> str:
    """Writes the cut trace and a job file that replays it into ``results``; returns the job file's path.

    ``trace``: an iolog in ``files``; ``step``: its ``trace_idle_cut_s`` and ``trace_iodepth``. A pause longer than the cut
    becomes the cut. Raises DriveError when an entry lies beyond the drive.
    """
    source = files / trace
    entries = read_iolog(source)
    last = int((entries["offset"] + entries["length"]).max() or 0)  # type: ignore[arg-type]
    if last > capacity_bytes:
        raise DriveError(f"{source} reaches to byte {last}; the drive ends at {capacity_bytes}.")
    cut_us = round((IDLE_CUT_S if step.trace_idle_cut_s is None else step.trace_idle_cut_s) * 1e6)
    pause = pl.col("t_us").diff().fill_null(0).clip(0, cut_us)
    cut = results / f"{source.stem}-cut.iolog"
    write_iolog(cut, entries.with_columns(pause.cum_sum().alias("t_us")))
    lines = [
        "[replay]",
        "ioengine=libaio",
        "direct=1",
        f"iodepth={step.trace_iodepth or DEPTH}",
        f"read_iolog={cut.name}",
        "replay_redirect=${WATTBELL_DRIVE}",
        "",
    ]
    job = results / "replay.fio"
    job.write_text("\n".join(lines), encoding="utf-8")
    return str(job)
