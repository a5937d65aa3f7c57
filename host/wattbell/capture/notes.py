"""Phases and events as annotations of a waveform."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import pyarrow as pa
from wattbell_spec.wire import EventType, MarkerSource

from .. import door
from .eventtext import event_text

MOST_EVENTS = 10_000
"""Most events with texts in a waveform: a program that draws annotations cannot handle millions."""
_LAST_TYPE = EventType.RUN
"""Events of larger types (single DLLPs, faults of one direction of the link) come thousands a second."""


class Shape(Enum):
    """A text at an instant, or the begin or end of a span, drawn as a vertical line."""

    TEXT = "text"
    BEGIN = "a"
    END = "b"


@dataclass(frozen=True)
class Annotation:
    """``number``: of the span, for its begin and end."""

    tick: int
    shape: Shape
    text: str
    number: int = 0


Event = tuple[int, int, int, int, int]
"""(tick, type, arg8, arg16, arg32)."""


def read_events(path: Path) -> tuple[list[tuple[int, int]], list[Event]]:
    """Read a finished ``events.parquet`` of any length.

    Returns the in-band markers (tick, value) in order of time, and the first other events that have texts, ``MOST_EVENTS`` + 1 at most.
    """
    markers: list[tuple[int, int]] = []
    events: list[Event] = []
    with door.parquet_file(path) as file:
        for batch in file.iter_batches(1 << 16, columns=["tick", "type", "arg8", "arg16", "arg32"]):
            kind, arg8 = batch["type"].to_numpy(), batch["arg8"].to_numpy()
            bounds = (kind == EventType.MARKER) & (arg8 == MarkerSource.IN_BAND)
            rows = batch.filter(pa.array(bounds))
            markers += zip(rows["tick"].to_pylist(), rows["arg32"].to_pylist(), strict=True)
            if len(events) <= MOST_EVENTS:
                rows = batch.filter(pa.array((kind <= _LAST_TYPE) & ~bounds)).slice(0, MOST_EVENTS + 1 - len(events))
                events += zip(*(rows[name].to_pylist() for name in ("tick", "type", "arg8", "arg16", "arg32")), strict=True)
    return sorted(markers, key=lambda marker: marker[0]), events


def annotations_of(spans: Iterable[tuple[int, int, int]], names: Mapping[int, str], events: Iterable[Event]) -> list[Annotation]:
    """Return annotations in order of time. Markers that bound phases are left out.

    spans: phases as (number, first tick, last tick); each becomes a span with its name beside its begin
    events: (tick, type, arg8, arg16, arg32); each becomes a text, up to ``MOST_EVENTS``
    """
    found: list[Annotation] = []
    for at, (number, first, last) in enumerate(spans, start=1):
        found += [
            Annotation(first, Shape.BEGIN, "", at),
            Annotation(first, Shape.TEXT, names.get(number) or f"phase {number}"),
            Annotation(last, Shape.END, "", at),
        ]
    count = 0
    for tick, kind, arg8, arg16, arg32 in events:
        if kind > _LAST_TYPE or (kind == EventType.MARKER and arg8 == MarkerSource.IN_BAND):
            continue
        count += 1
        if count > MOST_EVENTS:
            found.append(Annotation(tick, Shape.TEXT, f"events from here on: events.parquet has them, annotations end at {MOST_EVENTS}"))
            break
        found.append(Annotation(tick, Shape.TEXT, event_text(kind, arg8, arg16, arg32)))
    return sorted(found, key=lambda annotation: annotation.tick)
