"""Assign power states to levels of the rail, with probabilities.

The evidence on a level is its power, the link's state, the host's request, whether APST is on, and the order of levels within an idle time.
States are assigned to all levels jointly, over all assignments that matter (a beam): a deeper state draws no more than a shallower state.
Every number below is a prior with its source; none is of the capture under test. docs/power-states.md reports how often the probabilities
hold.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from wattbell_spec.wire import LinkState

OPERATIONAL, WORK = -1, -2
"""States beside the numbers of non-operational ones: awake without work, and at work."""
_FAR = 25.0
_BEAM = 2000
_MOST_LEVELS = 40
SURE = 0.8
"""Least probability of a label."""

LINK_W: dict[int, tuple[float, float]] = {
    int(LinkState.L0): (0.15, 0.5),
    int(LinkState.L0S): (0.12, 0.6),
    int(LinkState.L1): (0.05, 0.6),
    int(LinkState.L1_1): (0.02, 1.0),
    int(LinkState.L1_2): (0.0008, 0.8),
}
"""Power of a link of four lanes: median and sigma of the logarithm. SM2262EN: 707 mW idle without ASPM, 59 mW with it, and data sheets of
PHYs, which say 100 to 250 mW for L0."""
_LINK_AT_MOST_W = 0.3
_LINK_AWAKE = ((int(LinkState.L0), 0.4), (int(LinkState.L1), 0.2), (int(LinkState.L1_2), 0.4))
_LINK_ASLEEP = ((int(LinkState.L0), 0.2), (int(LinkState.L1), 0.1), (int(LinkState.L1_2), 0.7))
"""Weights of the states of a link that nobody sees."""
_AWAKE = (0.11, 0.6)
"""Idle in an operational state as a share of PS0's maximum power: of the published ones 0.05 to 0.27."""
_DECLARED_MP = ((0.7, -0.05, 0.3), (0.3, 0.9, 1.0))
_DECLARED_DEEPEST = ((0.7, 0.0, 0.35), (0.3, 1.5, 1.3))
"""Distribution of a non-operational state's power over its declared maximum: weight, mean and sigma of the logarithm.

Most draw about the declared power. Some break the promise in the deepest state: three of the published ones draw 2.5, 15 and 29 times as
much (docs/methodology.md).
"""
_DECLARED_IDLP = ((0.85, 0.0, 0.25), (0.15, 0.4, 1.0))
_WORK_RANGE = 2.5
"""Work draws between idle and the maximum: that many e-folds."""
_STEADY, _RESTLESS = (math.log(0.01), 1.0), (math.log(0.08), 1.2)
"""Scatter of bins over their mean: at rest, at work."""
_EXIT_DECLARED = (0.3, 1.0)
"""Time until the first command is taken up, over the declared exit latency."""
_TAKEN_UP_S = (5e-6, 1.2)
"""The same of a drive that is awake."""
_NODES = np.linspace(-4, 4, 17)
_WEIGHTS = np.exp(-(_NODES**2) / 2) / np.exp(-(_NODES**2) / 2).sum()
TEMPER, TEMPER_ALONE = 0.8, 0.6
"""Weights of the evidence, which is not independent, least of all if only the rail was seen."""


@dataclass
class StateLevel:
    """Segments of one power under the same circumstances.

    asked: the state the host asked for, operational if it asked for none; None: nobody saw
    apst: on, off, not known
    by_table: the state that its table sends an idle drive into by then (:mod:`.apst`), None if unknown
    exit_s: wait of the first command behind it, in s
    with_commands: the time between levels may hold commands that nobody saw
    first: number of idle times that begin with it
    next: number of times that each other level follows, by its place in the list
    """

    mean_w: float
    duration_s: float
    scatter: float
    link: int | None = None
    asked: int | None = None
    apst: bool | None = None
    by_table: int | None = None
    exit_s: float | None = None
    with_commands: bool = False
    first: int = 0
    next: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Declared:
    """The states that Identify declares.

    sleeping: power by non-operational state, and whether the power is IDLP
    top_w: PS0's maximum
    """

    operational: tuple[int, ...]
    sleeping: Mapping[int, tuple[float, bool]]
    top_w: float | None
    awake_w: float | None = None
    exit_s: Mapping[int, float] = field(default_factory=dict)

    @classmethod
    def of(cls, states: Sequence[Mapping[str, Any]]) -> Declared | None:
        """Take the labels from ``drive.power_states`` of a capture; None if that is empty."""
        if not states:
            return None
        sleeping: dict[int, tuple[float, bool]] = {}
        for state in states:
            if state.get("non_operational"):
                power = state.get("idle_power_w") or state.get("max_power_w")
                if power:
                    sleeping[int(state["state"])] = float(power), bool(state.get("idle_power_w"))
        awake = [s for s in states if not s.get("non_operational")]
        tops = [float(s["max_power_w"]) for s in awake if s.get("max_power_w")]
        idle = next((float(s["idle_power_w"]) for s in awake if s.get("idle_power_w")), None)
        exits = {int(s["state"]): float(s["exit_latency_s"]) for s in states if s.get("non_operational") and s.get("exit_latency_s")}
        return cls(tuple(int(s["state"]) for s in awake), sleeping, max(tops, default=None), idle, exits)


@dataclass(frozen=True)
class StateLabel:
    """The states that a level may be.

    states: one, or several that cannot be separated (:data:`OPERATIONAL`, :data:`WORK`, numbers of non-operational ones); empty: unknown
    probability: of the level being in one of ``states``; if unknown, of the likeliest state
    """

    states: tuple[int, ...]
    probability: float
    shares: Mapping[int, float]


def _normal(x: float | np.ndarray, mean: float, sigma: float) -> Any:
    return np.exp(-0.5 * ((x - mean) / sigma) ** 2) / (sigma * math.sqrt(2 * math.pi))


def _with_link(watt: float, link: int | None, unseen: Sequence[tuple[int, float]], mixture: Sequence[tuple[float, float, float]]) -> float:
    """Return the density of the logarithm of a level's power, which includes the power of the link."""
    total = 0.0
    for state, weight in unseen if link is None else ((link, 1.0),):
        median, sigma = LINK_W.get(state, LINK_W[int(LinkState.L0)])
        core = watt - median * np.exp(sigma * _NODES)
        known = core > 0.02 * watt
        logs = np.log(core[known])
        for share, mean, width in mixture:
            total += weight * share * float((_WEIGHTS[known] * _normal(logs, mean, width) * watt / core[known]).sum())
    return total


def _power(level: StateLevel, state: int, declared: Declared) -> float:
    """Logarithm of how well the power fits the state."""
    if level.mean_w <= 0:
        return -_FAR if state in (OPERATIONAL, WORK) else 0.0
    top = declared.top_w or 5.0
    if state == WORK:
        low = _AWAKE[0] * top / 2
        density = 1 / _WORK_RANGE if low <= level.mean_w <= 1.5 * top else 1e-4
    elif state == OPERATIONAL:
        mixture = [(1.0, math.log(declared.awake_w), 0.3)] if declared.awake_w else [(1.0, math.log(_AWAKE[0] * top), _AWAKE[1])]
        density = _with_link(level.mean_w, level.link, _LINK_AWAKE, mixture)
    else:
        power, idlp = declared.sleeping[state]
        shape = _DECLARED_IDLP if idlp else _DECLARED_DEEPEST if state == max(declared.sleeping) else _DECLARED_MP
        density = _with_link(level.mean_w, level.link, _LINK_ASLEEP, [(w, math.log(power) + mean, sigma) for w, mean, sigma in shape])
    return math.log(max(density, 1e-9))


def _alone(level: StateLevel, state: int, declared: Declared) -> float:
    """Return the logarithm of the evidence for a state from the level by itself."""
    n = max(1, len(declared.sleeping))
    if level.asked is not None and level.asked in declared.sleeping:
        prior = 0.75 if state == level.asked else {OPERATIONAL: 0.2, WORK: 0.04}.get(state, 0.01 / n)  # it takes its time to get there
    elif level.apst is False:
        prior = {OPERATIONAL: 0.9, WORK: 0.09}.get(state, 0.01 / n)
    elif level.apst and level.by_table is not None:
        # A drive goes by the table as by a request, but may take a deeper state, or a shallower one, for reasons of its own.
        due = level.by_table if level.by_table in declared.sleeping else OPERATIONAL
        prior = 0.75 if state == due else {OPERATIONAL: 0.1, WORK: 0.05}.get(state, 0.1 / n)
    elif level.apst:
        prior = {OPERATIONAL: 0.45, WORK: 0.1}.get(state, 0.45 * _depth(state, declared))
    else:
        prior = {OPERATIONAL: 0.5, WORK: 0.15}.get(state, 0.35 * _depth(state, declared))
    out = math.log(prior) + _power(level, state, declared)
    if state in (WORK, OPERATIONAL):
        at = _RESTLESS if state == WORK else _STEADY
        out += math.log(max(float(_normal(math.log(max(level.scatter, 1e-3)), *at)), 1e-3))
    else:
        out += math.log(0.2)  # of a low level the scatter is the instrument's
    if level.exit_s is not None:
        if state in declared.sleeping:
            out += _waited(level.exit_s, declared.exit_s.get(state, 0.01), *_EXIT_DECLARED)
        else:
            out += _waited(level.exit_s, _TAKEN_UP_S[0], 0.0, _TAKEN_UP_S[1])
    begins = 0.75 if state == OPERATIONAL else 0.2 if state == WORK else 0.7 if level.asked == state else 0.05
    return out + min(level.first, 3) * math.log(begins)


def _waited(found_s: float, expected_s: float, mean: float, sigma: float) -> float:
    return math.log(max(float(_normal(math.log(max(found_s, 1e-7) / expected_s), mean, sigma)), 1e-4))


def _depth(state: int, declared: Declared) -> float:
    """Share of a non-operational state among those that a drive goes into by itself."""
    return 1 / len(declared.sleeping) if state in declared.sleeping else 0.0


def _follows(before: int, after: int, with_commands: bool) -> float:
    """Logarithm of how often a state comes next in an idle time, or, ``with_commands``, at all."""
    if before == OPERATIONAL:
        return math.log(0.3 if after == OPERATIONAL else 0.15 if after == WORK else 0.5)
    if before == WORK:
        return math.log(0.6 if after == OPERATIONAL else 0.25 if after == WORK else 0.15)
    if after in (OPERATIONAL, WORK):
        return math.log(0.6 if with_commands and after == WORK else 0.08)
    return math.log(0.5 if after > before else 0.3 if after == before else 0.02)


def _together(levels: Sequence[StateLevel], i: int, x: int, j: int, y: int) -> float:
    """Return the logarithm of the evidence for level ``i`` being ``x`` while ``j`` is ``y``; the lower, the less possible together."""
    a, b = levels[i], levels[j]
    out = min(a.next.get(j, 0), 3) * _follows(x, y, a.with_commands) + min(b.next.get(i, 0), 3) * _follows(y, x, a.with_commands)
    if a.link != b.link:
        return out
    if x == y != WORK and a.asked == b.asked and abs(a.mean_w - b.mean_w) > 0.1 * max(a.mean_w, b.mean_w):
        # One state, one power, apart from the possible power of a link that nobody sees.
        out -= 3.0 if a.link is not None or abs(a.mean_w - b.mean_w) > _LINK_AT_MOST_W else 0.2
    # By falling power: work, awake, and then deeper and deeper.
    rank = {WORK: 0, OPERATIONAL: 1}
    p, q = rank.get(x, x + 2), rank.get(y, y + 2)
    if p > q:
        (a, p), (b, q) = (b, q), (a, p)
    if p < q and a.mean_w < b.mean_w * (1.03 if q == 1 else 1.0 if p > 1 else 1.1):
        out -= 8.0 if p <= 1 else 3.0
    return out


def probabilities(levels: Sequence[StateLevel], declared: Declared) -> list[dict[int, float]]:
    """Return for each level the probability of each state. Empty for levels beyond the 40 that were seen longest."""
    order = sorted(range(len(levels)), key=lambda i: -levels[i].duration_s)[:_MOST_LEVELS]
    states = [OPERATIONAL, WORK, *declared.sleeping]
    beam: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    for at, i in enumerate(order):
        temper = TEMPER_ALONE if levels[i].with_commands else TEMPER
        alone = {state: temper * _alone(levels[i], state, declared) for state in states}
        pairs = [{(x, y): temper * _together(levels, j, x, i, y) for x in states for y in states} for j in order[:at]]
        grown = [
            (score + alone[state] + sum(pair[x, state] for pair, x in zip(pairs, given, strict=True)), (*given, state))
            for score, given in beam
            for state in states
        ]
        grown.sort(reverse=True)
        beam = [one for one in grown[:_BEAM] if one[0] > grown[0][0] - _FAR]
    weights = np.exp(np.array([score for score, _ in beam]) - beam[0][0])
    weights /= weights.sum()
    out: list[dict[int, float]] = [{} for _ in levels]
    for at, i in enumerate(order):
        for weight, (_, given) in zip(weights.tolist(), beam, strict=True):
            out[i][given[at]] = out[i].get(given[at], 0.0) + weight
    # A sum that is rounded may be a little more than 1.
    return [{state: min(1.0, share) for state, share in shares.items()} for shares in out]


def label_of(shares: Mapping[int, float]) -> StateLabel:
    """The smallest set of states that is at least :data:`SURE`; unknown where that would mix sleeping and waking."""
    if not shares:
        return StateLabel((), 0.0, {})
    best = max(shares, key=lambda s: shares[s])
    if shares[best] >= SURE:
        return StateLabel((best,), shares[best], shares)
    asleep = sorted(s for s in shares if s >= 0 and shares[s] >= 0.05)
    together = min(1.0, sum(shares[s] for s in asleep))
    if together >= SURE:
        return StateLabel(tuple(asleep), together, shares)
    return StateLabel((), shares[best], shares)


def groups(items: Iterable[tuple[float, Any]], gap: float = 0.06, span: float = 0.25) -> list[list[Any]]:
    """Items of like power: sorted, a new group where the next is ``gap`` + 0.5 mW above the last, or ``span`` above the group's first."""
    out: list[list[Any]] = []
    first = last = -math.inf
    for power, item in sorted(items, key=lambda one: one[0]):
        if out and power <= last * (1 + gap) + 5e-4 and power <= first * (1 + span) + 5e-4:
            out[-1].append(item)
        else:
            out.append([item])
            first = power
        last = power
    return out
