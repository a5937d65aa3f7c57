"""A drive's reports on its health (SMART / Health Information, log page 02h) before, during and after a test.

Readings are in ``workload/health.json`` of a capture, in order of time. Units are the log page's (NVM Express Base Specification, Get Log
Page), temperatures in degrees Celsius.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from .. import door
from ..jsondata import JsonObject

FILE = "health.json"
SERIES_MOST = 300
"""Points of a test's temperatures in results.json: of more, the hottest of equal stretches."""
_Count = Annotated[int, msgspec.Meta(ge=0)]


class HealthReading(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``at_ns``: CLOCK_MONOTONIC_RAW, when the command had been answered. ``phases``: how many phases had ended before; ``during``: within
    the next one. ``light_count``, ``light_s``: entries into, and time in, the state of Thermal Management Temperature 1; ``heavy_...``:
    of 2. ``warning_min``, ``critical_min``: minutes above the warning and critical composite temperature. Counts are for life."""

    at_ns: int
    phases: _Count
    during: bool = False
    temperature_c: float | None = None
    sensors_c: tuple[float, ...] = ()
    critical_warning: _Count = 0
    available_spare_percent: _Count | None = None
    percentage_used: _Count | None = None
    media_errors: _Count | None = None
    unsafe_shutdowns: _Count | None = None
    error_log_entries: _Count | None = None
    warning_min: _Count = 0
    critical_min: _Count = 0
    light_count: _Count = 0
    heavy_count: _Count = 0
    light_s: _Count = 0
    heavy_s: _Count = 0


class Record(msgspec.Struct, frozen=True):
    """The file. ``absent``: why there are no (further) readings; empty if there is nothing to say."""

    readings: tuple[HealthReading, ...] = ()
    absent: str = ""


def load(workload: Path) -> Record | None:
    """The readings of a capture; None if nobody wrote any (a virtual drive, an older capture), or they cannot be read."""
    try:
        return msgspec.json.decode(door.read_bytes(workload / FILE, door.DOCUMENT), type=Record)
    except (OSError, msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def owner(name: str, tests: Sequence[str]) -> str | None:
    """Return the test of a phase: the phase's name begins with the test's id, and the longest such id counts.

    ``idle-wake-up#1`` thus does not belong to the test ``idle``.
    """
    base = name.partition("/")[0]
    mine = [test for test in tests if base == test or base.startswith((f"{test}#", f"{test}-"))]
    return max(mine, key=len, default=None)


def of_test(record: Record, phases: Sequence[str], test: str, tests: Sequence[str]) -> JsonObject | None:
    """Return ``health`` of a test in results.json (docs/real-drive.md); None if nothing was read for it.

    phases: names of all phases, in order
    tests: ids of the session's tests
    """
    mine = [k for k, name in enumerate(phases) if owner(name, tests) == test]
    if not mine or not record.readings:
        return None
    first, last = mine[0], mine[-1]
    before = _last([r for r in record.readings if not r.during and r.phases <= first])
    after = next((r for r in record.readings if not r.during and r.phases > last), None)
    during = [r for r in record.readings if r.during and first <= r.phases <= last]
    seen = [r for r in (before, *during, after) if r is not None]
    if not seen:
        return None
    known = [(r.at_ns, r.temperature_c) for r in seen if r.temperature_c is not None]
    begin, end = seen[0], seen[-1]
    risen = {name: getattr(end, name) - getattr(begin, name) for name in _RISING}
    more = {name: (getattr(end, name) or 0) - (getattr(begin, name) or 0) for name in ("media_errors", "unsafe_shutdowns")}
    return {
        "before_c": None if before is None else before.temperature_c,
        "highest_c": max((c for _, c in known), default=None),
        "after_c": None if after is None else after.temperature_c,
        "readings": len(during),
        "risen": {name: n for name, n in {**risen, **more}.items() if n > 0},
        "critical_warning": max(r.critical_warning for r in seen),
        "series": _series(known),
    }


def of_drive(record: Record) -> JsonObject:
    """``conditions.health`` of results.json: how worn the drive is, by the latest reading; why there is none."""
    if not record.readings:
        return {"absent": record.absent}
    latest = record.readings[-1]
    kept = ("percentage_used", "available_spare_percent", "media_errors", "unsafe_shutdowns", "error_log_entries", "critical_warning")
    return {name: getattr(latest, name) for name in kept} | ({"absent": record.absent} if record.absent else {})


_RISING = ("light_count", "heavy_count", "light_s", "heavy_s", "warning_min", "critical_min")
_WARNINGS = (
    "its available spare is below the threshold",
    "its temperature is beyond a threshold",
    "its reliability is degraded",
    "it is read-only",
    "the backup of its volatile memory has failed",
    "its persistent memory region is unreliable",
)
"""Bits of Critical Warning."""


def _last(items: Sequence[HealthReading]) -> HealthReading | None:
    return items[-1] if items else None


def _series(known: Sequence[tuple[int, float]]) -> JsonObject:
    """Seconds since the first reading, and degrees."""
    step = max(1, -(-len(known) // SERIES_MOST))
    hottest = [max(known[k : k + step], key=lambda item: item[1]) for k in range(0, len(known), step)]
    return {"t_s": [round((at - known[0][0]) * 1e-9, 1) for at, _ in hottest], "c": [c for _, c in hottest]}


def throttled(health: JsonObject | None) -> str:
    """Return in words how often and how long the drive slowed itself down during a test; empty if it did not, or nothing is known."""
    risen = (health or {}).get("risen") or {}
    parts = []
    for which, name in (("light", "1"), ("heavy", "2")):
        times, seconds = risen.get(f"{which}_count", 0), risen.get(f"{which}_s", 0)
        if times or seconds:
            parts.append(f"thermal management {name} {f'{times} times' if times != 1 else 'once'}, {seconds} s in all")
    for key, name in (("warning_min", "warning"), ("critical_min", "critical")):
        if minutes := risen.get(key, 0):
            parts.append(f"{minutes} min above the {name} temperature")
    return "; ".join(parts)


def notes(health: JsonObject | None) -> list[str]:
    """Return notes on the drive's health for a reader of a test's figures."""
    if health is None:
        return []
    found = []
    highest, slowed = health["highest_c"], throttled(health)
    if slowed:
        at = "" if highest is None else f", at up to {highest:g} °C"
        found.append(f"THROTTLED while this test ran: {slowed}{at}. The figures are those of a hot drive")
    for key, what in (("media_errors", "media and data integrity errors"), ("unsafe_shutdowns", "unsafe shutdowns")):
        if more := health["risen"].get(key):
            found.append(f"the drive counted {more} more {what} while this test ran")
    warned = [text for bit, text in enumerate(_WARNINGS) if health["critical_warning"] >> bit & 1]
    if warned:
        found.append(f"the drive warned while this test ran: {', '.join(warned)}")
    return found


__all__ = ["FILE", "HealthReading", "Record", "load", "notes", "of_drive", "of_test", "owner", "throttled"]
