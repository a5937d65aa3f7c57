"""What a suite page draws, as plain data: the HTML page and the static pictures are two renderings of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from wattbell.results import Quantity

BACKGROUND = "#98a2ae"
"""Colour of drives that are shown for comparison only."""
MAX_DIRECT_LABELS = 5

Mode = Literal["lines", "lines+markers", "markers"]


@dataclass(frozen=True)
class Bar:
    """One bar. ``hatched`` marks the full drive; ``remark`` (another reading) and ``lost`` stand behind the figure."""

    label: str
    colour: str
    value: Quantity
    hatched: bool = False
    remark: str = ""
    lost: str = ""


@dataclass(frozen=True)
class Bars:
    """A bar chart; the caller has sorted it. ``better``: which way is better, said on the page. ``group``: the test it belongs
    to (charts of one group stand in a row below its name), ``short``: its title there."""

    key: str
    title: str
    unit: str
    bars: Sequence[Bar]
    better: Literal["higher", "lower", ""] = "higher"
    group: str = ""
    short: str = ""


@dataclass(frozen=True)
class Line:
    """One curve or cloud. ``u``: expanded uncertainties of ``y``. ``texts``: a label at each point (scatter)."""

    label: str
    colour: str
    x: Sequence[float]
    y: Sequence[float]
    u: Sequence[float | None] | None = None
    dashed: bool = False
    mode: Mode = "lines+markers"
    lost: bool = False
    texts: Sequence[str] | None = None


@dataclass(frozen=True)
class Mark:
    """A vertical line at ``x``, with a band of +- ``u``."""

    x: float
    label: str
    colour: str
    u: float | None = None


@dataclass(frozen=True)
class Panel:
    """One pair of axes. ``x_ticks``: the only ticks (then x is drawn on a log axis if ``x_log``)."""

    x_title: str
    y_title: str
    lines: Sequence[Line]
    title: str = ""
    x_log: bool = False
    y_log: bool = False
    x_ticks: Sequence[float] | None = None
    x_suffix: str = ""
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    marks: Sequence[Mark] = ()
    zoom: bool = False
    seconds: Literal["", "x", "y"] = ""
    names: bool = True
    """Curves are named at their ends, where there are few enough of them."""

    @property
    def named(self) -> list[Line]:
        """The curves named at their ends: none where there is one, or too many, or where one can zoom."""
        lines = [line for line in self.lines if line.texts is None and line.label and line.x]
        fits = 1 < len(lines) <= MAX_DIRECT_LABELS and not self.zoom
        return lines if self.names and fits and all(line.mode != "markers" for line in lines) else []


@dataclass(frozen=True)
class Chart:
    """Panels that belong together. ``columns`` side by side where there is room."""

    key: str
    title: str
    panels: Sequence[Panel]
    columns: int = 2
    note: str = ""
    height_px: int = 300


@dataclass(frozen=True)
class TableBlock:
    """A table; cells are text, or Markup."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1
    note: str = ""


Block = Bars | Chart | TableBlock


def needs_legend(chart: Chart) -> bool:
    """Whether the names at the ends of the curves do not tell which is which: too many, or a cloud."""
    lines = {line.label for p in chart.panels for line in p.lines if line.label and line.texts is None}
    several = any(len(p.lines) > 1 for p in chart.panels)
    return len(lines) > 1 and several and not any(len(p.named) == len(lines) for p in chart.panels)


def readable(values: Sequence[float], unit: str) -> tuple[float, str]:
    """Factor and unit with the SI prefix that suits the largest of ``values``."""
    top = max((abs(v) for v in values), default=0.0)
    if unit not in ("s", "W", "J") or top >= 1 or top == 0:
        return 1.0, unit
    return (1e3, f"m{unit}") if top >= 1e-3 else (1e6, f"µ{unit}")


MOST_EXACT = 2e-5
"""Below this share of a value its uncertainty is not shown, nor more than five digits: no one compares drives so finely."""


def shown(value: Quantity) -> dict[str, Any]:
    """The value as the analysis' text functions take it, for people who compare drives (:data:`MOST_EXACT`)."""
    figure = value.to_figure()
    if value.u is not None and value.u < MOST_EXACT * abs(value.value):
        figure["u"] = None
    return figure


@dataclass
class Section:
    """A part of the page. Bar charts that follow each other stand side by side."""

    title: str
    note: str = ""
    blocks: list[Block] = field(default_factory=list)


def y_limits(panel: Panel) -> tuple[float, float]:
    """Axis limits that hold every line with its uncertainty: from 0, or over the decades of a log axis."""
    if panel.y_range is not None:
        return panel.y_range
    tops: list[float] = []
    lows: list[float] = []
    for line in panel.lines:
        for i, y in enumerate(line.y):
            u = (line.u[i] if line.u else None) or 0.0
            tops.append(y + u)
            lows.append(y)
    if panel.y_log:
        positive = [v for v in lows if v > 0]
        return (min(positive) / 1.5, max(tops) * 1.5) if positive else (0.1, 1.0)
    return 0.0, 1.08 * max([v for v in tops if v > 0], default=1.0)


def spread(positions: Sequence[float], gap: float, low: float = 0.0, high: float = 1.0) -> list[float]:
    """``positions`` moved as little as needed so that no two are closer than ``gap``; order is kept.

    Both in the same unit (shares of the axis). Positions stay within [low, high] as long as they fit there.
    """
    order = sorted(range(len(positions)), key=lambda i: positions[i])
    placed: list[float] = []
    for i in order:
        placed.append(max(positions[i], placed[-1] + gap if placed else low))
    limit = high
    for k in range(len(placed) - 1, -1, -1):
        placed[k] = min(placed[k], limit)
        limit = placed[k] - gap
    out = [0.0] * len(positions)
    for k, i in enumerate(order):
        out[i] = placed[k]
    return out
