"""From a capture to figures: the one entry point, ``analyze``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import polars as pl
from wattbell_spec.wire import CommandFlag, EventType

from wattbell.analysis import alone, fio, idle, link, owed, perclass, powerstates, transitions, truth, wakeup
from wattbell.analysis.command_stats import doubts, tabulate
from wattbell.analysis.context import Context, load
from wattbell.analysis.earlier import WARNINGS as EARLIER_WARNINGS
from wattbell.analysis.earlier import level_at_rest
from wattbell.analysis.loss import LOSS_TEXT
from wattbell.analysis.rates import Rates, per_second, rates
from wattbell.analysis.result import Analysis, CaptureAbout, Efficiency, Meta, PhaseResult, PowerStates, Window
from wattbell.capture import Capture
from wattbell.jsondata import JsonObject
from wattbell.measure.depth import depth_of, depth_summary
from wattbell.measure.encode import tree_json
from wattbell.measure.figure import Figure, ratio
from wattbell.measure.instruments import NO_COMMANDS
from wattbell.measure.phase import of_commands
from wattbell.measure.phases import LOAD, Phase
from wattbell.measure.rail import Power, Scan, as_long_as
from wattbell.measure.throughput import BURST_GAP_S, find_span, least_bursts
from wattbell.text import count

SCHEMA_VERSION = 4
"""Version of the JSON that ``analyze`` returns; +1 when a key changes its meaning or goes away."""
Progress = Callable[[str], None]


def analyze(capture: Capture, progress: Progress | None = None) -> JsonObject:
    """Every figure of a capture as JSON-able data (schema: docs/methodology.md). ``progress`` is called with a short text before each
    longer step."""
    document: JsonObject = tree_json(figures_of(capture, progress))
    return document


def figures_of(capture: Capture, progress: Progress | None = None) -> Analysis:
    """The same with its figures as :class:`~wattbell.measure.figure.Figure`."""
    say = progress or (lambda _text: None)
    say("reading the capture")
    context = load(capture)
    say("rail")
    windows = [(context.first_tick, context.last_tick)] + [(p.first_tick, p.last_tick) for p in context.phases]
    scan = context.rail.scan(windows) if context.rail else None
    say("power states")
    found = powerstates.look(context)
    idle_result = idle.idle_power(context, found)
    idle_w = idle.operational_idle(idle_result)
    say("commands")
    whole, _ = _window(context, scan, idle_w, 0, context.first_tick, context.last_tick, whole=True)
    phases, energies = [], []
    for i, phase in enumerate(context.phases, start=1):
        say(f"phase {phase.number}: {phase.name}")
        window, energy = _window(context, scan, idle_w, i, phase.first_tick, phase.last_tick, edge_u_s=phase.edge_u_s)
        phases.append(_describe_phase(phase, context, window))
        energies += [energy] if energy else []
    perclass.separate(energies)
    unsettled = [text for phase in phases for text in _unsettled(phase)]
    say("commands that stand alone")
    lone = alone.alone(context)
    say("wake-up")
    wakes = wakeup.wakeups(context, idle_result)
    wakes["transitions"] = transitions.transitions(context, idle_result, wakes["events"], lone)
    result: Analysis = {
        "schema": {"name": "wattbell-analysis", "version": SCHEMA_VERSION, "k": 2},
        "capture": _describe_capture(context),
        "uncertainty": context.model.to_json(),
        "loss": {
            **context.loss.between(context.first_tick, context.last_tick).to_json(),
            "lossless": (capture.meta.get("loss") or {}).get("lossless"),
            "meta": _meta_loss(capture),
        },
        "warnings": _warnings(context) + unsettled,
        "link": link.link(capture),
        **whole,
        "phases": phases,
        "idle": idle_result,
        "power_states": powerstates.power_states(context, found, wakes),
        "alone": lone,
        "wakeup": wakes,
        "truth": None,
        "fio": None,
        "fio_account": [],
    }
    workload = capture.workload_dir
    say("comparisons")
    result["truth"] = truth.compare(context, result, workload)
    result["fio"] = fio.compare(context, result, workload)
    result["fio_account"] = fio.account(context, result, workload)
    result["warnings"] += fio.warnings(result["fio"], result["fio_account"])
    if not result["fio_account"]:
        del result["fio_account"]
    return result


def states_of(context: Context) -> PowerStates:
    """The power states alone, of a capture that was read."""
    found = powerstates.look(context)
    return powerstates.power_states(context, found, wakeup.wakeups(context, idle.idle_power(context, found)))


def _window(
    context: Context,
    scan: Scan | None,
    idle_w: Figure | None,
    i: int,
    first_tick: int,
    last_tick: int,
    whole: bool = False,
    edge_u_s: float = 0.0,
) -> tuple[Window, perclass.EnergyWindow | None]:
    """Analyze one window, with edges known within ``edge_u_s``.

    Return ``commands``, ``rates``, ``queue_depth``, ``power`` and ``efficiency``, and the data that :mod:`.perclass` needs to separate the
    energy of the classes of commands.
    """
    loss = context.loss.between(first_tick, last_tick)
    members = context.commands if whole else context.commands.between(first_tick, last_tick)
    io = members.take(members.qid > 0)
    known = ~io.has(CommandFlag.NO_SQE)
    busy = io.take(known)
    # A phase's own depth function: commands that began before it belong to another phase.
    steps = depth_of(busy)
    gap_ticks = round(BURST_GAP_S / context.tick_s)
    span = find_span(steps, gap_ticks)
    depth = depth_summary(steps, span.first_tick, span.last_tick) if span else depth_summary(steps, 0, 0)
    # Classes are not separated in the whole capture, and the memory is needed.
    at_start, told_by = steps.at_start, None if whole else steps
    del steps
    if span is not None and context.by_host:
        span = replace(span, least=least_bursts(np.maximum(busy.cqe_tick, busy.start_tick), busy.start_tick, gap_ticks))
    measured = of_commands(context, io, span, loss.under_commands)
    rate = rates(measured)
    commands = tabulate(members, context.tick_s, context.model)
    commands["lost"] = loss.under_commands
    commands["flags"] = doubts(members)
    power: Power = {"absent": context.no_rail or ""}
    if context.rail is not None and scan is not None:
        power = context.rail.figures(scan, i, first_tick, last_tick, loss, edge_u_s)
    out: Window = {
        "commands": commands,
        "rates": rate,
        "queue_depth": depth,
        "loss_here": loss.to_json(),
    }
    seconds = per_second(io, first_tick, last_tick, context.tick_s)
    if len(seconds) >= 10 and seconds.any():
        average, spread = float(seconds.mean()), float(np.std(seconds, ddof=1))
        out["consistency"] = {
            "seconds": len(seconds),
            "iops_mean": average,
            "iops_std": spread,
            "mean_over_std": average / spread if spread else None,
        }
    out["power"] = power
    out["efficiency"] = {"absent": power.get("absent", "no I/O in this window" if context.saw_commands else NO_COMMANDS)}
    if context.rail is None or "absent" in power or span is None:
        return out, None
    lost = loss.under_rail + loss.under_commands  # the active time depends on the commands
    energy, mean = measured.power(scored=False, lost=lost)
    power["active"] = {"energy_j": energy, "mean_w": mean} if mean.value is not None else {"absent": str(mean.conditions["absent"])}
    out["efficiency"] = _efficiency(rate, power)
    left = None if whole else owed.owed(context, busy, span, idle_w, out, lost)
    if left is not None:
        out["owed"] = left
    until = context.next_start(last_tick)
    before = None if whole else level_at_rest(context, int(span.first_tick))
    behind = context.first_put_off < span.first_tick
    energy_of = perclass.energy_per_command(
        context.rail, busy, span, idle_w, lost, (first_tick, last_tick), until, context.by_host, told_by, at_start, before, behind
    )
    out["energy_per_command"] = energy_of.result
    return out, energy_of


def _efficiency(rate: Rates, power: Power) -> Efficiency:
    """Bytes per joule (MB/J, which is MB/s/W of one window), IOPS/W and J/GB, all over the active span: rate and power of the same time."""
    active = power["active"]
    if "absent" in active or "mb_per_s" not in rate:
        return {"absent": active.get("absent", "no I/O in this window")}
    gigabytes = Figure(rate["bytes"] / 1e9, 0.0, "GB", rate["mb_per_s"].lost)
    out: Efficiency = {
        "mb_per_j": ratio(rate["mb_per_s"], active["mean_w"], "MB/J", over="active span"),
        "iops_per_w": ratio(rate["iops"], active["mean_w"], "1/s/W", over="active span"),
        "j_per_gb": ratio(active["energy_j"], gigabytes, "J/GB", over="active span"),
        "j_per_gb_whole": ratio(power["energy_j"], gigabytes, "J/GB", over="whole window, idle time included"),
    }
    if not rate["bytes"]:
        return {"iops_per_w": out["iops_per_w"]}
    return out


def _unsettled(phase: PhaseResult) -> list[str]:
    """Return warnings about a phase that may have drawn energy for earlier commands."""
    told = "; ".join(str(fig.conditions.get("note", "")) for fig in phase.get("energy_per_command", {}).get("classes", {}).values())
    return [f"energy of a command in phase {phase['phase']} ({phase['name']}): {note}" for note in EARLIER_WARNINGS if note in told]


def _describe_phase(phase: Phase, context: Context, window: Window) -> PhaseResult:
    extra = {k: v for k, v in phase.described.items() if k not in ("phase", "name", "kind")}
    span_s = window["rates"]["span_s"]
    if phase.kind == LOAD and span_s is not None and "max_moving_w" in window["power"]:
        window["power"]["max_moving_w"] = as_long_as(window["power"]["max_moving_w"], span_s)
    return {
        "phase": phase.number,
        "name": phase.name,
        "kind": phase.kind,
        "first_tick": phase.first_tick,
        "last_tick": phase.last_tick,
        "duration_s": (phase.last_tick - phase.first_tick) * context.tick_s,
        "notes": list(phase.notes),
        "described": extra,
        **window,
    }


def _describe_capture(context: Context) -> CaptureAbout:
    meta = context.capture.meta
    return {
        "path": str(context.capture.path),
        "state": meta.get("state"),
        "rig": meta.get("rig") or {},
        "drive": meta.get("drive"),
        "conditions": meta.get("conditions") or {},
        "software": meta.get("software") or {},
        "utc_anchor": (meta.get("clock") or {}).get("utc_anchor"),
        "tick_s": context.tick_s,
        "first_tick": context.first_tick,
        "last_tick": context.last_tick,
        "duration_s": (context.last_tick - context.first_tick) * context.tick_s,
        "rail": context.rail.describe() if context.rail else {"absent": context.no_rail or ""},
        "notes": context.notes,
    }


def _meta_loss(capture: Capture) -> Meta:
    loss = dict(capture.meta.get("loss") or {})
    return {k: v for k, v in loss.items() if v and (not isinstance(v, dict) or any(v.values()))}


def _warnings(context: Context) -> list[str]:
    """Return the warnings that a reader needs before the figures, worst first."""
    out: list[str] = []
    loss = context.loss.between(context.first_tick, context.last_tick)
    if loss.commands:
        out.append(f"command records missing (counts and bytes are lower bounds): {count(loss.commands)}")
    if loss.rail_samples:
        text = "rail samples missing (peaks may be missed; the accumulator's energy is not affected)"
        out.append(f"{text}: {count(loss.rail_samples)}")
    if loss.missing_blocks:
        out.append(f"blocks of unknown kind missing (counts, bytes and peaks are lower bounds): {count(loss.missing_blocks)}")
    if loss.unknown_gaps:
        out.append(f"gaps of unknown size (counts and bytes are lower bounds): {loss.unknown_gaps}")
    for source, n in loss.by_source.items():
        out.append(f"lost in the rig, {LOSS_TEXT.get(source, source)}: {count(n)}")
    flags = doubts(context.commands)
    if flags.get("shadow") or len(context.events.filter(pl.col("type") == int(EventType.SHADOW_DOORBELLS))):
        out.append("shadow doorbells are on: doorbells do not cross the link, latency is from SQE fetch to CQE")
    texts = {
        "guess": "commands that rest on inferred queue positions (late attach, a loss, or a reset of a drive that reads ahead)",
        "no_sqe": "completions without a known command, counted under 'unknown'",
        "loss": "commands in flight while the rig lost bus data",
        "data_partial": "commands with an incomplete data span",
        "cid_reused": "command identifiers used again while in flight",
        "no_ranges": "Dataset Management commands whose ranges were not all seen (their bytes are lower bounds)",
        "aborted": "commands that never completed (queue deleted or controller reset)",
        "interrupt_guessed": "commands with an interrupt in doubt: no message names their queue for certain, or was still due",
    }
    out += [f"{text}: {count(flags[name])}" for name, text in texts.items() if flags.get(name)]
    if context.rail is not None:
        words = {
            "overload_i": "current beyond the ADC's range: power and energy are too low",
            "overload_v": "voltage beyond the ADC's range",
            "uncalibrated": "the rail is not calibrated: the stated uncertainty does not hold",
            "saturated": "rail values were clipped",
        }
        out += [text for name, text in words.items() if name in context.rail.describe()["flags"]]
        if (context.capture.meta.get("conditions") or {}).get("front_end_delay_calibrated") is False:
            out.append(
                "the front end's delay is not calibrated: the one it was designed for is taken, "
                f"{context.model.front_end_delay_s * 1e6:g} us +-{context.model.front_end_delay_u_s * 1e9:g} ns"
            )
    if context.capture.state == "recovered":
        out.append("the capture was recovered after its recorder died: up to 0.5 s at its end may be missing")
    out += context.notes
    conditions = context.capture.meta.get("conditions") or {}
    out += [str(note) for note in conditions.get("notes") or []]
    return out
