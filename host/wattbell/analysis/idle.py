"""Idle power by power state: steady levels of the rail while no command is in flight.

A state that the host asked for is known from the wire (POWER_STATE events). A state that the drive entered by itself (APST) never shows on
the wire. The level then suggests the state, and every such label says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from wattbell_spec.wire import EventType, LinkState

from wattbell.analysis.context import IDLE_MIN_S
from wattbell.analysis.powerstates import name_of, reason
from wattbell.analysis.result import Idle, IdleLevel
from wattbell.analysis.signals import StateTrack, track
from wattbell.measure.figure import Figure, K
from wattbell.measure.instruments import NO_COMMANDS
from wattbell.measure.steadiness import of_rail
from wattbell.measure.table import Commands

if TYPE_CHECKING:
    from wattbell.analysis.context import Context
    from wattbell.analysis.stretches import FoundStretches, Stretch

_AWAKE_SHARE = 0.3
"""Without Identify, a level below this share of the highest is not said to be operational idle."""


def cluster(means: Sequence[float]) -> list[list[int]]:
    """Indices of ``means`` grouped into levels: sorted, a new level where a mean exceeds the level's last by more than
    25 % + 0.5 mW. Levels come in falling order of power."""
    order = sorted(range(len(means)), key=lambda i: means[i])
    levels: list[list[int]] = []
    for i in order:
        if levels and means[i] <= means[levels[-1][-1]] * 1.25 + 5e-4:
            levels[-1].append(i)
        else:
            levels.append([i])
    return levels[::-1]


def idle_power(context: Context, found: FoundStretches | None) -> Idle:
    """Return the levels of idle power with their states, the evidence for each state, and the link state at the time.

    found: the stretches in idle times

    Keys: ``gaps`` (number), ``idle_s``, ``levels`` (falling power), ``segments`` (at most 1000), ``unsettled_s``.
    """
    gaps = context.gaps
    idle_s = float((gaps[:, 1] - gaps[:, 0]).sum()) * context.tick_s
    base: Idle = {"threshold_s": IDLE_MIN_S, "gaps": len(gaps), "idle_s": idle_s}
    if context.rail is None:
        return {**base, "absent": context.no_rail, "levels": [], "segments": []}
    if not len(gaps):
        why = f"no time of {IDLE_MIN_S:g} s without a command" if context.saw_commands else NO_COMMANDS
        return {**base, "absent": why, "levels": [], "segments": []}
    assert found is not None
    segments, bin_s = found.stretches, found.bin_s
    link = track(context.events, EventType.LINK, int(LinkState.UNKNOWN))
    clkreq = track(context.events, EventType.CLKREQ, 0)
    states = (context.capture.meta.get("drive") or {}).get("power_states") or []
    named: dict[tuple[str, int | None], list[Stretch]] = {}
    for segment in segments:
        named.setdefault(_named(segment, found), []).append(segment)
    parts = [
        (label, [members[i] for i in sorted(chosen)]) for label, members in named.items() for chosen in cluster([s.mean_w for s in members])
    ]
    parts.sort(key=lambda part: -float(np.mean([s.mean_w for s in part[1]])))
    levels = []
    for number, ((label, state), chosen) in enumerate(parts):
        for segment in chosen:
            segment.level = number
        levels.append(_level(context, chosen, label, state, found, link, clkreq, states))
    steady = sum(_settled(s) for s in segments) * context.tick_s
    return {
        **base,
        "bin_s": bin_s,
        "levels": levels,
        "unsettled_s": max(0.0, idle_s - steady),
        "segments": [
            {
                "first_tick": s.settled[0],
                "last_tick": s.settled[1],
                "mean_w": s.mean_w,
                "level": s.level,
                "gap": s.gap,
                "after_idle_s": s.position_s,
            }
            for s in segments[:1000]
        ],
    }


def _named(segment: Stretch, found: FoundStretches) -> tuple[str, int | None]:
    """Return the label of a stretch, and the state's number. Without Identify, the highest level counts as operational idle."""
    if found.declared is None:
        if segment.asked:
            return f"PS{segment.asked}", segment.asked
        highest = max(s.mean_w for s in found.stretches)
        return ("operational idle" if segment.mean_w >= _AWAKE_SHARE * highest else "unknown"), None
    return name_of(segment.label, segment.asked, found.watched, found.declared.operational)


def _settled(segment: Stretch) -> int:
    return segment.settled[1] - segment.settled[0]


def _level(
    context: Context,
    segments: list[Stretch],
    label: str,
    state: int | None,
    found: FoundStretches,
    link: StateTrack | None,
    clkreq: StateTrack | None,
    states: Sequence[Mapping[str, Any]],
) -> IdleLevel:
    rail = context.rail
    assert rail is not None
    joules = covered = edges = 0.0
    for segment in segments[:2000]:
        part = rail.energy(*segment.settled)
        joules, covered, edges = joules + part.joules, covered + part.covered_s, edges + part.mean_u_j**2
    ticks = sum(_settled(s) for s in segments)
    mean = joules / covered if covered > 0 else sum(s.mean_w * s.ticks for s in segments) / ticks
    spread = float(np.std([s.mean_w for s in segments], ddof=1)) if len(segments) > 1 else 0.0
    # Segments of one name may be levels of their own, up to a quarter apart: the mean is as uncertain as they lie apart.
    held = of_rail(rail, [segments[0].settled]) if len(segments) == 1 else None
    u = math.hypot(context.model.power_u(mean, context.rail.supply_v if context.rail else 0.0), K * spread, held.spread if held else 0.0)
    if covered > 0:
        u = math.hypot(u, math.sqrt(edges) / covered)
    lost = sum(_missing(context, s) for s in segments)
    declared = next((s for s in states if s.get("state") == state), None) if state is not None else None
    return {
        "label": label,
        "state": state,
        "how": _how(segments, state, found),
        "probability": None if found.declared is None else min(1.0, sum(s.label.probability * s.ticks for s in segments) / ticks),
        "mean_w": Figure(mean, u, "W", lost, {"steady_s": ticks * context.tick_s}),
        "declared_max_w": declared.get("max_power_w") if declared else None,
        "duration_s": ticks * context.tick_s,
        "segments": len(segments),
        "first_reached_s": min(s.position_s for s in segments),
        "phases": _phases_of(context, segments),
        "link": _shares(link, segments, {int(v): v.name for v in LinkState}),
        "clkreq": _shares(clkreq, segments, {0: "asserted", 1: "released"}),
    }


def _phases_of(context: Context, segments: list[Stretch]) -> list[str]:
    """Names of the phases in which the level was seen, in their order."""
    starts = np.array([s.first_tick for s in segments])
    ends = np.array([s.last_tick for s in segments])
    return [p.name for p in context.phases if bool(np.any((ends > p.first_tick) & (starts < p.last_tick)))]


def _missing(context: Context, segment: Stretch) -> int:
    loss = context.loss.between(segment.first_tick, segment.last_tick)
    return loss.under_rail + loss.under_commands  # idleness is known from the commands


def _how(segments: list[Stretch], state: int | None, found: FoundStretches) -> str:
    """How the state is known, in words."""
    asked = {s.asked for s in segments}
    if state is not None and asked == {state} and state != 0:
        return "requested by the host (Set Features 02h)"
    if found.declared is None:
        return "nothing requested, no Identify: level only"
    if asked == {0} and state == 0:
        return "nothing requested; far above every non-operational state"
    longest = max(segments, key=lambda s: s.ticks)
    if not longest.label.states:
        return reason(longest, found)
    return f"inferred ({longest.label.probability:.0%}): {reason(longest, found)}"


def _shares(signal: StateTrack | None, segments: list[Stretch], names: Mapping[int, str]) -> dict[str, float] | None:
    """Share of the segments' time by value of a signal; None when its events were never seen."""
    if signal is None:
        return None
    ticks: dict[str, int] = {}
    for segment in segments:
        for value, length in signal.pieces(*segment.settled):
            name = names.get(value, str(value))
            ticks[name] = ticks.get(name, 0) + length
    total = sum(ticks.values())
    return {name: t / total for name, t in ticks.items() if t} if total else {}


def operational_idle(result: Idle) -> Figure | None:
    """Return the idle power without a sleeping state, the reference for power under load; None if there is none.

    Of the levels in PS0, take the lowest with the link in L0, as the link is under load. Take the level seen longest instead if the link is
    unknown. Take it also if the lowest is more than 1.5 times as high, as in a drive that is busy with itself.
    """
    awake = [x for x in result["levels"] if x["label"] in ("operational idle", "PS0")]
    if not awake:
        return None
    in_l0 = [x for x in awake if (x["link"] or {}).get(LinkState.L0.name, 0.0) > 0.9]
    chosen = longest = max(awake, key=lambda x: x["duration_s"])
    if in_l0:
        lowest = min(in_l0, key=lambda x: x["mean_w"].known)
        if lowest["mean_w"].known <= 1.5 * longest["mean_w"].known:
            chosen = lowest
    return chosen["mean_w"]


def class_of(table: Commands, i: int) -> tuple[int, int, int]:
    """(0 admin / 1 I/O, opcode, bytes) of one command: commands of one class are compared with each other."""
    return int(table.qid[i] > 0), int(table.opcode[i]), int(table.nbytes[i])
