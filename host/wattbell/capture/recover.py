"""Rebuilds the capture of a dead recorder from its journals: the rig's stream or a meter's samples, and the host's log of commands."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from wattbell_spec import wire as spec

from .. import permissions
from ..clocks.map import ClockMap
from ..clocks.ticks import ns_of
from ..errors import CaptureError, ClockError
from ..wire.decode import Gap
from . import logbook, meta, schema
from . import rail as rail_file
from .alignment import by_asking, by_tap
from .arrowjournal import held
from .journal import NAME as JOURNAL
from .journal import JournalReader
from .live import NAME as LIVE
from .live import being_recorded
from .loadpattern import BEHIND_LIMIT_S, OFFSET_LIMIT_S, PatternPower
from .logbook import Logbook
from .marking import marking_of
from .railjournal import NAME as RAIL_JOURNAL
from .railjournal import journalled
from .room import free_bytes, writing
from .source import RailSource
from .writer import COMMAND_JOURNAL, CaptureWriter

Progress = Callable[[int, int], None]
"""Progress callback: bytes done, bytes in total."""
RECORDER_DIED = "the recorder ended without completing the capture"
_SCRATCH = ".rebuild"
_SAMPLE_BYTES = (6, 12.6)
"""Bytes per rail sample, in the stream and in ``rail.jls``."""
_COMMAND_BYTES = (44, 40)
_REST = 1.2
"""Bytes written per byte of anything else."""
_FIXED_BYTES = 1 << 20


def recover(directory: Path, progress: Progress | None = None) -> meta.Meta:
    """Rebuild every table and the waveform of `directory` from ``stream.wbs``, or a meter's from ``rail.arrow``; the journal is kept.

    Raises CaptureError when the recorder is alive or the journal is missing.
    """
    if being_recorded(directory):
        raise CaptureError(f"{directory} is still being recorded (or rebuilt); stop the recorder with Ctrl-C, or wait.")
    with writing(directory):
        if (directory / RAIL_JOURNAL).exists():
            return _recover_rail(directory)
        return _recover_stream(directory, progress)


def _recover_stream(directory: Path, progress: Progress | None) -> meta.Meta:
    """A rig's capture, from the stream that its recorder had been given."""
    journal = JournalReader(directory)
    try:
        old = meta.load(directory)
        for name in (*_made(), LIVE):  # a recorder that died leaves them without an end: nobody can read them, and the journal has it all
            (directory / name).unlink(missing_ok=True)
        return rebuild(directory, journal, old, RECORDER_DIED, "recovered", progress)
    finally:
        journal.close()


def rebuild(directory: Path, journal: JournalReader, old: meta.Meta, note: str, state: str, progress: Progress | None = None) -> meta.Meta:
    """Rebuild as :func:`recover` does. ``old``: present or former ``meta.json``; ``note``: the reason, kept in the capture's conditions."""
    scratch = directory / _SCRATCH
    if scratch.exists():
        shutil.rmtree(scratch)
    _require_room(directory, old)
    scratch.mkdir(mode=0o700)
    writer = CaptureWriter(scratch, rig=old["rig"], conditions=old["conditions"], journal=False)
    writer.stream.expected = True  # a recorder that was killed before its first byte has lost the whole run
    for key in ("id", "workload", "drive", "software", "journal"):
        if old.get(key) is not None:
            writer.meta[key] = old[key]
    if (old.get("journal") or {}).get("rail_only"):
        writer.stream.rail_only(-int(old["journal"]["tick_offsets"][0]))
    writer.stream.decoder.pauses += (old.get("journal") or {}).get("pauses", [])
    log = _Log(directory, writer, old)
    anchor = old["clock"].get("utc_anchor")
    if anchor:
        writer.set_anchor(anchor["tick"], anchor["utc_ns"])
    total = (directory / "stream.wbs").stat().st_size
    done = 0
    for data, cut in journal.chunks(old.get("journal", {}).get("cuts", [])):
        if cut:
            writer.reconnected()
        writer.feed(data)
        done += len(data)
        if progress:
            progress(done, total)
    writer.meta["conditions"]["notes"].append(f"rebuilt from its journal ({total} bytes): {note}")
    log.settle(note if state == "recovered" else None)
    if old.get("journal"):
        writer.meta["journal"] = old["journal"]
    writer.close(state)
    for name in _made():
        if (scratch / name).exists():
            permissions.inherit(scratch / name, directory / JOURNAL)
            os.replace(scratch / name, directory / name)
    meta.seal(directory, writer.meta)  # last: from here on the capture is whole
    shutil.rmtree(scratch)
    return meta.load(directory)


def _recover_rail(directory: Path) -> meta.Meta:
    """A meter's capture, from the samples that its recorder had been given."""
    with held(directory / RAIL_JOURNAL):
        old = meta.load(directory)
        scratch = directory / _SCRATCH
        if scratch.exists():
            shutil.rmtree(scratch)
        scratch.mkdir(mode=0o700)
        writer = CaptureWriter(scratch, rig=old["rig"], conditions=old["conditions"], journal=False, tick_ps=int(old["clock"]["tick_ps"]))
        for key in ("id", "workload", "drive", "software"):
            if old.get(key) is not None:
                writer.meta[key] = old[key]
        anchor = old["clock"].get("utc_anchor")
        if anchor:
            writer.set_anchor(anchor["tick"], anchor["utc_ns"])
        try:
            log = _Log(directory, writer, old)
            for source in journalled(directory):
                writer.add_rail_source(source)
                writer.last_tick = int(source.first_tick[-1]) + int(source.count[-1]) * int(source.interval_ticks[-1])
            writer.add_gap(Gap(spec.BlockContent.RAIL, writer.last_tick, writer.last_tick, -1, RECORDER_DIED))
            writer.note(f"rebuilt from its journal: {RECORDER_DIED}")
            log.settle(RECORDER_DIED)
            writer.close("recovered")
        except BaseException:
            writer.abandon()
            raise
        for name in (*_made(), LIVE):
            (directory / name).unlink(missing_ok=True)
            if (scratch / name).exists():
                permissions.inherit(scratch / name, directory / RAIL_JOURNAL)
                os.replace(scratch / name, directory / name)
        meta.seal(directory, writer.meta)  # last: from here on the capture is whole
        shutil.rmtree(scratch)
        return meta.load(directory)


class _Log:
    """The host's log of commands of a capture that is rebuilt, if it has one. To be made before the rail comes."""

    def __init__(self, directory: Path, writer: CaptureWriter, old: meta.Meta) -> None:
        self._writer = writer
        self._tick_ps = int(old["clock"]["tick_ps"])
        self._rail_only = bool((old.get("journal") or {}).get("rail_only")) or (directory / RAIL_JOURNAL).exists()
        self._virtual = bool(old["conditions"].get("virtual"))
        self._waveform = PatternPower(self._tick_ps)
        self._spans: list[tuple[int, int]] = []
        """Spans of the meter's clock in ns that may contain patterns of load."""
        self._failed = ""
        self.book: Logbook | None = None
        self._rows = int((old["conditions"].get("host_log") or {}).get("commands") or 0)
        """Commands that a complete capture had."""
        if not (directory / COMMAND_JOURNAL).exists():
            return
        try:
            self.book = Logbook.journalled(directory, marking_of(old))
        except CaptureError as error:
            self._failed = str(error)
            return
        late_ns, apart_ns = self.book.late_ns, round(self._apart_s * 1e9)
        if not self.book.tap and not self.book.pairs and late_ns is not None:
            spans = [(burst.span_ns[0] - late_ns, burst.span_ns[1] - late_ns) for pattern in self.book.patterns for burst in pattern]
            self._spans = [(first - apart_ns, last + apart_ns) for first, last in spans]
            writer.on_rail = self._watch

    @property
    def _apart_s(self) -> float:
        return BEHIND_LIMIT_S if self._virtual else OFFSET_LIMIT_S

    def _watch(self, source: RailSource) -> None:
        first, last = (int(ns) for ns in ns_of((source.first_tick[0], source.first_tick[-1]), self._tick_ps))
        if any(first <= high and last >= low for low, high in self._spans):
            self._waveform.add(source)

    def settle(self, died: str | None) -> None:
        """Put the log's commands into the capture, once all else is there. ``died``: how its session ended, None if it was whole."""
        writer, book = self._writer, self.book
        if self._failed:
            writer.note(self._failed)
        missing = self._rows - (0 if book is None else book.rows)
        if self._rail_only and (self._failed or missing > 0):
            writer.add_gap(
                Gap(spec.BlockContent.COMMANDS, 0, writer.last_tick, missing if missing > 0 else -1, "the host's log of commands is lost")
            )
        if book is None:
            return
        clock: ClockMap | None = None
        failed: ClockError | None = None
        try:
            clock = self._clock(book)
        except ClockError as error:
            failed = error
        if died is not None:
            self._cut(book, clock, died)
        apart_s = book.settle(writer, clock, failed)
        if book.workload is not None and not (writer.meta["workload"] or {}).get("phases"):
            writer.meta["workload"] = book.workload
            if apart_s is not None:
                logbook.edges(book.workload["phases"], book, apart_s)

    def _clock(self, book: Logbook) -> ClockMap:
        """Return the map from the host's clock to the capture's. Raises ClockError if none can be made."""
        writer = self._writer
        tick_ps = int(writer.meta["clock"]["tick_ps"])
        if book.tap:
            return by_tap(book.sent_markers, writer.markers, tick_ps, writer.last_tick)
        if book.pairs:
            return by_asking(book.pairs, tick_ps, writer.last_tick)
        if book.late_ns is None:
            raise ClockError("the meter had sent nothing.")
        return self._waveform.align(book.logged(book.patterns), book.late_ns, self._apart_s, book.span_ns).inverse()

    def _cut(self, book: Logbook, clock: ClockMap | None, died: str) -> None:
        """Record an unknown loss of commands behind the last part of the log."""
        if book.until_ns is None:
            return
        tick_ps = int(self._writer.meta["clock"]["tick_ps"])
        end_ns = book.until_ns
        if clock is not None:
            end_ns = max(end_ns, int(clock.inverse().to_reference(ns_of(self._writer.last_tick, tick_ps))))
        book.lose(Gap(spec.BlockContent.COMMANDS, book.until_ns, end_ns, -1, died))


def _made() -> list[str]:
    return [f"{table}.parquet" for table in (*schema.TABLES, *schema.BESIDE)] + [rail_file.NAME]


def _require_room(directory: Path, old: meta.Meta) -> None:
    """Raise CaptureError when the rebuilt capture will not fit the disk.

    The size is estimated from the size that the recorder made of the journal's first part.
    """
    total = (directory / JOURNAL).stat().st_size
    converted = old["loss"].get("bytes_in") or 0
    if converted:
        samples = old["rail"].get("stored_samples") or old["rail"].get("samples") or 0
        commands = (old.get("counts") or {}).get("commands") or 0
        rest = max(0, converted - samples * _SAMPLE_BYTES[0] - commands * _COMMAND_BYTES[0])
        made = samples * _SAMPLE_BYTES[1] + commands * _COMMAND_BYTES[1] + rest * _REST
        wanted = int(made * max(1.0, total / converted)) + _FIXED_BYTES
    else:
        wanted = int(total * _SAMPLE_BYTES[1] / _SAMPLE_BYTES[0]) + _FIXED_BYTES
    missing = wanted - free_bytes(directory)
    if missing > 0:
        raise CaptureError(
            f"{directory} has to be rebuilt from its journal, which needs about {wanted} bytes, {missing} more than are free there. "
            "Free them, or copy the capture to a disk with more room and open it there; nothing in it is lost."
        )
