"""Each chart of a suite page as PNG and SVG, by matplotlib: no browser, no display."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogFormatter, NullFormatter, NullLocator

from wattbell.analysis.text import concise, digits, si
from wattbell.present.chart import Bars, Chart, Line, Panel, Section, needs_legend, readable, shown, spread, y_limits
from wattbell.present.static import GRID, INK, MUTED, STYLE

_STYLE: Any = {**STYLE, "hatch.linewidth": 0.9}
_MANY = 400


def _dress(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#b6bdc5")
    axes.tick_params(colors=MUTED, labelcolor=INK, width=0.6)
    axes.grid(True, axis="y", color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)


def _bars(chart: Bars, stamp: str) -> Figure:
    n = len(chart.bars)
    figure = Figure(figsize=(7.6, 0.9 + 0.27 * n), layout="constrained")
    axes = figure.subplots()
    _dress(axes)
    axes.grid(False)
    axes.spines[["bottom", "left"]].set_visible(False)
    axes.set_xticks([])
    top = max((b.value.value for b in chart.bars), default=1.0) or 1.0
    factor, unit = readable([b.value.value for b in chart.bars], chart.unit)
    for i, bar in enumerate(chart.bars):
        y = n - 1 - i
        style: dict[str, Any] = {"color": bar.colour}
        if bar.hatched:
            style = {"facecolor": "white", "edgecolor": bar.colour, "hatch": "////", "linewidth": 0.9}
        axes.barh(y, bar.value.value, height=0.68, **style)
        if bar.value.u:
            axes.errorbar(bar.value.value, y, xerr=bar.value.u, fmt="none", ecolor=INK, elinewidth=0.9, capsize=2)
        text = "  ".join(filter(None, (concise(shown(bar.value), factor), bar.remark, bar.lost)))
        at = bar.value.value + (bar.value.u or 0.0) + 0.012 * top
        axes.annotate(text, (at, y), va="center", fontsize=8.5, color=INK)
    axes.set_yticks(range(n), [b.label for b in reversed(chart.bars)])
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0, top * (1.5 if any(b.remark or b.lost for b in chart.bars) else 1.2))
    better = f"{chart.better} is better" if chart.better else ""
    _title(figure, ", ".join(filter(None, (chart.title, unit.removeprefix("1"), better))), stamp)
    return figure


def _title(figure: Figure, title: str, stamp: str) -> None:
    figure.suptitle(title + (f"\n{stamp}" if stamp else ""), x=0.01, ha="left", fontsize=10, color=INK)


def _line(axes: Any, line: Line, reach: float) -> None:
    if line.texts is not None:
        axes.plot(line.x, line.y, "o", color=line.colour, markersize=4, markerfacecolor="white" if line.dashed else None)
        for x, y, text in zip(line.x, line.y, line.texts, strict=True):
            left = x > reach / 2
            place = {"xytext": (-6, 4) if left else (6, 4), "ha": "right" if left else "left"}
            axes.annotate(text, (x, y), textcoords="offset points", fontsize=8, color=line.colour, **place)
        return
    many = len(line.x) > _MANY
    style: dict[str, Any] = {"color": line.colour, "linewidth": 1.4, "linestyle": "--" if line.dashed else "-"}
    if line.mode == "markers":
        hollow = {"markerfacecolor": "white"} if line.dashed and not many else {}
        kind = "." if many else "o"
        axes.plot(line.x, line.y, kind, color=line.colour, markersize=1.8 if many else 4, rasterized=many, **hollow)
        return
    if line.mode == "lines+markers" and not many:
        style |= {"marker": "o", "markersize": 3.6, "markerfacecolor": "white" if line.dashed else line.colour}
    axes.plot(line.x, line.y, **style)
    if line.u and any(line.u):
        axes.errorbar(line.x, line.y, yerr=[u or 0.0 for u in line.u], fmt="none", ecolor=line.colour, elinewidth=0.9,
                      capsize=2)  # fmt: skip


def _panel(axes: Any, panel: Panel) -> None:
    _dress(axes)
    for mark in panel.marks:
        if mark.u:
            axes.axvspan(mark.x - mark.u, mark.x + mark.u, color=mark.colour, alpha=0.16, linewidth=0)
        axes.axvline(mark.x, color=mark.colour, linewidth=0.9, linestyle=":")
    for line in panel.lines:
        _line(axes, line, panel.x_range[1] if panel.x_range else max(line.x))
    low, high = y_limits(panel)
    if panel.x_log:
        axes.set_xscale("log")
    if panel.y_log:
        axes.set_yscale("log")
    axes.set_ylim(low, high)
    if panel.x_ticks is not None:
        axes.xaxis.set_major_locator(FixedLocator(list(panel.x_ticks)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}{panel.x_suffix}"))
    for name, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        if panel.seconds == name:
            axis.set_major_formatter(FuncFormatter(lambda v, _: si(v, "s", 1) if v > 0 else "0"))
            axis.set_minor_formatter(NullFormatter())
    if panel.y_log and panel.seconds != "y":
        axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: digits(v, 1)))
        axes.yaxis.set_minor_formatter(LogFormatter())
    if panel.x_range is not None:
        axes.set_xlim(*panel.x_range)
    for k, mark in enumerate(panel.marks):
        axes.annotate(mark.label, (mark.x, 0.97 - 0.07 * k), xycoords=("data", "axes fraction"), xytext=(5, 0),
                      textcoords="offset points", fontsize=8, color=mark.colour, va="top")  # fmt: skip
    axes.set_xlabel(panel.x_title, color=MUTED)
    axes.set_ylabel(panel.y_title, color=MUTED)
    if panel.title:
        axes.set_title(panel.title, fontsize=9, loc="left", color=INK)
    if panel.named:
        _direct_labels(axes, panel, panel.named)


def _direct_labels(axes: Any, panel: Panel, lines: list[Line]) -> None:
    low, high = y_limits(panel)

    def share(value: float) -> float:
        if panel.y_log:
            return math.log(max(value, low) / low) / math.log(high / low)
        return (value - low) / (high - low)

    for line, at in zip(lines, spread([share(line.y[-1]) for line in lines], 0.085), strict=True):
        axes.annotate(line.label, (1.01, at), xycoords="axes fraction", fontsize=8, color=line.colour, va="center")


def _chart(chart: Chart, stamp: str) -> Figure:
    count = len(chart.panels)
    columns = min(chart.columns, count)
    rows = math.ceil(count / columns)
    figure = Figure(figsize=(4.9 * columns + 0.6, 3.2 * rows + 0.5), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    for i, axes in enumerate(grid.flat):
        if i < count:
            _panel(axes, chart.panels[i])
        else:
            axes.set_visible(False)
    lines = {line.label: line for p in chart.panels for line in p.lines if line.label and line.texts is None}
    if needs_legend(chart):
        handles = [_handle(line) for line in lines.values()]
        figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    _title(figure, chart.title, stamp)
    return figure


def _handle(line: Line) -> Any:
    if line.mode == "markers":
        face = "white" if line.dashed else line.colour
        return Line2D([], [], color=line.colour, linestyle="", marker="o", markerfacecolor=face, label=line.label)
    return Line2D([], [], color=line.colour, linestyle="--" if line.dashed else "-", label=line.label)


def write_pictures(sections: list[Section], folder: Path, stamp: str) -> list[Path]:
    """Write every chart as ``key.png`` and ``key.svg``; ``stamp`` (scaled, model, lost data) stands on each of them."""
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    with rc_context(_STYLE):
        for section in sections:
            for block in section.blocks:
                if isinstance(block, Bars) and block.bars:
                    figure = _bars(block, stamp)
                elif isinstance(block, Chart):
                    figure = _chart(block, stamp)
                else:
                    continue
                for suffix in (".png", ".svg"):
                    path = folder / (block.key + suffix)
                    figure.savefig(path, dpi=160, facecolor="white", metadata={"Date": None} if suffix == ".svg" else None)
                    written.append(path)
    return written
