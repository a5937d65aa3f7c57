"""Keep the host's log of a session's commands.

The log is in a journal while the session runs, and on the capture's clock when the session is over. ``commands.arrow``
(:mod:`.arrowjournal`) has a record for each part of the log: its commands, in ns of the host's clock. The record also has the log's
statements on itself and all data needed to place the commands, such as readings of the meter's clock. A session that ends reads its
commands back from there. For a killed session they are still there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from wattbell_spec.wire import BlockContent

from ..clocks.map import ClockMap
from ..clocks.markers import SentMarker
from ..errors import CaptureError, ClockError
from ..jsondata import JsonObject
from ..wire.decode import Gap
from . import arrowjournal, schema
from .arrowjournal import ArrowJournal
from .hostcommands import HostCommands
from .loadpattern import Pattern, as_logged, from_json
from .marking import END, Marking
from .schema import COMMANDS, SeenBy
from .tables import TableSink
from .writer import COMMAND_JOURNAL, CaptureWriter

BESIDE = "host_commands"
"""Name of the table of a log that is not the capture's commands."""
FILE = f"{BESIDE}.parquet"


class Logbook:
    """The records of a log so far. ``tap``: True beside a tap's commands, False in their place."""

    def __init__(self, folder: Path, source: SeenBy, marking: Marking, tap: bool) -> None:
        self.source, self.tap = source, tap
        self.rows = 0
        self.span_ns: tuple[int, int] | None = None
        """The host's ns from the first command of the log to the end of the last; None without commands."""
        self.until_ns: int | None = None
        """All that ended before this instant is here."""
        self.about: JsonObject = {}
        self.workload: JsonObject | None = None
        self.pairs: list[tuple[int | None, int, int]] = []
        """Readings of the meter's clock as (before, after, tick), like :class:`~wattbell.meters.meter.ClockPair`."""
        self.late_ns: int | None = None
        self.patterns: list[Pattern] = []
        self.journal: ArrowJournal | None = None
        """While it is written."""
        self.settled = False
        """Whether its commands are in a capture."""
        self._folder = folder
        self._marking = marking
        self._markers: list[SentMarker] = []
        self._sent: list[SentMarker] = []
        self._lost: list[Gap] = []
        self._notes: list[str] = []

    @classmethod
    def journalled(cls, folder: Path, marking: Marking) -> Logbook:
        """Read the journal of a dead session from a capture's folder, up to its first cut.

        Raises CaptureError if the journal is not understood.
        """
        path = folder / COMMAND_JOURNAL
        told = arrowjournal.about(path)
        try:
            book = cls(folder, SeenBy(int(told["source"])), marking, told["tap"] == "yes")
        except (KeyError, ValueError):
            raise CaptureError(f"{path} is of another version of Wattbell: open the capture with the one that recorded it.") from None
        for table, told_here in _records(path):
            book.enter(table, told_here)
        return book

    @staticmethod
    def nothing() -> pa.Table:
        """No commands."""
        return COMMANDS.empty_table()

    @property
    def path(self) -> Path:
        """The journal."""
        return self._folder / COMMAND_JOURNAL if self.journal is None else self.journal.path

    def begin(self) -> ArrowJournal:
        """Make the journal. Raises CaptureError when the disk refuses it."""
        about = {"source": str(int(self.source)), "tap": "yes" if self.tap else "no"}
        self.journal = ArrowJournal(self.path, COMMANDS, about, compression="lz4")
        return self.journal

    def add(self, part: HostCommands, besides: JsonObject) -> None:
        """Add a part to the journal, and here. ``besides``: new values for :meth:`enter`. Raises CaptureError when the disk refuses the
        part.
        """
        assert self.journal is not None, "begin() comes first"
        known = set(self._notes)
        told = {
            **besides,
            "until_ns": part.until_ns,
            "lost": [[gap.first_tick, gap.last_tick, gap.count, gap.reason] for gap in part.lost],
            "notes": [note for note in part.notes if note not in known],
        }
        table = part.table.combine_chunks()
        batches = table.to_batches() or [pa.RecordBatch.from_pylist([], schema=COMMANDS)]
        for number, batch in enumerate(batches):
            self.journal.append(batch, told if number == len(batches) - 1 else None)
        self.enter(table, told)

    def enter(self, table: pa.Table, told: Mapping[str, Any]) -> None:
        """Take a record of the journal. Lists hold new entries; other values replace earlier ones.

        until_ns, lost, notes: the log's
        about: the log's present description of itself
        sent: markers (value, before, after)
        pairs, late_ns: (before, after, tick) of the meter's clock, and its delay
        patterns: of load, that were played
        workload: of ``meta.json``
        """
        self.rows += table.num_rows
        if table.num_rows:
            ends = [pc.min(table["doorbell_tick"]).as_py(), pc.max(table["cqe_tick"]).as_py(), *(self.span_ns or ())]
            known = [ns for ns in ends if ns is not None]
            self.span_ns = (min(known), max(known))
        if self.sees_markers:
            self._markers += [SentMarker(value, begin, end) for begin, end, value in self._marking.spans(table)]
        self._sent += [SentMarker(*marker) for marker in told.get("sent", ())]
        self._lost += [Gap(BlockContent.COMMANDS, *gap) for gap in told.get("lost", ())]
        self._notes += told.get("notes", ())
        self.pairs += [(pair[0], pair[1], pair[2]) for pair in told.get("pairs", ())]
        self.patterns += [from_json(pattern) for pattern in told.get("patterns", ())]
        self.late_ns = told.get("late_ns", self.late_ns)
        self.about = told.get("about", self.about)
        self.workload = told.get("workload", self.workload)
        ends = [ns for ns in (self.until_ns, told.get("until_ns"), self.span_ns and self.span_ns[1]) if ns is not None]
        self.until_ns = max(ends, default=None)

    @property
    def sees_markers(self) -> bool:
        """Whether the log has markers. Only the driver's tracepoints have admin commands; other logs need the instants of sending."""
        return self.source is SeenBy.TRACEPOINT

    @property
    def sent_markers(self) -> list[SentMarker]:
        """Return the markers with the host's instants before and after each: from its command in the log, else from nvme-cli."""
        return sorted(self._markers, key=lambda marker: marker.before_ns) if self.sees_markers else list(self._sent)

    @property
    def markers(self) -> list[tuple[int, int]]:
        """Return (ns of the host's clock, value) for each marker.

        In a log without markers, a begin is at the end of the program that sent it, and an end at the beginning. So no phase contains the
        sending.
        """
        if self.sees_markers:
            return [(marker.before_ns, marker.value) for marker in self.sent_markers]
        return [(marker.before_ns if marker.value & 0xFF == END else marker.after_ns, marker.value) for marker in self._sent]

    def marked_ns(self, value: int) -> int | None:
        """When a marker was, by the host's clock; None while it is not known."""
        if not self.sees_markers:
            return next((marker.after_ns for marker in reversed(self._sent) if marker.value == value), None)
        return next((marker.before_ns for marker in reversed(self._markers) if marker.value == value), None)

    def marked_within_s(self, phase: int) -> float:
        """How long the longer of a phase's two markers was on its way: nobody knows when, meanwhile, it was at the drive."""
        return max((marker.after_ns - marker.before_ns for marker in self.sent_markers if marker.value >> 8 == phase), default=0) * 1e-9

    @property
    def lost(self) -> bool:
        """Whether commands are known to be missing."""
        return bool(self._lost)

    def lose(self, gap: Gap) -> None:
        """Commands are missing between two instants of the host's clock (ticks in ns)."""
        self._lost.append(gap)

    def logged(self, patterns: Sequence[Pattern]) -> list[Pattern]:
        """Return the patterns of load by the commands of the log, if it has them."""
        return as_logged(patterns, (table for table, _ in _records(self.path)))

    def settle(self, writer: CaptureWriter, clock: ClockMap | None, failed: ClockError | None = None) -> float | None:
        """Put the log into a capture.

        With a clock and no tap, the log gives the capture's commands and events. Else it is stored beside them.

        clock: map from the host's clock to the capture's
        failed: reason for having no clock

        Returns in s how far log and rail may be apart in the former case.
        """
        conditions = writer.meta["conditions"]
        before = (conditions.get("host_log") or {}).get("clock_map") or {}
        conditions["host_log"] = {**self._described(clock), "beside_tap": self.tap}
        if failed is not None:
            what = "what the host's clock was on the rig's" if self.tap else "when the commands were on the meter's clock"
            writer.note(f"nobody can say {what}: {failed}")
        if self.tap and self.lost:
            writer.note(f"the host's log beside the tap's commands is not whole ({FILE}): conditions.host_log.lost")
        if clock is None or self.tap:
            self._keep_beside(writer)
            if not self.tap:
                writer.add_gap(Gap(BlockContent.COMMANDS, 0, writer.last_tick, -1, f"the host's log is in {FILE}, on its own clock"))
            self.settled = True
            return None
        apart_s = float(conditions.get("alignment_u_s", 0.0)) - float(before.get("bound_s", 0.0)) + clock.bound_s
        conditions["alignment_u_s"] = apart_s
        self._place(writer, clock)
        self.settled = True
        return apart_s

    def _described(self, clock: ClockMap | None) -> JsonObject:
        """``conditions.host_log``."""
        notes = [*self._notes, *(str(note) for note in self.about.get("notes", ()) if note not in self._notes)]
        lost = [{"first_ns": gap.first_tick, "last_ns": gap.last_tick, "count": gap.count, "reason": gap.reason} for gap in self._lost]
        found = {**self.about, "commands": self.rows, "notes": notes, "lost": lost}
        return {**found, "clock_map": None if clock is None else asdict(clock)}

    def _keep_beside(self, writer: CaptureWriter) -> None:
        """Store the log unchanged, in ns of the host's clock."""
        sink = TableSink(writer.path, BESIDE)
        for table, _ in _records(self.path):
            sink.add(table)
        sink.close(schema.metadata(BESIDE, {"clock": {"tick_ps": 1000}}))  # its ticks are ns

    def _place(self, writer: CaptureWriter, clock: ClockMap) -> None:
        tick_ps = int(writer.meta["clock"]["tick_ps"])
        rest = HostCommands(COMMANDS.empty_table(), self.markers, self._lost, self.source)
        for table, _ in _records(self.path):
            part = replace(rest, table=table, markers=[], lost=[])
            part.onto(clock, tick_ps).put(writer)
        rest.onto(clock, tick_ps).put(writer)


def _records(path: Path) -> Iterator[tuple[pa.Table, JsonObject]]:
    if not path.exists():  # a log that was never begun
        return
    for batch, told in arrowjournal.records(path, COMMANDS):
        yield pa.Table.from_batches([batch]).replace_schema_metadata(COMMANDS.metadata), told


def edges(phases: Iterable[JsonObject], book: Logbook, apart_s: float) -> None:
    """Add to the phases of ``workload`` the errors of their edges."""
    for phase in phases:
        phase["edge_u_s"] = apart_s + book.marked_within_s(int(phase["phase"]))


__all__ = ["BESIDE", "COMMAND_JOURNAL", "FILE", "Logbook", "edges"]
