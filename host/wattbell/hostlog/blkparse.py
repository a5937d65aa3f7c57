"""blkparse's text (its default output format, blkparse(1)).

``8,0  3  1  0.000072500  697  D  R 223490 + 8 [fio]``: device, CPU, sequence, seconds since the first event, PID, action, RWBS, sector,
``+``, sectors, process. At a completion (C) the error takes the place of the process.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from wattbell_spec.wire import BlockContent

from wattbell.capture.hostcommands import HostCommands
from wattbell.wire.decode import Gap

from ..errors import CaptureError, UsageError
from .block import COMPLETE, ISSUE, REQUEUE, SECTOR, Request, RequestPairing
from .lines import numbered, shown

LINE = re.compile(
    r"\s*(?P<device>\d+,\d+)\s+\d+\s+\d+\s+(?P<s>\d{1,9})\.(?P<ns>\d{9})\s+\d+\s+(?P<action>[A-Z]{1,2})\s+"
    r"(?P<rwbs>[A-Z]{1,8})(?:\s+(?P<sector>\d{1,16}) \+ (?P<count>\d{1,9}))?(?=\s|$)"
)
OWN_ZERO = "blkparse"
"""``clock`` of a blkparse text: its times count from its own first event."""
_EVENT = re.compile(r"\s*\d+,\d+\s+\d+\s+\d+\s+\d+\.\d+\s+\d+\s+[A-Za-z]{1,2}\s")
_CUT = re.compile(r"\s*\d{1,5},\d{1,8}\s+\d")
"""The begin of an event: a line that does not continue as an event is cut."""
_DROPPED = re.compile(r"^\s*You have (\d{1,18}) dropped events|^Skips: \d{1,18} forward \((?!0 )(\d{1,18}) ")
_SUMMARY = re.compile(r"\s*(CPU\d+|Total) \(")
_ERROR = re.compile(r"\[(-?\d{1,6})\]\s*$")


def what_of(rwbs: str) -> str | None:
    """Return read, write, trim or sync for the RWBS field (blkparse(1)); None for others. A flush without data is a sync."""
    if "D" in rwbs:
        return "trim"
    if "R" in rwbs:
        return "read"
    if "W" in rwbs:
        return "write"
    return "sync" if "F" in rwbs else None


def matches(lines: Iterable[str]) -> bool:
    """Whether a text begins like blkparse's."""
    return any(_EVENT.match(line) for line in lines)


def read_blkparse_log(path: Path, device: str | None = None, lba_bytes: int = SECTOR) -> HostCommands:
    """Return the commands of a blkparse text, in ns since its first event, which no clock of a capture is.

    device: ``major,minor``, needed if there are several

    Lines that are no events are skipped, counted and named. An event that is cut is a loss, as are events that blktrace dropped. Raises
    CaptureError if no request can be used, UsageError if the device is not given.
    """
    found: dict[str, list[Request]] = {}
    foreign: list[tuple[int, str]] = []
    lost: list[Gap] = []
    latest, dropped, summed_up = 0, 0, False
    cut: list[str] = []
    for number, line in numbered(path, damaged=True, cut=cut):
        if told := _DROPPED.search(line):
            dropped += int(told[1] or told[2])
        elif summed_up or _SUMMARY.match(line):
            summed_up = True
        elif request := _request(line):
            latest = max(latest, request[1].ns)
            found.setdefault(request[0], []).append(request[1])
        elif line.strip() and not _EVENT.match(line):
            foreign.append((number, line))
            if _CUT.match(line):
                lost.append(Gap(BlockContent.COMMANDS, latest, latest, 1, "an event cannot be read"))
    if device is None and len(found) > 1:
        raise UsageError(f"{path}: it has the devices {' and '.join(sorted(found))}; import one: blkparse -d, or trace one device.")
    events = found.get(device, []) if device else next(iter(found.values()), [])
    pairing = RequestPairing(lba_bytes)
    commands = pairing.add(sorted(events, key=lambda event: event.ns))
    if not len(commands):
        raise CaptureError(_nothing(path, events, foreign))
    if dropped:
        lost.append(Gap(BlockContent.COMMANDS, min(event.ns for event in events), latest, (dropped + 1) // 2, "blktrace dropped events"))
    notes = [*pairing.notes(), *cut]
    if foreign:
        number, line = foreign[0]
        notes.append(f"{len(foreign)} lines are not blkparse's and were skipped; the first is line {number}: {shown(line)}")
    return HostCommands(commands.table, [], lost, commands.source, notes, OWN_ZERO)


def _nothing(path: Path, events: list[Request], foreign: list[tuple[int, str]]) -> str:
    """Why there is no command in a file."""
    for _ in numbered(path):
        pass  # raises where the file is no text
    if foreign:
        number, line = foreign[0]
        return f"{path}, line {number}: no line of blkparse: {shown(line)}. Is the file cut, or from a format of its own (-f)?"
    how = "trace with blktrace -a issue -a complete"
    if not any(event.action == COMPLETE for event in events):
        return f"{path}: no request is completed in it (action C); {how}."
    return f"{path}: no request is issued (action D) and completed (C) in it; {how}."


def _request(line: str) -> tuple[str, Request] | None:
    """(device, event); None for any other line, and for an event that is not wanted."""
    match = LINE.match(line)
    if not match:
        return None
    what = what_of(match["rwbs"])
    if match["action"] not in (ISSUE, COMPLETE, REQUEUE) or what is None or not (what == "sync" or int(match["count"] or 0)):
        return None
    ns = int(match["s"]) * 1_000_000_000 + int(match["ns"])
    error = _ERROR.search(line) if match["action"] == COMPLETE else None
    count = 0 if what == "sync" else int(match["count"] or 0)
    return match["device"], Request(ns, match["action"], what, int(match["sector"] or 0), count, int(error[1]) if error else 0)
