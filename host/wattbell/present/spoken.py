"""Describe a chart in a sentence or two, for readers who do not see it, and as its title where it is copied."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from wattbell.present.chart import Axis, Band, Bar, Bars, LaneAxes, Panel, TimeLine
from wattbell.text import digits, si

_MOST = 8
"""Most curves and bars that are described singly."""


def _value(value: float, axis: Axis) -> str:
    if axis.seconds:
        return si(value, "s", 3)
    return ("−" if value < 0 else "") + digits(abs(value), 3)


def _range(values: Sequence[float], axis: Axis) -> str:
    known = [v for v in values if math.isfinite(v)]
    if not known:
        return "nothing"
    low, high = _value(min(known), axis), _value(max(known), axis)
    return low if low == high else f"{low} to {high}"


def of_panel(panel: Panel, title: str) -> str:
    """The axes, and the range of each curve."""
    parts = [f"{title}. {panel.y.title} against {panel.x.title}."]
    for line in panel.lines[:_MOST]:
        name = f"{line.label}: " if line.label else ""
        parts.append(f"{name}{_range(line.y, panel.y)}, where {panel.x.title} is {_range(line.x, panel.x)}.")
    if len(panel.lines) > _MOST:
        parts.append(f"And {len(panel.lines) - _MOST} more curves.")
    parts += [f"Marked: {mark.label}, at {_value(mark.x, panel.x)}." for mark in panel.marks if mark.label.strip()]
    return " ".join(parts)


def _band(band: Band) -> str:
    mean = band.envelope.mean
    if np.isnan(mean).all():
        return f"{band.label}: nothing"
    if band.unit == "s":
        shown = [si(float(v), "s", 3) for v in (np.nanmin(band.envelope.low), np.nanmedian(mean), np.nanmax(band.envelope.high))]
    else:
        ends = (np.nanmin(band.envelope.low), np.nanmean(mean), np.nanmax(band.envelope.high))
        shown = [f"{'−' if v < 0 else ''}{digits(abs(float(v)), 3)} {band.unit}" for v in ends]
    return f"{band.label}: least {shown[0]}, on average {shown[1]}, greatest {shown[2]}"


def of_lane(lane: LaneAxes, whole: TimeLine) -> str:
    """A row of a time line: least, mean and greatest of each of its series."""
    title = f"{lane.y.title} against time, {digits(whole.begin_s, 4)} s to {digits(whole.end_s, 4)} s"
    return f"{title}. {'. '.join(_band(band) for band in lane.bands)}."


def _parts(bar: Bar) -> str:
    whole = sum(part.value for part in bar.parts)
    each = [f"{part.name} {digits(100 * part.value / whole, 2)} %" for part in bar.parts]
    return f" ({', '.join(each)})" if each else ""


def of_bars(bars: Bars) -> str:
    """The figures, from the top."""
    factor, unit = bars.scale
    shown = "; ".join(f"{bar.label}: {digits(bar.value.value * factor, 4)} {unit}".rstrip() + _parts(bar) for bar in bars.bars[:_MOST])
    more = f"; and {len(bars.bars) - _MOST} more" if len(bars.bars) > _MOST else ""
    return f"{bars.heading()[0]}. {shown}{more}."
