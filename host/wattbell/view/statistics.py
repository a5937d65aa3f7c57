"""Answers for a selection on the page: its statistics and histograms."""

from __future__ import annotations

from typing import Any

import numpy as np
from starlette.exceptions import HTTPException

from ..jsondata import JsonObject
from .answers import NO_RAIL, class_name, losses
from .asked import Asked
from .plain import rounded, rounded_one

MOST_BINS = 2000
MOST_SAMPLES = 4_000_000
_UNITS = {"power": "W", "current": "A", "voltage": "V", "latency": "s"}


def span(asked: Asked) -> JsonObject:
    """Return figures of rail and commands between two ticks.

    Energy and charge cover the recorded time: means times the span without its gaps.
    """
    zoom = asked.zoom
    begin, end = asked.span
    duration_s = (end - begin) * zoom.tick_s
    classes = zoom.command_span(begin, end)
    io = [row for row in classes if not row.admin]
    return {
        "duration_s": duration_s,
        **_rail(asked, begin, end),
        "lost": losses(zoom, begin, end),
        "commands": [
            {
                "name": class_name(row.opcode, row.admin),
                "opcode": row.opcode,
                "admin": row.admin,
                "count": row.count,
                "failed": row.count - row.good,
                "bytes": row.bytes,
                **{name: rounded_one(getattr(row, name)) for name in ("min_s", "p50_s", "p99_s", "max_s")},
                "p_u": rounded_one(row.p_u),
            }
            for row in classes
        ],
        "iops": rounded_one(sum(row.good for row in io) / duration_s),
        "mb_per_s": rounded_one(sum(row.bytes for row in io) / duration_s / 1e6),
    }


def _rail(asked: Asked, begin: int, end: int) -> JsonObject:
    zoom = asked.zoom
    found, bounds = zoom.rail_span(begin, end), zoom.rail_bounds
    if found is None or bounds is None or not found.signals:
        missing_s = 0.0 if found is None or bounds is None else found.missing * _interval_s(asked)
        return {"power": None, "current": None, "voltage": None, "energy_j": None, "charge_c": None, "missing_s": missing_s}
    missing_s = found.missing * _interval_s(asked)
    covered_s = max(0.0, (min(end, bounds[1]) - max(begin, bounds[0])) * zoom.tick_s - missing_s)
    rows: JsonObject = {
        name: {"mean": rounded_one(one.mean), "min": rounded_one(one.low), "max": rounded_one(one.high), "std": rounded_one(one.std)}
        for name, one in found.signals.items()
    }
    return {
        **rows,
        "energy_j": rounded_one(found.signals["power"].mean * covered_s),
        "charge_c": rounded_one(found.signals["current"].mean * covered_s),
        "missing_s": rounded_one(missing_s),
    }


def _interval_s(asked: Asked) -> float:
    return float(asked.zoom.capture.meta["rail"]["interval_ticks"] * asked.zoom.tick_s)


def histogram(asked: Asked) -> JsonObject:
    """How often each value came: of samples (of very many: of means over ``each_s``), or of latencies on a logarithmic scale."""
    of = asked.choice("of", tuple(_UNITS))
    bins = asked.integer("bins", 100, 1, MOST_BINS)
    begin, end = asked.span
    if of == "latency":
        edges, counts = asked.zoom.latencies(begin, end, bins)
        return {"of": of, "unit": _UNITS[of], "edges": rounded(edges), "counts": counts}
    found = asked.zoom.samples(of, begin, end, MOST_SAMPLES)
    if found is None:
        raise HTTPException(409, NO_RAIL)
    values, each = found
    values = values[np.isfinite(values)]
    edges, counts = _linear(values, bins)
    return {"of": of, "unit": _UNITS[of], "edges": rounded(edges), "counts": counts, "each_s": each * _interval_s(asked)}


def _linear(values: Any, bins: int) -> tuple[Any, Any]:
    if not len(values):
        return np.empty(0), np.empty(0, np.int64)
    counts, edges = np.histogram(values, bins)
    return edges, counts
