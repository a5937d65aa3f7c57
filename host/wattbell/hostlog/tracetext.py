"""The text of a kernel trace: tracefs' ``trace`` and ``trace_pipe``, ``trace-cmd report`` and ``perf script``.

Its NVMe events become commands (:mod:`.tracecommand`). A trace without them may have the block layer's requests (:mod:`.traceblock`). Every
other line is skipped, counted and named: other events, stacks, function calls, text by others. A line with an unreadable event of a command
is a loss. The seconds are the chosen trace clock's, which the text does not name.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from wattbell_spec.wire import BlockContent

from wattbell.capture.hostcommands import HostCommands, joined
from wattbell.wire.decode import Gap

from .. import door
from ..errors import CaptureError, UsageError
from .block import COMPLETE as COMPLETED
from .block import ISSUE, SECTOR, Request, RequestPairing
from .events import COMPLETE, SETUP, Events, Pairing, WantedCommands
from .lines import numbered, shown
from .pages import COMPLETE_EVENT, SETUP_EVENT
from .traceblock import BLOCK_EVENTS, request_of
from .tracecommand import BEFORE_4_19, UNKNOWN_OPCODE, said_of
from .traceline import FOREIGN, NO_CPU, LostEvents, Stamp, TraceLine, begins_like_a_trace, line_of, mentions_command

_ENTRIES = re.compile(r"# entries-in-buffer/entries-written: (\d{1,18})/(\d{1,18})")
_OVERRAN = "the trace buffer overran"
_MOST_GAPS = 1000
"""Most separate gaps; more places become one gap over the whole."""
_MOST_NAMES = 6
_MOST_BACK_S = 1.0
"""A CPU's events are in order; more than this is another trace."""
_OFTEN_BACK = 0.1
"""Share of the commands' events, of all CPUs in the order of the file, that may be earlier than the one before. Programs print in order."""
_RECORD = "record the events nvme:nvme_setup_cmd and nvme:nvme_complete_rq"
_CLOCK = "choose a trace clock in seconds (echo mono_raw > trace_clock) and no tracer (echo nop > current_tracer)"


@dataclass
class _Place:
    """A line to be named: its number and text."""

    number: int
    text: str


@dataclass
class _Skipped:
    """Lines that are no command. ``events``: how many of each name or kind. ``foreign``: the first line that no program known here
    prints."""

    events: Counter[str] = field(default_factory=Counter)
    foreign: _Place | None = None

    def sentence(self) -> str | None:
        """Return a sentence on the skipped lines; None if no line was skipped."""
        if not self.events:
            return None
        named = self.events.most_common(_MOST_NAMES)
        words = [f"{count} {name}" for name, count in named]
        others = self.events.total() - sum(count for _, count in named)
        if others:
            words.append(f"{others} of {len(self.events) - len(named)} other kinds")
        found = f"{self.events.total()} lines are no event of a command's start or end and were skipped: {', '.join(words)}"
        if self.foreign is not None:
            found += f"; the first that no trace has is line {self.foreign.number}: {shown(self.foreign.text)}"
        return found + "."


class _Losses:
    """Places of missing events: between the last event before and the first after, on the same CPU if the text names the CPU."""

    def __init__(self) -> None:
        self._latest: dict[int, int] = {}
        self._latest_ns: int | None = None
        self._open: list[tuple[LostEvents, str, int | None]] = []
        self._found: list[tuple[int | None, int | None, int, str]] = []

    def at(self, stamp: Stamp) -> None:
        """Take the time of the next event."""
        still = []
        for loss, reason, first_ns in self._open:
            if loss.cpu is None or loss.cpu == stamp.cpu:
                self._found.append((first_ns, stamp.ns, loss.events, reason))
            else:
                still.append((loss, reason, first_ns))
        self._open = still
        self._latest[stamp.cpu] = self._latest_ns = stamp.ns

    def lost(self, loss: LostEvents, reason: str) -> None:
        """Take a loss behind the latest event."""
        self._open.append((loss, reason, self._latest_ns if loss.cpu is None else self._latest.get(loss.cpu)))

    def within(self, first: int, last: int) -> list[Gap]:
        """Return all gaps within a log from ``first`` to ``last`` in ns. An unknown end becomes the log's end."""
        places = [*self._found, *((begin, None, loss.events, reason) for loss, reason, begin in self._open)]
        gaps = []
        for begin, end, count, reason in places:
            low = first if begin is None else min(max(begin, first), last)
            high = last if end is None else min(max(end, low), last)
            gaps.append(Gap(BlockContent.COMMANDS, low, high, count, reason))
        if len(gaps) <= _MOST_GAPS:
            return gaps
        counts = [gap.count for gap in gaps]
        reason = ", ".join(dict.fromkeys(gap.reason for gap in gaps))
        ends = min(gap.first_tick for gap in gaps), max(gap.last_tick for gap in gaps)
        return [Gap(BlockContent.COMMANDS, *ends, -1 if min(counts) < 0 else sum(counts), reason)]


@dataclass
class _Trace:
    """The data read from a file.

    latest: ns of the latest command's event of each CPU
    before_ns: ns of the command's event before
    back: number of commands' events that are earlier than the one before
    rows: numbers of :class:`~.events.Events` without the disk
    u_ns: limit of the error of a time stamp
    unreadable: the first unreadable event of a command
    timeless: the first event without a time
    unread: number of both
    marked: whether a line reports a loss
    """

    path: Path
    latest: dict[int, int] = field(default_factory=dict)
    before_ns: int = 0
    back: int = 0
    rows: list[tuple[int, ...]] = field(default_factory=list)
    disks: list[bytes] = field(default_factory=list)
    requests: dict[str, list[Request]] = field(default_factory=dict)
    skipped: _Skipped = field(default_factory=_Skipped)
    losses: _Losses = field(default_factory=_Losses)
    overwritten: int = 0
    u_ns: int = 1
    by_fields: bool = False
    unknown_names: Counter[str] = field(default_factory=Counter)
    unknown_fields: Counter[str] = field(default_factory=Counter)
    unreadable: _Place | None = None
    timeless: _Place | None = None
    unread: int = 0
    marked: bool = False

    def events(self) -> Events:
        ns, kind, controller, qid, cid, opcode, nsid, lba, cdw12, status = (
            np.array(column, object) for column in zip(*self.rows, strict=True)
        )
        return Events(
            ns.astype(np.int64),
            kind.astype(np.uint8),
            controller.astype(np.int32),
            qid.astype(np.int32),
            cid.astype(np.uint16),
            opcode.astype(np.uint8),
            nsid.astype(np.uint32),
            lba.astype(np.uint64),
            cdw12.astype(np.uint32),
            status.astype(np.uint16),
            np.array(self.disks, "S32"),
        )

    def take(self, number: int, line: TraceLine, text: str) -> None:
        """One line."""
        if line.stamp is not None:
            self.losses.at(line.stamp)
            if not line.stamp.exact:
                # the kernel and trace-cmd round to the next us, perf truncates
                self.u_ns = max(self.u_ns, 1000 if line.stamp.perf else 500)
        if line.loss is not None:
            self.marked = True
            self.losses.lost(line.loss, _OVERRAN)
        if line.event in (SETUP_EVENT, COMPLETE_EVENT) and line.stamp is not None:
            self._forward(number, line.stamp)
            if not self._command(line.stamp, line):
                self._cannot(_Place(number, text), "unreadable")
        elif mentions_command(line):
            self._cannot(_Place(number, text), "timeless")
        elif line.event:
            self.skipped.events[line.event] += 1
            if line.is_foreign and self.skipped.foreign is None:
                self.skipped.foreign = _Place(number, text)
            if line.stamp is not None and line.event in BLOCK_EVENTS and (found := request_of(line.event, line.rest, line.stamp.ns)):
                self.requests.setdefault(found[0], []).append(found[1])

    def _command(self, stamp: Stamp, line: TraceLine) -> bool:
        said = said_of(line.event, line.rest)
        if said is None:
            return False
        kind = SETUP if line.event == SETUP_EVENT else COMPLETE
        self.rows.append((stamp.ns, kind, said.controller, said.qid, said.cid, said.opcode, said.nsid, said.lba, said.cdw12, said.status))
        self.disks.append(said.disk)
        self.by_fields |= said.by_fields
        self.unknown_fields.update(said.unknown_fields)
        if said.unknown_name:
            self.unknown_names[said.unknown_name] += 1
        return True

    def _forward(self, number: int, stamp: Stamp) -> None:
        """CaptureError where the time of a CPU goes back: the events of several traces in one file would be paired with each other."""
        back_s = (self.latest.get(stamp.cpu, stamp.ns) - stamp.ns) * 1e-9
        if stamp.cpu != NO_CPU and back_s > _MOST_BACK_S:
            raise CaptureError(
                f"{self.path}, line {number}: the time of CPU {stamp.cpu} goes back by {back_s:.3f} s. There seem to be several traces in "
                "the file; give each in a file of its own."
            )
        self.latest[stamp.cpu] = stamp.ns
        self.back += stamp.ns < self.before_ns
        self.before_ns = stamp.ns

    def _cannot(self, place: _Place, what: str) -> None:
        if getattr(self, what) is None:
            setattr(self, what, place)
        self.unread += 1
        self.losses.lost(LostEvents(None, 1), "a line of the trace cannot be read")


def matches(lines: Iterable[str]) -> bool:
    """Whether a text begins like a kernel trace's."""
    return any(begins_like_a_trace(line) for line in lines)


def read_trace_text(path: Path, wanted: WantedCommands | None = None, lba_bytes: int = SECTOR) -> HostCommands:
    """Return the commands of the text of a kernel trace, in ns of its trace clock. Raises CaptureError with the reason if no line can be
    used.

    wanted: filter, needed if there are several controllers
    lba_bytes: of a logical block; requests of the block layer need it
    """
    trace = _Trace(path)
    # only the last line of a file may be a part of one, so each line waits for the next
    waiting: tuple[int, str] | None = None
    for number, text in numbered(path, damaged=True):
        if entries := _ENTRIES.match(text):
            trace.overwritten = max(0, int(entries[2]) - int(entries[1]))
        if waiting:
            trace.take(waiting[0], line_of(waiting[1]), waiting[1])
        waiting = number, text
    cut = None if waiting is None else _last(trace, *waiting, ended=_ends_with_a_line(path))
    if not trace.rows and not trace.unreadable and not trace.timeless and trace.requests:
        return _requests(path, trace, cut, lba_bytes)
    if not trace.rows:
        for _ in numbered(path):
            pass  # raises where the file is no text
        raise CaptureError(_nothing(path, trace, cut))
    return _commands(path, trace, cut, wanted)


def _ends_with_a_line(path: Path) -> bool:
    """Whether a file that is not empty ends with the end of a line."""
    with door.open_file(path, door.LOG) as file:
        file.seek(-1, os.SEEK_END)
        return file.read() == b"\n"


def _last(trace: _Trace, number: int, text: str, *, ended: bool) -> _Place | None:
    """Take the last line of the file; return the line itself if it is cut. ``ended``: whether the line has its end."""
    line = line_of(text)
    unreadable = line.is_foreign or mentions_command(line)
    unreadable |= line.event in (SETUP_EVENT, COMPLETE_EVENT) and said_of(line.event, line.rest) is None
    # a completion ends with its status: what is left of 0x281 can be read, too
    if (unreadable or line.event == COMPLETE_EVENT) and not ended:
        return _Place(number, text)
    trace.take(number, line, text)
    return None


def _commands(path: Path, trace: _Trace, cut: _Place | None, wanted: WantedCommands | None) -> HostCommands:
    if trace.back > max(1, _OFTEN_BACK * len(trace.rows)):
        raise CaptureError(
            f"{path}: {trace.back} of {len(trace.rows)} events of commands are earlier than the one before: the times seem to be "
            "differences (perf script --deltatime), or the lines are in another order. Print a clock's times, in order (perf script --ns)."
        )
    events = trace.events()
    controllers = sorted(set(events.controller.tolist()))
    if wanted is None and len(controllers) > 1:
        names = " and ".join(f"nvme{number}" for number in controllers)
        pattern = f"ctrl_id={controllers[0]} " if trace.by_fields else f": nvme{controllers[0]}: "
        raise UsageError(f"{path}: it has commands of {names}; filter it: grep '{pattern}' {path}.")
    lost = _lost(trace, int(events.ns.min()), int(events.ns.max()))
    pairing = Pairing(wanted or WantedCommands(), trace.u_ns)
    parts = [pairing.add(events, lost)]
    in_flight = pairing.in_flight
    notes = pairing.notes()
    parts.append(pairing.end())
    if in_flight and not len(parts[0]):
        unread = trace.unreadable
        how = f"{trace.unread} events cannot be read, the first in line {unread.number}: {shown(unread.text)}" if unread else ""
        raise CaptureError(f"{path}: no command is completed in it: {how or 'record nvme_complete_rq, too'}.")
    if trace.unknown_names:
        names = ", ".join(sorted(trace.unknown_names))
        notes.append(f"commands of kinds that are not known here have opcode {UNKNOWN_OPCODE:02X}h: {names}")
    if trace.unknown_fields:
        extra = ", ".join(f"{name} ({count})" for name, count in trace.unknown_fields.most_common(_MOST_NAMES))
        notes.append(f"events have fields that are not known here and are not used: {extra}")
    whole = joined(parts)
    return HostCommands(whole.table, whole.markers, whole.lost, whole.source, [*notes, *_notes(trace, cut)], "trace")


def _requests(path: Path, trace: _Trace, cut: _Place | None, lba_bytes: int) -> HostCommands:
    """The requests of the block layer as commands."""
    if len(trace.requests) > 1:
        devices = sorted(trace.requests)
        raise UsageError(f"{path}: it has requests of the devices {' and '.join(devices)}; filter it: grep ' {devices[0]} ' {path}.")
    events = sorted(next(iter(trace.requests.values())), key=lambda event: event.ns)
    actions = {event.action for event in events}
    if not {ISSUE, COMPLETED} <= actions:
        missing = "block_rq_complete" if ISSUE in actions else "block_rq_issue"
        raise CaptureError(f"{path}: there is no {missing} in it: {_RECORD}, or block:block_rq_issue and block:block_rq_complete.")
    for name in BLOCK_EVENTS:
        trace.skipped.events.pop(name, None)
    pairing = RequestPairing(lba_bytes, trace.u_ns)
    found = pairing.add(events)
    if not len(found):
        raise CaptureError(f"{path}: no request is issued and completed in it: {_RECORD}.")
    notes = ["There are no NVMe events in the trace; its commands are the block layer's requests.", *pairing.notes()]
    lost = _lost(trace, events[0].ns, events[-1].ns)
    # a request has two events
    lost = [Gap(gap.kind, gap.first_tick, gap.last_tick, gap.count if gap.count < 0 else (gap.count + 1) // 2, gap.reason) for gap in lost]
    return HostCommands(found.table, [], lost, found.source, [*notes, *_notes(trace, cut)], "trace")


def _lost(trace: _Trace, first: int, last: int) -> list[Gap]:
    """Return the gaps. In a buffer that holds other events, too, nobody knows how many missing events were of commands."""
    gaps = trace.losses.within(first, last)
    if trace.overwritten and not trace.marked:
        gaps.append(Gap(BlockContent.COMMANDS, first, first, trace.overwritten, f"{_OVERRAN} before it was read"))
    mixed = any(count for name, count in trace.skipped.events.items() if name not in BLOCK_EVENTS or trace.rows)
    if not mixed:
        return gaps
    return [
        Gap(gap.kind, gap.first_tick, gap.last_tick, -1, f"{gap.reason} ({gap.count} events of any kind)")
        if gap.reason.startswith(_OVERRAN) and gap.count >= 0
        else gap
        for gap in gaps
    ]


def _notes(trace: _Trace, cut: _Place | None) -> list[str]:
    """Return notes on the file for a reader of the commands, each a sentence."""
    notes = []
    if trace.unread:
        first = min((place for place in (trace.unreadable, trace.timeless) if place), key=lambda place: place.number)
        notes.append(
            f"{trace.unread} lines with an event of a command cannot be read and count as lost; the first is line {first.number}: "
            f"{shown(first.text)}"
        )
    if (skipped := trace.skipped.sentence()) is not None:
        notes.append(skipped)
    if cut is not None:
        notes.append(f"line {cut.number}, the last one, is cut: {shown(cut.text)}")
    return notes


def _nothing(path: Path, trace: _Trace, cut: _Place | None) -> str:
    """Return why a file has no command, with advice."""
    events = trace.skipped.events
    if trace.timeless:
        return (
            f"{path}, line {trace.timeless.number}: an event without a time in seconds: {shown(trace.timeless.text)}. To record, {_CLOCK}."
        )
    unreadable = trace.unreadable or cut
    if unreadable and (trace.unreadable or not events):
        return (
            f"{path}, line {unreadable.number}: no line of a trace, or no event as Linux 4.19 or newer writes it: {shown(unreadable.text)}"
        )
    if any(name in events for name in BEFORE_4_19):
        return f"{path}: {', '.join(name for name in BEFORE_4_19 if name in events)} is of Linux before 4.19, which is not read."
    foreign = trace.skipped.foreign
    if foreign is not None and events.total() == sum(count for name, count in events.items() if name == FOREIGN):
        return f"{path}, line {foreign.number}: no line of a trace: {shown(foreign.text)}"
    seen = ", ".join(f"{count} {name}" for name, count in events.most_common(_MOST_NAMES))
    return f"{path}: there is no event nvme_setup_cmd or nvme_complete_rq in it{f'; it has {seen}' if seen else ''}. To import, {_RECORD}."
