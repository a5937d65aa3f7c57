"""The charts of one capture, each built once for the page and the pictures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from wattbell_spec.wire import CommandFlag

from wattbell.analysis.context import Context
from wattbell.analysis.result import Analysis, Wakeup
from wattbell.measure.table import NONE
from wattbell.present.capture import series
from wattbell.present.capture.lanes import lanes
from wattbell.present.chart import Axis, Bar, Bars, Chart, Curve, Envelope, Mark, Mode, Panel, PhaseStretch, Side, TimeLine, slug
from wattbell.present.colours import MUTED, POWER, Look, look
from wattbell.present.joules import opcode_colour, stacked
from wattbell.results import Known
from wattbell.text import digits, duration

_MAX_DETAILS = 6
_RAIL_BINS = {"power": 1 << 15, "voltage": 1 << 13, "current": 1 << 13}
"""Bins of the time line: 16 bytes of the page each."""
_MOST_BARS = 24
_MAX_NAMED = 6
"""Up to this many points are labelled; more would overlap, and get a legend instead."""
_SIDES: tuple[Side, ...] = ("top", "bottom", "right", "left")
_NINES = (0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999)


@dataclass(frozen=True)
class CaptureCharts:
    """``looks``: how the phases with I/O are drawn, the same in every chart."""

    timeline: TimeLine
    charts: Sequence[Chart]
    details: Sequence[Chart]
    looks: Mapping[int, Look]


def charts(context: Context, result: Analysis) -> CaptureCharts:
    """The charts of a capture that was analyzed into ``result``."""
    origin = str(result["commands"]["all"]["latency_s"]["from"])
    active = (i for i, p in enumerate(result["phases"]) if p["rates"]["count"] and p["kind"] != "wake")
    looks = {i: look(place) for place, i in enumerate(active)}
    made = (_states(context, result), _distribution(context, result, looks, origin), _efficiency(result, looks))
    details = _details(context, result) if context.rail is not None else []
    return CaptureCharts(_timeline(context, result, origin), [chart for chart in made if chart], details, looks)


def _timeline(context: Context, result: Analysis, origin: str) -> TimeLine:
    bins = series.load_bins(context.first_tick, context.last_tick, context.tick_s)
    rail: dict[str, Envelope] = {}
    if context.rail is not None:
        reader = context.rail.reader
        for name, points in _RAIL_BINS.items():
            rail |= series.rail(reader, context.first_tick, context.tick_s, 0, len(reader), points, (name,))
    made = lanes(rail, series.completed(context.commands), context.steps, bins, context.tick_s, 0.0, origin)

    def second(tick: int) -> float:
        return (tick - context.first_tick) * context.tick_s

    phases = [PhaseStretch(p["phase"], str(p["name"]), second(p["first_tick"]), second(p["last_tick"])) for p in result["phases"]]
    gaps = [(second(first), second(last)) for first, last in _gaps(context)]
    return TimeLine(made, second(context.last_tick), phases, gaps)


def _gaps(context: Context) -> list[list[int]]:
    """First and last tick of the gaps within the capture, overlapping ones merged."""
    rows = context.capture.gaps.select("first_tick", "last_tick").collect().sort("first_tick").rows()
    merged: list[list[int]] = []
    for first, last in rows:
        first, last = max(first, context.first_tick), min(last, context.last_tick)
        if merged and first <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], last)
        elif first <= last:
            merged.append([first, last])
    return merged


def _states(context: Context, result: Analysis) -> Chart | None:
    """Return the drive's states over time, a row each, the highest power on top."""
    spans = result["power_states"]["spans"]
    names = {span["label"] for span in spans}
    if len(names) < 2:
        return None
    ranks = {"active": math.inf, "waking": 1e6, "reset": -1.0, "unknown": -2.0}
    drawn: dict[str, float] = {}
    for span in spans:
        drawn[span["label"]] = max(drawn.get(span["label"], 0.0), span["mean_w"] or 0.0)
    rows = sorted(names, key=lambda name: ranks.get(name, drawn[name]))
    x: list[float] = []
    hover = []
    for span in spans:
        begin_s = (span["first_tick"] - context.first_tick) * context.tick_s
        x += [begin_s, begin_s + span["duration_s"]]
        sure = "" if span["probability"] is None else f", {span['probability']:.0%}"
        hover += [f"{span['label']}{sure}, {duration(span['duration_s'], 3)}: {span['why']}"] * 2
    y = [float(rows.index(span["label"])) for span in spans for _ in range(2)]
    axis = Axis("", span=(-0.5, len(rows) - 0.5), ticks=[(float(row), name) for row, name in enumerate(rows)])
    panel = Panel(Axis("time, s", span=(0.0, x[-1])), axis, [Curve("", POWER, x, y, mode="lines", hover=hover)], zoom=True)
    listed = len(spans)
    total = result["power_states"].get("spans_total", listed)
    note = "" if total == listed else f"the first {listed} of {total} spans"
    return Chart("power-states", "Power states over time", [panel], 1, note, 120 + 24 * len(rows), inches=(9.0, 1.2 + 0.3 * len(rows)))


def _distribution(context: Context, result: Analysis, looks: Mapping[int, Look], origin: str) -> Chart | None:
    """One curve for each phase with I/O, or one for the whole capture if it has no phases."""
    phases = [(result["phases"][i], its_look) for i, its_look in looks.items()]
    windows = [(str(p["name"]), its_look, p["first_tick"], p["last_tick"]) for p, its_look in phases]
    lines = []
    for name, its_look, first, last in windows or [("whole capture", look(0), context.first_tick, context.last_tick)]:
        table = context.commands.between(first, last)
        keep = (table.qid > 0) & ~table.has(CommandFlag.ABORTED) & ~table.has(CommandFlag.NO_SQE)
        keep &= (table.doorbell_tick != NONE) | (table.fetch_tick != NONE)
        table = table.take(keep)
        x, y = series.cdf(table.cqe_tick - table.start_tick, context.tick_s)
        if len(x):
            hover = [f"{name}: {100 * share:.6g} % ≤ {duration(latency)}" for latency, share in zip(x, y, strict=True)]
            nines = (-np.log10(1 - y)).tolist()
            lines.append(Curve(name, its_look.colour, x.tolist(), nines, dashed=its_look.dashed, mode="lines", hover=hover))
    if not lines:
        return None
    top = max(line.y[-1] for line in lines) + 0.15
    ticks = [(nines, f"{100 * share:g} %") for share in _NINES if (nines := -math.log10(1 - share)) <= top]
    span = (min(line.x[0] for line in lines), max(line.x[-1] for line in lines))
    panel = Panel(
        Axis(f"{origin} → CQE", log=True, span=span if span[0] < span[1] else None, seconds=True, grid=True),
        Axis("share of commands at most that slow", span=(0.0, top), ticks=ticks),
        lines,
        names=False,
        legend=True,
        zoom=True,
    )
    return Chart("latency-distribution", f"Latency distribution, {origin} to CQE", [panel], 1, "", _height(looks), True, (7.0, 4.2))


def energy_bars(result: Analysis) -> dict[str, Bars]:
    """Energies by class with their intervals, by the name of the table that they stand above: of commands that stood alone, and of all."""
    lone = [(name, one["mean_j"]) for name, one in result["alone"].get("classes", {}).items()]
    stack = [
        stacked(str(phase["name"]), spent)
        for phase in result["phases"]
        if (spent := (phase.get("energy_per_command") or {}).get("shares")) and "absent" not in spent
    ]
    every = [
        (f"{phase['name']}: {name}", fig)
        for phase in result["phases"]
        for name, fig in (phase.get("energy_per_command") or {}).get("classes", {}).items()
    ]
    out: dict[str, Bars] = {}
    for key, title, found in (("alone", "Energy of one command, alone", lone), ("shares", "Energy of one command, by phase", every)):
        bars = [
            Bar(
                label,
                opcode_colour(label),
                Known(fig.value, fig.u, fig.unit, fig.lost, fig.conditions),
                remark="" if fig.u else "no interval",
            )
            for label, fig in found
            if fig.value is not None
        ]
        if bars:
            kept = sorted(bars, key=lambda bar: -bar.value.value)[:_MOST_BARS]
            out[key] = Bars(f"energy-{key}", _cut(title, "largest", len(kept), len(bars)), "J", kept, better="lower")
    if stack:
        title = _cut("Where the energy of each phase went", "first", len(stack[:_MOST_BARS]), len(stack))
        out["stack"] = Bars("energy-stack", title, "J", stack[:_MOST_BARS], better="")
    return out


def _cut(title: str, which: str, shown: int, there: int) -> str:
    """Return the title, with a remark if a chart shows only some of the data."""
    return title if shown == there else f"{title}: the {which} {shown} of {there}"


def _height(looks: Mapping[int, Look]) -> int:
    """Return the height of a chart with room for its legend."""
    return 350 + 12 * max(0, len(looks) - 4)


def _efficiency(result: Analysis, looks: Mapping[int, Look]) -> Chart | None:
    """Each phase as performance against power."""
    points: list[_Point] = []
    for i, its_look in looks.items():
        phase = result["phases"][i]
        power, flow = (phase["power"].get("active") or {}).get("mean_w"), phase["rates"].get("mb_per_s")
        if power and flow and power.value and flow.value:
            points.append(_Point(str(phase["name"]), its_look, power.value, flow.value))
    if not points:
        return None
    watts, rates = [p.watt for p in points], [p.rate for p in points]
    log = max(rates) > 12 * min(rates)
    pad = 0.22 * (max(watts) - min(watts)) or 0.5 * max(watts)
    heights = [math.log10(rate) if log else rate for rate in rates]
    room = 0.14 * (max(heights) - min(heights)) or 0.3 * abs(max(heights)) or 1.0
    ends = (min(heights) - room, max(heights) + room)
    decades = range(math.floor(ends[0]), math.ceil(ends[1])) if log else ()
    ticks = [(v, f"{v:g}") for decade in decades for v in (10.0**decade, 2 * 10.0**decade, 5 * 10.0**decade)]
    steps: dict[str, list[_Point]] = {}
    for point in points:
        steps.setdefault(point.step, []).append(point)
    lines = []
    for step, members in steps.items():
        if len(members) > 1:  # depths or mixes of one step are joined, in the order in which they were run
            path = [f"{step}: {', '.join(p.section for p in members)}"] * len(members)
            lines.append(Curve("", MUTED, [p.watt for p in members], [p.rate for p in members], mode="lines", hover=path))
    for i, point in enumerate(points):
        # each label takes the next side for every labelled point nearby
        near = sum(abs(watts[k] - point.watt) < pad and abs(heights[k] - heights[i]) < room for k in range(i))
        joined = len(steps[point.step]) > 1
        text = point.section if joined else point.name
        texts = [text] if joined or len(points) <= _MAX_NAMED else None
        hover = [f"{point.name}: {digits(point.rate, 4)} MB/s at {digits(point.watt, 4)} W = {digits(point.rate / point.watt, 4)} MB/J"]
        of, mode = point.look, _MARKERS
        lines.append(
            Curve(
                point.name, of.colour, [point.watt], [point.rate], None, of.dashed, mode, texts=texts, beside=_SIDES[near % 4], hover=hover
            )
        )
    panel = Panel(
        Axis("mean power, W", span=(min(watts) - pad, max(watts) + pad), grid=True),
        Axis("MB/s", log=log, span=(10 ** ends[0], 10 ** ends[1]) if log else (max(0.0, ends[0]), ends[1]), ticks=ticks or None),
        lines,
        zoom=True,
        legend=len(points) > _MAX_NAMED,
    )
    return Chart("efficiency", "Performance against power", [panel], 1, "", _height(looks), True, (5.6, 4.2))


@dataclass(frozen=True)
class _Point:
    """A phase of the chart of performance against power."""

    name: str
    look: Look
    watt: float
    rate: float

    @property
    def step(self) -> str:
        """The step of the plan that the section belongs to."""
        return self.name.partition("/")[0]

    @property
    def section(self) -> str:
        """Depth or mix within the step; all of the name where the phase is a step of its own."""
        return self.name.partition("/")[2] or self.name


_MARKERS: Mode = "markers"


def _details(context: Context, result: Analysis) -> list[Chart]:
    """Power at full resolution around its peak, and around the longest wake-up from each state."""
    out = []
    peak = (result["power"].get("max_moving_w") or {}).get("100us")
    if peak and peak.value is not None:
        window_s, at = float(peak.conditions["window_s"]), int(peak.conditions["at_tick"])
        around = max(2e-3, 15 * window_s)
        marks = {"window": at, "": at + round(window_s / context.tick_s)}
        out.append(_detail(context, f"Highest {duration(window_s, 3)} mean", at, around, around, marks))
    deepest: dict[str, Wakeup] = {}
    for event in result["wakeup"]["events"]:
        if event["class"].startswith(("marker", "admin")):
            continue
        known = deepest.get(event["state"])
        if known is None or event["latency_s"] > known["latency_s"]:
            deepest[event["state"]] = event
    for state, event in deepest.items():
        start, length = int(event["start_tick"]), float(event["latency_s"])
        if state in ("PS0", "operational idle", "unknown") or len(out) >= _MAX_DETAILS:
            continue
        cqe = start + int(event["latency_ticks"])
        marks = {"doorbell": start, "CQE": cqe}
        if event["from_clkreq_s"] is not None:
            marks["CLKREQ#"] = cqe - round(event["from_clkreq_s"] / context.tick_s)
        title = f"Wake-up from {state}: {event['class']}, {duration(length)}"
        out.append(_detail(context, title, start, 0.3 * length, 1.4 * length, marks))
    return out


def _detail(context: Context, title: str, centre: int, before_s: float, after_s: float, marks: Mapping[str, int]) -> Chart:
    """Power from ``before_s`` before tick ``centre`` to ``after_s`` after it."""
    t_s, watts = series.detail(context, centre, before_s, after_s)
    scale, unit = (1e3, "ms") if max(before_s, after_s) < 1 else (1.0, "s")
    line = Curve("", POWER, (t_s * scale).tolist(), watts.tolist(), mode="lines", steps=True)
    y = Axis("power, W", span=(0.0, 1.18 * max((watt for watt in line.y if watt > 0), default=1.0)))
    marked = [Mark((at - centre) * context.tick_s * scale, text, MUTED) for text, at in marks.items()]
    panel = Panel(Axis(f"time, {unit}"), y, [line], marks=marked, zoom=True)
    key = f"detail-{slug(title.partition(':')[0].replace('µ', 'u'))}"
    return Chart(key, title, [panel], 1, "", 250, half=True, inches=(6.2, 2.8))
