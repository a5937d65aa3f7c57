"""Each plot of a report as PNG and SVG, by matplotlib: no browser, no display."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogFormatter, NullFormatter

from wattbell.analysis.text import si
from wattbell.present.capture.charts import ReportData
from wattbell.present.capture.series import Envelope
from wattbell.present.colours import READ, WRITE, Look

INK, MUTED, GRID = "#1c2530", "#66707c", "#e4e7eb"
POWER, DEPTH, LATENCY = "#c2571a", "#3c7d3c", "#4a5d73"
_POINTS = 3000
STYLE: Any = {"font.size": 9, "svg.fonttype": "none", "svg.hashsalt": "wattbell", "text.parse_math": False}
"""No formulas: a dollar in the name of a drive is a dollar."""


def _axes(width: float = 9.0, height: float = 2.8) -> tuple[Figure, Any]:
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#b6bdc5")
    axes.tick_params(colors=MUTED, labelcolor=INK, width=0.6)
    axes.grid(True, axis="y", color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    return figure, axes


def _shade(axes: Any, data: ReportData) -> None:
    for i, phase in enumerate(data.phases):
        if i % 2 == 0:
            axes.axvspan(phase.first_s, phase.last_s, color="#f1f4f7", linewidth=0, zorder=0)
        if (phase.last_s - phase.first_s) > 0.025 * data.duration_s:
            axes.annotate(
                str(phase.number),
                ((phase.first_s + phase.last_s) / 2, 1.0),
                xycoords=("data", "axes fraction"),
                ha="center",
                va="bottom",
                fontsize=8,
                color=MUTED,
            )
    for first_s, last_s in data.gaps_s:
        axes.axvspan(first_s, last_s, facecolor="#b3261e22", edgecolor="#b3261e88", linewidth=0.6, zorder=0.5)
    axes.set_xlim(0, data.duration_s)
    axes.set_xlabel("time, s", color=MUTED)


def _band(axes: Any, envelope: Envelope, colour: str, label: str) -> None:
    env = envelope.coarser(_POINTS)
    t = env.t0_s + (np.arange(len(env)) + 0.5) * env.dt_s
    axes.fill_between(t, env.low, env.high, color=colour, alpha=0.22, linewidth=0, rasterized=len(env) > 1000)
    axes.plot(t, env.mean, color=colour, linewidth=0.8, label=label)


def _power(data: ReportData) -> Figure | None:
    if data.power is None:
        return None
    figure, axes = _axes()
    _shade(axes, data)
    _band(axes, data.power, POWER, "mean")
    axes.set_ylabel("power, W", color=MUTED)
    axes.set_ylim(bottom=0)
    return figure


def _throughput(data: ReportData) -> Figure:
    figure, axes = _axes()
    _shade(axes, data)
    for name, colour in (("read", READ), ("write", WRITE)):
        values = data.throughput[name]
        if not values.any():
            continue
        env = Envelope(0.0, data.load_dt_s, values, values, values).coarser(_POINTS)
        t = (np.arange(len(env)) + 0.5) * env.dt_s
        axes.plot(t, env.mean, color=colour, linewidth=0.8, label=name)
    if axes.lines:
        axes.legend(frameon=False, ncols=2, loc="upper right", fontsize=8)
    axes.set_ylabel("MB/s", color=MUTED)
    axes.set_ylim(bottom=0)
    return figure


def _depth(data: ReportData) -> Figure:
    figure, axes = _axes()
    _shade(axes, data)
    _band(axes, data.depth, DEPTH, "mean")
    axes.set_ylabel("commands in flight", color=MUTED)
    axes.set_ylim(bottom=0)
    return figure


def _seconds(axis: Any) -> None:
    axis.set_major_formatter(FuncFormatter(lambda v, _: si(v, "s", 1) if v > 0 else "0"))
    axis.set_minor_formatter(LogFormatter())


def _latency(data: ReportData) -> Figure | None:
    if np.isnan(data.latency.mean).all():
        return None
    figure, axes = _axes()
    _shade(axes, data)
    env = data.latency.coarser(_POINTS)
    t = (np.arange(len(env)) + 0.5) * env.dt_s
    axes.vlines(t, env.low, env.high, color=LATENCY, alpha=0.28, linewidth=0.7, rasterized=True)
    axes.plot(t, env.mean, ".", color=LATENCY, markersize=1.6)
    axes.set_yscale("log")
    axes.margins(y=0.08)
    _seconds(axes.yaxis)
    axes.set_ylabel(f"{data.latency_from} → CQE", color=MUTED)
    return figure


def _line(look: Look) -> dict[str, Any]:
    return {"color": look.colour, "linewidth": 1.3, "linestyle": "--" if look.dashed else "-"}


def _cdf(data: ReportData) -> Figure | None:
    if not data.curves:
        return None
    figure, axes = _axes(7.0, 4.2)
    for curve in data.curves:
        axes.plot(curve.latency_s, -np.log10(1 - curve.share), label=curve.name, **_line(curve.look))
    axes.set_xscale("log")
    _seconds(axes.xaxis)
    names = {0: "0 %", 0.30103: "50 %", 1: "90 %", 2: "99 %", 3: "99.9 %", 4: "99.99 %", 5: "99.999 %"}
    top = max(float(-np.log10(1 - c.share[-1])) for c in data.curves)
    shown = [t for t in names if t <= top + 0.3]
    axes.set_yticks(shown, [names[t] for t in shown])
    axes.set_xlabel(f"{data.latency_from} → CQE", color=MUTED)
    axes.set_ylabel("share of commands at most that slow", color=MUTED)
    axes.grid(True, axis="x", color=GRID, linewidth=0.7)
    axes.legend(frameon=False, fontsize=8)
    return figure


def _efficiency(data: ReportData) -> Figure | None:
    if not data.points:
        return None
    figure, axes = _axes(5.6, 4.2)
    for point in data.points:
        axes.plot(
            point.watt, point.mb_per_s, "o", color=point.look.colour, markersize=6, fillstyle="none" if point.look.dashed else "full"
        )
        axes.annotate(
            point.name, (point.watt, point.mb_per_s), xytext=(6, 4), textcoords="offset points", fontsize=8, color=INK
        )
    rates = [p.mb_per_s for p in data.points]
    if max(rates) > 12 * min(rates):
        axes.set_yscale("log")
        axes.yaxis.set_minor_formatter(NullFormatter())
    axes.margins(x=0.25, y=0.15)
    axes.set_xlabel("mean power, W", color=MUTED)
    axes.set_ylabel("MB/s", color=MUTED)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    axes.grid(True, axis="x", color=GRID, linewidth=0.7)
    return figure


def _detail(data: ReportData, i: int) -> Figure:
    item = data.details[i]
    figure, axes = _axes(6.2, 2.8)
    scale, unit = (1e3, "ms") if abs(item.t_s).max(initial=0) < 1 else (1.0, "s")
    axes.plot(item.t_s * scale, item.power_w, color=POWER, linewidth=1.0, drawstyle="steps-mid")
    for text, at in item.marks.items():
        axes.axvline(at * scale, color=MUTED, linewidth=0.7, linestyle=(0, (3, 2)))
        axes.annotate(
            text, (at * scale, 1.0), xycoords=("data", "axes fraction"), xytext=(2, -8), textcoords="offset points",
            fontsize=8, color=MUTED,
        )  # fmt: skip
    axes.set_title(item.title, loc="left", fontsize=9, color=INK)
    axes.set_xlabel(f"time, {unit}", color=MUTED)
    axes.set_ylabel("power, W", color=MUTED)
    axes.set_ylim(bottom=0)
    return figure


def slug(text: str) -> str:
    """A title as a file name."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower().replace("µ", "u")).strip("-")


def write_plots(data: ReportData, folder: Path) -> list[Path]:
    """Write every plot that the capture supports to ``folder`` as ``name.png`` (160 dpi) and ``name.svg``."""
    from matplotlib import rc_context

    folder.mkdir(parents=True, exist_ok=True)
    makers: dict[str, Callable[[ReportData], Figure | None]] = {
        "power": _power,
        "throughput": _throughput,
        "queue-depth": _depth,
        "latency": _latency,
        "latency-distribution": _cdf,
        "efficiency": _efficiency,
    }
    written: list[Path] = []

    def save(figure: Figure, name: str) -> None:
        for suffix in ("png", "svg"):
            path = folder / f"{name}.{suffix}"
            figure.savefig(path, dpi=160, metadata={"Date": None} if suffix == "svg" else None)
            written.append(path)

    with rc_context(STYLE):
        for name, make in makers.items():
            figure = make(data)
            if figure is not None:
                save(figure, name)
        for i, item in enumerate(data.details):
            save(_detail(data, i), f"detail-{slug(item.title.split(':')[0])}")
    return written
