"""Charts as data for plots.js, a time line as data for timeline.js: both draw with uPlot."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from wattbell.jsondata import JsonObject
from wattbell.present.chart import MANY, Axis, Bars, Chart, Envelope, Line, Panel, Section, TimeLine
from wattbell.present.colours import on_dark


def paint(colour: str) -> list[str]:
    """A colour on white, and on a dark page."""
    return [colour, on_dark(colour)]


def _number(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _line(line: Line, panel: Panel) -> JsonObject:
    made: JsonObject = {
        "name": line.label,
        "colour": paint(line.colour),
        "dashed": line.dashed,
        "lines": line.mode != "markers",
        "points": line.mode != "lines" and not (len(line.x) > MANY and line.mode == "lines+markers"),
        "many": len(line.x) > MANY,
        "steps": line.steps,
        "x": [_number(v) for v in line.x],
        "y": [_number(v) for v in line.y],
    }
    if line.u and any(line.u):
        made["u"] = [_number(u or 0.0) for u in line.u]
    if line.hover is not None:
        made["hover"] = list(line.hover)
    if line.texts is not None:
        made["texts"] = list(line.texts)
        made["beside"] = line.beside
    return made


def _span(axis: Axis, values: list[float], others: list[float]) -> list[float]:
    """Both ends of an axis that its data decide. ``others``: of marks, which are to be seen too."""
    if axis.span is not None:
        return list(axis.span)
    known = [v for v in [*values, *others] if math.isfinite(v) and (v > 0 or not axis.log)]
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    if axis.log:
        return [low / 1.12, high * 1.12] if low < high else [low / 2, high * 2]
    pad = 0.03 * (high - low) or 0.05 * abs(high) or 1.0
    return [low - pad, high + pad]


def _axis(axis: Axis, span: list[float]) -> JsonObject:
    made: JsonObject = {"title": axis.title, "log": axis.log, "span": span, "seconds": axis.seconds, "grid": axis.grid}
    if axis.ticks is not None:
        made["ticks"] = [[v, text] for v, text in axis.ticks]
    return made


def figure(panel: Panel, height_px: int) -> JsonObject:
    """A panel for plots.js. ``ends``: names at the ends of curves, as shares of the y axis."""
    xs, ys = [v for line in panel.lines for v in line.x], [v for line in panel.lines for v in line.y]
    return {
        "title": panel.title,
        "x": _axis(panel.x, _span(panel.x, xs, [mark.x for mark in panel.marks])),
        "y": _axis(panel.y, list(panel.y_span) if panel.y_span[0] < panel.y_span[1] else _span(panel.y, ys, [])),
        "lines": [_line(line, panel) for line in panel.lines if line.x],
        "marks": [{"x": m.x, "label": m.label, "colour": paint(m.colour), "u": m.u} for m in panel.marks],
        "ends": [
            {"text": line.label, "at": at, "colour": paint(line.colour)}
            for line, at in zip(panel.named, panel.end_places(0.075), strict=True)
        ],
        "height": height_px,
    }


def plots(sections: Iterable[Section]) -> JsonObject:
    """The panels of all charts by the ids of their elements on the page."""
    charts = [block for section in sections for block in section.blocks if isinstance(block, Chart)]
    return {f"{chart.key}-{i}": figure(panel, chart.height_px) for chart in charts for i, panel in enumerate(chart.panels)}


def bars(sections: Iterable[Section]) -> JsonObject:
    """All bar charts by the ids of their elements, for those who copy them."""
    out: JsonObject = {}
    for block in (block for section in sections for block in section.blocks):
        if isinstance(block, Bars):
            title = ", ".join(filter(None, (block.heading()[0], block.unit)))
            rows = [
                [b.label, b.value.value, b.value.u, paint(b.colour), b.picked, b.remark, b.value.lost, {p.name: p.value for p in b.parts}]
                for b in block.bars
            ]
            legend = {name: paint(colour) for name, colour in block.legend.items()}
            out[block.key] = {"title": title, "unit": block.unit, "bars": rows, "legend": legend}
    return out


def _envelope(e: Envelope) -> JsonObject:
    """Base64 of little-endian f32; ``low`` and ``high`` only where they are not the mean."""

    def text(values: Any) -> str:
        return base64.b64encode(np.ascontiguousarray(values, "<f4").tobytes()).decode()

    made: JsonObject = {"t0": e.t0_s, "dt": e.dt_s, "mean": text(e.mean)}
    if e.low is not e.mean:
        made |= {"low": text(e.low), "high": text(e.high)}
    return made


def timeline(shown: TimeLine) -> JsonObject:
    """A time line. Its envelopes keep their full resolution; timeline.js reduces each stretch to that of the screen."""
    rows = [
        {
            "key": lane.key,
            "title": lane.y.title,
            "weight": lane.weight,
            "log": lane.y.log,
            "near": lane.y.near,
            "seconds": lane.y.seconds,
            "series": [
                {"key": b.key, "name": b.label, "unit": b.unit, "colour": paint(b.colour), "band": b.filled, "points": b.points}
                for b in lane.bands
            ],
        }
        for lane in shown.lanes
    ]
    return {
        "end": shown.end_s,
        "envelopes": {band.key: _envelope(band.envelope) for lane in shown.lanes for band in lane.bands},
        "rows": rows,
        "phases": [{"number": p.number, "name": p.name, "first": p.first_s, "last": p.last_s} for p in shown.phases],
        "gaps": shown.gaps_s,
    }
