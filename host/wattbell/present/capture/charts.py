"""Everything a report draws, computed once for the HTML page and for the static plots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from wattbell_spec.wire import CommandFlag

from wattbell.analysis.context import Context
from wattbell.analysis.text import duration
from wattbell.measure.table import NONE
from wattbell.present.capture import series
from wattbell.present.capture.series import Detail, Envelope
from wattbell.present.colours import Look, look

Float = npt.NDArray[np.float64]

MAX_DETAILS = 6


@dataclass(frozen=True)
class PhaseSpan:
    """Where a phase lies on the time axis; ``look`` by its place among the phases with I/O, the same in every plot; None without I/O."""

    number: int
    name: str
    kind: str
    first_s: float
    last_s: float
    look: Look | None


@dataclass(frozen=True)
class Curve:
    """A latency distribution: ``latency_s`` and the share of commands that are at most that slow."""

    name: str
    look: Look
    latency_s: Float
    share: Float


@dataclass(frozen=True)
class Point:
    """A phase as performance against power."""

    name: str
    look: Look
    watt: float
    mb_per_s: float


@dataclass(frozen=True)
class ReportData:
    """Series, curves and details of one capture; ``power`` None where there is no rail."""

    title: str
    duration_s: float
    phases: list[PhaseSpan]
    load_dt_s: float
    power: Envelope | None
    throughput: dict[str, series.F32]
    depth: Envelope
    latency: Envelope
    latency_from: str
    curves: list[Curve] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)
    details: list[Detail] = field(default_factory=list)
    gaps_s: list[tuple[float, float]] = field(default_factory=list)
    """Where something is missing; a dip there is none of the drive's."""


def collect(context: Context, result: Mapping[str, Any]) -> ReportData:
    """Compute the series of a capture that was analyzed into ``result``."""
    bins = series.load_bins(context)
    phases, looks = _phases(context, result)
    drive = context.capture.meta.get("drive") or {}
    return ReportData(
        title=str(drive.get("model") or context.capture.path.name),
        duration_s=(context.last_tick - context.first_tick) * context.tick_s,
        phases=phases,
        load_dt_s=bins.dt_s,
        power=series.power(context),
        throughput=series.throughput(context, bins),
        depth=series.queue_depth(context.steps, bins),
        latency=series.latency(context, bins),
        latency_from=str(result["commands"]["all"]["latency_s"]["from"]),
        curves=_curves(context, result, looks),
        points=_points(result, looks),
        details=_details(context, result) if context.rail is not None else [],
        gaps_s=_gaps(context),
    )


def _gaps(context: Context) -> list[tuple[float, float]]:
    """Times of the gaps within the capture, from its first tick; those that overlap are one."""
    rows = context.capture.gaps.select("first_tick", "last_tick").collect().sort("first_tick").rows()
    merged: list[list[int]] = []
    for first, last in rows:
        first, last = max(first, context.first_tick), min(last, context.last_tick)
        if merged and first <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], last)
        elif first <= last:
            merged.append([first, last])
    return [((a - context.first_tick) * context.tick_s, (b - context.first_tick) * context.tick_s) for a, b in merged]


def _phases(context: Context, result: Mapping[str, Any]) -> tuple[list[PhaseSpan], dict[int, Look]]:
    spans: list[PhaseSpan] = []
    looks: dict[int, Look] = {}
    for i, phase in enumerate(result["phases"]):
        if phase["rates"]["count"] and phase["kind"] != "wake":
            looks[i] = look(len(looks))
        first, last = ((phase[k] - context.first_tick) * context.tick_s for k in ("first_tick", "last_tick"))
        spans.append(PhaseSpan(phase["phase"], phase["name"], phase["kind"], first, last, looks.get(i)))
    return spans, looks


def _curves(context: Context, result: Mapping[str, Any], looks: Mapping[int, Look]) -> list[Curve]:
    """One curve a phase with I/O; one for everything where there are no phases."""
    windows = [
        (p["name"], looks[i], p["first_tick"], p["last_tick"])
        for i, p in enumerate(result["phases"])
        if i in looks
    ]
    if not windows:
        windows = [("whole capture", look(0), context.first_tick, context.last_tick)]
    out = []
    for name, its_look, first, last in windows:
        table = context.commands.between(first, last)
        keep = (table.qid > 0) & ~table.has(CommandFlag.ABORTED) & ~table.has(CommandFlag.NO_SQE)
        keep &= (table.doorbell_tick != NONE) | (table.fetch_tick != NONE)
        table = table.take(keep)
        x, y = series.cdf(table.cqe_tick - table.start_tick, context.tick_s)
        if len(x):
            out.append(Curve(name, its_look, x, y))
    return out


def _points(result: Mapping[str, Any], looks: Mapping[int, Look]) -> list[Point]:
    out = []
    for i, its_look in looks.items():
        phase = result["phases"][i]
        watt = (phase["power"].get("active") or {}).get("mean_w")
        rate = phase["rates"].get("mb_per_s")
        if watt and rate and watt["value"] and rate["value"]:
            out.append(Point(phase["name"], its_look, watt["value"], rate["value"]))
    return out


def _details(context: Context, result: Mapping[str, Any]) -> list[Detail]:
    out: list[Detail] = []
    peak = (result["power"].get("max_moving_w") or {}).get("100us")
    if peak and peak["value"] is not None:
        window_s = peak["conditions"]["window_s"]
        at = int(peak["conditions"]["at_tick"])
        marks = {"window": at, " ": at + round(window_s / context.tick_s)}
        around = max(2e-3, 15 * window_s)
        out.append(series.detail(context, f"Highest {duration(window_s, 3)} mean", at, around, around, marks))
    deepest: dict[str, Mapping[str, Any]] = {}
    for event in result["wakeup"]["events"]:
        if event["class"].startswith(("marker", "admin")):
            continue
        known = deepest.get(event["state"])
        if known is None or event["latency_s"] > known["latency_s"]:
            deepest[event["state"]] = event
    for state, event in deepest.items():
        start, length = int(event["start_tick"]), float(event["latency_s"])
        if state in ("PS0", "operational idle", "unknown") or len(out) >= MAX_DETAILS:
            continue
        marks = {"doorbell": start, "CQE": start + int(event["latency_ticks"])}
        if event["from_clkreq_s"] is not None:
            cqe = start + int(event["latency_ticks"])
            marks["CLKREQ#"] = cqe - round(event["from_clkreq_s"] / context.tick_s)
        after = 1.4 * length
        title = f"Wake-up from {state}: {event['class']}, {duration(length)}"
        out.append(series.detail(context, title, start, 0.3 * length, after, marks))
    return out
