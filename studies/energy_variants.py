"""A capture of the virtual rig as other instruments would have recorded it.

It has the commands as the kernel's driver sees them, or the rail of a meter with fewer samples and without an accumulator. Each is a
separate capture, analysed as any other."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq
from wattbell.capture import CaptureWriter, meta, open_capture
from wattbell.capture.hostcommands import command_table
from wattbell.capture.schema import SeenBy
from wattbell.hostlog.derived import without_tap

SLOW = 40e-6
"""The host's clock against the rig's."""
ORIGIN_NS = 77_000_000_000
BEFORE_NS = (400.0, 300.0)
"""Time in ns from the driver's set-up of a command to its doorbell: the least, and the mean of the rest (exponential).

Assumed, in the order of a driver's path on a server; nobody measured it.
"""
BEHIND_NS = (1200.0, 1500.0)
"""From the CQE to the driver's completion: interrupt and handler, likewise."""
_BLOCK = 1000
_SEEN = ("qid", "cid", "nsid", "opcode", "slba", "blocks", "status", "nbytes")


def as_host_sees(source: Path, out: Path, seed: int) -> Path:
    """Make ``source`` without its tap: its commands come from a made log of the driver, placed by the commands in both."""
    capture = open_capture(source)
    seen = capture.commands.filter(pl.col("doorbell_tick").is_not_null()).collect().sort("qid", "doorbell_tick", "fetch_tick")
    chance = np.random.default_rng(seed)

    def host(ticks: np.ndarray, least: float, more: float, sign: int) -> np.ndarray:
        off = sign * (least + chance.exponential(more, len(ticks)))
        ns = ticks * (capture.tick_ps * 1e-3) + off
        found: np.ndarray = ORIGIN_NS + np.rint(ns * (1 - SLOW)).astype(np.int64)
        return found

    starts = host(seen["doorbell_tick"].to_numpy(), *BEFORE_NS, -1)
    for qid in seen["qid"].unique().to_list():
        mine = (seen["qid"] == qid).to_numpy()
        starts[mine] = np.maximum.accumulate(starts[mine])  # a queue is filled by one processor, one command after the other
    columns = {name: seen[name].to_numpy() for name in _SEEN if name in seen.columns}
    columns["doorbell_tick"] = starts
    columns["cqe_tick"] = host(seen["cqe_tick"].to_numpy(), *BEHIND_NS, 1)
    log = source / "host_commands.parquet"
    pq.write_table(command_table(columns, SeenBy.TRACEPOINT, 1), log)
    without_tap(source, out)
    log.unlink()
    return out


def with_coarse_rail(source: Path, out: Path, by: int) -> Path:
    """Make ``source`` with the mean of every ``by`` samples in place of its rail, and no accumulator."""
    capture = open_capture(source)
    rail = capture.rail
    assert rail is not None
    with CaptureWriter(out, journal=False) as writer:
        for first in range(0, len(rail) // by * by, _BLOCK * by):
            part = rail.read(first, min(first + _BLOCK * by, len(rail) // by * by))
            volts, watts = (one.astype(np.float64).reshape(-1, by).mean(axis=1) for one in (part.voltage, part.power))
            middle = rail.tick_of(first) + (by - 1) * rail.interval_ticks // 2
            writer.add_rail(middle, by * rail.interval_ticks, volts.astype(np.float32), (watts / volts).astype(np.float32))
    made, about = meta.load(out), meta.load(source)
    for file in source.iterdir():
        if file.name not in ("rail.jls", "rail_blocks.parquet", meta.NAME):
            target = out / file.name
            shutil.copytree(file, target, dirs_exist_ok=True) if file.is_dir() else shutil.copy2(file, target)
    about["rail"] = made["rail"]
    about["counts"]["rail_blocks"] = made["counts"]["rail_blocks"]
    meta.seal(out, about)
    return out
