"""The stream of a rig on its way into a capture: decoded, placed on the capture's ticks, and accounted for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from wattbell_spec import wire as spec

from ..wire.decode import Batch, Gap, StreamDecoder
from ..wire.records import Buffer
from . import convert, marking, schema
from .clockwatch import FAST, SLOW, ClockWatch
from .eventtext import NOT_FOLLOWED
from .railrate import RailRate
from .rigcounters import RigCounters
from .runaccount import RunAccount

if TYPE_CHECKING:
    from .writer import CaptureWriter

_UPTIME_TICKS = 1_000_000_000
"""Ticks by which a counter may exceed the host's clock since the last data. With more, it did not begin at 0 in that time."""


class StreamIntake:
    """Puts a stream into a capture: bytes to batches (:meth:`feed`), a batch to tables (:meth:`_ingest`), tables to the writer.

    An epoch is a run of the rig's tick counter. The ticks of the next lie behind those of the one before, by the host's clock.
    """

    def __init__(self, to: CaptureWriter, serial: str) -> None:
        """`serial`: of the rig that the capture is of; empty: unknown."""
        self.decoder = StreamDecoder()
        self.account = RunAccount()
        """The rig's reports of its present run."""
        self.attached_late = False
        """To be set if the rig was capturing before the recording began."""
        self.expected = False
        """Whether the capture is of a stream; without any data it is then not complete."""
        self.tapped = True
        """Whether records of the tap are kept."""
        self.whole = True
        """Whether every run so far was received from its beginning to its end."""
        self.status: dict[str, int] = {}
        """The latest STATUS block."""
        self.losses: dict[str, int] = {}
        """Losses by source, as events of the rig report them."""
        self._to, self._serial = to, serial
        self._marking = marking.marking_of(to.meta)
        self._ask_sender: Callable[[], str | None] | None = None
        self._stranger, self._strangers = False, 0
        """Whether another rig sends now, and in how many epochs one has."""
        self._first_of_all = True
        self._in_doubt_from: int | None = None
        """Tick from which on it is not known which rig sends."""
        self._counted: dict[str, int] = {}
        """Growth of the rig's counters of loss in the runs before the present one."""
        self._rig_counters = RigCounters({})
        self._rail_rate = RailRate()
        self._clock_watch = ClockWatch()
        self._run_began = 0
        """Tick of the capture."""
        self._offset, self._epoch = 0, 0
        self._last_arrival_ns: int | None = None

    def ask_sender(self, ask: Callable[[], str | None]) -> None:
        """Ask which rig sends (its serial number; None: no answer) whenever a counter begins anew.

        Data of another rig is left out, and data without an answer is in doubt.
        """
        self._ask_sender = ask
        self._to.meta["journal"].setdefault("senders", [])

    def rail_only(self, origin_tick: int) -> None:
        """Keep no records of the tap from now on: no commands, TLPs and markers. Tick `origin_tick` of the stream becomes tick 0."""
        self.tapped = False
        self.expected = True
        self._offset = -origin_tick
        self._to.meta["journal"]["tick_offsets"][0] = self._offset
        self._to.meta["journal"]["rail_only"] = True

    def feed(self, data: Buffer, arrival_utc_ns: int) -> list[Batch]:
        """Decode bytes and write their contents; return the batches, with the rig's own ticks."""
        self.expected = self.expected or len(data) > 0
        batches = self.decoder.feed(data, arrival_utc_ns)
        self._ingest_all(batches, arrival_utc_ns)
        self._last_arrival_ns = arrival_utc_ns
        return batches

    def reconnected(self, arrival_utc_ns: int) -> None:
        """The line was cut and is back."""
        self._to.meta["journal"]["cuts"].append(self.decoder.counters.bytes_in)
        self._ingest_all(self.decoder.reconnected(), arrival_utc_ns)

    def finish(self, arrival_utc_ns: int) -> None:
        """End the stream."""
        self._ingest_all(self.decoder.finish(), arrival_utc_ns)
        if self.expected:
            self._end_run()

    @property
    def counts_of_loss(self) -> dict[str, int]:
        """Return the growth of the rig's counters of loss during the recording."""
        return {name: self._counted.get(name, 0) + count for name, count in self._rig_counters.total.items()}

    @property
    def has_losses(self) -> bool:
        """Whether the rig lost anything, by its events or its counters."""
        return bool(self.losses) or any(self.counts_of_loss.values())

    def _ingest_all(self, batches: list[Batch], arrival_utc_ns: int) -> None:
        for batch in batches:
            self._ingest(batch, arrival_utc_ns)

    def _ingest(self, batch: Batch, arrival_utc_ns: int) -> None:
        if batch.epoch != self._epoch:
            self._begin_epoch(batch, arrival_utc_ns)
        elif self._first_of_all and "senders" in self._to.meta["journal"]:  # the first data may be another rig's already
            self._is_stranger(batch.epoch, self._sender(batch.epoch))
            self._keep_meta()
        self._first_of_all = False
        if self._stranger:
            return
        offset, to = self._offset, self._to
        self.account.add(batch)
        to.add_gaps(self._rig_counters.add(batch, self.decoder.counters.dropped) + self._rail_rate.add(batch), offset)
        self._watch_clock(batch.last_tick, arrival_utc_ns)
        if not self.tapped:
            batch = convert.without_tap(batch)
        if to.anchor is None and batch.last_tick > 0:
            to.set_anchor(batch.last_tick + offset, arrival_utc_ns)
        tables = convert.tables(batch, offset)
        for name, table in tables.items():
            to.add_table(name, table)
        if "commands" in tables and not self._marking.by_the_rig:
            to.add_markers(self._marking.found(tables["commands"]))
        if batch.rail:
            to.add_rail_source(convert.StreamRail(batch.rail, offset), batch.epoch)
        if batch.events:
            self._follow_events(batch)
        if batch.tlps:
            to.identify.add(batch.tlps)
        if batch.status:
            self.status = {f.name: int(batch.status.columns[f.name][-1]) for f in spec.STATUS}
        # rail gaps are exact on the sample grid: the decoder's coarse ones are left out
        to.add_gaps([gap for gap in batch.gaps if gap.kind is not spec.BlockContent.RAIL], offset)
        to.last_tick = max(to.last_tick, batch.last_tick + offset)

    def _follow_events(self, batch: Batch) -> None:
        """Count the losses that events report, note traffic that is not followed, and keep the markers of the rig."""
        assert batch.events is not None
        types, columns = batch.events.columns["type"], batch.events.columns
        guesses = columns["arg8"][types == spec.EventType.GUESSING]
        for reason, text in NOT_FOLLOWED.items():
            if np.any(guesses == reason) and text not in self._to.meta["conditions"]["notes"]:
                self._to.note(text)
        for index in np.flatnonzero(np.isin(types, (spec.EventType.MARKER, spec.EventType.LOSS))).tolist():
            if types[index] == spec.EventType.LOSS:
                source = schema.LOSS_NAMES.get(int(columns["arg8"][index]), f"source_{columns['arg8'][index]}")
                self.losses[source] = self.losses.get(source, 0) + int(columns["arg32"][index])
            else:
                self._to.markers.append((int(batch.events.tick[index]) + self._offset, int(columns["arg32"][index])))

    def _begin_epoch(self, batch: Batch, arrival_utc_ns: int) -> None:
        """The rig's counter restarted: place the new ticks after the old ones by the host's clock."""
        before, meta = self._to.last_tick, self._to.meta
        self._end_run()
        sender = self._sender(batch.epoch)
        if self._is_stranger(batch.epoch, sender):
            self._keep_meta()
            return
        self.account = RunAccount()
        elapsed = 0
        if self._last_arrival_ns is not None:
            elapsed = (arrival_utc_ns - self._last_arrival_ns) * 1000 // int(meta["clock"]["tick_ps"])
        began_at = 0  # the new counter cannot have begun before the cut
        if batch.last_tick > elapsed + _UPTIME_TICKS:  # it ran before, or is wrong
            began_at = batch.last_tick - spec.FLUSH_TICKS
        offset = max(before + spec.FLUSH_TICKS - began_at, before + elapsed - batch.last_tick)
        known = meta["journal"]["tick_offsets"]
        number = batch.epoch - self._strangers
        if number < len(known):  # rebuilding: placed as when recorded
            offset = int(known[number])
        else:
            known.append(offset)
        self._offset, self._epoch = offset, batch.epoch
        note = "the rig restarted during the capture: times before and behind it are joined by the host's clock"
        if note not in meta["conditions"]["notes"]:
            meta["conditions"]["notes"].append(note)
        began = max(offset + batch.last_tick, before)
        self._to.add_gap(Gap(None, max(before - spec.FLUSH_TICKS, 0), began, -1, "the rig restarted"))
        self._run_began = began
        self._in_doubt_from = began if sender is None else None
        self._keep_meta()  # which rig it is and where its ticks lie: a rebuild can ask nobody

    def _end_run(self) -> None:
        """Add the missing parts of the present run, unless they are already known."""
        if self._stranger:
            return
        account, first, to = self.account, self._epoch == 0, self._to
        late = first and bool(self.attached_late or to.meta["journal"].get("attached_late"))
        gaps = [account.head_gap(attached_late=late), account.tail_gap()]
        if not to.gap_counts and self.decoder.counters.lossless:  # a known loss explains the difference
            gaps.append(account.count_gap())
        if self._in_doubt_from is not None:
            doubt = Gap(None, self._in_doubt_from, max(self._in_doubt_from, to.last_tick), -1, "it is not known which rig sent this")
            to.add_gap(doubt)
        found = [gap for gap in gaps if gap]
        self.whole = self.whole and not found
        to.add_gaps(found + self._rig_counters.finish() + self._rail_rate.finish(), self._offset)
        self._rail_rate, self._clock_watch = RailRate(), ClockWatch()
        for name, reason in (("fast", FAST), ("slow", SLOW)):
            if self._epoch in to.meta["journal"].get(name, []):
                began = min(self._run_began, to.last_tick)
                to.add_gap(Gap(None, began, to.last_tick, -1, reason))
        if before := self._rig_counters.before:
            what = ", ".join(f"{name} {count}" for name, count in before.items())
            to.note(f"before this run the rig had counted since power-on: {what}")
        self._counted, self._rig_counters = self.counts_of_loss, RigCounters(self.decoder.counters.dropped)

    def _watch_clock(self, tick: int, arrival_utc_ns: int) -> None:
        """Hold the counter of a real rig to the host's clock. (A virtual rig's time is its own.)"""
        to = self._to
        if to.journal is None or to.meta["conditions"].get("virtual") is not False or tick <= 0:
            return
        self._clock_watch.add(arrival_utc_ns - tick * int(to.meta["clock"]["tick_ps"]) // 1000, arrival_utc_ns)
        for name, found in (("fast", self._clock_watch.fast), ("slow", self._clock_watch.slow)):
            epochs: list[int] = to.meta["journal"].setdefault(name, [])
            if found and self._epoch not in epochs:
                epochs.append(self._epoch)

    def _is_stranger(self, epoch: int, sender: str | None) -> bool:
        """Whether another rig sends in an epoch, which is then left out."""
        self._stranger = sender not in (None, self._serial)
        if self._stranger:
            self._epoch, self.account, self._strangers = epoch, RunAccount(), self._strangers + 1
            self._in_doubt_from = None
            before = self._to.last_tick
            reason = f"another rig ({sender}) sends on this line, and is left out"
            self._to.add_gap(Gap(None, max(before - spec.FLUSH_TICKS, 0), before, -1, reason))
        return self._stranger

    def _sender(self, epoch: int) -> str | None:
        """Return the serial number of the rig that sends in an epoch; None if unknown. The first epoch's rig had answered just before."""
        senders: list[str | None] | None = self._to.meta["journal"].get("senders")
        if senders is None or not self._serial:  # nobody is asked
            return self._serial
        if epoch >= len(senders):
            senders += [None] * (epoch - len(senders))
            senders.append(self._ask_sender() if self._ask_sender else None)
        return senders[epoch] if epoch else senders[0] or self._serial

    def _keep_meta(self) -> None:
        """Put the answers on which rig sends on disk, where a rebuild finds them."""
        if self._to.journal:
            self._to.save_meta()
