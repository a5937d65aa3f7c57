"""Each chart as PNG and SVG, by matplotlib: no browser, no display."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter, LogFormatter, NullLocator

from wattbell import durable
from wattbell.present import labels
from wattbell.present.chart import MANY, Axis, Band, Bars, Chart, ChartSection, Curve, LaneAxes, Panel, TimeLine, shown
from wattbell.present.colours import GRID, INK, MUTED, SPINE
from wattbell.present.table import figure as figure_cell
from wattbell.text import digits, printable, si

_POINTS = 3000
"""Bins of a band, at most."""
STYLE: Any = {
    "font.size": 9,
    "font.family": "DejaVu Sans",
    "svg.fonttype": "none",
    "svg.hashsalt": "wattbell",
    "text.parse_math": False,
    "hatch.linewidth": 0.9,
}
"""No math text: a dollar sign in a drive's name is a dollar sign."""


def _dress(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(SPINE)
    axes.tick_params(colors=MUTED, labelcolor=INK, width=0.6)
    axes.grid(True, axis="y", color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)


def _axis(axes: Any, name: str, axis: Axis, span: tuple[float, float] | None) -> None:
    of = {"x": axes.xaxis, "y": axes.yaxis}[name]
    if axis.log:
        axes.set(**{f"{name}scale": "log"})
    if span is not None:
        axes.set(**{f"{name}lim": span})
    if axis.ticks is not None:
        of.set_major_locator(FixedLocator([v for v, _ in axis.ticks]))
        of.set_minor_locator(NullLocator())
        of.set_major_formatter(FixedFormatter([text for _, text in axis.ticks]))
    elif axis.seconds or axis.log:
        of.set_major_formatter(FuncFormatter(lambda v, _: (si(v, "s", 1) if v > 0 else "0") if axis.seconds else digits(v, 1)))
    if axis.log and axis.ticks is None:
        of.set_minor_formatter(FuncFormatter(partial(_within_a_decade, of)) if axis.seconds else LogFormatter())
    if axis.grid:
        axes.grid(True, axis=name, color=GRID, linewidth=0.7)
    of.set_label_text(axis.title, color=MUTED)


def _within_a_decade(of: Any, value: float, _: int | None = None) -> str:
    """The text of a tick between powers of ten: only where the axis has few of those."""
    low, high = of.get_view_interval()
    return si(value, "s", 2 if high > 2 * low else 3 if high > 1.1 * low else 5) if 0 < high < 10 * low else ""


def _bars(chart: Bars) -> Figure:
    n = len(chart.bars)
    figure = Figure(figsize=(7.6, 0.9 + 0.27 * n), layout="constrained")
    axes = figure.subplots()
    _dress(axes)
    axes.grid(False)
    axes.spines[["bottom", "left"]].set_visible(False)
    axes.set_xticks([])
    top = chart.top
    for i, bar in enumerate(chart.bars):
        y = n - 1 - i
        style: dict[str, Any] = {"color": bar.colour}
        if bar.hatched:
            style = {"facecolor": "white", "edgecolor": bar.colour, "hatch": "////", "linewidth": 0.9}
        if not bar.parts:
            axes.barh(y, bar.value.value, height=0.68, **style)
        at = 0.0
        for part in bar.parts:
            axes.barh(y, part.value, left=at, height=0.68, color=part.colour)
            at += part.value
        if bar.value.u:
            axes.errorbar(bar.value.value, y, xerr=bar.value.u, fmt="none", ecolor=INK, elinewidth=0.9, capsize=2)
        text = "  ".join(filter(None, (figure_cell(shown(bar.value), chart.scale[0]).text.rstrip("!"), bar.remark, bar.lost)))
        at = max(at, bar.value.value + (bar.value.u or 0.0)) + 0.012 * top
        axes.annotate(text, (at, y), va="center", fontsize=8.5, color=INK)
    if chart.legend:
        handles = [Line2D([], [], color=colour, linewidth=6, label=name) for name, colour in chart.legend.items()]
        figure.legend(handles=handles, frameon=False, fontsize=8, loc="outside lower center", ncols=len(handles))
    axes.set_yticks(range(n), [b.label for b in reversed(chart.bars)])
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0, top * (1.5 if any(b.remark or b.lost for b in chart.bars) else 1.2))
    return figure


def _line(axes: Any, line: Curve) -> None:
    """Draw the line without the texts at its points."""
    size = 2 * labels.radius(line)
    if line.texts is not None:
        if line.mode != "markers":
            axes.plot(line.x, line.y, color=line.colour, linewidth=1.2, linestyle="--" if line.dashed else "-")
        if line.mode != "lines":
            axes.plot(line.x, line.y, "o", color=line.colour, markersize=size, markerfacecolor="white" if line.dashed else None)
        return
    many = len(line.x) > MANY
    style: dict[str, Any] = {"color": line.colour, "linewidth": 1.4, "linestyle": "--" if line.dashed else "-"}
    if line.mode == "markers":
        hollow = {"markerfacecolor": "white"} if line.dashed and not many else {}
        kind = "." if many else "o"
        axes.plot(line.x, line.y, kind, color=line.colour, markersize=1.8 if many else size, rasterized=many, **hollow)
        return
    if line.mode == "lines+markers" and not many:
        style |= {"marker": "o", "markersize": 3.6, "markerfacecolor": "white" if line.dashed else line.colour}
    if line.steps:
        style |= {"drawstyle": "steps-mid", "linewidth": 1.0}
    axes.plot(line.x, line.y, **style)
    if line.u and any(line.u):
        axes.errorbar(line.x, line.y, yerr=[u or 0.0 for u in line.u], fmt="none", ecolor=line.colour, elinewidth=0.9, capsize=2)


def _panel(axes: Any, panel: Panel) -> None:
    """Draw the panel without the texts at its points."""
    _dress(axes)
    for mark in panel.marks:
        if mark.u:
            axes.axvspan(mark.x - mark.u, mark.x + mark.u, color=mark.colour, alpha=0.16, linewidth=0)
        axes.axvline(mark.x, color=mark.colour, linewidth=0.9, linestyle=":")
    for line in panel.lines:
        _line(axes, line)
    _axis(axes, "x", panel.x, panel.x_span)
    _axis(axes, "y", panel.y, panel.y_span)
    for k, mark in enumerate(panel.marks):
        axes.annotate(
            mark.label,
            (mark.x, 0.97 - 0.07 * k),
            xycoords=("data", "axes fraction"),
            xytext=(5, 0),
            textcoords="offset points",
            fontsize=8,
            color=mark.colour,
            va="top",
        )
    if panel.title:
        axes.set_title(panel.title, fontsize=9, loc="left", color=INK)
    if panel.legend and len(panel.lines) > 1:
        axes.legend(handles=[_handle(line) for line in panel.lines if line.label], frameon=False, fontsize=8)
    for line, at in zip(panel.named, panel.end_places(0.085), strict=True):
        axes.annotate(line.label, (1.01, at), xycoords="axes fraction", fontsize=8, color=line.colour, va="center")


_BEHIND = {"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 0.5}
"""Background of a text, so that it can be read on a line."""


def _beside_points(figure: Figure, chart: Chart) -> None:
    """Write the texts at the points of a chart's figure that is otherwise complete (:mod:`.labels`). A panel says how many have no room."""
    found = [labels.of_panel(panel, chart.height_px) for panel in chart.panels]
    if not any(found):
        return
    figure.draw_without_rendering()
    for axes, panel, texts in zip(figure.axes, chart.panels, found, strict=False):
        edge = axes.get_window_extent()
        width, height = (side * 72.0 / figure.dpi for side in (edge.width, edge.height))
        shrunk = labels.fit(width, height, chart.height_px)
        for line in axes.get_lines():
            line.set_markersize(line.get_markersize() * shrunk)
        for text in texts:
            if text.level != 1:
                continue
            colour = labels.ink(panel.lines[text.line])
            style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": labels.SIZE * shrunk, "color": colour, "bbox": _BEHIND}
            axes.annotate(text.text, (text.x, text.y), xycoords="axes fraction", **style).set_in_layout(False)
            start, end = text.lead(panel, width / shrunk, height / shrunk)
            if math.dist(start, end) >= labels.LED:
                xs, ys = [p[0] / width * shrunk for p in (start, end)], [p[1] / height * shrunk for p in (start, end)]
                axes.add_artist(Line2D(xs, ys, color=colour, linewidth=0.5, transform=axes.transAxes)).set_in_layout(False)
        if note := labels.unplaced(texts):
            above = axes.annotate(note, (1.0, 1.01), xycoords="axes fraction", ha="right", va="bottom", fontsize=7, color=MUTED)
            above.set_in_layout(False)


def _chart(chart: Chart) -> Figure:
    """The figure without the texts at its points, which are placed last."""
    count = len(chart.panels)
    columns = min(chart.columns, count)
    rows = math.ceil(count / columns)
    figure = Figure(figsize=chart.inches or (4.9 * columns + 0.6, 3.2 * rows + 0.5), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    for i, axes in enumerate(grid.flat):
        if i < count:
            _panel(axes, chart.panels[i])
        else:
            axes.set_visible(False)
    if chart.needs_legend:
        handles = [_handle(line) for line in chart.legend.values()]
        figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    return figure


def _handle(line: Curve) -> Any:
    if line.mode == "markers":
        face = "white" if line.dashed else line.colour
        return Line2D([], [], color=line.colour, linestyle="", marker="o", markerfacecolor=face, label=line.label)
    return Line2D([], [], color=line.colour, linestyle="--" if line.dashed else "-", label=line.label)


def _band(axes: Any, band: Band) -> None:
    env = band.envelope.coarser(_POINTS)
    if band.points:
        axes.vlines(env.t_s, env.low, env.high, color=band.colour, alpha=0.28, linewidth=0.7, rasterized=True)
        size = 1.6 if np.count_nonzero(np.isfinite(env.mean)) > MANY else 4.5
        axes.plot(env.t_s, env.mean, ".", color=band.colour, markersize=size, label=band.label)
        return
    if band.filled:
        axes.fill_between(env.t_s, env.low, env.high, color=band.colour, alpha=0.22, linewidth=0, rasterized=len(env) > 1000)
    axes.plot(env.t_s, env.mean, color=band.colour, linewidth=0.8, label=band.label)


def _lane(axes: Any, whole: TimeLine, lane: LaneAxes, numbers: bool = True) -> None:
    """Draw a lane. ``numbers``: print the numbers of the phases above it."""
    _dress(axes)
    length = whole.end_s - whole.begin_s
    for i, phase in enumerate(whole.phases):
        first, last = max(phase.first_s, whole.begin_s), min(phase.last_s, whole.end_s)
        if first >= last:
            continue
        if i % 2 == 0:
            axes.axvspan(first, last, color="#f1f4f7", linewidth=0, zorder=0)
        if numbers and last - first > 0.025 * length:
            at = ((first + last) / 2, 1.0)
            axes.annotate(str(phase.number), at, xycoords=("data", "axes fraction"), ha="center", va="bottom", fontsize=8, color=MUTED)
    for first_s, last_s in whole.gaps_s:
        axes.axvspan(first_s, last_s, facecolor="#b3261e22", edgecolor="#b3261e88", linewidth=0.6, zorder=0.5)
    for band in lane.bands:
        _band(axes, band)
    if len(lane.bands) > 1:
        axes.legend(frameon=False, ncols=2, loc="upper right", fontsize=8)
    _axis(axes, "x", Axis("time, s"), (whole.begin_s, whole.end_s) if length > 0 else None)
    _axis(axes, "y", lane.y, None)
    axes.ticklabel_format(axis="x", style="plain", useOffset=False)
    if not lane.y.log:
        axes.ticklabel_format(axis="y", style="plain", useOffset=False)
    if lane.y.log or lane.y.near:
        axes.margins(y=0.08)
    else:
        axes.set_ylim(bottom=0)


def _alone(whole: TimeLine, lane: LaneAxes) -> Figure:
    figure = Figure(figsize=(9.0, 2.8), layout="constrained")
    _lane(figure.subplots(), whole, lane)
    return figure


def stacked(whole: TimeLine, title: str = "", stamp: str = "") -> Figure:
    """The lanes of a time line above one another, on one time axis. ``stamp``: as :func:`write_pictures` has it."""
    whole = _plain(whole)
    with rc_context(STYLE):
        figure = Figure(figsize=(9.0, 0.7 + 1.45 * sum(lane.weight for lane in whole.lanes)), layout="constrained")
        ratios = [lane.weight for lane in whole.lanes]
        grid = figure.subplots(len(whole.lanes), 1, sharex=True, squeeze=False, height_ratios=ratios)[:, 0]
        for i, (axes, lane) in enumerate(zip(grid, whole.lanes, strict=True)):
            _lane(axes, whole, lane, numbers=i == 0)
            if lane is not whole.lanes[-1]:
                axes.set_xlabel("")
        figure.align_ylabels()
        if above := "\n".join(_plain(text) for text in (title, stamp) if text):
            figure.suptitle(above, x=0.01, ha="left", fontsize=10, color=INK)
    return figure


def figures(sections: Iterable[ChartSection], stamp: str) -> Iterator[tuple[str, Figure]]:
    """(name, figure) of every picture; the caller holds :data:`STYLE` in force."""
    for block in (_plain(block) for section in sections for block in section.blocks):
        if isinstance(block, TimeLine):
            for lane in block.lanes:
                figure = _alone(block, lane)
                if stamp:
                    figure.suptitle(stamp, x=0.01, ha="left", fontsize=10, color=INK)
                yield lane.key, figure
        elif isinstance(block, Chart) or (isinstance(block, Bars) and block.bars):
            figure = _chart(block) if isinstance(block, Chart) else _bars(block)
            title = block.title if isinstance(block, Chart) else ", ".join(filter(None, block.heading()))
            figure.suptitle(title + (f"\n{stamp}" if stamp else ""), x=0.01, ha="left", fontsize=10, color=INK)
            if isinstance(block, Chart):
                _beside_points(figure, block)
            yield block.key, figure


def _plain(value: Any) -> Any:
    """A chart with every string in it made :func:`.printable`."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list | tuple):
        return value if value and isinstance(value[0], int | float) else type(value)(map(_plain, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(value, **{f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)})
    return value


def write_pictures(sections: Iterable[ChartSection], folder: Path, stamp: str = "") -> list[Path]:
    """Write every chart as ``key.png`` (160 dpi) and ``key.svg``; ``stamp`` (model, scale, lost data) is printed on each."""
    durable.make_folder(folder)
    written: list[Path] = []
    with rc_context(STYLE):
        for key, figure in figures(sections, stamp):
            for suffix in (".png", ".svg"):
                path = folder / (key + suffix)
                about = {"Description": stamp} if stamp else {}
                with durable.replacing(path) as made:
                    figure.savefig(made, dpi=160, facecolor="white", metadata=about | {"Date": None} if suffix == ".svg" else about)
                written.append(path)
    return written
