"""Writes a capture directory while data arrives (docs/capture.md)."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from wattbell_spec import wire as spec

from ..clocks.host import Anchor, iso, near_leap_second, now_ns
from ..errors import CaptureError
from ..origin import origin_of_capture
from ..wire.decode import Batch, Gap
from ..wire.records import Buffer
from . import convert, hashes, identify, marking, meta, notes, schema
from .arrowjournal import ArrowJournal
from .intake import StreamIntake
from .journal import NAME as JOURNAL
from .journal import Journal
from .live import NAME as LIVE
from .livewriter import LiveSummary
from .place import CapturePlace
from .rail import F32
from .railjournal import NAME as RAIL_JOURNAL
from .railjournal import RailJournal
from .railtrack import RailTrack
from .reader import try_to_open
from .room import writing
from .source import CommandSource, RailSource
from .tables import TableSink, rows_table

COMMAND_JOURNAL = "commands.arrow"
"""The host's log of commands (:mod:`.logbook`)."""
_META_PERIOD_S = 1.0
LEAST_STEP_S = 0.5
"""Least step of the host's clock that is reported: below a leap second, above the corrections of a time server."""


class SteadyClock:
    """UTC at creation plus the time since (also while the host slept): steps of the host's clock do not show."""

    def __init__(self) -> None:
        self._began_ns = now_ns() - self._running_ns()

    @staticmethod
    def _running_ns() -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def now_ns(self) -> int:
        """Nanoseconds since 1970."""
        return self._began_ns + self._running_ns()

    @property
    def stepped_s(self) -> float:
        """Seconds by which the host's clock was put forward meanwhile; negative: back."""
        return (now_ns() - self.now_ns()) * 1e-9


class CaptureWriter:
    """A capture being written. Use :meth:`feed` for a stream, or :meth:`add_rows` and :meth:`add_rail` to build one.

    >>> with CaptureWriter(path, conditions={"virtual": True, "profile": "test"}) as writer:
    ...     writer.add_rows("commands", {"cqe_tick": [2000], "doorbell_tick": [1000], "opcode": [2], "blocks": [8]})
    ...     writer.add_rail(0, 1000, voltage_v, current_a)

    Leaving the ``with`` block normally completes the capture. An exception leaves it unfinished, to be rebuilt from its journal: an
    interrupt may have struck in the middle of a batch.

    overwrite: an existing capture stays until :meth:`commit`, which the first data and a normal end also call; :attr:`path` is another
        folder until then
    tick_ps: ps a tick of the clock of added data; a stream brings its own
    missing: why samples of the rail are missing, if their source says no more

    Raises CaptureError, here and in every method that writes, when the disk refuses a write. Raises it at once when the folder is not
    writable or another recorder has it.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        rig: Mapping[str, Any] | None = None,
        conditions: Mapping[str, Any] | None = None,
        lba_size_bytes: int | None = None,
        keep_stream: bool = False,
        overwrite: bool = False,
        journal: bool = True,
        tick_ps: int = spec.TICK_PS,
        missing: str = "blocks lost on the way to the host",
    ) -> None:
        self._place = CapturePlace(Path(path), overwrite)
        self.path = self._place.path
        self.meta = meta.new()
        self.meta["rig"] = dict(rig or {})
        self.meta["clock"]["tick_ps"] = tick_ps
        self.meta["conditions"].update(conditions or {})
        self.meta["journal"] = {"cuts": [], "tick_offsets": [0]}
        self.keep_stream = keep_stream
        self.markers: list[tuple[int, int]] = []
        """(tick, value) of every MARKER event so far."""
        self.last_tick = 0
        self.on_rail: Callable[[RailSource], None] | None = None
        """Called with every source added to the rail."""
        self.rail_journal: RailJournal | None = None
        self.command_journal: ArrowJournal | None = None
        """Journal of the host's log (:mod:`.logbook`), if there is a log. A complete capture removes it."""
        self.live: LiveSummary | None = None
        """The figures of this moment, and for others to look at, from :meth:`begin_live` on."""
        if lba_size_bytes:  # from the beginning: a rebuild then knows it
            self.meta["drive"] = identify.assumed(lba_size_bytes)
        self._lba_size_bytes = lba_size_bytes
        self._host_clock = SteadyClock()
        self._leap = near_leap_second()
        self._tables: dict[str, TableSink] = {}
        self._ranges: TableSink | None = None
        self.journal = Journal(self.path) if journal else None
        serial = str(self.meta["rig"].get("serial") or "")
        self.stream = StreamIntake(self, serial)
        """The way of a rig's stream into the capture."""
        self._rail = RailTrack(self.path, self.meta["clock"]["tick_ps"], serial, missing, origin_of_capture(self.meta))
        self.identify = identify.Collector()
        """Takes the TLPs that describe the drive."""
        self.anchor: Anchor | None = None
        """Time of day of a tick: of the first block that arrived, or :meth:`set_anchor`."""
        self.gap_counts: dict[str, int] = {}
        """Gaps so far, by content."""
        self._next_meta = 0.0
        self._closed = False
        self._unfinished: meta.Meta = {}
        """``meta.json`` just before the end."""
        try:
            for name in schema.TABLES:
                self._tables[name] = TableSink(self.path, name)
            self._save()
        except BaseException:
            self._let_go()
            self._place.undo()
            raise

    # -- from a stream ---------------------------------------------------------------------------------------------

    def feed(self, data: Buffer, arrival_utc_ns: int | None = None) -> list[Batch]:
        """Journal and decode bytes of the stream; return the batches, with the rig's own ticks."""
        self.journal_append(data)
        return self.decode(data, arrival_utc_ns)

    def journalled(self, offset: int, size: int) -> bytes:
        """Bytes that were journalled, from a byte of the stream on."""
        assert self.journal is not None
        return self.journal.read(offset, size)

    def journal_append(self, data: Buffer) -> None:
        """Put bytes on disk and no more; another thread may do this. :meth:`decode` must be given the same bytes."""
        if self.journal:
            self.journal.append(data)

    def decode(self, data: Buffer, arrival_utc_ns: int | None = None) -> list[Batch]:
        """Decode journalled bytes of the stream and write their contents."""
        if not self._place.committed:
            self.commit()
        batches = self.stream.feed(data, arrival_utc_ns or self._host_clock.now_ns())
        self._after_data()
        return batches

    def reconnected(self) -> None:
        """The line was cut and is back."""
        self.stream.reconnected(self._host_clock.now_ns())
        self._after_data()
        self.save_meta()

    def _after_data(self) -> None:
        self.look()
        if self.journal and time.monotonic() >= self._next_meta:
            self.save_meta()

    # -- live summary -------------------------------------------------------------------------------------------------

    def begin_live(self) -> LiveSummary:
        """Keep a live summary (:mod:`.live`) from now on, until the capture is closed; idempotent.

        From then on :meth:`look` is to be called ten times a second, with or without new data.
        """
        if self.live is None:
            self.live = LiveSummary(self.path, int(self.meta["clock"]["tick_ps"]), self._lba_size_bytes)
            self.live.lost, self.live.namespace = self._lost, self.identify.lba_size
            self._rail.on_samples = self.live.add_rail
        return self.live

    def keep_rail(self) -> None:
        """Journal rail data added from now on (:mod:`.railjournal`), for a source without a stream; idempotent."""
        if self.rail_journal is None:
            self.rail_journal = RailJournal(self.path)

    def look(self) -> None:
        """Bring the live summary up to date, where there is one and it is time to."""
        if self.live is not None:
            self.live.look(self.last_tick)

    def _lost(self) -> list[str]:
        """Return the known losses so far, in words."""
        counters = self.stream.decoder.counters
        found = [f"{count} gap{'s' * (count > 1)} ({kind.lower()})" for kind, count in self.gap_counts.items()]
        found += [f"{count} {kind.lower()} dropped in the rig" for kind, count in counters.dropped.items() if count]
        found += [f"{count} lost in the rig ({source})" for source, count in self.stream.losses.items()]
        found += [f"{count} blocks damaged" for count in (counters.bad_crc + counters.malformed_blocks,) if count]
        return found if found or counters.lossless else ["bytes that belong to no block"]

    # -- from any source ---------------------------------------------------------------------------------------------

    def add_table(self, name: str, rows: pa.Table) -> None:
        """Append rows in the form of a table of docs/capture.md."""
        self._tables[name].add(rows)
        if name == "commands" and self.live is not None:
            self.live.add_commands(rows)

    def add_command_source(self, source: CommandSource) -> None:
        """Append commands."""
        self.add_table("commands", source.table())

    def add_markers(self, markers: list[tuple[int, int]]) -> None:
        """Append in-band markers, (tick, value), as MARKER events."""
        if markers:
            self.add_rows("events", marking.event_rows(markers))
            self.markers += markers

    def add_rail_source(self, source: RailSource, epoch: int = 0) -> None:
        """Append blocks of the rail. Missing samples between them, and blocks without a place on their grid, become gaps.

        epoch: number of restarts of the source
        """
        if self.rail_journal is not None:
            self.rail_journal.add(source)
        if source.ranges is not None:
            if self._ranges is None:
                self._ranges = TableSink(self.path, "rail_ranges")
            changes = source.ranges
            self._ranges.add(pa.table([changes.tick, changes.number, changes.settling_nj], schema=schema.RAIL_RANGES))
        ids, gaps = self._rail.add(source)
        self._tables["rail_blocks"].add(convert.rail_blocks_table(source, ids, epoch))
        self.add_gaps(gaps)
        if self.on_rail is not None:
            self.on_rail(source)

    # -- built by hand ---------------------------------------------------------------------------------------------

    def add_rows(self, table: str, columns: Mapping[str, Sequence[Any]]) -> None:
        """Append rows to a table of docs/capture.md; columns not given are null where nullable, else 0."""
        self._tables[table].add(rows_table(table, columns))

    def add_rail(
        self,
        first_tick: int,
        interval_ticks: int,
        voltage_v: F32,
        current_a: F32,
        *,
        energy_raw: int = 0,
        adc_index: int | None = None,
        flags: int = 0,
    ) -> None:
        """Append samples in V and A as one row of ``rail_blocks`` (at most 65535 samples) and to the waveform.

        energy_raw: up to 96 bits
        """
        voltage, current = np.asarray(voltage_v, np.float32), np.asarray(current_a, np.float32)
        sample = self._rail.write_samples(first_tick, interval_ticks, voltage, current)
        row = {
            "first_tick": first_tick,
            "interval_ticks": interval_ticks,
            "count": len(voltage),
            "flags": flags,
            "adc_index": sample + len(voltage) if adc_index is None else adc_index,
            "energy_raw": (energy_raw + (1 << 63)) % (1 << 64) - (1 << 63),
            "energy_high": energy_raw >> 64,
            "sample_id": sample,
        }
        self.add_rows("rail_blocks", {name: [value] for name, value in row.items()})

    def add_gap(self, gap: Gap) -> None:
        """Append a gap."""
        self.add_gaps([gap])

    def add_gaps(self, gaps: list[Gap], offset: int = 0) -> None:
        """Append gaps. ``offset``: from their ticks to the capture's."""
        if gaps:
            self._tables["gaps"].add(convert.gaps_table(gaps, offset))
            for gap in gaps:
                name = gap.kind.name if gap.kind else schema.ANY_KIND
                self.gap_counts[name] = self.gap_counts.get(name, 0) + 1
                if self.live and gap.kind in (spec.BlockContent.COMMANDS, None):
                    self.live.add_gap(gap.first_tick + offset, gap.last_tick + offset)

    def note(self, text: str) -> None:
        """Add a note to the capture's conditions."""
        self.meta["conditions"]["notes"].append(text)

    def _tell_of_steps(self) -> None:
        """Note that the host's time of day did not run on evenly: other logs of the host may have other times than this capture."""
        stepped_s = self._host_clock.stepped_s
        steady = "times of day in this capture count on from its beginning, as if nothing had happened"
        if abs(stepped_s) >= LEAST_STEP_S:
            way = "forward" if stepped_s > 0 else "back"
            self.note(f"the host's clock was put {way} by {abs(stepped_s):.1f} s while this was recorded: {steady}")
        elif self._leap or near_leap_second():
            self.note(f"the host's clock had a leap second announced or just behind it while this was recorded: {steady}")

    def counts(self) -> dict[str, int]:
        """Rows of each table, and rail samples, so far."""
        return {name: table.rows for name, table in self._tables.items()} | {"samples": self._rail.samples}

    def utc_of(self, tick: int) -> str | None:
        """Return the time of day of a tick (ISO 8601); None before it is known."""
        return None if self.anchor is None else iso(self.anchor.utc_ns_of(tick))

    def set_anchor(self, tick: int, utc_ns: int) -> None:
        """Set the time of day of a tick, instead of the arrival of the first block."""
        self.anchor = Anchor(tick, utc_ns, self.meta["clock"]["tick_ps"])

    # -- meta and end ----------------------------------------------------------------------------------------------

    def save_meta(self) -> None:
        """Bring ``meta.json`` up to date."""
        self._next_meta = time.monotonic() + _META_PERIOD_S
        stream = self.stream
        if stream.attached_late:
            self.meta["journal"]["attached_late"] = True
        if stream.decoder.pauses:
            self.meta["journal"]["pauses"] = list(stream.decoder.pauses)
        status, rail = stream.status, self._rail
        if status:
            self.meta["clock"]["tick_ps"] = status["tick_ps"] or spec.TICK_PS
            version = status["gateware_version"]
            self.meta["rig"]["gateware"] = f"{version >> 16}.{version >> 8 & 255}.{version & 255}"
            for name in ("clock_ticks", "tlp_width", "queues", "slots", "adc_bits", "dstrd", "bar0"):
                self.meta["rig"][name] = status[name]
        self.meta["clock"]["utc_anchor"] = self.anchor.to_json() if self.anchor else None
        self.meta["rail"].update(
            first_tick=rail.first_tick,
            interval_ticks=rail.interval_ticks or None,
            samples=rail.samples,
            stored_samples=rail.stored,
            breaks=len(rail.breaks),
            missing_samples=rail.missing,
            flags=rail.flags,
            adc_period_ticks=status.get("adc_period_ticks", rail.interval_ticks or None),
            decimation=status.get("decimation", 1),
        )
        counters = stream.decoder.counters
        self.meta["loss"] = {
            **asdict(counters),
            "lossless": counters.lossless and not (self.gap_counts or stream.has_losses),
            "gaps": dict(self.gap_counts),
            "rig": stream.counts_of_loss,
            "rig_events": dict(stream.losses),
        }
        self.meta["counts"] = {name: table.rows for name, table in self._tables.items()}
        self._save()

    def _save(self) -> None:
        with writing(self.path / meta.NAME):
            meta.save(self.path, self.meta)

    def commit(self) -> None:
        """Put this capture in the place of the one it replaces, if any."""
        if self._place.committed:
            return
        self.path = self._place.commit()
        self._rail.moved_to(self.path)
        if self.live is not None:
            self.live.moved_to(self.path)
        for table in self._every_table():
            table.moved_to(self.path)
        for journal in (self.journal, self.rail_journal, self.command_journal):
            if journal is not None:
                journal.moved_to(self.path)

    def close(self, state: str = "complete") -> None:
        """End the capture.

        A capture of a stream becomes ``incomplete`` instead of ``complete`` in two cases: the beginning or the end of the run was not
        received, or the rig's count differs. The gaps then say where. Raises CaptureError, leaving the capture unfinished, when a part
        cannot be written.
        """
        if self._closed:
            return
        self._closed = True
        try:
            self._finish(state)
            self._open_again()
        except BaseException:
            self._let_go()
            raise
        if self.journal:
            self.journal.close(remove=not self.keep_stream)
        if self.rail_journal is not None:
            self.rail_journal.close(remove=True)
        if self.command_journal is not None:  # a kept stream without a tap is no journal of the whole capture without it
            self.command_journal.close(remove=self.stream.tapped or not self.keep_stream)

    def _finish(self, state: str) -> None:
        self.commit()
        self.stream.finish(self._host_clock.now_ns())
        self._after_data()
        if self.stream.expected:
            self._tell_of_steps()
        if self.live is not None:
            self.live.finish()
        self.save_meta()  # which knows the tick by now
        for table in self._every_table():
            table.close(schema.metadata(table.name, self.meta))
        self._rail.close(self.anchor.utc_ns_of if self.anchor else None, self._annotations())
        drive = self.identify.drive(self.path / "commands.parquet")
        if drive is not None and ("power_states" in drive or not (self.meta["drive"] or {}).get("power_states")):
            self.meta["drive"] = drive
        elif self.meta["drive"] is None and self._lba_size_bytes:
            self.meta["drive"] = identify.assumed(self._lba_size_bytes)
        self._unfinished = copy.deepcopy(self.meta)
        whole = not self.stream.expected or self.stream.whole
        self.meta["state"] = "incomplete" if state == "complete" and not whole else state
        with writing(self.path):
            meta.flush(self.path)  # a power cut may not leave a complete capture without its contents
        self.meta["files"] = hashes.sums(self.path, leave_out=(LIVE, RAIL_JOURNAL, *(() if self.keep_stream else (JOURNAL,))))
        self.save_meta()
        if self.live is not None:
            self.live.remove()

    def _open_again(self) -> None:
        """Open the finished capture as a reader does: only then may its journals go. Where a reader refuses the capture, it is unfinished
        again, and CaptureError says why."""
        try:
            try_to_open(self.path)
        except CaptureError as error:
            with writing(self.path):
                meta.save(self.path, self._unfinished)
            kept = "; its journal is kept" if self.journal or self.rail_journal else ""
            raise CaptureError(f"{self.path} was written and cannot be opened again{kept}. {error}") from None

    def _every_table(self) -> list[TableSink]:
        return [*self._tables.values(), *([] if self._ranges is None else [self._ranges])]

    def _annotations(self) -> list[notes.Annotation]:
        """Phases and events, from the finished tables."""
        markers, events = notes.read_events(self._tables["events"].path)
        names = {int(p["phase"]): str(p.get("name") or "") for p in (self.meta["workload"] or {}).get("phases") or [] if "phase" in p}
        spans = [span[:3] for span in marking.phase_spans(markers, self.last_tick)]
        return notes.annotations_of(spans, names, events)

    def abandon(self) -> None:
        """Leave the capture unfinished, as a crash would; it is rebuilt from its journal when opened. One that was to replace another and
        got no data is removed instead."""
        self._closed = True
        self._let_go()

    def _let_go(self) -> None:
        if self.live is not None:
            self.live.remove()
        for table in self._every_table():
            table.abandon()
        self._rail.abandon()
        for journal in (self.journal, self.rail_journal, self.command_journal):
            if journal is not None:
                journal.close(remove=False)
        self._place.give_up()

    def __enter__(self) -> CaptureWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()
