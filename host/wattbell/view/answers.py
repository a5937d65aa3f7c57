"""The page's questions, and their answers as JSON: parameters checked, numbers as the page draws them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import polars as pl
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..analysis.names import admin_name, io_name
from ..jsondata import JsonObject
from ..zoom import Zoom

MOST_POINTS = 20_000
MOST_ROWS = 50_000
_INSTANTS = ("doorbell", "fetch", "first_data", "last_data", "cqe", "msix", "cq_head")


@dataclass
class Shown:
    """A capture on the page. ``align_ticks``: where its zero is, for an overlay."""

    name: str
    zoom: Zoom
    align_ticks: int = 0
    live: bool = False


class Asked:
    """The parameters of one question about one capture."""

    def __init__(self, request: Request, shown: Sequence[Shown]) -> None:
        try:
            self.shown = shown[int(request.path_params["k"])]
        except (IndexError, ValueError):
            raise HTTPException(404, "There is no such capture.") from None
        self.zoom = self.shown.zoom
        self._query = request.query_params
        self.origin = self.zoom.bounds[0]

    def text(self, name: str) -> str | None:
        return self._query.get(name) or None

    def number(self, name: str) -> float | None:
        text = self.text(name)
        if text is None:
            return None
        try:
            value = float(text)
        except ValueError:
            value = np.nan
        if not abs(value) < 1e18:
            raise HTTPException(422, f"{name} is not a number.")
        return value

    def integer(self, name: str, default: int, low: int, high: int) -> int:
        value = self.number(name)
        return default if value is None else min(max(int(value), low), high)

    @property
    def span(self) -> tuple[int, int]:
        """(begin, end) as ticks of the capture: all of it where nothing is asked; end > begin."""
        first, last = self.zoom.bounds
        begin, end = self.number("begin"), self.number("end")
        low = first if begin is None else self.origin + int(np.floor(begin))
        high = last if end is None else self.origin + int(np.ceil(end))
        if high < low:
            raise HTTPException(422, "The span ends before it begins.")
        low, high = max(low, first - (last - first) - 1), min(high, last + (last - first) + 1)  # no use in looking farther
        return low, max(high, low + 1)

    @property
    def points(self) -> int:
        return self.integer("points", 1000, 1, MOST_POINTS)


def routes(shown: Sequence[Shown], prefix: str) -> list[Route]:
    """The routes below ``prefix``."""

    def captures(_: Request) -> Response:
        return answer([{"k": k, "name": s.name, "state": s.zoom.capture.state} for k, s in enumerate(shown)])

    def about(handler: Callable[[Asked], Any]) -> Callable[[Request], Response]:
        def respond(request: Request) -> Response:
            found = handler(Asked(request, shown))
            return found if isinstance(found, Response) else answer(found)

        return respond

    handlers = {"capture": capture, "rail": rail, "load": load, "commands": commands}
    made = [Route(f"{prefix}/{{k}}/{name}", about(handler)) for name, handler in handlers.items()]
    return [Route(f"{prefix}/captures", captures), *made]


def answer(value: Any, status: int = 200) -> Response:
    """JSON; what is not a finite number is null."""
    return Response(msgspec.json.encode(value, enc_hook=_plain), status, media_type="application/json")


def error(status: int, text: str) -> Response:
    """One line."""
    return answer({"error": " ".join(text.split("\n"))}, status)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, pl.Series):
        return value.to_list()
    raise NotImplementedError(type(value).__name__)


def class_name(opcode: int, admin: bool) -> str:
    """As figures have it."""
    return admin_name(opcode) if admin else io_name(opcode)


def capture(asked: Asked) -> JsonObject:
    """What the capture is, and what it has."""
    zoom, meta = asked.zoom, asked.zoom.capture.meta
    first, last = zoom.bounds
    anchor = meta["clock"].get("utc_anchor")
    reader = zoom.capture.rail
    conditions = meta.get("conditions") or {}
    return {
        "name": asked.shown.name,
        "state": zoom.capture.state,
        "tick_s": zoom.tick_s,
        "origin_tick": first,
        "begin": 0,
        "end": last - first,
        "utc_origin_s": (anchor["utc_ns"] - (anchor["tick"] - first) * zoom.tick_s * 1e9) * 1e-9 if anchor else None,
        "has": {
            "rail": reader is not None,
            "commands": zoom.command_count > 0,
            "events": True,
            "link": False,
            "tlps": False,
        },
        "rail": {"interval": reader.interval_ticks, "samples": reader.samples} if reader else None,
        "drive": meta.get("drive"),
        "conditions": [str(note) for note in conditions.get("notes") or []],
        "loss": [],
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
            {"opcode": opcode, "admin": admin, "name": class_name(opcode, admin), "count": count} for opcode, admin, count in zoom.classes
        ],
        "commands": zoom.command_count,
        "live": asked.shown.live,
        "align": asked.shown.align_ticks,
    }


def rail(asked: Asked) -> JsonObject:
    """Power, current, voltage."""
    found = asked.zoom.rail(*asked.span, asked.points)
    if found is None:
        raise HTTPException(409, "The capture has no rail.")
    names = ("mean",) if found.raw else ("mean", "min", "max")
    rows = {name: dict(zip(names, (row.mean, row.low, row.high))) for name, row in found.rows.items()}
    return {"raw": found.raw, "t": found.ticks - asked.origin, **rows}


def load(asked: Asked) -> JsonObject:
    """MB/s by direction, IOPS, queue depth."""
    bins = asked.zoom.load(*asked.span, asked.points)
    width_s = bins.width_ticks * asked.zoom.tick_s
    centre = bins.first_tick - asked.origin + (np.arange(len(bins)) + 0.5) * bins.width_ticks
    return {
        "width": bins.width_ticks,
        "t": centre,
        "read_mb_per_s": bins.read_bytes / width_s / 1e6,
        "write_mb_per_s": bins.write_bytes / width_s / 1e6,
        "iops": bins.count / width_s,
        "depth_mean": bins.depth_ticks / bins.width_ticks,
        "depth_max": bins.depth_max,
    }


def commands(asked: Asked) -> JsonObject:
    """Rows, or their density."""
    rows = asked.zoom.rows(*asked.span)
    limit = asked.integer("limit", 2000, 0, MOST_ROWS)
    if len(rows) > limit:
        ticks, latency = rows["start_tick"].to_numpy(), (rows["cqe_tick"] - rows["start_tick"]).to_numpy() * asked.zoom.tick_s
        t_edges = np.linspace(*asked.span, 401)
        latency_edges = np.logspace(-7, 1, 65)
        counts, _, _ = np.histogram2d(ticks, np.clip(latency, 1e-7, 9.99), (t_edges, latency_edges))
        return {
            "count": len(rows),
            "kind": "density",
            "t_edges": t_edges - asked.origin,
            "latency_edges_s": latency_edges,
            "counts": counts.astype(np.int64),
        }
    return {"count": len(rows), "kind": "rows", "rows": command_rows(rows, asked.origin, asked.zoom.tick_s)}


def command_rows(rows: pl.DataFrame, origin: int, tick_s: float) -> JsonObject:
    """Columns of rows as the page has them."""
    admin = (rows["qid"] == 0).to_list()
    start = pl.coalesce("doorbell_tick", "fetch_tick")
    latency = rows.select(((pl.col("cqe_tick") - start) * tick_s).alias("latency_s"))["latency_s"]
    return {
        **{name: (rows[f"{name}_tick"].cast(pl.Int64) - origin).to_list() for name in _INSTANTS},
        "opcode": rows["opcode"].to_list(),
        "admin": admin,
        "name": [class_name(opcode, is_admin) for opcode, is_admin in zip(rows["opcode"].to_list(), admin, strict=True)],
        **{name: rows[name].to_list() for name in ("qid", "cid", "status", "slba", "blocks", "bytes", "flags", "index")},
        "latency_s": latency.to_list(),
    }
