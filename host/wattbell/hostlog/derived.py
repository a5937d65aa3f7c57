"""A capture as it would be without its tap: the same rail, and the host's log that lay beside it in the place of the tap's commands.

So that one run on a drive can be evaluated twice, by what the tap saw and by what the host saw (docs/host-commands.md).
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from wattbell.capture import meta as metafile
from wattbell.capture import open_capture
from wattbell.capture.marking import marking_of
from wattbell.capture.schema import SeenBy
from wattbell.capture.tables import TableSink, rows_table
from wattbell.clocks.map import ClockMap
from wattbell.clocks.pairing import UNKNOWN, CommandLog, pair
from wattbell.clocks.ticks import ns_of

from ..errors import CaptureError
from .commands import HostCommands

_LOG = "host_commands.parquet"


def without_tap(source: Path, out: Path) -> ClockMap:
    """Make ``out`` of the capture ``source``; the map by which commands were placed: that of all commands in both logs. CaptureError where
    there is no log of the host's, ClockError where the two have too little in common."""
    capture = open_capture(source)
    if not (source / _LOG).is_file():
        raise CaptureError(f"{source} has no log of the host's beside its tap's: record it with --commands trace.")
    table = pq.read_table(source / _LOG)
    clock = pair(_log(table, None), _log(capture.commands.collect().to_arrow(), capture.tick_ps)).clock.inverse()
    log = HostCommands(table, marking_of(capture.meta).found(table), [], SeenBy(int(table["source"][0].as_py())))
    placed = log.onto(clock, capture.tick_ps)
    shutil.copytree(source, out, ignore=shutil.ignore_patterns("commands.parquet", "events.parquet", "tlps.parquet", _LOG))
    meta = metafile.load(out)
    rows = {"commands": placed.table(), "events": rows_table("events", placed.event_rows()), "tlps": None}
    for name, content in rows.items():
        sink = TableSink(out, name)
        if content is not None:
            sink.add(content)
        sink.close()
        meta["counts"][name] = sink.rows
    meta["conditions"]["alignment_u_s"] = clock.bound_s
    meta["conditions"]["notes"].append("made of a capture with a tap: its commands are the host's")
    for phase in (meta.get("workload") or {}).get("phases") or []:
        phase["edge_u_s"] = clock.bound_s
    metafile.seal(out, meta)
    return clock


def _log(table: pa.Table, tick_ps: int | None) -> CommandLog:
    """``tick_ps`` None: its ticks are ns."""

    def ns(name: str) -> npt.NDArray[np.int64]:
        missing = np.asarray(table[name].is_null())
        ticks = table[name].fill_null(0).to_numpy()
        return np.where(missing, UNKNOWN, ticks if tick_ps is None else ns_of(ticks, tick_ps))

    qid, cid, opcode, slba, blocks = (table[name].to_numpy() for name in ("qid", "cid", "opcode", "slba", "blocks"))
    return CommandLog(qid, cid, opcode, slba, blocks, ns("doorbell_tick"), ns("cqe_tick"))


__all__ = ["without_tap"]
