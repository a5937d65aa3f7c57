"""Writes a capture directory while data arrives (docs/capture.md)."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ..clock import Anchor, now_ns
from ..errors import CaptureError
from ..wire import spec
from ..wire.decode import Batch, Decoder, Gap
from ..wire.records import Buffer
from . import convert, identify, meta, schema
from .journal import Journal
from .rail import F32
from .railtrack import RailTrack
from .tables import TableSink, rows_table

_META_PERIOD_S = 1.0


class CaptureWriter:
    """A capture being written. Use :meth:`feed` for a stream, or :meth:`add_rows` and :meth:`add_rail` to build one.

    >>> with CaptureWriter(path, conditions={"virtual": True, "profile": "test"}) as writer:
    ...     writer.add_rows("commands", {"cqe_tick": [2000], "doorbell_tick": [1000], "opcode": [2], "blocks": [8]})
    ...     writer.add_rail(0, 1000, voltage_v, current_a)

    Leaving the ``with`` block normally completes the capture; an exception leaves it unfinished, to be rebuilt from
    its journal (an interrupt may have struck in the middle of a batch).
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
    ) -> None:
        self.path = _prepare(Path(path), overwrite)
        self.meta = meta.new()
        self.meta["rig"] = dict(rig or {})
        self.meta["conditions"].update(conditions or {})
        self.meta["journal"] = {"cuts": [], "tick_offsets": [0]}
        self.decoder = Decoder()
        self.keep_stream = keep_stream
        self.run: int | None = None
        """1 once the rig said that it captures, 0 once it said that it stopped."""
        self.has_run = False
        """True once the rig said that it captures, also when it has stopped since within one piece of data."""
        self.markers: list[tuple[int, int]] = []
        """(tick, value) of every MARKER event so far."""
        self.last_tick = 0
        self._lba_size_bytes = lba_size_bytes
        self._tables = {name: TableSink(self.path, name) for name in schema.TABLES}
        self._rail = RailTrack(self.path, self.meta["clock"]["tick_ps"], str(self.meta["rig"].get("serial", "")))
        self._identify = identify.Collector()
        self._anchor: Anchor | None = None
        self._gap_counts: dict[str, int] = {}
        self._status: dict[str, int] = {}
        self._rig_losses: dict[str, int] = {}
        self._offset, self._epoch = 0, 0
        self._last_arrival_ns: int | None = None
        self._next_meta = 0.0
        self._closed = False
        meta.save(self.path, self.meta)
        self.journal = Journal(self.path) if journal else None

    # -- from a stream ---------------------------------------------------------------------------------------------

    def feed(self, data: Buffer, arrival_utc_ns: int | None = None) -> list[Batch]:
        """Journal and decode bytes of the stream; returns the batches, whose ticks are those of the rig."""
        self.journal_append(data)
        return self.decode(data, arrival_utc_ns)

    def journal_append(self, data: Buffer) -> None:
        """Only put bytes on disk (another thread may do this); :meth:`decode` must be given the same bytes."""
        if self.journal:
            self.journal.append(data)

    def decode(self, data: Buffer, arrival_utc_ns: int | None = None) -> list[Batch]:
        """Decode journalled bytes of the stream and write what they hold."""
        arrival = arrival_utc_ns or now_ns()
        batches = self._ingest_all(self.decoder.feed(data), arrival)
        self._last_arrival_ns = arrival
        return batches

    def reconnected(self) -> None:
        """The line was cut and is back."""
        self.meta["journal"]["cuts"].append(self.decoder.counters.bytes_in)
        self._ingest_all(self.decoder.reconnected(), now_ns())
        self.save_meta()

    def _ingest_all(self, batches: list[Batch], arrival_utc_ns: int) -> list[Batch]:
        for batch in batches:
            self.ingest(batch, arrival_utc_ns)
        if self.journal and time.monotonic() >= self._next_meta:
            self.save_meta()
        return batches

    def ingest(self, batch: Batch, arrival_utc_ns: int | None = None) -> None:
        """Append what a decoder yielded."""
        if batch.epoch != self._epoch:
            self._begin_epoch(batch, arrival_utc_ns)
        offset = self._offset
        if arrival_utc_ns is not None and self._anchor is None and batch.last_tick > 0:
            self._anchor = Anchor(batch.last_tick + offset, arrival_utc_ns, self.meta["clock"]["tick_ps"])
        if batch.commands:
            self._tables["commands"].add(convert.commands_table(batch.commands, offset))
        if batch.rail:
            ids, gaps = self._rail.add(batch.rail, offset)
            self._tables["rail_blocks"].add(convert.rail_blocks_table(batch.rail, ids, offset))
            self._add_gaps(gaps, 0)
        if batch.events:
            self._tables["events"].add(convert.events_table(batch.events, offset))
            self._follow_events(batch, offset)
        if batch.tlps:
            self._tables["tlps"].add(convert.tlps_table(batch.tlps, offset))
            self._identify.add(batch.tlps)
        if batch.status:
            self._tables["status"].add(convert.status_table(batch.status, offset))
            self._status = {f.name: int(batch.status.columns[f.name][-1]) for f in spec.STATUS}
            self._follow_run(self._status["run"], bool(batch.status.columns["run"].any()))
        if batch.links:
            self._tables["link"].add(convert.link_table(batch.links, offset))
        # rail gaps are exact on the sample grid: the decoder's coarse ones are left out
        self._add_gaps([gap for gap in batch.gaps if gap.kind is not spec.Kind.RAIL], offset)
        self.last_tick = max(self.last_tick, batch.last_tick + offset)

    def _begin_epoch(self, batch: Batch, arrival_utc_ns: int | None) -> None:
        """The rig's counter began anew: place the new ticks behind the old ones by the host's clock."""
        before = self.last_tick
        offset = before + spec.FLUSH_TICKS  # the new counter began at 0: nothing of it may lie before the cut
        if arrival_utc_ns is not None and self._last_arrival_ns is not None:
            elapsed_ps = (arrival_utc_ns - self._last_arrival_ns) * 1000
            offset = max(offset, before + elapsed_ps // int(self.meta["clock"]["tick_ps"]) - batch.last_tick)
        known = self.meta["journal"]["tick_offsets"]
        if batch.epoch < len(known):  # rebuilding: as it was placed when recorded
            offset = int(known[batch.epoch])
        else:
            known.append(offset)
        self._offset, self._epoch = offset, batch.epoch
        note = "the rig restarted during the capture: times before and behind it are joined by the host's clock"
        if note not in self.meta["conditions"]["notes"]:
            self.meta["conditions"]["notes"].append(note)
        self._add_gaps([Gap(None, before, max(offset, before), -1, "the rig restarted")], 0)

    def _follow_events(self, batch: Batch, offset: int) -> None:
        assert batch.events is not None
        types, columns = batch.events.columns["type"], batch.events.columns
        followed = (spec.EventType.MARKER, spec.EventType.RUN, spec.EventType.LOSS)
        for index in np.flatnonzero(np.isin(types, followed)).tolist():
            if types[index] == spec.EventType.RUN:
                self._follow_run(int(columns["arg8"][index]), bool(columns["arg8"][index]))
            elif types[index] == spec.EventType.LOSS:
                source = schema.LOSS_NAMES.get(int(columns["arg8"][index]), f"source_{columns['arg8'][index]}")
                self._rig_losses[source] = self._rig_losses.get(source, 0) + int(columns["arg32"][index])
            else:
                self.markers.append((int(batch.events.tick[index]) + offset, int(columns["arg32"][index])))

    def _follow_run(self, run: int, ran: bool) -> None:
        self.run, self.has_run = run, self.has_run or ran

    def _add_gaps(self, gaps: list[Gap], offset: int) -> None:
        if gaps:
            self._tables["gaps"].add(convert.gaps_table(gaps, offset))
            for gap in gaps:
                name = gap.kind.name if gap.kind else schema.ANY_KIND
                self._gap_counts[name] = self._gap_counts.get(name, 0) + 1

    # -- built by hand ---------------------------------------------------------------------------------------------

    def add_rows(self, table: str, columns: Mapping[str, Sequence[Any]]) -> None:
        """Append rows to a table of docs/capture.md; columns not given are null where they may be, else 0."""
        self._tables[table].add(rows_table(table, columns))

    def add_rail(self, first_tick: int, interval_ticks: int, voltage_v: F32, current_a: F32, *, energy_raw: int = 0,
                 adc_index: int | None = None, flags: int = 0) -> None:  # fmt: skip
        """Append samples in V and A as one row of ``rail_blocks`` (at most 65535 of them) and to the waveform."""
        voltage, current = np.asarray(voltage_v, np.float32), np.asarray(current_a, np.float32)
        sample = self._rail.write_samples(first_tick, interval_ticks, voltage, current)
        row = {
            "first_tick": first_tick,
            "interval_ticks": interval_ticks,
            "count": len(voltage),
            "flags": flags,
            "adc_index": sample + len(voltage) if adc_index is None else adc_index,
            "energy_raw": energy_raw,
            "sample_id": sample,
        }
        self.add_rows("rail_blocks", {name: [value] for name, value in row.items()})

    def add_gap(self, gap: Gap) -> None:
        """Append a gap."""
        self._add_gaps([gap], 0)

    def note(self, text: str) -> None:
        """Add a note to the capture's conditions."""
        self.meta["conditions"]["notes"].append(text)

    def counts(self) -> dict[str, int]:
        """Rows of each table, and rail samples, so far."""
        return {name: table.rows for name, table in self._tables.items()} | {"samples": self._rail.samples}

    def set_anchor(self, tick: int, utc_ns: int) -> None:
        """Give the time of day of a tick, instead of the arrival of the first block."""
        self._anchor = Anchor(tick, utc_ns, self.meta["clock"]["tick_ps"])

    # -- meta and end ----------------------------------------------------------------------------------------------

    def save_meta(self) -> None:
        """Bring ``meta.json`` up to date."""
        self._next_meta = time.monotonic() + _META_PERIOD_S
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
            missing_samples=rail.missing,
            flags=rail.flags,
            adc_period_ticks=status.get("adc_period_ticks", rail.interval_ticks or None),
            decimation=status.get("decimation", 1),
        )
        counters = self.decoder.counters
        lost = {name: value for name, value in status.items() if name.startswith("lost_")}
        self.meta["loss"] = {
            **asdict(counters),
            "lossless": counters.lossless and not (self._gap_counts or self._rig_losses or any(lost.values())),
            "gaps": dict(self._gap_counts),
            "rig": lost,
            "rig_events": dict(self._rig_losses),
        }
        self.meta["counts"] = {name: table.rows for name, table in self._tables.items()}
        meta.save(self.path, self.meta)

    def close(self, state: str = "complete") -> None:
        """Complete the capture."""
        if self._closed:
            return
        self._closed = True
        self._ingest_all(self.decoder.finish(), now_ns())
        for table in self._tables.values():
            table.close()
        anchor, rail = self._anchor, self._rail
        if anchor and rail.first_tick is not None:
            last = rail.first_tick + rail.samples * rail.interval_ticks
            rail.close(anchor.utc_ns_of(rail.first_tick), anchor.utc_ns_of(last))
        else:
            rail.close(None, None)
        drive = self._identify.drive(self.path / "commands.parquet")
        if drive is not None:
            self.meta["drive"] = drive
        elif self.meta["drive"] is None and self._lba_size_bytes:
            self.meta["drive"] = identify.assumed(self._lba_size_bytes)
        self.meta["state"] = state
        self.save_meta()
        if self.journal:
            self.journal.close(remove=not self.keep_stream)

    def abandon(self) -> None:
        """Leave the capture unfinished, as a crash would; it is rebuilt from its journal when opened."""
        self._closed = True
        if self.journal:
            self.journal.close(remove=False)

    def __enter__(self) -> CaptureWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()


def _prepare(path: Path, overwrite: bool) -> Path:
    """Make the directory. Refuses one that holds anything, unless it is a capture that may be replaced."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        if not overwrite:
            raise CaptureError(f"{path} exists already; choose another name, or add --force to replace it.")
        if not (path / meta.NAME).exists():
            raise CaptureError(f"{path} exists and is not a capture, so --force leaves it alone; choose another.")
        shutil.rmtree(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CaptureError(f"{path} cannot be created ({error.strerror}); choose another place.") from None
    return path
