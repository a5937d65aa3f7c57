"""The judge compares the sent data with the capture, and checks that every figure over missing data says so."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wattbell.analysis import analyze
from wattbell.capture import Capture

from tests.faults.faultstream import COMMANDS, EVENTS, RAIL, STATUS, TLP, Sent

Key = tuple[int, ...]
_WINDOW_KEYS = ("commands", "rates", "queue_depth", "power", "efficiency", "energy_per_command", "consistency")


class NotHere(Exception):
    """This machine lacks a part that a fault needs, so the fault cannot be tried."""


@dataclass
class Verdict:
    """Verdict on a try.

    - ``lost``: records sent but not in the capture.
    - ``silent``: unreported faults, in words; empty if all is well.
    - ``told``: the capture reports that data is missing.
    """

    lost: int = 0
    told: bool = False
    silent: list[str] = field(default_factory=list)


def judge(sent: Sequence[Sent], capture: Capture, harmless: bool = False) -> Verdict:
    """Compare the sent data with a capture and its analysis. ``harmless``: nothing may be lost, and nothing may be marked."""
    result = analyze(capture)
    verdict = Verdict(told=not capture.meta["loss"].get("lossless", False))
    missing, phantoms = _compare(sent, capture)
    verdict.lost = len(missing)
    verdict.silent += [f"in the capture, but never sent: kind {kind} {key}" for kind, key in phantoms[:3]]
    if missing:
        kinds = dict(Counter(record.kind for record in missing))
        if not verdict.told:
            verdict.silent.append(f"lossless, but records are missing (by kind): {kinds}")
        if not result["warnings"]:
            verdict.silent.append(f"no warning, but records are missing (by kind): {kinds}")
        for where, touched in _touched(result, missing, sent, capture):
            unmarked = [path for path, lost in _marks(touched) if lost == 0]
            if unmarked:
                verdict.silent.append(f"{where}: {len(unmarked)} figures unmarked over missing {kinds}, such as {unmarked[0]}")
    if harmless:
        if missing:
            verdict.silent.append(f"lost by a fault that loses nothing: {len(missing)}")
        if verdict.told:
            verdict.silent.append("not lossless, but nothing was lost")
        alarms = [path for path, lost in _marks(result) if lost != 0]
        if alarms:
            verdict.silent.append(f"nothing was lost, but {len(alarms)} figures are marked, such as {alarms[0]}")
    return verdict


def missing_records(sent: Sequence[Sent], capture: Capture) -> list[Sent]:
    """Return the sent records that are not in the capture."""
    return _compare(sent, capture)[0]


def _compare(sent: Sequence[Sent], capture: Capture) -> tuple[list[Sent], list[tuple[int, Key]]]:
    """Return records missing in the capture, and keys in it that nobody sent (or that it has twice)."""
    got = _recorded(capture)
    missing = []
    for record in sent:
        name = (record.kind, record.key)
        if got[name]:
            got[name] -= 1
        elif record.kind in (COMMANDS, RAIL, EVENTS, TLP, STATUS):
            missing.append(record)
    return missing, [name for name, count in got.items() if count]


def _recorded(capture: Capture) -> Counter[tuple[int, Key]]:
    found: Counter[tuple[int, Key]] = Counter()
    rows = (
        capture.commands.select("cid", "opcode", "qid", "status", "blocks", "slba", "cqe_tick", "doorbell_tick", "fetch_tick")
        .collect()
        .iter_rows()
    )
    for *fixed, cqe, doorbell, fetch in rows:
        start = doorbell if doorbell is not None else fetch if fetch is not None else cqe
        found[COMMANDS, (*fixed, cqe - start)] += 1
    columns = capture.table("rail_blocks").collect()
    for row in columns.select("adc_index", "energy_raw", "energy_high", "count").iter_rows():
        adc, low, high, count = row
        found[RAIL, (adc, low & (2**64 - 1), high, count)] += 1
    for row in capture.events.select("type", "arg8", "arg16", "arg32").collect().iter_rows():
        found[EVENTS, row] += 1
    for direction, flags, data in capture.table("tlps").select("direction", "flags", "bytes").collect().iter_rows():
        found[TLP, (direction, flags, *data)] += 1
    for row in capture.table("status").select("run", "tlps_down", "tlps_up", "commands").collect().iter_rows():
        found[STATUS, row] += 1
    return found


def _touched(
    result: Mapping[str, Any], missing: Sequence[Sent], sent: Sequence[Sent], capture: Capture
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the parts of the result with a missing record in their time.

    The whole capture's parts always count. If the rig restarted and the capture does not place each of its runs, only these parts
    are judged.
    """
    yield "whole capture", {name: result.get(name) for name in _WINDOW_KEYS}
    offsets = capture.meta["journal"]["tick_offsets"]
    runs = sorted({record.run for record in sent})
    if len(offsets) != len(runs):
        return
    offset = dict(zip(runs, offsets, strict=True))
    # a run without its end has an unknown length: the next run is placed after the arrived part, and the time from there counts as
    # its own
    begins = {run: offset[run] + min(record.first_tick for record in sent if record.run == run) for run in runs}
    ends = dict(zip(runs, [*list(begins.values())[1:], 1 << 62], strict=True))

    def over(record: Sent, first: int, last: int) -> bool:
        return first < ends[record.run] and _in(record, first - offset[record.run], min(last, ends[record.run]) - offset[record.run])

    for phase in result["phases"]:
        first, last = phase["first_tick"], phase["last_tick"]
        if any("end of the capture" in note for note in phase["notes"]):
            last = 1 << 62
        if any(over(record, first, last) for record in missing):
            yield f"phase {phase['phase']}", {name: phase.get(name) for name in _WINDOW_KEYS}
    spans: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for segment in result["idle"].get("segments", []):
        spans[segment["level"]].append((segment["first_tick"], segment["last_tick"]))
    for number, level in enumerate(result["idle"].get("levels", [])):
        if any(over(record, a, b) for record in missing for a, b in spans[number]):
            yield f"idle level {number}", {"level": level}


def _in(record: Sent, first: int, last: int) -> bool:
    """Return whether a window's figures cover the time of a record. A command belongs to the phase in which it begins."""
    if record.kind == COMMANDS:
        return first <= record.start_tick < last
    return record.first_tick < last and record.last_tick >= first


def _marks(part: Any, path: str = "") -> Iterable[tuple[str, Any]]:
    """Yield (path, ``lost``) of every figure in a part of the result, counts of commands included."""
    if isinstance(part, Mapping):
        if "value" in part and "unit" in part:
            if part["value"] is not None:
                yield path, part.get("lost", 0)
        elif "lost" in part and "total" in part:
            yield f"{path}.lost", part["lost"]
        for name, inner in part.items():
            yield from _marks(inner, f"{path}.{name}" if path else str(name))
    elif isinstance(part, list):
        for number, inner in enumerate(part):
            yield from _marks(inner, f"{path}[{number}]")
