"""Charts as data for plots.js, a time line as data for timeline.js: both draw with uPlot."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from wattbell.jsondata import JsonObject
from wattbell.present.chart import MANY, Axis, Bars, Chart, ChartSection, Curve, Envelope, Panel, TimeLine
from wattbell.present.colours import on_dark
from wattbell.present.labels import LED, PX, PlacedLabel, box_of, ink, of_panel, unplaced


def paint(colour: str) -> list[str]:
    """A colour on white, and on a dark page."""
    return [colour, on_dark(colour)]


def _number(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _line(line: Curve) -> JsonObject:
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
    return made


def _label(label: PlacedLabel, line: Curve) -> JsonObject:
    return {
        "line": label.line,
        "i": label.point,
        "at": [round(label.x, 5), round(label.y, 5)],
        "width": round(PX * label.width, 2),
        "level": label.level,
        "colour": paint(ink(line)),
    }


def _axis(axis: Axis, span: tuple[float, float]) -> JsonObject:
    made: JsonObject = {"title": axis.title, "log": axis.log, "span": list(span), "seconds": axis.seconds, "grid": axis.grid}
    if axis.ticks is not None:
        made["ticks"] = [[v, text] for v, text in axis.ticks]
    return made


def figure(panel: Panel, height_px: int) -> JsonObject:
    """A panel for plots.js. ``ends``: names at the ends of curves, as shares of the y axis.

    ``labels``: texts at points. ``box``: the axes for which these have their places, in pixels. ``led``: how far from its point a text has
    a line to the point, in pixels. ``unplaced``: how many texts have no room, in words.
    """
    drawn = replace(panel, lines=[line for line in panel.lines if line.x])
    labels = of_panel(drawn, height_px)
    return {
        "title": panel.title,
        "x": _axis(panel.x, drawn.x_span),
        "y": _axis(panel.y, drawn.y_span),
        "lines": [_line(line) for line in drawn.lines],
        "labels": [_label(label, drawn.lines[label.line]) for label in labels if label.level],
        "unplaced": unplaced(labels),
        "box": [PX * side for side in box_of(height_px)],
        "led": PX * LED,
        "marks": [{"x": m.x, "label": m.label, "colour": paint(m.colour), "u": m.u} for m in panel.marks],
        "ends": [
            {"text": line.label, "at": at, "colour": paint(line.colour)}
            for line, at in zip(panel.named, panel.end_places(0.075), strict=True)
        ],
        "height": height_px,
    }


def plots(sections: Iterable[ChartSection]) -> JsonObject:
    """The panels of all charts by the ids of their elements on the page."""
    charts = [block for section in sections for block in section.blocks if isinstance(block, Chart)]
    return {f"{chart.key}-{i}": figure(panel, chart.height_px) for chart in charts for i, panel in enumerate(chart.panels)}


def bars(sections: Iterable[ChartSection]) -> JsonObject:
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
    """Return a time line as JSON. Its envelopes keep their full resolution; timeline.js reduces each stretch to the screen's resolution."""
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
