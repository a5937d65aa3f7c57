"""A panel of a suite page as a plotly figure (data and layout; plotly.js draws it)."""

from __future__ import annotations

import math
from typing import Any

from wattbell.present.chart import Line, Panel, spread, y_limits
from wattbell.present.embed import label
from wattbell.present.static import INK, MUTED

_GRID = "#e8ebee"
_MANY = 400


def _number(value: float) -> float:
    return float(f"{value:.6g}")


def _trace(line: Line, panel: Panel) -> dict[str, Any]:
    x_name, y_name, name = label(panel.x_title), label(panel.y_title), label(line.label)
    trace: dict[str, Any] = {
        "type": "scatter",
        "name": name,
        "x": [_number(v) for v in line.x],
        "y": [_number(v) for v in line.y],
        "mode": line.mode,
        "line": {"color": line.colour, "width": 2, "dash": "dash" if line.dashed else "solid"},
        "marker": {"color": line.colour, "size": 6},
        "hovertemplate": f"{y_name}: %{{y:.4~g}}<br>{x_name}: %{{x}}<extra>{name}</extra>",
    }
    if panel.seconds == "x":
        trace["hovertemplate"] = f"%{{x:.4~s}}s, {y_name}: %{{y:.3~g}}<extra>{name}</extra>"
    if len(line.x) > _MANY:
        trace["marker"]["size"] = 2.6
        if line.mode == "lines+markers":
            trace["mode"] = "lines"
            trace["line"]["width"] = 1.2
    if line.dashed and line.mode != "lines":
        trace["marker"] |= {"color": "#fff", "line": {"color": line.colour, "width": 1.6}}
    if line.u and any(line.u):
        spans = [_number(u or 0.0) for u in line.u]
        trace["error_y"] = {"array": spans, "color": line.colour, "thickness": 1, "width": 3}
    if line.texts is not None:
        middle = (panel.x_range[1] if panel.x_range else max(line.x)) / 2
        trace |= {
            "mode": "markers+text",
            "text": [label(text) for text in line.texts],
            "textposition": ["top left" if x > middle else "top right" for x in line.x],
            "cliponaxis": False,
            "textfont": {"size": 11, "color": line.colour},
        }
        trace["hovertemplate"] = f"{y_name}: %{{y:.4~g}}<br>{x_name}: %{{x:.4~g}}<extra>{name}</extra>"
    return trace


def _axis(title: str, log: bool, limits: tuple[float, float] | None, seconds: bool, zoom: bool) -> dict[str, Any]:
    axis: dict[str, Any] = {
        "title": {"text": label(title), "standoff": 8, "font": {"color": MUTED, "size": 12}},
        "gridcolor": _GRID,
        "zeroline": False,
        "linecolor": "#b6bdc5",
        "fixedrange": not zoom,
        "automargin": True,
    }
    if log:
        axis |= {"type": "log", "exponentformat": "none", "tickformat": "~s"}
        if limits is not None and limits[1] > 30 * limits[0]:
            axis["dtick"] = 1
    if seconds:
        axis |= {"tickformat": "~s", "ticksuffix": "s"}
    if limits is not None:
        axis["range"] = [math.log10(v) for v in limits] if log else list(limits)
    return axis


def figure(panel: Panel, height_px: int) -> dict[str, Any]:
    """``{"data", "layout"}`` of a panel; ``labels`` says that curves are named at their ends where there is room."""
    limits = y_limits(panel)
    x_axis = _axis(panel.x_title, panel.x_log, panel.x_range, panel.seconds == "x", panel.zoom)
    x_axis["showgrid"] = False
    if panel.x_ticks is not None:
        ticks = list(panel.x_ticks)
        x_axis |= {"tickmode": "array", "tickangle": 0, "tickvals": ticks, "ticktext": [f"{v:g}{label(panel.x_suffix)}" for v in ticks]}
    layout: dict[str, Any] = {
        "height": height_px,
        "margin": {"l": 56, "r": 12, "t": 8, "b": 44},
        "font": {"size": 12, "color": INK},
        "showlegend": False,
        "hovermode": "closest",
        "xaxis": x_axis,
        "yaxis": _axis(panel.y_title, panel.y_log, limits, panel.seconds == "y", panel.zoom),
        "shapes": [],
        "annotations": [],
    }
    for k, mark in enumerate(panel.marks):
        shape = {"type": "line", "x0": mark.x, "x1": mark.x, "yref": "paper", "y0": 0, "y1": 1}
        layout["shapes"].append({**shape, "line": {"color": mark.colour, "width": 1.2, "dash": "dot"}})
        if mark.u:
            band = {"type": "rect", "x0": mark.x - mark.u, "x1": mark.x + mark.u, "yref": "paper", "y0": 0, "y1": 1}
            layout["shapes"].append({**band, "fillcolor": mark.colour, "opacity": 0.15, "line": {"width": 0}})
        text = {"text": label(mark.label), "x": mark.x, "yref": "paper", "y": 1 - 0.08 * k, "xanchor": "left", "yanchor": "top"}
        layout["annotations"].append({**text, "showarrow": False, "xshift": 4, "font": {"color": mark.colour, "size": 12}})
    if panel.named:
        layout["annotations"] += _end_labels(panel, panel.named, limits)
    data = [_trace(line, panel) for line in panel.lines if line.x]
    return {"data": data, "layout": layout, "labels": bool(panel.named)}


def _end_labels(panel: Panel, lines: list[Line], limits: tuple[float, float]) -> list[dict[str, Any]]:
    low, high = limits

    def share(value: float) -> float:
        if panel.y_log:
            return math.log(max(value, low) / low) / math.log(high / low)
        return (value - low) / (high - low)

    places = spread([share(line.y[-1]) for line in lines], 0.075)
    return [
        {"text": label(line.label), "xref": "paper", "x": 1, "yref": "paper", "y": at, "xanchor": "left", "yanchor": "middle",
         "showarrow": False, "xshift": 6, "font": {"color": line.colour, "size": 11.5}, "name": "end"}
        for line, at in zip(lines, places, strict=True)
    ]  # fmt: skip
