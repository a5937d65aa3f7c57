"""The host's log of commands while a session runs: on disk as it comes, and on the capture's clock at the end."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
from wattbell_spec import wire as spec

from ..capture import CaptureWriter, schema
from ..capture.marking import Marking
from ..capture.room import writing
from ..capture.schema import COMMANDS, SeenBy
from ..capture.tables import TableSink
from ..clocks.map import ClockMap
from ..clocks.markers import SentMarker
from ..errors import WattbellError
from ..hostlog.commands import HostCommands
from ..hostlog.log import CommandLog
from ..measure.phases import END
from ..wire.decode import Gap

FILE = "host_commands.parquet"
_PERIOD_S = 1.0


class LogKeeper:
    """Takes what a log has once a second, from :meth:`begin` until :meth:`end`. ``folder``: where the rows are kept meanwhile."""

    def __init__(self, log: CommandLog, folder: Path, marking: Marking) -> None:
        self.log = log
        self.error: WattbellError | None = None
        self._marking = marking
        self._sink = TableSink(folder, FILE.removesuffix(".parquet"))
        self._markers: list[SentMarker] = []
        self._sent: list[SentMarker] = []
        self._lost: list[Gap] = []
        self._notes: list[str] = []
        self._guard = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="commands", daemon=True)
        self._ended = False
        self.span_ns: tuple[int, int] | None = None
        """By the host's clock, from the first command of the log to the end of the last; None while it has none."""

    @property
    def sees_markers(self) -> bool:
        """Admin commands are in the driver's tracepoints alone; of the others the instants at which markers were sent are what there is."""
        return self.log.source is SeenBy.TRACEPOINT

    def begin(self) -> None:
        """Start the log. DriveError where it cannot be."""
        self.log.start()
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(_PERIOD_S) and self.error is None:
            self.poll()

    def poll(self) -> None:
        """Take what has come."""
        with self._guard:
            if self._ended or self.error is not None:
                return
            try:
                self._add(self.log.take())
            except WattbellError as error:
                self.error = error

    def check(self) -> None:
        """Raise what ended the log, if something did."""
        if self.error is not None:
            raise self.error

    def _add(self, part: HostCommands) -> None:
        self._sink.add(part.table)
        ends = [pc.min(part.table["doorbell_tick"]).as_py(), pc.max(part.table["cqe_tick"]).as_py(), *(self.span_ns or ())]
        known = [ns for ns in ends if ns is not None]
        self.span_ns = (min(known), max(known)) if known else None
        if self.sees_markers:
            self._markers += [SentMarker(value, begin, end) for begin, end, value in self._marking.spans(part.table)]
        self._lost += part.lost
        self._notes += [note for note in part.notes if note not in self._notes]

    def sent(self, marker: SentMarker) -> None:
        """A marker that was sent."""
        self._sent.append(marker)

    def marked_ns(self, value: int) -> int | None:
        """When a marker was, by the host's clock; None while the log has not shown it."""
        if not self.sees_markers:
            return next((marker.after_ns for marker in reversed(self._sent) if marker.value == value), None)
        self.poll()
        return next((marker.before_ns for marker in reversed(self._markers) if marker.value == value), None)

    def end(self) -> None:
        """Stop the log, and close the file. What ended it is in :attr:`error`."""
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()
        with self._guard:
            if self._ended:
                return
            self._ended = True
            try:
                if self._thread.ident is not None:
                    self._add(self.log.stop())
            except WattbellError as error:
                self.error = self.error or error
            finally:
                self.log.__exit__(None, None, None)  # what it changed of the system is put back, whatever happened
                self._sink.close(schema.metadata(self._sink.name, {"clock": {"tick_ps": 1000}}))  # its ticks are ns

    @property
    def sent_markers(self) -> list[SentMarker]:
        """Between which instants of the host's clock each marker was on its way: those of its command in the log, else of nvme-cli."""
        return sorted(self._markers, key=lambda marker: marker.before_ns) if self.sees_markers else list(self._sent)

    @property
    def markers(self) -> list[tuple[int, int]]:
        """(ns of the host's clock, value). Where the log does not see them, a beginning is at the end of what sent it, an end at the
        beginning, so that no phase has any of that in it."""
        if self.sees_markers:
            return [(marker.before_ns, marker.value) for marker in self.sent_markers]
        return [(marker.before_ns if marker.value & 0xFF == END else marker.after_ns, marker.value) for marker in self._sent]

    def marked_within_s(self, phase: int) -> float:
        """How long the longer of a phase's two markers was on its way: nobody knows when, meanwhile, it was at the drive."""
        return max((marker.after_ns - marker.before_ns for marker in self.sent_markers if marker.value >> 8 == phase), default=0) * 1e-9

    @property
    def path(self) -> Path:
        """The file of the log's rows, closed by :meth:`end`."""
        return self._sink.path

    @property
    def lost(self) -> bool:
        """Whether commands are known to be missing."""
        return bool(self._lost)

    def about(self, clock: ClockMap | None) -> Mapping[str, Any]:
        """``conditions.host_log``. ``clock``: from the host's clock to the capture's."""
        notes = [*self._notes, *(str(note) for note in self.log.about.get("notes", ()) if note not in self._notes)]  # type: ignore[attr-defined]
        lost = [{"first_ns": gap.first_tick, "last_ns": gap.last_tick, "count": gap.count, "reason": gap.reason} for gap in self._lost]
        found = {**self.log.about, "commands": self._sink.rows, "notes": notes, "lost": lost}
        return {**found, "clock_map": None if clock is None else asdict(clock)}

    def keep_beside(self, writer: CaptureWriter) -> None:
        """Put the log into the capture as it is, in ns of the host's clock."""
        with writing(writer.path / FILE):
            shutil.move(self._sink.path, writer.path / FILE)

    def place(self, writer: CaptureWriter, clock: ClockMap) -> None:
        """Make the log the commands and events of the capture, through ``clock``."""
        tick_ps = int(writer.meta["clock"]["tick_ps"])
        rest = HostCommands(COMMANDS.empty_table(), self.markers, self._lost, self.log.source)
        with pq.ParquetFile(self._sink.path) as file:
            for number in range(file.num_row_groups):
                part = replace(rest, table=file.read_row_group(number), markers=[], lost=[])
                part.onto(clock, tick_ps).put(writer)
        rest.onto(clock, tick_ps).put(writer)
        self._sink.path.unlink()


def gap_without_log(writer: CaptureWriter, reason: str) -> Gap:
    """All commands of a capture are missing."""
    return Gap(spec.Kind.COMMANDS, 0, writer.last_tick, -1, reason)


__all__ = ["FILE", "LogKeeper", "gap_without_log"]
