"""Perfetto traces (protobuf TrackEvents): commands as slices by queue, the rail as counters, phases, events, link state and gaps.

ui.perfetto.dev and trace_processor read them. Times are nanoseconds from the first tick of the capture.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from wattbell_spec.columns import SHOWN
from wattbell_spec.wire import CommandFlag

from wattbell import durable
from wattbell.analysis.names import admin_name, io_name, status_name
from wattbell.capture import Capture
from wattbell.capture.eventtext import LINK_STATES, event_text
from wattbell.errors import CaptureError, UsageError
from wattbell.extras import install_command
from wattbell.measure.depth import depth_steps
from wattbell.measure.table import INSTANTS, NONE, SIZED_OPCODES
from wattbell.origin import origin_of_capture

from .formats import export_format
from .lanes import lanes
from .railrows import rail_rows, thinning
from .window import LEVELS, ExportWindow, Selection, of_ticks, resolve, track

Int64 = npt.NDArray[np.int64]
MOST_COMMANDS = 1_000_000
MOST_RAIL_ROWS = 200_000
"""Rows of each counter of the rail: of a longer window they are means of as many samples as it takes."""
_SEQUENCE = 1
_WORDS = {"LINK": LINK_STATES, "CLKREQ#": {0: "asserted", 1: "released"}, "PERST#": {0: "asserted", 1: "released"}}


def export_perfetto(capture: Capture, out: str | Path, *, start_s: float | None = None, stop_s: float | None = None) -> Path:
    """Write the window to ``out``.

    The trace has the commands in flight at any instant of the window, from doorbell (else fetch) to CQE. Each has its other instants, LBA,
    size and status as arguments. Raises UsageError for more than ``MOST_COMMANDS`` commands, or without the package `perfetto`.
    """
    return perfetto_file(capture, resolve(capture, start_s, stop_s), Path(out))


@export_format("perfetto", "Perfetto", ".pftrace")
def write_perfetto(capture: Capture, begin_tick: int, end_tick: int, path: Path) -> Path:
    """A Perfetto trace."""
    return perfetto_file(capture, of_ticks(capture, begin_tick, end_tick), path)


def perfetto_file(capture: Capture, window: ExportWindow, path: Path) -> Path:
    """Write the Perfetto trace of a window, as :func:`export_perfetto`."""
    selection = Selection(capture, window)
    if (count := len(selection.overlapping)) > MOST_COMMANDS:
        raise UsageError(
            f"{count:,} commands are more than a trace viewer handles well ({MOST_COMMANDS:,}): give a shorter window (--from, --to)."
        )
    proto = _library()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with durable.replacing(path) as made, open(made, "wb") as out:
            trace = _Trace(proto, out, window, capture.tick_ps)
            _origin(trace, selection)
            _phases(trace, selection)
            _rail(trace, selection)
            _depth(trace, selection)
            _commands(trace, selection)
            _levels(trace, selection)
            _events(trace, selection)
            _gaps(trace, selection)
    except OSError as error:
        raise CaptureError(f"{path} cannot be written ({error.strerror or error}); choose another place.") from None
    return path


def _origin(trace: _Trace, selection: Selection) -> None:
    """Add a slice over the whole window, on top, if the drive was not measured."""
    if warning := origin_of_capture(selection.capture.meta).warning:
        track = trace.track("origin", rank=-1)
        trace.slice(track, selection.window.first_tick, selection.window.last_tick, warning, {})


def _library() -> Any:
    """Perfetto's own builder of traces, with its messages."""
    try:
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2
        from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder
    except ImportError:
        raise UsageError(f"Perfetto traces need the package perfetto, which is not installed: {install_command('perfetto')}") from None
    return SimpleNamespace(perfetto_trace_pb2=perfetto_trace_pb2, StreamingTraceProtoBuilder=StreamingTraceProtoBuilder)


class _Trace:
    """Packets of a trace, of one sequence."""

    def __init__(self, proto: Any, out: IO[bytes], window: ExportWindow, tick_ps: int) -> None:
        self._builder = proto.StreamingTraceProtoBuilder(out)
        self._begin, self._end = proto.perfetto_trace_pb2.TrackEvent.TYPE_SLICE_BEGIN, proto.perfetto_trace_pb2.TrackEvent.TYPE_SLICE_END
        self._instant, self._counter = proto.perfetto_trace_pb2.TrackEvent.TYPE_INSTANT, proto.perfetto_trace_pb2.TrackEvent.TYPE_COUNTER
        self._explicit = proto.perfetto_trace_pb2.TrackDescriptor.EXPLICIT
        self._zero, self._tick_ps = window.zero_tick, tick_ps
        self._tracks = 0

    def ns(self, tick: int) -> int:
        """Nanoseconds of a tick from the first tick of the capture."""
        whole, rest = divmod(tick - self._zero, 1000)
        return whole * self._tick_ps + rest * self._tick_ps // 1000

    def track(self, name: str, parent: int = 0, unit: str | None = None, rank: int = 0) -> int:
        """Declare a track, of a counter if it has a unit; returns its id. Tracks of one name below one parent are drawn as one."""
        self._tracks += 1
        packet = self._builder.create_packet()
        about = packet.track_descriptor
        about.uuid, about.name = self._tracks, name
        if parent:
            about.parent_uuid = parent
        about.child_ordering = self._explicit
        about.sibling_order_rank = rank
        if unit is not None:
            about.counter.unit_name = unit
        self._builder.write_packet(packet)
        return self._tracks

    def _packet(self, kind: int, on: int, tick: int) -> Any:
        packet = self._builder.create_packet()
        packet.timestamp = self.ns(tick)
        packet.trusted_packet_sequence_id = _SEQUENCE
        packet.track_event.type = kind
        packet.track_event.track_uuid = on
        return packet

    def slice(self, on: int, first: int, last: int, name: str, arguments: Mapping[str, int | str]) -> None:
        """A named span with arguments."""
        packet = self._packet(self._begin, on, first)
        event = packet.track_event
        event.name = name
        for key, value in arguments.items():
            one = event.debug_annotations.add()
            one.name = key
            if isinstance(value, str):
                one.string_value = value
            else:
                one.int_value = value
        self._builder.write_packet(packet)
        self._builder.write_packet(self._packet(self._end, on, max(first, last)))

    def instant(self, on: int, tick: int, name: str) -> None:
        """A named instant."""
        packet = self._packet(self._instant, on, tick)
        packet.track_event.name = name
        self._builder.write_packet(packet)

    def count(self, on: int, tick: int, value: float) -> None:
        """The value of a counter from a tick on."""
        packet = self._packet(self._counter, on, tick)
        packet.track_event.double_counter_value = value
        self._builder.write_packet(packet)


def _phases(trace: _Trace, selection: Selection) -> None:
    if selection.phases:
        on = trace.track("Phases", rank=0)
        for phase in selection.phases:
            notes = {"notes": "; ".join(phase.notes)} if phase.notes else {}
            trace.slice(on, phase.first_tick, phase.last_tick, phase.name, {"phase": phase.number, "kind": phase.kind, **notes})


def _rail(trace: _Trace, selection: Selection) -> None:
    """Counters; where samples are missing they have no values, and the track of gaps says so."""
    if selection.rail is None:
        return
    every = thinning(selection, MOST_RAIL_ROWS)
    note = f" (means of {every} samples)" if every > 1 else ""
    parent = trace.track("Rail" + note, rank=1)
    ids = [trace.track(name, parent, unit, rank) for rank, (name, unit) in enumerate((("power", "W"), ("current", "A"), ("voltage", "V")))]
    for rows in rail_rows(selection, every):
        known = np.isfinite(rows.power)
        ticks = rows.tick[known].tolist()
        for on, values in zip(ids, (rows.power, rows.current, rows.voltage), strict=True):
            for tick, value in zip(ticks, values[known].tolist(), strict=True):
                trace.count(on, tick, value)


def _depth(trace: _Trace, selection: Selection) -> None:
    """Commands of I/O queues in flight, as `analyze` counts them."""
    table = selection.overlapping
    io = table.take((table.qid > 0) & ~table.has(CommandFlag.NO_SQE))
    if not len(io):
        return
    steps = depth_steps(io.start_tick, np.maximum(io.cqe_tick, io.start_tick))
    on = trace.track("Queue depth", unit="commands", rank=2)
    for tick, depth in zip(steps.ticks.tolist(), steps.depth.tolist(), strict=True):
        trace.count(on, tick, depth)


def _commands(trace: _Trace, selection: Selection) -> None:
    table = selection.overlapping
    for qid in np.unique(table.qid).tolist():
        mine = table.take(table.qid == qid)
        parent = trace.track("Admin queue" if qid == 0 else f"I/O queue {qid}", rank=3 + qid)
        end = np.maximum(mine.cqe_tick, mine.start_tick)
        lane = lanes(mine.start_tick, end)
        name = admin_name if qid == 0 else io_name
        for number in range(int(lane.max()) + 1):
            on = trace.track("Commands", parent)
            part = mine.take(lane == number)
            for start, stop, opcode, arguments in zip(
                part.start_tick.tolist(), end[lane == number].tolist(), part.opcode.tolist(), _arguments(trace, part), strict=True
            ):
                trace.slice(on, start, stop, name(opcode), arguments)


def _arguments(trace: _Trace, table: Any) -> Iterator[dict[str, int | str]]:
    """Yield the arguments of each command's slice."""
    shown = [column.name for column in SHOWN]
    names = ("qid", "opcode", "cid", "slba", "nbytes", "status", "flags", "saturated", *shown, *INSTANTS)
    columns = {name: getattr(table, name).tolist() for name in names}
    for at in range(len(table)):
        row = {name: values[at] for name, values in columns.items()}
        found: dict[str, int | str] = {"cid": row["cid"]}
        if row["qid"] and row["opcode"] in SIZED_OPCODES:
            found["lba"] = row["slba"] & 0x7FFF_FFFF_FFFF_FFFF
        found["bytes"] = row["nbytes"]
        found["status"] = status_name(row["status"])
        for name in INSTANTS:
            if row[name] != NONE:
                found[name.removesuffix("_tick") + "_ns"] = trace.ns(row[name])
        if row["flags"]:
            found["flags"] = " ".join(flag.name or "" for flag in CommandFlag if row["flags"] & flag)
        found |= {name: row[name] for name in ("saturated", *shown) if row[name]}
        yield found


def _levels(trace: _Trace, selection: Selection) -> None:
    window = selection.window
    for rank, (name, level) in enumerate(LEVELS.items()):
        ticks, values = track(selection.all_events, *level)
        if not len(ticks):
            continue
        on = trace.track(name if name != "LINK" else "Link state", rank=300 + rank)
        low, high = np.searchsorted(ticks, [window.first_tick, window.last_tick], side="right").tolist()
        edges = [window.first_tick, *ticks[low:high].tolist(), window.last_tick]
        for first, last, value in zip(edges[:-1], edges[1:], values[low : high + 1].tolist(), strict=True):
            if last > first:
                trace.slice(on, first, last, _WORDS[name].get(value, str(value)), {})


def _events(trace: _Trace, selection: Selection) -> None:
    events = selection.events
    if len(events):
        on = trace.track("Events", rank=310)
        for tick, *rest in events.select("tick", "type", "arg8", "arg16", "arg32").iter_rows():
            trace.instant(on, tick, event_text(*rest))


def _gaps(trace: _Trace, selection: Selection) -> None:
    for rank, kind in enumerate(sorted(set(selection.gaps["kind"].to_list()))):
        rows = selection.gaps.filter(selection.gaps["kind"] == kind).sort("first_tick")
        first, last = (rows[name].cast(int).to_numpy() for name in ("first_tick", "last_tick"))
        reasons, counts = rows["reason"].to_list(), rows["count"].to_list()
        parent = trace.track(f"Missing: {kind}", rank=320 + rank)
        lane = lanes(first, last + 1)
        for number in range(int(lane.max()) + 1):
            on = trace.track("gaps", parent)
            for at in np.flatnonzero(lane == number).tolist():
                trace.slice(on, int(first[at]), int(last[at]) + 1, reasons[at], {"count": counts[at]})
