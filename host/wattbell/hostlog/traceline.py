"""One line of a kernel trace's text: its time and event, a loss, or another named line.

Three programs print these lines. tracefs (``trace``, ``trace_pipe``) and ``trace-cmd report`` print ``fio-184 [001] d.h1. 6.481747: EVENT:
...``; the marks behind the CPU may be absent. ``report --ts-diff`` adds ``(+12)`` behind the time. ``perf script`` prints ``fio 184 [001]
6.481747: SYSTEM:EVENT: ...``, and no CPU if the record has none. With the option latency-format the CPU comes before the marks, ``fio-184
1d.h1. 12us : EVENT: ...``, and the time counts from the start of the buffer.

Sources: the kernel (kernel/trace/trace_output.c), trace-cmd (libtraceevent) and perf (builtin-script.c).
"""

from __future__ import annotations

import re
from typing import NamedTuple

NO_CPU = -1
_MOST_S = 9_000_000_000
"""Seconds beyond which ns do not fit 64 bits."""
_HEAD = re.compile(r"cpus=|version = |\s*CPU \d+ is empty\s*$")
_TIME = re.compile(
    r".{0,80}?\s\[(?P<cpu>\d{1,5})\](?:\s+[^\s\d:][^\s:]{2,8})?\s+(?P<s>\d{1,10})\.(?P<part>\d{9}|\d{6}):\s*(?:\(\+\d{1,18}\)\s*)?"
)
_LATENCY = re.compile(
    r"\s*\S.{0,40}?-\d{1,10}\s+(?P<cpu>\d{1,5})[^\s\d:][^\s:]{1,7}\s+(?:(?P<us>\d{1,15})us\s?[-+!#*@$>]?\s*|(?P<s>\d{1,10})\.(?P<part>\d{9}|\d{6})):\s*"
)
_PERF = re.compile(
    r"\s*\S.{0,30}?\s+-?\d{1,10}(?:/-?\d{1,10})?\s+(?:\[(?P<cpu>\d{1,5})\]\s+)?(?P<s>\d{1,10})\.(?P<part>\d{9}|\d{6}):\s+(?:\d{1,19}\s+)?(?=[a-z][\w-]*:\w)"
)
_EVENT = re.compile(r"(?:(?P<system>[A-Za-z_][\w-]*):)?(?P<event>[A-Za-z_]\w*):(?:\s+(?P<rest>.*))?$")
_LOST = re.compile(r"\s*CPU:\s?(?P<cpu>\d{1,5}) \[(?:LOST (?:(?P<lost>\d{1,18}) )?EVENTS|(?:(?P<dropped>\d{1,18}) )?EVENTS DROPPED)\]\s*$")
_PERF_LOST = re.compile(r"PERF_RECORD_LOST(?:_SAMPLES)?\b.*?\blost[ :]+(?P<lost>\d{1,18})")
_PERF_CHUNKS = re.compile(r"\s*Processed \d+ events and lost \d+ (?:chunks|samples|events)!")
_CALL = re.compile(r"\S+ <-\S+")
_STACK = re.compile(r"\s*=>|\s+[0-9a-f]{6,16}\s+\S|.{0,20}<(?:user )?stack trace\s?>")
_GRAPH = re.compile(r"\s*(?:\d+\.\d+\s*\|\s*)?\d+\)\s.*[|/]")
STACK, CALL, GRAPH, FOREIGN = "lines of stacks", "function calls", "lines of a function graph", "lines that are no trace's"
_NVME = re.compile(r"\bnvme_(?:setup_cmd|complete_rq):")


class Stamp(NamedTuple):
    """When and where a line's event was. ``cpu``: :data:`NO_CPU` where the line names none. ``exact``: whether the line has ns. ``perf``:
    whether the line names the event's system, as perf does."""

    cpu: int
    ns: int
    exact: bool
    perf: bool = False


class LostEvents(NamedTuple):
    """Events that are missing. ``cpu``: None if the line does not tell. ``events``: how many; -1 where the line does not tell."""

    cpu: int | None
    events: int


class TraceLine(NamedTuple):
    """The content of one line.

    stamp: None for a line without a time
    event: name of a trace event, or the kind of another line (:data:`STACK`, :data:`CALL`, :data:`GRAPH`, :data:`FOREIGN`); empty for
        headings and blank lines
    rest: the event's own text
    loss: the loss that the line reports
    """

    stamp: Stamp | None
    event: str
    rest: str = ""
    loss: LostEvents | None = None

    @property
    def is_foreign(self) -> bool:
        """Whether no program that is known here prints such a line."""
        return self.event == FOREIGN


_NOTHING = TraceLine(None, "")


def line_of(text: str) -> TraceLine:
    """Return the content of a line of a trace."""
    if not text.strip() or text.startswith("#"):
        return _NOTHING
    if lost := _LOST.match(text):
        return TraceLine(None, "", loss=LostEvents(int(lost["cpu"]), int(lost["lost"] or lost["dropped"] or -1)))
    if _PERF_CHUNKS.match(text):
        return TraceLine(None, "", loss=LostEvents(None, -1))
    # only the first match counts: behind it is text by the author of the event
    when = _PERF.match(text) or _TIME.match(text) or _LATENCY.match(text)
    if when is None:
        if _HEAD.match(text):
            return _NOTHING
        return TraceLine(None, _kind(text), text.strip())
    stamp = _stamp(when)
    if stamp is None:
        return TraceLine(None, FOREIGN, text.strip())
    rest = text[when.end() :]
    if lost := _PERF_LOST.match(rest):
        return TraceLine(stamp, "", loss=LostEvents(stamp.cpu, int(lost["lost"])))
    said = _EVENT.match(rest)
    if said is None:
        return TraceLine(stamp, _kind(rest), rest.strip())
    if said["system"] is not None:
        stamp = stamp._replace(perf=True)
        if said["event"].startswith("nvme_") and said["system"] != "nvme":
            return TraceLine(stamp, f"{said['system']}:{said['event']}", "")
    return TraceLine(stamp, said["event"], (said["rest"] or "").strip())


def mentions_command(line: TraceLine) -> bool:
    """Whether a line without a usable time holds an event of an NVMe command, or a part of one."""
    return line.event in (FOREIGN, GRAPH) and _NVME.search(line.rest) is not None


def begins_like_a_trace(text: str) -> bool:
    """Return whether a line distinguishes a trace's text from other files."""
    if text.startswith(("# tracer:", "cpus=", "version = ")) or re.match(r"CPU \d+ is empty\s*$", text):
        return True
    line = line_of(text)
    return line.stamp is not None or line.loss is not None


def _stamp(when: re.Match[str]) -> Stamp | None:
    found = when.groupdict()
    if found.get("us"):
        return Stamp(int(found["cpu"]), int(found["us"]) * 1000, False)
    if int(found["s"]) >= _MOST_S:
        return None
    ns = int(found["s"]) * 1_000_000_000 + int(found["part"].ljust(9, "0"))
    return Stamp(NO_CPU if found["cpu"] is None else int(found["cpu"]), ns, len(found["part"]) == 9)


def _kind(text: str) -> str:
    if _STACK.match(text):
        return STACK
    if _CALL.match(text):
        return CALL
    return GRAPH if _GRAPH.match(text) else FOREIGN
