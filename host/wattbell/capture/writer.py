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

from ..clock import Anchor, iso, near_leap_second, now_ns
from ..errors import CaptureError
from ..origin import origin_of_capture
from ..wire.decode import Batch, Gap, StreamDecoder
from ..wire.records import Buffer
from . import convert, hashes, identify, marking, meta, notes, schema
from .arrowjournal import ArrowJournal
from .clockwatch import FAST, SLOW, ClockWatch
from .journal import NAME as JOURNAL
from .journal import Journal
from .live import NAME as LIVE
from .livewriter import LiveSummary
from .place import CapturePlace
from .rail import F32
from .railjournal import NAME as RAIL_JOURNAL
from .railjournal import RailJournal
from .railrate import RailRate
from .railtrack import RailTrack
from .rigcounters import COUNTED_ONLY, RigCounters
from .room import writing
from .runaccount import RunAccount
from .source import CommandSource, RailSource
from .tables import TableSink, rows_table

COMMAND_JOURNAL = "commands.arrow"
"""The host's log of commands (:mod:`.logbook`)."""
_META_PERIOD_S = 1.0
_UPTIME_TICKS = 1_000_000_000
"""Ticks by which a counter may exceed the host's clock since the last data. With more, it did not begin at 0 in that time."""


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
        self._marking = marking.marking_of(self.meta)
        self.decoder = StreamDecoder()
        self.keep_stream = keep_stream
        self.account = RunAccount()
        """The rig's reports of its present run."""
        self.attached_late = False
        """To be set if the rig was capturing before the recording began."""
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
        self._streamed = False
        self._tapped = True
        self._every_run_whole = True
        self._host_clock = SteadyClock()
        self._leap = near_leap_second()
        self._tables: dict[str, TableSink] = {}
        self._ranges: TableSink | None = None
        self.journal = Journal(self.path) if journal else None
        self._serial = str(self.meta["rig"].get("serial") or "")
        self._ask_sender: Callable[[], str | None] | None = None
        self._stranger, self._strangers = False, 0
        """Whether another rig sends now, and in how many epochs one has."""
        self._first_of_all = True
        self._in_doubt_from: int | None = None
        """Tick from which on it is not known which rig sends."""
        self._rail = RailTrack(self.path, self.meta["clock"]["tick_ps"], self._serial, missing, origin_of_capture(self.meta))
        self._identify = identify.Collector()
        self._anchor: Anchor | None = None
        self._gap_counts: dict[str, int] = {}
        self._status: dict[str, int] = {}
        self._rig_losses: dict[str, int] = {}
        self._counted: dict[str, int] = {}
        """Growth of the rig's counters of loss in the runs before the present one."""
        self._rig_counters = RigCounters({})
        self._rail_rate = RailRate()
        self._clock_watch = ClockWatch()
        self._run_began = 0
        """Tick of the capture."""
        self._offset, self._epoch = 0, 0
        self._last_arrival_ns: int | None = None
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

    def ask_sender(self, ask: Callable[[], str | None]) -> None:
        """Ask which rig sends (its serial number; None: no answer) whenever a counter begins anew.

        Data of another rig is left out, and data without an answer is in doubt.
        """
        self._ask_sender = ask
        self.meta["journal"].setdefault("senders", [])

    def rail_only(self, origin_tick: int) -> None:
        """From now on keep no records of the tap in a stream: commands, TLPs, markers. Tick `origin_tick` of the stream becomes tick 0."""
        self._tapped = False
        self._streamed = True
        self._offset = -origin_tick
        self.meta["journal"]["tick_offsets"][0] = self._offset
        self.meta["journal"]["rail_only"] = True

    def journal_append(self, data: Buffer) -> None:
        """Only put bytes on disk (another thread may do this); :meth:`decode` must be given the same bytes."""
        if self.journal:
            self.journal.append(data)

    def decode(self, data: Buffer, arrival_utc_ns: int | None = None) -> list[Batch]:
        """Decode journalled bytes of the stream and write their contents."""
        if not self._place.committed:
            self.commit()
        self._streamed = self._streamed or len(data) > 0
        arrival = arrival_utc_ns or self._host_clock.now_ns()
        batches = self._ingest_all(self.decoder.feed(data, arrival), arrival)
        self._last_arrival_ns = arrival
        return batches

    def reconnected(self) -> None:
        """The line was cut and is back."""
        self.meta["journal"]["cuts"].append(self.decoder.counters.bytes_in)
        self._ingest_all(self.decoder.reconnected(), self._host_clock.now_ns())
        self.save_meta()

    def _ingest_all(self, batches: list[Batch], arrival_utc_ns: int) -> list[Batch]:
        for batch in batches:
            self.ingest(batch, arrival_utc_ns)
        self.look()
        if self.journal and time.monotonic() >= self._next_meta:
            self.save_meta()
        return batches

    def ingest(self, batch: Batch, arrival_utc_ns: int | None = None) -> None:
        """Append the output of a decoder."""
        if batch.epoch != self._epoch:
            self._begin_epoch(batch, arrival_utc_ns)
        elif self._first_of_all and "senders" in self.meta["journal"]:  # the first data may be another rig's already
            self._is_stranger(batch.epoch, self._sender(batch.epoch))
            if self.journal:
                self.save_meta()
        self._first_of_all = False
        if self._stranger:
            return
        offset = self._offset
        self.account.add(batch)
        self._add_gaps(self._rig_counters.add(batch, self.decoder.counters.dropped) + self._rail_rate.add(batch), offset)
        self._watch_clock(batch.last_tick, arrival_utc_ns)
        if not self._tapped:
            batch = convert.without_tap(batch)
        if arrival_utc_ns is not None and self._anchor is None and batch.last_tick > 0:
            self._anchor = Anchor(batch.last_tick + offset, arrival_utc_ns, self.meta["clock"]["tick_ps"])
        if batch.commands:
            self._follow_commands(convert.StreamCommands(batch.commands, offset))
        if batch.rail:
            self.add_rail_source(convert.StreamRail(batch.rail, offset), batch.epoch)
        if batch.events:
            self._tables["events"].add(convert.events_table(batch.events, offset))
            self._follow_events(batch, offset)
        if batch.tlps:
            self._tables["tlps"].add(convert.tlps_table(batch.tlps, offset))
            self._identify.add(batch.tlps)
        if batch.status:
            self._tables["status"].add(convert.status_table(batch.status, offset))
            self._status = {f.name: int(batch.status.columns[f.name][-1]) for f in spec.STATUS}
        if batch.links:
            self._tables["link"].add(convert.link_table(batch.links, offset))
        # rail gaps are exact on the sample grid: the decoder's coarse ones are left out
        self._add_gaps([gap for gap in batch.gaps if gap.kind is not spec.BlockContent.RAIL], offset)
        self.last_tick = max(self.last_tick, batch.last_tick + offset)

    def _begin_epoch(self, batch: Batch, arrival_utc_ns: int | None) -> None:
        """The rig's counter restarted: place the new ticks after the old ones by the host's clock."""
        before = self.last_tick
        self._end_run()
        sender = self._sender(batch.epoch)
        if self._is_stranger(batch.epoch, sender):
            if self.journal:
                self.save_meta()
            return
        self.account = RunAccount()
        elapsed = 0
        if arrival_utc_ns is not None and self._last_arrival_ns is not None:
            elapsed = (arrival_utc_ns - self._last_arrival_ns) * 1000 // int(self.meta["clock"]["tick_ps"])
        began_at = 0  # the new counter cannot have begun before the cut
        if batch.last_tick > elapsed + _UPTIME_TICKS:  # it ran before, or is wrong
            began_at = batch.last_tick - spec.FLUSH_TICKS
        offset = max(before + spec.FLUSH_TICKS - began_at, before + elapsed - batch.last_tick)
        known = self.meta["journal"]["tick_offsets"]
        number = batch.epoch - self._strangers
        if number < len(known):  # rebuilding: placed as when recorded
            offset = int(known[number])
        else:
            known.append(offset)
        self._offset, self._epoch = offset, batch.epoch
        note = "the rig restarted during the capture: times before and behind it are joined by the host's clock"
        if note not in self.meta["conditions"]["notes"]:
            self.meta["conditions"]["notes"].append(note)
        began = max(offset + batch.last_tick, before)
        self._add_gaps([Gap(None, max(before - spec.FLUSH_TICKS, 0), began, -1, "the rig restarted")], 0)
        self._run_began = began
        self._in_doubt_from = began if sender is None else None
        if self.journal:
            self.save_meta()  # which rig it is and where its ticks lie: a rebuild can ask nobody

    def _watch_clock(self, tick: int, arrival_utc_ns: int | None) -> None:
        """Hold the counter of a real rig to the host's clock. (A virtual rig's time is its own.)"""
        if arrival_utc_ns is None or self.journal is None or self.meta["conditions"].get("virtual") is not False or tick <= 0:
            return
        self._clock_watch.add(arrival_utc_ns - tick * int(self.meta["clock"]["tick_ps"]) // 1000, arrival_utc_ns)
        for name, found in (("fast", self._clock_watch.fast), ("slow", self._clock_watch.slow)):
            epochs: list[int] = self.meta["journal"].setdefault(name, [])
            if found and self._epoch not in epochs:
                epochs.append(self._epoch)

    def _is_stranger(self, epoch: int, sender: str | None) -> bool:
        """Whether another rig sends in an epoch, which is then left out."""
        self._stranger = sender not in (None, self._serial)
        if self._stranger:
            self._epoch, self.account, self._strangers = epoch, RunAccount(), self._strangers + 1
            self._in_doubt_from = None
            before = self.last_tick
            reason = f"another rig ({sender}) sends on this line, and is left out"
            self._add_gaps([Gap(None, max(before - spec.FLUSH_TICKS, 0), before, -1, reason)], 0)
        return self._stranger

    def _sender(self, epoch: int) -> str | None:
        """Return the serial number of the rig that sends in an epoch; None if unknown. The first epoch's rig had answered just before."""
        senders: list[str | None] | None = self.meta["journal"].get("senders")
        if senders is None or not self._serial:  # nobody is asked
            return self._serial
        if epoch >= len(senders):
            senders += [None] * (epoch - len(senders))
            senders.append(self._ask_sender() if self._ask_sender else None)
        return senders[epoch] if epoch else senders[0] or self._serial

    def _end_run(self) -> None:
        """Add the missing parts of the present run, unless they are already known."""
        if self._stranger:
            return
        account, first = self.account, self._epoch == 0
        late = first and bool(self.attached_late or self.meta["journal"].get("attached_late"))
        gaps = [account.head_gap(attached_late=late), account.tail_gap()]
        if not self._gap_counts and self.decoder.counters.lossless:  # a known loss explains the difference
            gaps.append(account.count_gap())
        if self._in_doubt_from is not None:
            doubt = Gap(None, self._in_doubt_from, max(self._in_doubt_from, self.last_tick), -1, "it is not known which rig sent this")
            self._add_gaps([doubt], 0)
        found = [gap for gap in gaps if gap]
        self._every_run_whole = self._every_run_whole and not found
        self._add_gaps(found + self._rig_counters.finish() + self._rail_rate.finish(), self._offset)
        self._rail_rate, self._clock_watch = RailRate(), ClockWatch()
        for name, reason in (("fast", FAST), ("slow", SLOW)):
            if self._epoch in self.meta["journal"].get(name, []):
                began = min(self._run_began, self.last_tick)
                self._add_gaps([Gap(None, began, self.last_tick, -1, reason)], 0)
        if before := self._rig_counters.before:
            what = ", ".join(f"{name} {count}" for name, count in before.items())
            self.note(f"before this run the rig had counted since power-on: {what}")
        self._counted, self._rig_counters = self._counts_of_loss(), RigCounters(self.decoder.counters.dropped)

    def _counts_of_loss(self) -> dict[str, int]:
        """Return the growth of the rig's counters of loss during the recording."""
        return {name: self._counted.get(name, 0) + count for name, count in self._rig_counters.total.items()}

    def _follow_events(self, batch: Batch, offset: int) -> None:
        assert batch.events is not None
        types, columns = batch.events.columns["type"], batch.events.columns
        for index in np.flatnonzero(np.isin(types, (spec.EventType.MARKER, spec.EventType.LOSS))).tolist():
            if types[index] == spec.EventType.LOSS:
                source = schema.LOSS_NAMES.get(int(columns["arg8"][index]), f"source_{columns['arg8'][index]}")
                self._rig_losses[source] = self._rig_losses.get(source, 0) + int(columns["arg32"][index])
            else:
                self.markers.append((int(batch.events.tick[index]) + offset, int(columns["arg32"][index])))

    def _follow_commands(self, commands: CommandSource) -> None:
        """Append commands of the stream. The rig itself makes events of some markers; of others it is done here."""
        self.add_command_source(commands)
        if not self._marking.by_the_rig:
            self.add_markers(self._marking.found(commands.table()))

    def _add_gaps(self, gaps: list[Gap], offset: int) -> None:
        if gaps:
            self._tables["gaps"].add(convert.gaps_table(gaps, offset))
            for gap in gaps:
                name = gap.kind.name if gap.kind else schema.ANY_KIND
                self._gap_counts[name] = self._gap_counts.get(name, 0) + 1
                if self.live and gap.kind in (spec.BlockContent.COMMANDS, None):
                    self.live.add_gap(gap.first_tick + offset, gap.last_tick + offset)

    # -- live summary -------------------------------------------------------------------------------------------------

    def begin_live(self) -> LiveSummary:
        """Keep a live summary (:mod:`.live`) from now on, until the capture is closed; idempotent.

        From then on :meth:`look` is to be called ten times a second, with or without new data.
        """
        if self.live is None:
            self.live = LiveSummary(self.path, int(self.meta["clock"]["tick_ps"]), self._lba_size_bytes)
            self.live.lost, self.live.namespace = self._lost, self._identify.lba_size
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
        counters = self.decoder.counters
        found = [f"{count} gap{'s' * (count > 1)} ({kind.lower()})" for kind, count in self._gap_counts.items()]
        found += [f"{count} {kind.lower()} dropped in the rig" for kind, count in counters.dropped.items() if count]
        found += [f"{count} lost in the rig ({source})" for source, count in self._rig_losses.items()]
        found += [f"{count} blocks damaged" for count in (counters.bad_crc + counters.malformed_blocks,) if count]
        return found if found or counters.lossless else ["bytes that belong to no block"]

    # -- from any source ---------------------------------------------------------------------------------------------

    def add_command_source(self, source: CommandSource) -> None:
        """Append commands."""
        table = source.table()
        self._tables["commands"].add(table)
        if self.live is not None:
            self.live.add_commands(table)

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
        self._add_gaps(gaps, 0)
        if self.on_rail is not None:
            self.on_rail(source)

    # -- built by hand ---------------------------------------------------------------------------------------------

    def add_rows(self, table: str, columns: Mapping[str, Sequence[Any]]) -> None:
        """Append rows to a table of docs/capture.md; columns not given are null where nullable, else 0."""
        self._tables[table].add(rows_table(table, columns))

    def add_rail(self, first_tick: int, interval_ticks: int, voltage_v: F32, current_a: F32, *, energy_raw: int = 0,
                 adc_index: int | None = None, flags: int = 0) -> None:  # fmt: skip
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
        self._add_gaps([gap], 0)

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
        return None if self._anchor is None else iso(self._anchor.utc_ns_of(tick))

    def set_anchor(self, tick: int, utc_ns: int) -> None:
        """Set the time of day of a tick, instead of the arrival of the first block."""
        self._anchor = Anchor(tick, utc_ns, self.meta["clock"]["tick_ps"])

    # -- meta and end ----------------------------------------------------------------------------------------------

    def save_meta(self) -> None:
        """Bring ``meta.json`` up to date."""
        self._next_meta = time.monotonic() + _META_PERIOD_S
        if self.attached_late:
            self.meta["journal"]["attached_late"] = True
        if self.decoder.pauses:
            self.meta["journal"]["pauses"] = list(self.decoder.pauses)
        status, rail = self._status, self._rail
        if status:
            self.meta["clock"]["tick_ps"] = status["tick_ps"] or spec.TICK_PS
            version = status["gateware_version"]
            self.meta["rig"]["gateware"] = f"{version >> 16}.{version >> 8 & 255}.{version & 255}"
            for name in ("clock_ticks", "tlp_width", "queues", "slots", "adc_bits", "dstrd", "bar0"):
                self.meta["rig"][name] = status[name]
        self.meta["clock"]["utc_anchor"] = self._anchor.to_json() if self._anchor else None
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
        counters = self.decoder.counters
        lost = self._counts_of_loss()
        really_lost = any(count for name, count in lost.items() if name not in COUNTED_ONLY)
        self.meta["loss"] = {
            **asdict(counters),
            "lossless": counters.lossless and not (self._gap_counts or self._rig_losses or really_lost),
            "gaps": dict(self._gap_counts),
            "rig": lost,
            "rig_events": dict(self._rig_losses),
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
            self.command_journal.close(remove=self._tapped or not self.keep_stream)

    def _finish(self, state: str) -> None:
        self.commit()
        self._ingest_all(self.decoder.finish(), self._host_clock.now_ns())
        if self._streamed:
            self._end_run()
            self._tell_of_steps()
        if self.live is not None:
            self.live.finish()
        self.save_meta()  # which knows the tick by now
        for table in self._every_table():
            table.close(schema.metadata(table.name, self.meta))
        self._rail.close(self._anchor.utc_ns_of if self._anchor else None, self._annotations())
        drive = self._identify.drive(self.path / "commands.parquet")
        if drive is not None and ("power_states" in drive or not (self.meta["drive"] or {}).get("power_states")):
            self.meta["drive"] = drive
        elif self.meta["drive"] is None and self._lba_size_bytes:
            self.meta["drive"] = identify.assumed(self._lba_size_bytes)
        self._unfinished = copy.deepcopy(self.meta)
        whole = not self._streamed or self._every_run_whole
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
        from .reader import try_to_open  # which rebuilds with a writer

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

    def expect_stream(self) -> None:
        """A capture of a stream; without any data it is not complete."""
        self._streamed = True

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
