"""Describe the surroundings of a real drive (link, host computer, clocks) as lines for a reader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wattbell.text import si


def around_rows(conditions: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (name, text) from the ``conditions`` of a capture; missing entries are left out."""
    rows = [("slot", worded(conditions.get("link"))), ("computer", worded(conditions.get("computer")))]
    log = conditions.get("host_log")
    if isinstance(log, Mapping):
        clock = log.get("clock_map")
        placed = (
            f"by {clock['method']}, within {si(clock['bound_s'], 's')}" if isinstance(clock, Mapping) else "not placed on the rail's clock"
        )
        rows.append(("host's log", f"{log.get('source')}, {log.get('commands')} commands; {placed}"))
    return [(name, text) for name, text in rows if text]


def worded(value: Any) -> str:
    """A condition that is a table, in words: its own ``text``, or its entries."""
    if not isinstance(value, Mapping):
        return "" if value is None else str(value)
    if isinstance(value.get("text"), str):
        return str(value["text"])
    parts = {name.replace("_", " "): " ".join(map(str, v)) if isinstance(v, list | tuple) else v for name, v in value.items()}
    return ", ".join(f"{name}: {worded(v)}" for name, v in parts.items() if v not in (None, "", {}))
