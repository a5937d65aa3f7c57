"""Charts as data and layout for plotly.js, and a time line as data for timeline.js."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable
from html import escape
from typing import Any

import numpy as np

from wattbell.analysis.text import printable
from wattbell.jsondata import JsonObject
from wattbell.present.chart import MANY, Axis, Chart, Envelope, Line, Mark, Panel, Section, TimeLine
from wattbell.present.colours import GRID, INK, MUTED, SPINE

_LEGEND = {"orientation": "h", "font": {"size": 12}, "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"}


def label(text: str) -> str:
    """``text`` escaped for plotly.js, which interprets tags, entities and ``%{...}`` in labels."""
    return escape(printable(text), quote=False).replace("%{", "&#37;{")


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(f"{value:.6g}")


def _trace(line: Line, panel: Panel) -> JsonObject:
    x_name, y_name, name = label(panel.x.title), label(panel.y.title), label(line.label)
    trace: JsonObject = {
        "type": "scatter",
        "name": name,
        "x": [_number(v) for v in line.x],
        "y": [_number(v) for v in line.y],
        "mode": line.mode,
        "line": {"color": line.colour, "width": 2, "dash": "dash" if line.dashed else "solid"},
        "marker": {"color": line.colour, "size": 10 if len(line.x) == 1 else 6},
        "hovertemplate": f"{y_name}: %{{y:.4~g}}<br>{x_name}: %{{x{'' if line.texts is None else ':.4~g'}}}<extra>{name}</extra>",
    }
    if panel.x.seconds:
        trace["hovertemplate"] = f"%{{x:.4~s}}s, {y_name}: %{{y:.3~g}}<extra>{name}</extra>"
    if line.hover is not None:
        trace |= {"hovertext": [label(text) for text in line.hover], "hovertemplate": "%{hovertext}<extra></extra>"}
    if len(line.x) > MANY:
        trace["marker"]["size"] = 2.6
        if line.mode == "lines+markers" or line.steps:
            trace["mode"] = "lines"
            trace["line"]["width"] = 1.2
    if line.steps:
        trace["line"]["shape"] = "hvh"
    if line.dashed and line.mode != "lines":
        trace["marker"] |= {"color": "#fff", "line": {"color": line.colour, "width": 1.6}}
    if line.u and any(line.u):
        spans = [_number(u or 0.0) for u in line.u]
        trace["error_y"] = {"array": spans, "color": line.colour, "thickness": 1, "width": 3}
    if line.texts is not None:
        middle = panel.reach / 2
        sides = {"top": "top center", "bottom": "bottom center", "right": "middle right", "left": "middle left"}
        trace |= {
            "mode": "markers+text",
            "text": [label(text) for text in line.texts],
            "textposition": [sides.get(line.beside) or ("top left" if x > middle else "top right") for x in line.x],
            "cliponaxis": False,
            "textfont": {"size": 11, "color": line.colour},
        }
    return trace


def _axis(axis: Axis, span: tuple[float, float] | None, zoom: bool) -> JsonObject:
    made: JsonObject = {
        "title": {"text": label(axis.title), "standoff": 8, "font": {"color": MUTED, "size": 12}},
        "gridcolor": GRID,
        "zeroline": False,
        "linecolor": SPINE,
        "fixedrange": not zoom,
        "automargin": True,
    }
    if axis.log:
        made |= {"type": "log", "exponentformat": "none", "tickformat": "~s"}
        if span is not None and span[1] > 30 * span[0]:
            made["dtick"] = 1
    if axis.seconds:
        made |= {"tickformat": "~s", "ticksuffix": "s"}
    if span is not None:
        made["range"] = [math.log10(v) for v in span] if axis.log else list(span)
    if axis.ticks is not None:
        values, texts = [v for v, _ in axis.ticks], [label(text) for _, text in axis.ticks]
        made |= {"tickmode": "array", "tickangle": 0, "tickvals": values, "ticktext": texts}
    return made


def _mark(mark: Mark, place: int) -> tuple[list[JsonObject], JsonObject]:
    shapes: list[JsonObject] = [
        {"type": "line", "x0": mark.x, "x1": mark.x, "line": {"color": mark.colour, "width": 1.2, "dash": "dot"}},
    ]
    if mark.u:
        band = {"fillcolor": mark.colour, "opacity": 0.15, "line": {"width": 0}}
        shapes.append({"type": "rect", "x0": mark.x - mark.u, "x1": mark.x + mark.u, **band})
    text = {"text": label(mark.label), "x": mark.x, "yref": "paper", "y": 1 - 0.08 * place, "xanchor": "left", "yanchor": "top"}
    text |= {"showarrow": False, "xshift": 4, "font": {"color": mark.colour, "size": 12}, "bgcolor": "rgba(255,255,255,.75)"}
    return [{**shape, "yref": "paper", "y0": 0, "y1": 1} for shape in shapes], text


def figure(panel: Panel, height_px: int) -> JsonObject:
    """``{"data", "layout"}`` of a panel; ``labels`` says that curves are named at their ends where there is room."""
    x_axis = _axis(panel.x, panel.x.span, panel.zoom)
    x_axis["showgrid"] = panel.x.grid
    marks = [_mark(mark, place) for place, mark in enumerate(panel.marks)]
    ends = [
        {"text": label(line.label), "xref": "paper", "x": 1, "yref": "paper", "y": at, "xanchor": "left", "yanchor": "middle",
         "showarrow": False, "xshift": 6, "font": {"color": line.colour, "size": 11.5}, "name": "end"}
        for line, at in zip(panel.named, panel.end_places(0.075), strict=True)
    ]  # fmt: skip
    layout: JsonObject = {
        "height": height_px,
        "margin": {"l": 56, "r": 12, "t": 34 if panel.legend else 8, "b": 44},
        "font": {"size": 12, "color": INK},
        "showlegend": False,
        "hovermode": "closest",
        "xaxis": x_axis,
        "yaxis": _axis(panel.y, panel.y_span, panel.zoom),
        "shapes": [shape for shapes, _ in marks for shape in shapes],
        "annotations": [text for _, text in marks if text["text"].strip()] + ends,
    }
    if panel.legend and len(panel.lines) > 1:
        layout |= {"showlegend": True, "legend": _LEGEND}
    data = [_trace(line, panel) for line in panel.lines if line.x]
    return {"data": data, "layout": layout, "labels": bool(panel.named)}


def plots(sections: Iterable[Section]) -> JsonObject:
    """The panels of all charts by the ids of their elements on the page."""
    charts = [block for section in sections for block in section.blocks if isinstance(block, Chart)]
    return {f"{chart.key}-{i}": figure(panel, chart.height_px) for chart in charts for i, panel in enumerate(chart.panels)}


def _envelope(e: Envelope) -> JsonObject:
    """Base64 of little-endian f32."""

    def text(values: Any) -> str:
        return base64.b64encode(np.ascontiguousarray(values, "<f4").tobytes()).decode()

    return {"t0": e.t0_s, "dt": e.dt_s, "low": text(e.low), "mean": text(e.mean), "high": text(e.high)}


def timeline(shown: TimeLine) -> JsonObject:
    """A time line. Its envelopes keep their full resolution; timeline.js reduces each stretch to that of the screen."""
    rows = [
        {
            "title": label(lane.y.title),
            "weight": lane.weight,
            "axis": f"y{i + 1}" if i else "y",
            "log": lane.y.log,
            "near": lane.y.near,
            **({"tickformat": "~s", "suffix": "s"} if lane.y.seconds else {}),
            "series": [
                {"key": b.key, "name": b.label, "unit": b.unit, "colour": b.colour, "band": b.filled, "points": b.points,
                 "legend": len(lane.bands) > 1 or not b.filled}
                for b in lane.bands
            ],
        }
        for i, lane in enumerate(shown.lanes)
    ]  # fmt: skip
    return {
        "duration": shown.end_s,
        "envelopes": {band.key: _envelope(band.envelope) for lane in shown.lanes for band in lane.bands},
        "rows": rows,
        "phases": [{"number": p.number, "first": p.first_s, "last": p.last_s} for p in shown.phases],
        "gaps": shown.gaps_s,
    }
