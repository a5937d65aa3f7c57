"""Evaluate one run on a drive twice: by the commands that a tap saw, and by the commands in the host's log (docs/host-commands.md).

The two clocks are related by the commands in both. A second capture is made without the tap's records.
"""

from __future__ import annotations

import shutil
from dataclasses import asdict
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wattbell.capture import Capture, open_capture, schema
from wattbell.capture import meta as metafile
from wattbell.capture.hostcommands import HostCommands
from wattbell.capture.marking import marking_of
from wattbell.capture.schema import SeenBy
from wattbell.capture.tables import TableSink, rows_table
from wattbell.clocks.map import ClockMap
from wattbell.clocks.pairing import UNKNOWN, LoggedCommands, pair
from wattbell.clocks.ticks import ns_of

from .. import door
from ..errors import CaptureError, ClockError

_LOG = "host_commands.parquet"
_COMPARED = ["qid", "cid", "opcode", "slba", "blocks", "doorbell_tick", "cqe_tick"]
MOST_PAIRED = 2_000_000
"""Commands of a log that are paired as soon as they are recorded, in seconds; a longer one keeps the map by markers."""


def command_log(capture: Capture) -> LoggedCommands:
    """The commands of a capture, in ns of its clock."""
    return _log(capture.commands.select(_COMPARED).collect().to_arrow(), capture.tick_ps)


def paired(capture: Capture) -> ClockMap:
    """The host's clock on the capture's, by the commands in both logs. Raises CaptureError if there is no log of the host's, ClockError
    where the two have too little in common.
    """
    file = capture.path / _LOG
    if not file.is_file():
        raise CaptureError(f"{capture.path} has no log of the host's beside its tap's: record it with --commands trace.")
    return pair(_log(door.parquet_table(file, columns=_COMPARED), None), command_log(capture)).clock.inverse()


def better_clock(folder: Path) -> None:
    """Put the map by the commands in both logs into ``conditions.host_log``, if it is better than the one by markers that is there."""
    capture = open_capture(folder)
    host_log = (capture.meta["conditions"] or {}).get("host_log")
    if not host_log or not host_log["commands"] or max(host_log["commands"], capture.meta["counts"]["commands"]) > MOST_PAIRED:
        return
    try:
        clock = paired(capture)
    except ClockError:
        return  # too little in common: only the markers remain
    known = host_log["clock_map"]
    if known is None or clock.bound_s < known["bound_s"]:
        meta = metafile.load(folder)
        meta["conditions"]["host_log"]["clock_map"] = asdict(clock)
        metafile.seal(folder, meta, known=meta["files"])


def without_tap(source: Path, out: Path) -> ClockMap:
    """Make ``out`` from the capture ``source``, without the tap; return the map that placed the commands, from all commands in both logs.

    Raises CaptureError without a log of the host's, ClockError if the two have too little in common.
    """
    capture = open_capture(source)
    clock = paired(capture)
    table = door.parquet_table(source / _LOG)
    log = HostCommands(table, marking_of(capture.meta).found(table), [], SeenBy(int(table["source"][0].as_py())))
    placed = log.onto(clock, capture.tick_ps)
    shutil.copytree(source, out, ignore=shutil.ignore_patterns("commands.parquet", "events.parquet", "tlps.parquet", _LOG))
    meta = metafile.load(out)
    rows = {"commands": placed.table(), "events": rows_table("events", placed.event_rows()), "tlps": None}
    for name, content in rows.items():
        sink = TableSink(out, name)
        if content is not None:
            sink.add(content)
        sink.close(schema.metadata(name, meta))
        meta["counts"][name] = sink.rows
    meta["conditions"]["alignment_u_s"] = clock.bound_s
    meta["conditions"]["notes"].append("made of a capture with a tap: its commands are the host's")
    for phase in (meta.get("workload") or {}).get("phases") or []:
        phase["edge_u_s"] = clock.bound_s
    metafile.seal(out, meta)
    return clock


def _log(table: pa.Table, tick_ps: int | None) -> LoggedCommands:
    """``tick_ps`` None: its ticks are ns."""

    def ns(name: str) -> npt.NDArray[np.int64]:
        missing = np.asarray(table[name].is_null())
        ticks = table[name].fill_null(0).to_numpy()
        return np.where(missing, UNKNOWN, ticks if tick_ps is None else ns_of(ticks, tick_ps))

    qid, cid, opcode, slba, blocks = (table[name].to_numpy() for name in ("qid", "cid", "opcode", "slba", "blocks"))
    return LoggedCommands(qid, cid, opcode, slba, blocks, ns("doorbell_tick"), ns("cqe_tick"))


__all__ = ["better_clock", "command_log", "paired", "without_tap"]
