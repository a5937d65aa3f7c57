"""Scores of idle power, wake-up and power states.

Entry and exit are read off the rail: **entry** lasts from the last completion before the idle time until the rail stays within a
tenth of the way to its settled level; **exit** from the first sign of waking (CLKREQ# asserted, else the doorbell) to the
completion of a 4 KiB read, less the same read's latency when awake.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from wattbell_spec.wire import EventType

from ..analysis.phases import Phase
from ..analysis.table import NONE
from .manifest import Test
from .measure import Source, describe, measure
from .outcome import Outcome
from .quantity import Quantity, quantity

SETTLED_SHARE = 0.1
"""A level is reached when the rail stays within this share of the step to it."""
SETTLED_PART = 0.5
"""Last part of an idle time over which its settled power is taken."""


def settled_power(source: Source, phase: Phase) -> Quantity:
    """Mean power of the second half of a phase, in W."""
    middle = phase.first_tick + (phase.last_tick - phase.first_tick) * (1 - SETTLED_PART)
    return source.energy(middle, phase.last_tick, source.loss(phase).under_commands)[1]


def _note_settling(out: Outcome, source: Source, test: Test) -> None:
    """What the rail did before the idle time, where it was watched: on a real drive."""
    step = f"{test.id}-settle"
    for phase in [*(p for _, p in source.named(step)), *(p for _, _, p in source.numbered(step))]:
        seen = phase.described.get("settling")
        if seen is None:
            continue
        place = f" ({phase.name})" if "#" in phase.name else ""
        mean_w, range_w, window_s, after_s = (seen.get(key) for key in ("mean_w", "range_w", "window_s", "after_s"))
        if mean_w is None:
            out.notes.append(f"NOT KNOWN to be at rest before the idle time{place}: no whole seconds of the rail in {after_s:.0f} s")
            continue
        level = f"{mean_w:.4g} W, its seconds within {range_w:.3g} W over {window_s:g} s"
        if seen.get("settled"):
            out.notes.append(f"at rest before the idle time{place}: {level}, after {after_s:.0f} s")
        else:
            out.notes.append(f"NOT AT REST before the idle time{place}: {level}, after {after_s:.0f} s of waiting")


def idle(source: Source, test: Test) -> Outcome:
    """Power at the end of the idle time, and over all of it."""
    out = Outcome()
    _note_settling(out, source, test)
    for _, phase in source.named(test.id):
        out.add_loss(source, phase)
        out.score("settled (second half of the idle time)", "W", settled_power(source, phase))
        out.score("whole idle time", "W", source.energy(phase.first_tick, phase.last_tick)[1])
        out.score("idle for", "s", quantity(source.seconds(phase.last_tick - phase.first_tick), 0.0))
    return out


@dataclass(frozen=True)
class Wake:
    """One waking read. Ticks; ``clkreq`` is None where it was not seen asserted."""

    quiet_from: int
    doorbell: int
    cqe: int
    clkreq: int | None

    @property
    def begin(self) -> int:
        """First sign of waking."""
        return self.doorbell if self.clkreq is None else min(self.clkreq, self.doorbell)


def find_wake(source: Source, phase: Phase) -> Wake | None:
    """The first I/O command of a phase of kind wake, and what came before it; None when its doorbell was not seen."""
    commands = source.commands(phase)
    io = commands.take((commands.qid > 0) & (commands.doorbell_tick != NONE))
    if not len(io):
        return None
    doorbell, cqe = int(io.doorbell_tick[0]), int(io.cqe_tick[0])
    asserted = source.events.filter(
        (pl.col("type") == int(EventType.CLKREQ))
        & (pl.col("arg8") == 0)
        & (pl.col("tick") > phase.first_tick)
        & (pl.col("tick") <= doorbell)
    )
    before = source.capture.commands.filter(pl.col("cqe_tick").is_between(phase.first_tick, doorbell))
    last = before.select(pl.col("cqe_tick").max()).collect().item()
    quiet = int(last) if last is not None else phase.first_tick
    return Wake(quiet, doorbell, cqe, int(asserted["tick"][-1]) if len(asserted) else None)


def wake_up(source: Source, test: Test) -> Outcome:
    """Latency of the first read after idle: from its doorbell (headline), and from CLKREQ#."""
    out = Outcome()
    _note_settling(out, source, test)
    rows: list[dict[str, Any]] = []
    for number, _, phase in source.numbered(test.id):
        out.add_loss(source, phase)
        found = find_wake(source, phase)
        if found is not None:
            row: dict[str, Any] = {"wake": number, "latency_s": source.seconds(found.cqe - found.doorbell)}
            row["from_clkreq_s"] = None if found.clkreq is None else source.seconds(found.cqe - found.clkreq)
            row["idle_s"] = source.seconds(found.begin - found.quiet_from)
            rows.append(row)
    if not rows:
        out.notes.append("no waking read was seen")
        return out
    out.series = pl.DataFrame(rows, schema_overrides={"from_clkreq_s": pl.Float64})
    for name, column in (("doorbell to completion", "latency_s"), ("CLKREQ# to completion", "from_clkreq_s")):
        values = out.series[column].drop_nulls().to_numpy()
        if not len(values):
            continue
        ticks = np.rint(values / source.tick_s).astype(np.int64)
        out.score(f"mean, {name}", "s", describe(ticks, source)[0])
        out.score(f"median, {name}", "s", quantity(float(np.median(values))))
        out.score(f"longest, {name}", "s", quantity(float(values.max()), source.model.interval_u(float(values.max()))))
    return out


def _declared(source: Source) -> dict[int, Mapping[str, Any]]:
    drive = source.capture.meta.get("drive") or {}
    return {int(s["state"]): s for s in drive.get("power_states") or []}


def operational(source: Source, test: Test) -> Outcome:
    """Idle power, and speed and power under each load (section of the job file), in each operational state."""
    out = Outcome()
    _note_settling(out, source, test)
    declared = _declared(source)
    points: dict[int, dict[str, Any]] = {}
    for number, _, phase in source.numbered(f"{test.id}-idle"):
        points[number] = {"x": {"ps": number}, "idle_w": settled_power(source, phase)}
    for number, section, phase in source.numbered(test.id):
        measured = measure(source, phase)
        out.add_measured(measured)
        found = measured.point({})
        row = points.setdefault(number, {"x": {"ps": number}})
        load = section.replace("-", "_")
        row[f"{load}_mb_per_s"], row[f"{load}_w"] = found["mb_per_s"], found["mean_w"]
    out.points = [points[number] for number in sorted(points)]
    for number, row in sorted(points.items()):
        drawn = [q["value"] for key, q in row.items() if key.endswith("_w") and q["value"] is not None]
        limit = declared.get(number, {}).get("max_power_w")
        if limit and drawn and max(drawn) > limit:
            out.notes.append(f"PS{number} draws {max(drawn):.3g} W on average, more than the declared {limit:g} W")
    return out


@dataclass(frozen=True)
class Transition:
    """Figures of one way into a state and out of it; None where not seen."""

    settled_w: float
    entry_s: float | None
    entry_j: float | None
    exit_s: float
    exit_j: float


def _transition(source: Source, wake: Wake) -> Transition | None:
    if source.rail is None or wake.begin - wake.quiet_from < 16 * source.rail.interval_ticks:
        return None
    late = source.model.front_end_delay_s / source.tick_s
    first, power = source.rail.power_between(round(wake.quiet_from + late), round(wake.begin + late))
    tail = power[len(power) // 2 :]
    tail = tail[~np.isnan(tail)]
    if not len(tail):
        return None
    settled_w = source.energy((wake.quiet_from + wake.begin) / 2, wake.begin)[1]["value"]
    if settled_w is None:
        return None
    scatter = float(np.std(tail))
    # the level left is that of the first samples; what is still above the threshold has not arrived
    head = float(np.nanmax(power[: max(4, len(power) // 1000)]))
    threshold = settled_w + max(SETTLED_SHARE * (head - settled_w), 4 * scatter)
    above = np.flatnonzero(power[: len(power) // 2] > threshold)
    entry_s = entry_j = None
    if len(above):
        done = first + (int(above[-1]) + 1) * source.rail.interval_ticks - late
        entry_s = source.seconds(done - wake.quiet_from)
        entry_j = source.energy(wake.quiet_from, done)[0]["value"]
    exit_j = source.energy(wake.begin, wake.cqe)[0]["value"]
    if exit_j is None:
        return None
    return Transition(settled_w, entry_s, entry_j, source.seconds(wake.cqe - wake.begin), exit_j)


def non_operational(source: Source, test: Test) -> Outcome:
    """Power, entry and exit latency against the declared, transition energy, break-even idle time of each state."""
    out = Outcome()
    _note_settling(out, source, test)
    declared = _declared(source)
    baseline, awake = source.named(f"{test.id}-baseline"), source.named(f"{test.id}-awake")
    base = measure(source, baseline[0][1]).latency()[0] if baseline else quantity(None)
    idle_w = settled_power(source, awake[0][1]) if awake else quantity(None)
    base_s = base["value"] or 0.0
    out.score("idle in PS0, the base of the break-even time", "W", idle_w)
    out.score("mean latency of the same read when awake", "s", base)
    for state in _states(source, test):
        wakes = []
        for _, _, phase in source.numbered(f"{test.id}-ps{state}"):
            out.add_loss(source, phase)
            found = find_wake(source, phase)
            if found is not None:
                wakes.append(found)
        if not wakes:
            continue
        row: dict[str, Any] = {"x": {"ps": state}}
        row["exit_s"] = _spread([source.seconds(w.cqe - w.begin) - base_s for w in wakes])
        row["doorbell_to_cqe_s"] = _spread([source.seconds(w.cqe - w.doorbell) for w in wakes])
        ways = [t for t in (_transition(source, w) for w in wakes) if t is not None]
        if ways:
            row["settled_w"] = _spread([t.settled_w for t in ways])
            level = row["settled_w"]["value"]
            row["settled_w"]["u"] = math.hypot(row["settled_w"]["u"] or 0.0, source.power_u(level))
            row["entry_s"] = _spread([t.entry_s for t in ways if t.entry_s is not None])
            row["entry_j"] = _spread([t.entry_j for t in ways if t.entry_j is not None])
            row["exit_j"] = _spread([t.exit_j for t in ways])
            for key in ("entry_j", "exit_j"):
                value = row[key]["value"]
                if value is not None and row[key]["u"] is not None:
                    row[key]["u"] = math.hypot(row[key]["u"], source.model.gain * value)
            row["break_even_s"] = _break_even(row, idle_w["value"], base_s)
        out.points.append(row)
        _judge(out, row, declared.get(state, {}))
    return out


def _states(source: Source, test: Test) -> list[int]:
    head = f"{test.id}-ps"
    found = {name[len(head) :].partition("#")[0] for name in source.phases if name.startswith(head)}
    return sorted(int(n) for n in found if n.isdigit())


def _spread(values: list[float]) -> Quantity:
    """Mean of repetitions; u: two standard errors."""
    if not values:
        return quantity(None)
    u = 2 * float(np.std(values, ddof=1)) / len(values) ** 0.5 if len(values) > 1 else None
    return quantity(float(np.mean(values)), u)


def _break_even(row: Mapping[str, Any], idle_w: float | None, base_s: float) -> Quantity:
    """Idle time above which entering the state saves energy: the time T at which
    entry_j + settled_w (T - entry_s) + exit_j = idle_w (T + base_s)."""
    parts = [row[k]["value"] for k in ("entry_j", "exit_j", "settled_w", "entry_s")]
    if idle_w is None or any(p is None for p in parts):
        return quantity(None)
    entry_j, exit_j, settled_w, entry_s = parts
    if settled_w >= idle_w:
        return quantity(None)
    return quantity(max(0.0, (entry_j + exit_j - idle_w * base_s - settled_w * entry_s) / (idle_w - settled_w)))


def _judge(out: Outcome, row: Mapping[str, Any], declared: Mapping[str, Any]) -> None:
    for what in ("entry", "exit"):
        measured, said = (row.get(f"{what}_s") or {}).get("value"), declared.get(f"{what}_latency_s")
        if measured is not None and said:
            out.score(f"PS{row['x']['ps']} {what}, measured / declared", "1", quantity(measured / said))


__all__ = ["find_wake", "idle", "non_operational", "operational", "settled_power", "wake_up"]
