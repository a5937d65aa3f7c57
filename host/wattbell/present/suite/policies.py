"""Energy and wake-ups of idle times under power policies, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence

from wattbell.jsondata import JsonObject
from wattbell.measure.encode import quantity_json
from wattbell.present.chart import readable
from wattbell.present.table import Cell, Column, Table, figure, muted, text_column
from wattbell.results.idlepolicy import DriveCost, PolicyOutcome, PolicyStep
from wattbell.results.idletrace import IdleTrace
from wattbell.text import NOTHING, digits


def policy_table(drive: DriveCost, trace: IdleTrace, found: Sequence[PolicyOutcome]) -> Table:
    """Return the table: a row a policy."""
    columns = (
        text_column("policy", whole=True),
        text_column("idle times", leaves=2),
        Column("energy a day"),
        Column("wake-ups a day"),
        Column("waited a day", leaves=1),
        Column("asleep", leaves=3),
        text_column("note", leaves=4),
    )
    n, span = len(trace.idle_s), f"{digits(trace.span_s, 4)} s" if trace.span_s < 3600 else f"{digits(trace.span_s / 3600, 4)} h"
    note = f"{n} idle times over {span}, scaled to a day. Energy of idle times and wake-ups; work is not in it."
    return Table(f"{drive.run.title}: idle policies", columns, [_row(one) for one in found], note=note)


def _row(one: PolicyOutcome) -> list[Cell | str]:
    steps = ", ".join(_step(step, first=i == 0) for i, step in enumerate(one.policy.steps)) or "stays awake"
    if one.day_j.value is None:
        return [one.policy.name, steps, *[NOTHING] * 4, muted(str(one.day_j.conditions.get("absent", "")))]
    factor, unit = readable([one.day_j.value], "J")
    by_state = ", ".join(f"{n} from PS{state}" for state, n in sorted(one.wakes.items()))
    waited = figure(one.waited_s, *readable([one.waited_s.known], "s")) if one.waited_s.value else NOTHING
    return [
        one.policy.name,
        steps,
        figure(one.day_j, factor, unit),
        digits(one.wakes_a_day or 0.0, 4),
        waited,
        f"{digits(100 * (one.asleep or 0.0), 3)} %",
        muted(f"in the trace {by_state}" if by_state else ""),
    ]


def _step(step: PolicyStep, *, first: bool) -> str:
    factor, unit = readable([step.after_s], "s")
    return f"PS{step.state} after {step.after_s * factor:g} {unit}{'' if first or step.since == 'command' else ' more'}"


CONDITIONS = (
    "the drive's figures are those of the suite power-states: link in L1.2, no work in the background, its temperature",
    "the drive keeps its timers, and a host's commands that only change the power state cost nothing",
    "entry into a deeper state from another one was not measured: between the lower state's power and the entry from PS0",
)
"""Conditions that hold for every figure."""


def conditions_told(drive: DriveCost, trace: IdleTrace, found: Sequence[PolicyOutcome]) -> list[str]:
    """Return the conditions and sources of the figures, one a line."""
    sources = dict.fromkeys(one.policy.source for one in found)
    return [*drive.notes, *trace.notes, *CONDITIONS, *(f"tables of {source}" for source in sources)]


def policies_json(drive: DriveCost, trace: IdleTrace, found: Sequence[PolicyOutcome]) -> JsonObject:
    """Return all figures as JSON."""
    return {
        "schema": {"name": "wattbell-policies", "version": 1, "k": 2},
        "drive": drive.run.title,
        "virtual": drive.run.origin.stated,
        "run": drive.run.source or drive.run.id,
        "trace": {"source": trace.source, "idle_times": len(trace.idle_s), "idle_s": float(trace.idle_s.sum()), "span_s": trace.span_s},
        "conditions": conditions_told(drive, trace, found),
        "policies": [
            {
                "name": one.policy.name,
                "source": one.policy.source,
                "steps": [{"state": step.state, "after_s": step.after_s, "since": step.since} for step in one.policy.steps],
                "energy_j": quantity_json(one.energy_j),
                "energy_j_per_day": quantity_json(one.day_j),
                "wake_ups": {f"PS{state}": n for state, n in sorted(one.wakes.items())},
                "wake_ups_per_day": one.wakes_a_day,
                "waited_s_per_day": quantity_json(one.waited_s),
                "asleep_share": one.asleep,
                "why": str(one.day_j.conditions.get("absent", "")),
            }
            for one in found
        ],
    }
