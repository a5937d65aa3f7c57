"""blkparse's text (its default output format, blkparse(1)).

``8,0  3  1  0.000072500  697  D  R 223490 + 8 [fio]``: device, CPU, sequence, seconds since the first event, PID, action, RWBS, sector,
``+``, sectors, process; at a completion (C) the error stands where the process does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from wattbell.capture.hostcommands import HostCommands

from ..errors import CaptureError, UsageError
from .block import COMPLETE, ISSUE, REQUEUE, SECTOR, Request, RequestPairing
from .lines import numbered, shown

LINE = re.compile(
    r"\s*(?P<device>\d+,\d+)\s+\d+\s+\d+\s+(?P<s>\d{1,9})\.(?P<ns>\d{9})\s+\d+\s+(?P<action>[A-Z]{1,2})\s+"
    r"(?P<rwbs>[A-Z]{1,8})(?:\s+(?P<sector>\d{1,16}) \+ (?P<count>\d{1,9}))?(?=\s|$)"
)
OWN_ZERO = "blkparse"
"""``clock`` of a blkparse text, whose times count from its own first event."""
_EVENT = re.compile(r"\s*\d+,\d+\s+\d+\s+\d+\s+\d+\.\d+\s+\d+\s+[A-Za-z]{1,2}\s")
_SUMMARY = re.compile(r"\s*(CPU\d+|Total) \(")
_ERROR = re.compile(r"\[(-?\d{1,6})\]\s*$")


def what_of(rwbs: str) -> str | None:
    """read, write, trim or sync for the RWBS field (blkparse(1)); None for what is neither. A flush without data is a sync."""
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
    """The commands of a blkparse text: ns since its first event, which no clock of a capture is. ``device``: ``major,minor``, needed where
    there are several. CaptureError with the line for a foreign or cut file, UsageError where the device is not told."""
    found: dict[str, list[Request]] = {}
    for number, line in numbered(path):
        if _SUMMARY.match(line):
            break
        request = _request(line, f"{path}, line {number}")
        if request:
            found.setdefault(request[0], []).append(request[1])
    if device is None and len(found) > 1:
        raise UsageError(f"{path}: it has the devices {' and '.join(sorted(found))}; import one: blkparse -d, or trace one device.")
    events = found.get(device, []) if device else next(iter(found.values()), [])
    if not any(event.action == COMPLETE for event in events):
        raise CaptureError(f"{path}: no request is completed in it (action C); trace with blktrace -a issue -a complete.")
    pairing = RequestPairing(lba_bytes)
    commands = pairing.add(sorted(events, key=lambda event: event.ns))
    if not len(commands):
        raise CaptureError(f"{path}: no request is issued (action D) and completed (C) in it; trace with blktrace -a issue -a complete.")
    return HostCommands(commands.table, source=commands.source, notes=pairing.notes(), clock=OWN_ZERO)


def _request(line: str, where: str) -> tuple[str, Request] | None:
    """(device, event); None for an event that is not wanted. CaptureError for a line that is none."""
    if not line.strip():
        return None
    match = LINE.match(line)
    if not match:
        # plug (P), unplug (U), a message (m): another form behind the action
        if _EVENT.match(line):
            return None
        raise CaptureError(f"{where}: no line of blkparse: {shown(line)}. Is the file cut, or from a format of its own (-f)?")
    what = what_of(match["rwbs"])
    if match["action"] not in (ISSUE, COMPLETE, REQUEUE) or what is None or not (what == "sync" or int(match["count"] or 0)):
        return None
    ns = int(match["s"]) * 1_000_000_000 + int(match["ns"])
    error = _ERROR.search(line) if match["action"] == COMPLETE else None
    count = 0 if what == "sync" else int(match["count"] or 0)
    return match["device"], Request(ns, match["action"], what, int(match["sector"] or 0), count, int(error[1]) if error else 0)
