"""The search of the page: the next or the previous command, wake-up, gap, phase or event."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from ..analysis.context import IDLE_MIN_S
from ..analysis.names import size_text, status_name
from ..jsondata import JsonObject
from ..text import count, duration
from ..zoom.find import find_command, find_wake_up
from .answers import command_rows, text_of
from .asked import Asked

Found = JsonObject | None


def find(asked: Asked) -> Found:
    """Return the first item with ``begin`` behind ``at`` (``direction`` 1), or before it (-1); None if there is none.

    Commands that begin at the same tick come one after the other if ``row``, the ``index`` of the last one found, is given too.
    """
    what = asked.choice("what", tuple(_HOW))
    forward = (asked.number("direction") or 1) > 0
    at = asked.tick("at")
    if at is None:
        at = asked.zoom.bounds[0] - 1 if forward else asked.zoom.bounds[1] + 1
    return _HOW[what](asked, at, forward)


def _command(asked: Asked, at: int, forward: bool) -> Found:
    beside = asked.number("row")
    row = find_command(asked.zoom.commands, at, forward, asked.wanted, None if beside is None else int(beside))
    if row is None:
        return None
    columns = command_rows(pl.DataFrame([row], schema=asked.zoom.commands.read(0, 0).schema), asked.origin, asked.zoom.tick_s)
    one = {name: values[0] for name, values in columns.items()}
    parts = [one["name"]]
    parts += [f"LBA {one['slba']}, {size_text(one['bytes'])}"] if one["bytes"] else []
    parts += [duration(one["latency_s"])] if one["latency_s"] is not None else []
    parts += [status_name(one["status"] & 0x7FF)] if one["status"] & 0x7FF else []
    begin = row["start_tick"] - asked.origin
    return {"begin": begin, "end": max(row["cqe_tick"] - asked.origin, begin), "text": ", ".join(parts), "row": one}


def _wake_up(asked: Asked, at: int, forward: bool) -> Found:
    zoom = asked.zoom
    found = find_wake_up(zoom.commands, at, forward, round(IDLE_MIN_S / zoom.tick_s))
    if found is None:
        return None
    idle, first = found
    row = find_command(zoom.commands, first - 1, True, asked.wanted)
    end = first if row is None else max(row["cqe_tick"], first)
    return {
        "begin": first - asked.origin,
        "end": end - asked.origin,
        "text": f"wake-up after {duration((first - idle) * zoom.tick_s)} idle",
    }


def _gap(asked: Asked, at: int, forward: bool) -> Found:
    gaps = asked.zoom.gaps
    row = _nearest(gaps, "first_tick", at, forward)
    if row is None:
        return None
    lost = "" if row["count"] < 0 else f", {count(row['count'])} records"
    text = f"{row['kind']} missing for {duration((row['last_tick'] - row['first_tick']) * asked.zoom.tick_s)}{lost}: {row['reason']}"
    return {"begin": row["first_tick"] - asked.origin, "end": row["last_tick"] - asked.origin, "text": text}


def _phase(asked: Asked, at: int, forward: bool) -> Found:
    phases = [phase for phase in asked.zoom.phases if (phase.first_tick > at if forward else phase.first_tick < at)]
    if not phases:
        return None
    phase = phases[0] if forward else phases[-1]
    return {"begin": phase.first_tick - asked.origin, "end": phase.last_tick - asked.origin, "text": f"phase {phase.number}: {phase.name}"}


def _event(asked: Asked, at: int, forward: bool) -> Found:
    tick = pl.col("tick")
    near = asked.zoom.capture.events.filter(tick > at if forward else tick < at)
    rows = near.sort("tick", descending=not forward, maintain_order=True).head(1).collect()
    if not len(rows):
        return None
    row = rows.row(0, named=True)
    place = row["tick"] - asked.origin
    return {"begin": place, "end": place, "text": text_of(row)}


def _nearest(frame: pl.DataFrame, column: str, at: int, forward: bool) -> JsonObject | None:
    ticks = frame[column].to_numpy()
    place = int(np.searchsorted(ticks, at, side="right")) if forward else int(np.searchsorted(ticks, at)) - 1
    return frame.row(place, named=True) if 0 <= place < len(frame) else None


_HOW: dict[str, Callable[[Asked, int, bool], Found]] = {
    "command": _command,
    "wake-up": _wake_up,
    "gap": _gap,
    "phase": _phase,
    "event": _event,
}
