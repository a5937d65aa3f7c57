"""Phases of a capture: the windows between in-band markers ``k << 8 | 1`` and ``k << 8 | 2``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl
from wattbell_spec.wire import EventType, MarkerSource

START, END = 1, 2


@dataclass(frozen=True)
class Phase:
    """Phase ``number`` lies in ``[first_tick, last_tick)``: from the doorbell of its start marker to that of its end.

    ``notes`` says what is wrong with its markers, if anything; ``described`` is its entry of ``workload.phases``.
    """

    number: int
    name: str
    kind: str
    first_tick: int
    last_tick: int
    notes: tuple[str, ...] = ()
    described: Mapping[str, Any] = field(default_factory=dict)

    @property
    def edge_u_s(self) -> float:
        """By how much each edge may be off against the rail, in s: 0 where the tap saw the markers."""
        return float(self.described.get("edge_u_s") or 0.0)


def find_phases(events: pl.DataFrame, workload: Mapping[str, Any], last_tick: int) -> list[Phase]:
    """The phases, in order of time.

    ``events`` has columns ``tick``, ``type``, ``arg8``, ``arg32``. A start without an end lasts until the next start or
    ``last_tick``; an end without a start is ignored. A number that comes again gives another phase of that number.
    """
    described = {int(p["phase"]): p for p in workload.get("phases") or [] if "phase" in p}
    markers = events.filter((pl.col("type") == int(EventType.MARKER)) & (pl.col("arg8") == int(MarkerSource.IN_BAND))).sort(
        "tick", maintain_order=True
    )
    found: list[Phase] = []
    open_number: int | None = None
    open_tick = 0

    def close(tick: int, notes: tuple[str, ...]) -> None:
        assert open_number is not None
        entry = described.get(open_number, {})
        name = str(entry.get("name") or f"phase {open_number}")
        kind = str(entry.get("kind") or "unknown")
        found.append(Phase(open_number, name, kind, open_tick, tick, notes, entry))

    for tick, value in markers.select("tick", "arg32").iter_rows():
        number, edge = int(value) >> 8, int(value) & 0xFF
        if edge == START:
            if open_number is not None:
                close(int(tick), ("no end marker: cut at the next start",))
            open_number, open_tick = number, int(tick)
        elif edge == END and open_number == number:
            close(int(tick), ())
            open_number = None
    if open_number is not None:
        close(max(last_tick, open_tick), ("no end marker: lasts to the end of the capture",))
    return found
