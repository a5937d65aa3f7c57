"""Charts as data, rendered in two ways: interactively on a page (:mod:`.interactive`) and as pictures (:mod:`.pictures`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from wattbell.present.table import Cell, Table
from wattbell.results import Known

F32 = npt.NDArray[np.float32]

MAX_DIRECT_LABELS = 5
MANY = 400
"""A line with more points than this is drawn with small ones."""

_LONGEST = 120
"""Bytes of a file name, without its ending."""
Mode = Literal["lines", "lines+markers", "markers"]
Side = Literal["", "top", "bottom", "right", "left"]


@dataclass(frozen=True)
class BarPart:
    """A part of a bar, in the bar's unit."""

    name: str
    colour: str
    value: float


@dataclass(frozen=True)
class Bar:
    """One bar. ``hatched`` marks the full drive.

    picked: of the drive that the page is about, among others
    remark, lost: follow the figure; ``remark`` is another reading
    parts: the stack of parts, from the foot of the bar
    """

    label: str
    colour: str
    value: Known
    hatched: bool = False
    remark: str = ""
    lost: str = ""
    picked: bool = False
    parts: Sequence[BarPart] = ()


@dataclass(frozen=True)
class Bars:
    """A bar chart, sorted by the caller.

    better: which way is better, shown on the page
    group: the test it belongs to (charts of one group share a row below its name)
    short: its title there
    """

    key: str
    title: str
    unit: str
    bars: Sequence[Bar]
    better: Literal["higher", "lower", ""] = "higher"
    group: str = ""
    short: str = ""

    @property
    def legend(self) -> dict[str, str]:
        """Colours of the parts by their names."""
        return {part.name: part.colour for bar in self.bars for part in bar.parts}

    @property
    def top(self) -> float:
        """The end of the longest bar, whisker included. (The parts reach beyond their bar's value if one counts against it.)"""
        ends = [max(bar.value.value + (bar.value.u or 0.0), sum(part.value for part in bar.parts)) for bar in self.bars]
        return max(ends, default=0.0) or 1.0

    @property
    def scale(self) -> tuple[float, str]:
        """The factor and the unit that make the figures easiest to read."""
        factor, unit = readable([bar.value.value for bar in self.bars], self.unit)
        return factor, unit.removeprefix("1")

    def heading(self, grouped: bool = False) -> tuple[str, str]:
        """The title and the remark beside it; ``grouped``: for a place below the test's name."""
        unit, better = self.scale[1], f"{self.better} is better" if self.better else ""
        title, *beside = (unit or self.short, unit and self.short) if grouped else (self.title, unit)
        return title, ", ".join(filter(None, (*beside, better)))


@dataclass(frozen=True)
class Curve:
    """One curve or cloud. ``u``: expanded uncertainties of ``y``. ``texts``: a label at each point (:mod:`.labels`), on the side ``beside``
    if there is room (by default towards the middle of the panel). ``hover``: a text for each point on the page. ``steps``: drawn as a
    step function."""

    label: str
    colour: str
    x: Sequence[float]
    y: Sequence[float]
    u: Sequence[float | None] | None = None
    dashed: bool = False
    mode: Mode = "lines+markers"
    lost: bool = False
    texts: Sequence[str] | None = None
    beside: Side = ""
    hover: Sequence[str] | None = None
    steps: bool = False

    @property
    def named_at_a_point(self) -> bool:
        """Whether one of its labels is its name."""
        return self.texts is not None and self.label in self.texts


@dataclass(frozen=True)
class Mark:
    """A vertical line at ``x``, with a band of +- ``u``."""

    x: float
    label: str
    colour: str
    u: float | None = None


@dataclass(frozen=True)
class Axis:
    """``span``: both ends, if the data should not decide; ``ticks``: the positions and texts of all ticks; ``seconds``: values are in
    seconds, and ticks get an SI prefix; ``grid``: grid lines (a y axis always has them); ``near``: of a time line, the axis need not begin
    at 0 (a rail's volts vary by a few parts in a thousand)."""

    title: str
    log: bool = False
    span: tuple[float, float] | None = None
    ticks: Sequence[tuple[float, str]] | None = None
    seconds: bool = False
    grid: bool = False
    near: bool = False


@dataclass(frozen=True)
class Panel:
    """One pair of axes. ``names``: curves are labelled at their ends if they are few enough; ``legend``: the panel has a legend of its
    own. ``zoom``: the reader can zoom."""

    x: Axis
    y: Axis
    lines: Sequence[Curve]
    title: str = ""
    marks: Sequence[Mark] = ()
    zoom: bool = False
    names: bool = True
    legend: bool = False

    @property
    def named(self) -> list[Curve]:
        """The curves labelled at their ends: none if there is only one, if they are too many, or if the panel can be zoomed."""
        lines = [line for line in self.lines if line.texts is None and line.label and line.x]
        fits = 1 < len(lines) <= MAX_DIRECT_LABELS and not self.zoom
        return lines if self.names and fits and all(line.mode != "markers" for line in lines) else []

    @property
    def y_span(self) -> tuple[float, float]:
        """The y range that contains every line with its uncertainty: from 0, or the decades of a log axis."""
        if self.y.span is not None and self.y.span[0] < self.y.span[1]:
            return self.y.span
        tops: list[float] = []
        lows: list[float] = []
        for line in self.lines:
            us = line.u or [None] * len(line.y)
            tops += [y + (u or 0.0) for y, u in zip(line.y, us, strict=False)]
            lows += line.y
        if self.y.log:
            positive = [v for v in lows if v > 0]
            return (min(positive) / 1.5, max(tops) * 1.5) if positive else (0.1, 1.0)
        return 0.0, 1.08 * max([v for v in tops if v > 0], default=1.0)

    @property
    def x_span(self) -> tuple[float, float]:
        """The x range that contains every point and every mark."""
        if self.x.span is not None and self.x.span[0] < self.x.span[1]:
            return self.x.span
        values = [*(v for line in self.lines for v in line.x), *(mark.x for mark in self.marks)]
        known = [v for v in values if math.isfinite(v) and (v > 0 or not self.x.log)]
        low, high = (min(known), max(known)) if known else (0.5, 1.0)
        if self.x.log:
            return (low / 1.12, high * 1.12) if low < high else (low / 2, high * 2)
        pad = 0.03 * (high - low) or 0.05 * abs(high) or 1.0
        return low - pad, high + pad

    def end_places(self, gap: float) -> list[float]:
        """The positions of the labels of :attr:`named`, as shares of the y axis, no two closer than ``gap``."""
        low, high = self.y_span

        def share(value: float) -> float:
            if self.y.log:
                return math.log(max(value, low) / low) / math.log(high / low)
            return (value - low) / (high - low)

        return spread([share(line.y[-1]) for line in self.named], gap)


@dataclass(frozen=True)
class Chart:
    """Panels that belong together, ``columns`` of them side by side if there is room.

    half: on a page, two such charts share a row
    inches: the size of the picture; by default it follows from the number of panels
    """

    key: str
    title: str
    panels: Sequence[Panel]
    columns: int = 2
    note: str = ""
    height_px: int = 300
    half: bool = False
    inches: tuple[float, float] | None = None

    @property
    def legend(self) -> dict[str, Curve]:
        """The lines of a legend by their names; empty if there is nothing to tell apart."""
        lines = {line.label: line for p in self.panels for line in p.lines if line.label and not line.named_at_a_point and not p.legend}
        return lines if len(lines) > 1 and any(len(p.lines) > 1 for p in self.panels) else {}

    @property
    def needs_legend(self) -> bool:
        """Whether labels at the ends of the curves are not enough: too many curves, or clouds."""
        return bool(self.legend) and not any(len(p.named) == len(self.legend) for p in self.panels)


@dataclass(frozen=True)
class Envelope:
    """``low``, ``mean``, ``high`` of bins ``dt_s`` long, the first from ``t0_s`` on; NaN: no data."""

    t0_s: float
    dt_s: float
    low: F32
    mean: F32
    high: F32

    def __len__(self) -> int:
        return len(self.mean)

    @property
    def t_s(self) -> npt.NDArray[np.float64]:
        """The middle of each bin."""
        return np.asarray(self.t0_s + (np.arange(len(self)) + 0.5) * self.dt_s)

    def coarser(self, most: int) -> Envelope:
        """The same in at most ``most`` bins."""
        k = max(1, math.ceil(len(self) / most))
        if k == 1:
            return self
        pad = -len(self) % k

        def merged(values: F32, reduce: Any) -> F32:
            table = np.append(values, np.full(pad, np.nan, np.float32)).reshape(-1, k)
            empty = np.isnan(table).all(axis=1)
            table[empty] = 0
            found = np.asarray(reduce(table, axis=1), np.float32)
            found[empty] = np.nan
            return found

        parts = (merged(self.low, np.nanmin), merged(self.mean, np.nanmean), merged(self.high, np.nanmax))
        return Envelope(self.t0_s, self.dt_s * k, *parts)


@dataclass(frozen=True)
class Band:
    """A series over time: its mean (or median), ``filled`` between least and largest, as a line or as ``points``."""

    key: str
    label: str
    unit: str
    colour: str
    envelope: Envelope
    filled: bool = True
    points: bool = False


@dataclass(frozen=True)
class LaneAxes:
    """One pair of axes of a time line. ``weight``: its height relative to the others."""

    key: str
    y: Axis
    bands: Sequence[Band]
    weight: float = 1.0


@dataclass(frozen=True)
class PhaseStretch:
    """A phase on the time axis."""

    number: int
    name: str
    first_s: float
    last_s: float


@dataclass(frozen=True)
class TimeLine:
    """Lanes stacked over one time axis, from ``begin_s`` to ``end_s``. ``gaps_s``: where data are missing; a dip there is not the drive's
    doing."""

    lanes: Sequence[LaneAxes]
    end_s: float
    phases: Sequence[PhaseStretch]
    gaps_s: Sequence[tuple[float, float]] = ()
    begin_s: float = 0.0


@dataclass(frozen=True)
class Lines:
    """Lines of text."""

    lines: Sequence[Cell]


Block = Bars | Chart | Table | TimeLine | Lines


@dataclass
class ChartSection:
    """A part of a page. Consecutive bar charts stand side by side."""

    title: str
    note: str = ""
    blocks: list[Block] = field(default_factory=list)


def readable(values: Sequence[float], unit: str) -> tuple[float, str]:
    """Factor and unit with the SI prefix that suits the largest of ``values``."""
    top = max((abs(v) for v in values), default=0.0)
    if unit not in ("s", "W", "J", "A", "C") or top >= 1 or top == 0:
        return 1.0, unit
    return (1e3, f"m{unit}") if top >= 1e-3 else (1e6, f"µ{unit}")


COVERS = (
    "It is the instrument's, for this run. A rate's is that of a clock, and is not printed below the fifth digit. How far off another run "
    "would be is not in it."
)
"""The coverage of an uncertainty, in words."""
MOST_EXACT = 2e-5
"""Below this share of a value its uncertainty is not shown, nor more than five digits: no one compares drives so finely."""


def shown(value: Known) -> Known:
    """The value for people who compare drives (:data:`MOST_EXACT`)."""
    return replace(value, u=None) if value.u is not None and value.u < MOST_EXACT * abs(value.value) else value


def slug(text: str) -> str:
    """A file name, short enough for every file system."""
    kept = "".join(c if c.isalnum() else "-" for c in text.lower())
    return "-".join(part for part in kept.split("-") if part).encode()[:_LONGEST].decode("utf-8", "ignore") or "chart"


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
