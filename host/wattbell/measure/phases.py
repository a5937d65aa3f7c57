"""Phases of a capture: the windows between in-band markers ``k << 8 | 1`` and ``k << 8 | 2``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl
from wattbell_spec.wire import EventType, MarkerSource

from ..capture.marking import END, START, phase_spans

__all__ = ["END", "START", "Phase", "find_phases"]


LOAD = "fio"
"""Kind of a phase that a job of fio's filled."""


@dataclass(frozen=True)
class Phase:
    """Phase ``number``, in ``[first_tick, last_tick)``: from the doorbell of its start marker to the doorbell of its end marker.

    notes: faults of its markers, if any
    described: its entry of ``workload.phases``
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
        """Error of each edge against the rail, in s: 0 if the tap saw the markers."""
        return float(self.described.get("edge_u_s") or 0.0)


def find_phases(events: pl.DataFrame, workload: Mapping[str, Any], last_tick: int) -> list[Phase]:
    """The phases, in order of time, as :func:`~wattbell.capture.marking.phase_spans` has them.

    ``events`` has columns ``tick``, ``type``, ``arg8``, ``arg32``.
    """
    described = {int(p["phase"]): p for p in workload.get("phases") or [] if "phase" in p}
    markers = events.filter((pl.col("type") == int(EventType.MARKER)) & (pl.col("arg8") == int(MarkerSource.IN_BAND))).sort(
        "tick", maintain_order=True
    )
    found = []
    for number, first, last, note in phase_spans(markers.select("tick", "arg32").iter_rows(), last_tick):
        entry = described.get(number, {})
        name = str(entry.get("name") or f"phase {number}")
        kind = str(entry.get("kind") or "unknown")
        found.append(Phase(number, name, kind, first, last, (note,) if note else (), entry))
    return found
