"""Energy and wake-ups of a drive's idle times under a policy: when it enters which non-operational state.

The drive's figures are those of the suite power-states: power when awake and idle, and of each state its power, the time and energy of
entry, and the energy of exit. An idle time of T s costs

    idle power x time awake + energy of each entry + power of each state x time in it + energy of the exit less that of an awake read.

An idle time that ends during an entry pays for the whole entry and for the exit. Entry into a deeper state from another one was not
measured. Its energy lies between the shallower state's power over the entry and the entry from PS0; the middle is taken, with half the
distance as uncertainty.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from ..analysis.apst import LINUX_LONGEST_EXIT_US, linux_table
from ..errors import ResultsError
from ..measure.figure import Figure, absent
from .bystate import measured_of
from .declared import PowerStateDescriptor, power_states
from .idletrace import IdleTrace
from .model import Run

DAY_S = 86400.0
BASE_W = "idle in PS0, the base of the break-even time"
BASE_S = "mean latency of the same read when awake"
TEST = "non-operational-states"
"""Kind of the test with a drive's transitions."""


@dataclass(frozen=True)
class PolicyStep:
    """A step into ``state`` after ``after_s`` s of idle time ``since`` the drive was in the state before, or since the last command."""

    state: int
    after_s: float
    since: Literal["state", "command"]


@dataclass(frozen=True)
class IdlePolicy:
    """A policy. ``name``: as shown; ``source``: where its table comes from; ``steps``: empty for a drive that stays awake."""

    name: str
    source: str
    steps: tuple[PolicyStep, ...]


# -- policies ----------------------------------------------------------------------------------------------------------

LINUX = "Linux 6.12, nvme_configure_apst in drivers/nvme/host/core.c"
STORNVME = "StorNVMe, Microsoft: Power management for storage hardware devices, NVMe (learn.microsoft.com), default settings"
TOLERANCES_US = (0.0, 10_000.0, 25_000.0, float(LINUX_LONGEST_EXIT_US))
"""``default_ps_max_latency_us`` if the user names none: off, two tighter ones, and the kernel's default."""
WINDOWS: tuple[tuple[str, float, float, float | None, float], ...] = (
    ("balanced, mains", 0.2, 15e-3, 2.0, 100e-3),
    ("balanced, battery", 0.1, 50e-3, 1.0, 100e-3),
    ("power saver, mains", 0.1, 100e-3, 1.0, 200e-3),
    ("power saver, battery", 0.1, 200e-3, 1.0, 200e-3),
    ("Modern Standby", 0.05, 500e-3, None, 0.0),
)
"""StorNVMe: (scheme, primary idle timeout, primary latency tolerance, secondary timeout, secondary tolerance), all in s."""


def policies_of(states: Sequence[PowerStateDescriptor], tolerances_us: Sequence[float]) -> list[IdlePolicy]:
    """Return Linux's policies at each latency tolerance, and StorNVMe's, for a drive's declared states."""
    out = []
    for tolerance_us in dict.fromkeys(tolerances_us):
        table = linux_table([(s.operational, _us(s.entry_s), _us(s.exit_s)) for s in states], tolerance_us)
        steps: list[PolicyStep] = []
        at = 0
        while at in table and len(steps) < len(states):
            at, after_s = table[at]
            steps.append(PolicyStep(states[at].number, after_s, "state"))
        what = f"{tolerance_us / 1000:g} ms" if tolerance_us else "0 (APST off)"
        out.append(IdlePolicy(f"Linux, {what}", LINUX, tuple(steps)))
    return out + [IdlePolicy(f"StorNVMe, {name}", STORNVME, _windows(states, a, b, c, d)) for name, a, b, c, d in WINDOWS]


def _windows(
    states: Sequence[PowerStateDescriptor], first_s: float, first_most_s: float, second_s: float | None, second_most_s: float
) -> tuple[PolicyStep, ...]:
    """Return the deepest state within each tolerance (entry and exit together), after each timeout since the last command."""
    steps: list[PolicyStep] = []
    for after_s, most_s in ((first_s, first_most_s), (second_s, second_most_s)):
        if after_s is None:
            continue
        fit = [s.number for s in states if not s.operational and (s.entry_s or 0.0) + (s.exit_s or 0.0) <= most_s]
        if fit and (not steps or max(fit) > steps[-1].state):
            steps.append(PolicyStep(max(fit), after_s, "command"))
    return tuple(steps)


def _us(seconds: float | None) -> float:
    return round(1e6 * (seconds or 0.0), 3)


# -- the drive ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StateCost:
    """Measured figures of a non-operational state, in W, s and J."""

    settled_w: Figure
    entry_s: Figure
    entry_j: Figure
    exit_s: Figure
    exit_j: Figure


@dataclass(frozen=True)
class DriveCost:
    """Measured figures of a drive. ``base_s``: latency of a read when awake, whose energy an exit contains."""

    run: Run
    idle_w: Figure
    base_s: float
    states: Mapping[int, StateCost]
    notes: tuple[str, ...] = ()


def drive_cost(run: Run) -> DriveCost:
    """Return the figures of a run of the suite power-states. Raises ResultsError where it has none."""
    test = next((one for one in run.tests if one.kind == TEST), None)
    idle_w = test.score("W", BASE_W) if test is not None else None
    base_s = test.score("s", BASE_S) if test is not None else None
    if test is None or idle_w is None or base_s is None:
        raise ResultsError(f"{run.source or run.id} has not measured non-operational states: give a run of the suite power-states.")
    if not power_states(run):
        raise ResultsError(f"{run.source or run.id} does not have the drive's declared power states, from which hosts make their tables.")
    names = ("settled_w", "entry_s", "entry_j", "exit_s", "exit_j")
    states = {
        number: StateCost(*(found.get(name, absent(f"{name} was not measured")) for name in names))
        for number, found in measured_of([run]).items()
        if "exit_s" in found
    }
    notes = ["the run was scaled: few repetitions"] if run.scaled else []
    lost = test.n_lost
    notes += [f"{lost} records were lost under the drive's figures"] if lost else []
    return DriveCost(run, idle_w.value, base_s.value.value, states, tuple(notes))


# -- replay ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PolicyOutcome:
    """A policy's figures for a trace.

    energy_j : of all idle times and the wake-ups behind them
    day_j : scaled to a day
    wakes : wake-ups in the trace, by state
    wakes_a_day, waited_s : wake-ups a day, and the time that commands wait for them a day
    asleep : share of the idle time in non-operational states
    """

    policy: IdlePolicy
    energy_j: Figure
    day_j: Figure
    wakes: Mapping[int, int] = field(default_factory=dict)
    wakes_a_day: float | None = None
    waited_s: Figure = field(default_factory=Figure)
    asleep: float | None = None


def replay(drive: DriveCost, trace: IdleTrace, policy: IdlePolicy) -> PolicyOutcome:
    """Return a policy's energy and wake-ups. The energy has no value if a state of the policy was not measured."""
    for step in policy.steps:
        known = drive.states.get(step.state)
        parts = [] if known is None else [known.settled_w, known.entry_s, known.entry_j, known.exit_s, known.exit_j]
        lacking = next((one for one in parts if one.value is None), None)
        if known is None or lacking is not None:
            why = "" if lacking is None else f" ({lacking.conditions.get('absent', '')})"
            nothing = absent(f"the run has not measured PS{step.state}{why}", "J")
            return PolicyOutcome(policy, nothing, nothing)
    spent = _spent(drive, trace, policy)
    factor = DAY_S / trace.span_s
    energy = spent.energy(drive)
    u = None if energy.u is None else factor * energy.u
    day = Figure(factor * energy.known, u, "J", energy.lost)
    waits = [(n, drive.states[state].exit_s) for state, n in spent.wakes.items()]
    known_u = all(one.u is not None for _, one in waits)
    waited = Figure(
        factor * sum(n * one.known for n, one in waits), factor * sum(n * (one.u or 0.0) for n, one in waits) if known_u else None, "s"
    )
    asleep = 1 - spent.awake_s / float(trace.idle_s.sum())
    return PolicyOutcome(policy, energy, day, dict(spent.wakes), factor * sum(spent.wakes.values()), waited, asleep)


@dataclass
class _Spent:
    """Times and counts of a trace. ``entries``: into a state from awake; ``deeper``: into a state from another one."""

    awake_s: float = 0.0
    in_state_s: dict[int, float] = field(default_factory=dict)
    entries: Counter[int] = field(default_factory=Counter)
    deeper: Counter[tuple[int, int]] = field(default_factory=Counter)
    wakes: Counter[int] = field(default_factory=Counter)

    def energy(self, drive: DriveCost) -> Figure:
        """Return the energy. One front end measured all parts, so their uncertainties add up."""
        parts: list[tuple[float, Figure]] = [(self.awake_s - drive.base_s * sum(self.wakes.values()), drive.idle_w)]
        besides = 0.0
        for state, seconds in self.in_state_s.items():
            parts.append((seconds, drive.states[state].settled_w))
        for state, n in self.entries.items():
            parts.append((n, drive.states[state].entry_j))
        for state, n in self.wakes.items():
            parts.append((n, drive.states[state].exit_j))
        for (before, state), n in self.deeper.items():
            entry, entry_s = drive.states[state].entry_j, drive.states[state].entry_s.known
            parts += [(n / 2, entry), (n / 2 * entry_s, drive.states[before].settled_w)]
            besides += n / 2 * abs(entry.known - entry_s * drive.states[before].settled_w.known)
        value = sum(of * one.known for of, one in parts)
        used = [(abs(of), one.u) for of, one in parts if of]
        u = None if any(one is None for _, one in used) else sum(of * (one or 0.0) for of, one in used) + besides
        return Figure(value, u, "J", max((one.lost for _, one in parts), default=0))


def _spent(drive: DriveCost, trace: IdleTrace, policy: IdlePolicy) -> _Spent:
    """Return the times and counts, all idle times at once for each step."""
    out = _Spent()
    left, reached, before = trace.idle_s, 0.0, None
    for step in policy.steps:
        entry_s = drive.states[step.state].entry_s.known
        due = max(reached, step.after_s) if step.since == "command" else reached + step.after_s
        out_of = left[left <= due]
        _stay(out, before, float(np.sum(out_of - reached)), len(out_of))
        left = left[left > due]
        _stay(out, before, len(left) * (due - reached), 0)
        if before is None:
            out.entries[step.state] += len(left)
        else:
            out.deeper[before, step.state] += len(left)
        reached, before = due + entry_s, step.state
        during = left[left <= reached]
        out.wakes[step.state] += len(during)
        left = left[left > reached]
    _stay(out, before, float(np.sum(left - reached)), len(left))
    out.wakes = +out.wakes
    return out


def _stay(out: _Spent, state: int | None, seconds: float, wakes: int) -> None:
    """Count time in a state, or awake for None, and the idle times that end there."""
    if state is None:
        out.awake_s += seconds
        return
    out.in_state_s[state] = out.in_state_s.get(state, 0.0) + seconds
    out.wakes[state] += wakes
