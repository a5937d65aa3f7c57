"""Answers for the page as it moves: the capture, and pictures of any span."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from starlette.exceptions import HTTPException
from wattbell_spec.columns import FACTS, INSTANTS
from wattbell_spec.wire import EventType

from ..analysis.link import states
from ..analysis.loss import lost_parts
from ..analysis.names import admin_name, io_name
from ..capture.eventtext import LINK_STATES, event_text
from ..jsondata import JsonObject
from ..measure.loss import LossBook
from ..origin import origin_of_capture
from ..present.around import around_rows
from ..zoom import Zoom
from .asked import Asked
from .energy import is_light
from .plain import rounded, rounded_one

MOST_ROWS = 50_000
NO_RAIL = "The capture has no rail."
OFTEN = "*"
"""A level that changes more often than can be drawn."""


def class_name(opcode: int, admin: bool) -> str:
    """Return the name of a class as figures have it."""
    return admin_name(opcode) if admin else io_name(opcode)


def losses(zoom: Zoom, begin: int, end: int) -> list[str]:
    """Return the losses in a span, in words."""
    zones = zoom.commands.pyramid.zones
    book = LossBook(zoom.gaps, zoom.events_of(EventType.LOSS), *zoom.bounds, lambda: int(zones.latency_max.max(initial=0)))
    lossless = zoom.capture.meta["loss"].get("lossless", True) if (begin, end) == zoom.bounds else True
    return lost_parts({**book.between(begin, end).to_json(), "lossless": lossless, "meta": {}})


def capture(asked: Asked) -> JsonObject:
    """Return the description of the capture, and its contents."""
    zoom, meta = asked.zoom, asked.zoom.capture.meta
    first, last = zoom.bounds
    anchor = meta["clock"].get("utc_anchor")
    rail_about = meta["rail"]
    conditions = meta.get("conditions") or {}
    tables = {"tlps": zoom.capture.tlps, "events": zoom.capture.events}
    p99 = {(row.opcode, row.admin): row.p99_s for row in zoom.command_span(first, last)} if last > first else {}
    return {
        "name": asked.shown.name,
        "state": zoom.capture.state,
        "tick_s": zoom.tick_s,
        "origin_tick": first,
        "begin": 0,
        "end": last - first,
        "utc_origin_s": anchor["utc_ns"] * 1e-9 - (anchor["tick"] - first) * zoom.tick_s if anchor else None,
        "has": {
            "rail": zoom.rail_bounds is not None,
            "commands": len(zoom.commands) > 0,
            **{name: int(table.select(pl.len()).collect().item()) > 0 for name, table in tables.items()},
            "link": len(_link(zoom)[0]) > 0,
        },
        "rail": {"interval": rail_about["interval_ticks"], "samples": rail_about["samples"]} if zoom.rail_bounds else None,
        "drive": meta.get("drive"),
        "origin": {"mark": origin_of_capture(meta).mark, "words": origin_of_capture(meta).words},
        "conditions": [f"{name}: {text}" for name, text in around_rows(conditions)] + _notes(zoom),
        "loss": losses(zoom, first, last),
        "phases": [
            {
                "number": phase.number,
                "name": phase.name,
                "kind": phase.kind,
                "begin": phase.first_tick - first,
                "end": phase.last_tick - first,
                "u_s": phase.edge_u_s,
            }
            for phase in zoom.phases
        ],
        "classes": [
            {
                "opcode": opcode,
                "admin": admin,
                "name": class_name(opcode, admin),
                "count": count,
                "p99_s": rounded_one(p99.get((opcode, admin))),
            }
            for opcode, admin, count in zoom.classes
        ],
        "commands": len(zoom.commands),
        "live": False,
        "light": is_light(meta),
        "align": asked.shown.align_ticks,
    }


def _notes(zoom: Zoom) -> list[str]:
    conditions = zoom.capture.meta.get("conditions") or {}
    said = [str(note) for note in conditions.get("notes") or []]
    warning = origin_of_capture(zoom.capture.meta).warning
    return [warning] * bool(warning) + said + zoom.notes * bool(len(zoom.commands))


def rail(asked: Asked) -> JsonObject:
    """Power, current, voltage; one value a sample, or mean and limits of points."""
    found = asked.zoom.rail(*asked.span, asked.points)
    if found is None:
        raise HTTPException(409, NO_RAIL)
    rows = {}
    for name, row in found.rows.items():
        values = {"mean": row.mean} if found.raw else {"mean": row.mean, "min": row.low, "max": row.high}
        rows[name] = {key: rounded(array) for key, array in values.items()}
    return {"raw": found.raw, "t": found.ticks - asked.origin, **rows}


def load(asked: Asked) -> JsonObject:
    """MB/s by direction, IOPS, queue depth."""
    bins = asked.zoom.load(*asked.span, asked.points)
    width_s = bins.width_ticks * asked.zoom.tick_s
    return {
        "width": bins.width_ticks,
        "t": bins.first_tick - asked.origin + (np.arange(len(bins)) + 0.5) * bins.width_ticks,
        "read_mb_per_s": rounded(bins.read_bytes / width_s / 1e6),
        "write_mb_per_s": rounded(bins.write_bytes / width_s / 1e6),
        "iops": rounded(bins.count / width_s),
        "depth_mean": rounded(bins.depth_ticks / bins.width_ticks),
        "depth_max": bins.depth_max,
    }


def commands(asked: Asked) -> JsonObject:
    """Rows, or where there are more than ``limit`` their density."""
    begin, end = asked.span
    count, rows = asked.zoom.rows(begin, end, asked.integer("limit", 2000, 0, MOST_ROWS), asked.wanted)
    if rows is not None:
        return {"count": count, "kind": "rows", "rows": command_rows(rows, asked.origin, asked.zoom.tick_s)}
    found = asked.zoom.density(begin, end, asked.wanted)
    return {
        "count": count,
        "kind": "density",
        "t_edges": found.t_edges - asked.origin,
        "latency_edges_s": rounded(found.latency_edges_s),
        "counts": found.counts,
    }


def command_rows(rows: pl.DataFrame, origin: int, tick_s: float) -> JsonObject:
    """Columns of rows as the page has them."""
    admin = (rows["qid"] == 0).to_list()
    start = pl.coalesce("doorbell_tick", "fetch_tick")
    latency = rows.select(((pl.col("cqe_tick") - start) * tick_s).round_sig_figs(7).alias("latency_s"))["latency_s"]
    return {
        **{instant.name: rows[instant.column].cast(pl.Int64) - origin for instant in INSTANTS},
        "admin": admin,
        "name": [class_name(opcode, is_admin) for opcode, is_admin in zip(rows["opcode"].to_list(), admin, strict=True)],
        **{column.name: rows[column.name] for column in FACTS},
        "bytes": rows["bytes"],
        "index": rows["index"],
        "latency_s": latency,
    }


def events(asked: Asked) -> JsonObject:
    """Return the first ``limit`` events."""
    count, rows = asked.zoom.events(*asked.span, asked.integer("limit", 1000, 0, MOST_ROWS))
    return {"count": count, "rows": [_event(row, asked.origin) for row in rows.iter_rows(named=True)]}


def _event(row: dict[str, Any], origin: int) -> JsonObject:
    return {"t": row["tick"] - origin, "name": row["name"], "text": text_of(row)}


def text_of(row: dict[str, Any]) -> str:
    """A row of events in words."""
    return event_text(row["type"], row["arg8"], row["arg16"], row["arg32"])


def _link(zoom: Zoom) -> tuple[Any, Any]:
    return states(zoom.events_of(EventType.LINK, EventType.LINK_STATE))


def levels(asked: Asked) -> JsonObject:
    """Link state, CLKREQ#, PERST#: [tick, value] from each change on, the first at or before the span; ``null`` if nothing is known yet,
    ``"*"`` where it changes more often than ``points`` can show."""
    begin, end = asked.span
    made: JsonObject = {}
    ticks, values = _link(asked.zoom)
    before: Any = None
    made["link_state"] = _steps(ticks, [LINK_STATES.get(value, str(value)) for value in range(16)], values, before, begin, end, asked)
    for name, kind in (("clkreq", EventType.CLKREQ), ("perst", EventType.PERST)):
        rows = asked.zoom.events_of(kind)
        pin = (rows["arg8"].to_numpy() & 1).astype(np.int64)
        # a pin had the other level before its first change
        before = None if not len(pin) else 1 - int(pin[0])
        made[name] = _steps(rows["tick"].cast(pl.Int64).to_numpy(), [0, 1], pin, before, begin, end, asked)
    return made


def _steps(ticks: Any, names: list[Any], values: Any, before: Any, begin: int, end: int, asked: Asked) -> list[list[Any]]:
    if not len(ticks):
        return []
    low, high = (int(i) for i in np.searchsorted(ticks, [begin, end], side="right"))
    origin, points = asked.origin, asked.points
    first = [ticks[low - 1] - origin, names[values[low - 1]]] if low else [begin - origin, before]
    if high - low <= points:
        return [first, *([int(t) - origin, names[v]] for t, v in zip(ticks[low:high].tolist(), values[low:high].tolist(), strict=True))]
    made = [first]
    width = (end - begin) / points
    place = ((ticks[low:high] - begin) / width).astype(np.int64)
    starts = np.flatnonzero(np.concatenate(([True], place[1:] != place[:-1])))
    for a, b in zip(starts.tolist(), [*starts[1:].tolist(), high - low], strict=True):
        if b - a > 1:  # several changes within one point of the page
            made.append([int(ticks[low + a]) - origin, OFTEN])
        made.append([int(ticks[low + b - 1]) - origin, names[values[low + b - 1]]])
    return made


def gaps(asked: Asked) -> list[JsonObject]:
    """Return the gaps in the span. With ``points``, gaps closer than a point are joined."""
    begin, end = asked.span
    near = asked.zoom.gaps.filter((pl.col("first_tick") <= end) & (pl.col("last_tick") >= begin))
    closest = (end - begin) // asked.points if "points" in asked else 0
    if closest:
        near = _joined(near, closest)
    return [
        {"kind": kind, "begin": first - asked.origin, "end": last - asked.origin, "count": None if count < 0 else count, "reason": reason}
        for kind, first, last, count, reason in near.select("kind", "first_tick", "last_tick", "count", "reason").iter_rows()
    ]


def _joined(gaps: pl.DataFrame, closest: int) -> pl.DataFrame:
    """Gaps in order of their begin, those less than ``closest`` ticks behind the ones before taken together. A lossy capture has 10^5."""
    apart = pl.col("first_tick") - pl.col("last_tick").cum_max().shift(1) >= closest
    together = gaps.with_columns(apart.fill_null(True).cum_sum().alias("group")).group_by("group", maintain_order=True)

    def same(name: str, otherwise: str) -> pl.Expr:
        return pl.when(pl.col(name).n_unique() == 1).then(pl.col(name).first()).otherwise(pl.lit(otherwise)).alias(name)

    known = pl.when(pl.col("count").min() < 0).then(pl.lit(-1, pl.Int64)).otherwise(pl.col("count").sum()).alias("count")
    return together.agg(same("kind", "ANY"), pl.col("first_tick").min(), pl.col("last_tick").max(), known, same("reason", "several"))
