"""Non-operational power states.

Entry and exit are read off the rail. **Entry** begins at the last completion before the idle time. It ends when the rail stays within a
tenth of the way to its settled level. **Exit** begins at the first sign of waking (CLKREQ# asserted, else the doorbell). It ends at the
completion of a 4 KiB read, less the same read's latency when awake.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...measure.figure import Figure, absent
from ...measure.phase import measure
from ...measure.point import Point
from ...measure.source import Source
from ..jobs import JobSection
from ..kind import KindOfTest, ScoreSection, kind_of_test
from ..outcome import Outcome
from ..power import WakingRead, declared_states, find_wake, note_settling, one_level, settled_power, settling
from ..session import StepBuilder
from ..suite import Test

MARGIN_S = 2e-3
"""Margin in s behind the instant at which a level was reached, since levels are found in bins of 1 ms."""
SETTLED_SHARE = 0.1
"""A level is reached when the rail stays within this share of the step to it."""


@kind_of_test("non-operational-states")
class NonOperationalStatesTest(KindOfTest):
    """Each non-operational state that the drive has: the drive is left alone in it, then read once; again and again."""

    place = ScoreSection.POWER_STATES

    def steps(self, to: StepBuilder) -> None:
        to.settle()
        to.add("-baseline", fio=to.job())
        to.add("-awake", idle_s=to.idle_s)
        for state in to.drive.non_operational:
            for k in range(to.repeats):
                to.add(f"-ps{state}#{k + 1}", wake=to.wake(k), ps=state)

    def score(self, source: Source, test: Test, sections: Mapping[str, JobSection], scale: float) -> Outcome:
        """Power, entry and exit latency against the declared, transition energy, break-even idle time of each state."""
        out = Outcome()
        note_settling(out, source, test)
        declared = declared_states(source)
        baseline, awake = source.named(f"{test.id}-baseline"), source.named(f"{test.id}-awake")
        base = measure(source, baseline[0][1]).latency()[0] if baseline else absent("no read of a drive that is awake", "s")
        idle_w = settled_power(source, awake[0][1]) if awake else absent("no idle time in PS0", "W")
        base_s = base.value or 0.0
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
            exits = [source.seconds(w.cqe - w.begin) - base_s for w in wakes]
            row = {
                "exit_s": _less(_spread(exits, "s"), base),
                "doorbell_to_cqe_s": _spread([source.seconds(w.cqe - w.doorbell) for w in wakes], "s"),
            }
            if not source.by_host:  # the host's own time in a single read is not known, so its longest says nothing of the drive
                row["longest_exit_s"] = _less(Figure(max(exits), source.tick_s, "s"), base)
            ways = [t for t in (_transition(source, w) for w in wakes) if t is not None]
            if len(ways) < len(wakes) and source.rail is not None:
                out.notes.append(f"PS{state}: in {len(wakes) - len(ways)} of {len(wakes)} idle times the drive did not settle: not counted")
            if ways:
                row["settled_w"] = one_level([t.settled for t in ways])
                entries = [t.entry_s for t in ways if t.entry_s is not None]
                row["entry_s"] = _spread(entries, "s")
                row["longest_entry_s"] = _longest_on_rail(entries, source)
                row["entry_j"] = _with_gain(_spread([t.entry_j for t in ways if t.entry_j is not None], "J"), source)
                row["exit_j"] = _with_gain(_spread([t.exit_j for t in ways], "J"), source)
                row["break_even_s"] = _break_even(row, idle_w.value, base_s)
            out.points.append(Point({"ps": state}, row))
            _times_declared(out, out.points[-1], declared.get(state, {}))
        return out


@dataclass(frozen=True)
class StateTransition:
    """Figures of one way into and out of a state; None if not seen."""

    settled: Figure
    entry_s: float | None
    entry_j: float | None
    exit_s: float
    exit_j: float


def _transition(source: Source, wake: WakingRead) -> StateTransition | None:
    if source.rail is None or wake.begin - wake.quiet_from < 16 * source.rail.interval_ticks:
        return None
    found = settling(source, wake.quiet_from, wake.begin)
    if found is None:
        return None
    settled_w = found.power.known
    late = source.model.front_end_delay_s / source.tick_s
    first, power = source.rail.power_between(round(wake.quiet_from + late), round(wake.begin + late))
    arrived = max(4, round((found.after.known + MARGIN_S) / source.rail.interval_s))
    tail = power[arrived:]
    tail = tail[~np.isnan(tail)]
    scatter = float(np.std(tail)) if len(tail) else 0.0
    # the first samples have the old level; samples still above the threshold have not arrived
    head = float(np.nanmax(power[: max(4, len(power) // 1000)]))
    threshold = settled_w + max(SETTLED_SHARE * (head - settled_w), 4 * scatter)
    above = np.flatnonzero(power[:arrived] > threshold)
    entry_s = entry_j = None
    if len(above):
        done = first + (int(above[-1]) + 1) * source.rail.interval_ticks - late
        entry_s = source.seconds(done - wake.quiet_from)
        entry_j = source.energy(wake.quiet_from, done)[0].value
    exit_j = source.energy(wake.begin, wake.cqe)[0].value
    if exit_j is None:
        return None
    return StateTransition(found.power, entry_s, entry_j, source.seconds(wake.cqe - wake.begin), exit_j)


def _states(source: Source, test: Test) -> list[int]:
    head = f"{test.id}-ps"
    found = {name[len(head) :].partition("#")[0] for name in source.phases if name.startswith(head)}
    return sorted(int(n) for n in found if n.isdigit())


def _spread(values: list[float], unit: str) -> Figure:
    """Mean of repetitions; u: two standard errors."""
    if not values:
        return absent("not seen", unit)
    u = 2 * float(np.std(values, ddof=1)) / len(values) ** 0.5 if len(values) > 1 else None
    return Figure(float(np.mean(values)), u, unit)


def _less(found: Figure, base: Figure) -> Figure:
    """Return a latency less ``base``, with the error of both."""
    return found if found.u is None or base.u is None else replace(found, u=math.hypot(found.u, base.u))


def _with_gain(energy: Figure, source: Source) -> Figure:
    """Add the error of the front end's gain, which is the same in all repetitions."""
    return energy if energy.u is None else replace(energy, u=math.hypot(energy.u, source.model.gain * energy.known))


def _break_even(row: Mapping[str, Figure], idle_w: float | None, base_s: float) -> Figure:
    """Return the idle time above which entering the state saves energy.

    This is the time T at which entry_j + settled_w (T - entry_s) + exit_j = idle_w (T + base_s).
    """
    entry_j, exit_j, settled_w, entry_s = (row[k].value for k in ("entry_j", "exit_j", "settled_w", "entry_s"))
    if idle_w is None or entry_j is None or exit_j is None or settled_w is None or entry_s is None:
        return absent("one of its parts is missing", "s")
    if settled_w >= idle_w:
        return absent("the state draws no less than PS0", "s")
    return Figure(max(0.0, (entry_j + exit_j - idle_w * base_s - settled_w * entry_s) / (idle_w - settled_w)), unit="s")


def _longest_on_rail(values: list[float], source: Source) -> Figure:
    """The longest, which is known to a sample of the rail, and to the error between the clocks of commands and rail."""
    assert source.rail is not None
    u_s = source.rail.interval_s + source.model.alignment_u_s
    return Figure(max(values), u_s, "s") if values else absent("not seen", "s")


def _times_declared(out: Outcome, point: Point[Figure], declared: Mapping[str, Any]) -> None:
    for what in ("entry", "exit"):
        measured, said = point.figures.get(f"{what}_s", Figure()), declared.get(f"{what}_latency_s")
        if measured.value is not None and said:
            u = None if measured.u is None else measured.u / said
            out.score(f"PS{point.x['ps']} {what}, measured / declared", "1", Figure(measured.value / said, u, "1"))
