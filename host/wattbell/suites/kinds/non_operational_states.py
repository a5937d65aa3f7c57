"""Non-operational power states.

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

from ...measure.phase import Source, measure
from ...measure.quantity import Quantity, quantity
from ..jobs import Section
from ..kind import Kind
from ..outcome import Outcome
from ..power import Wake, declared_states, find_wake, note_settling, settled_power
from ..session import Steps
from ..suite import Test

SETTLED_SHARE = 0.1
"""A level is reached when the rail stays within this share of the step to it."""


class NonOperationalStates(Kind):
    """Each non-operational state that the drive has: the drive is left alone in it, then read once; again and again."""

    name = "non-operational-states"

    def steps(self, to: Steps) -> None:
        to.settle()
        to.add("-baseline", fio=to.job())
        to.add("-awake", idle_s=to.idle_s)
        for state in to.drive.non_operational:
            for k in range(to.repeats):
                to.add(f"-ps{state}#{k + 1}", wake=to.wake(k), ps=state)

    def score(self, source: Source, test: Test, sections: Mapping[str, Section], scale: float) -> Outcome:
        """Power, entry and exit latency against the declared, transition energy, break-even idle time of each state."""
        out = Outcome()
        note_settling(out, source, test)
        declared = declared_states(source)
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
