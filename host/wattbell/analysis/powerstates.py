"""The drive's power state over time, with a probability, and its declared states beside the measured ones.

The wire gives commands in flight (``active``), the time until a sleeping drive takes up the first command (``waking``), and resets. The
rail and the link's state give the rest (:mod:`wattbell.analysis.stretches`). If nobody saw commands, the rail gives everything.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from wattbell_spec.wire import LinkState

from wattbell.analysis.context import in_flight
from wattbell.analysis.result import Judged, PowerStates, Span, StateRow, Wakeups
from wattbell.analysis.signals import in_reset
from wattbell.analysis.statelabels import OPERATIONAL, SURE, WORK, StateLabel
from wattbell.analysis.stretches import FoundStretches, Stretch, find
from wattbell.measure.figure import Figure, K, absent
from wattbell.measure.judge import LINK_S, judge
from wattbell.measure.pieces import active_span
from wattbell.measure.steadiness import UNSTEADY, of_rail
from wattbell.measure.throughput import BURST_GAP_S, ActiveTime

if TYPE_CHECKING:
    from wattbell.analysis.context import Context

NO_IDENTIFY = "no Identify seen: levels, without names"
TOO_SHORT = "no level that lasts 5 bins"
NOT_SLEEPING = "nobody saw what the host asked for: one of the operational states"
MOST_SPANS = 2000
WAKING_S = 1e-4
"""A first command that is taken up later than this was waited for by a drive that woke."""
IDLE_BEFORE_S, IDLE_S, ACTIVE_S = 10.0, 30.0, 10.0
"""IDLP is over 30 s after 10 s of idle, ACTP the largest mean over 10 s (NVM Express Base 2.1, figure 313)."""
WORK_S = 0.01
"""Least time in s of work in an operational state before its mean power is compared with the state's maximum, a sustained maximum."""
MOST_LOADS = 1000
CLEARLY = 1.5
"""Least ratio of the rail before a state to the state's level, for the time of its arrival."""


@dataclass
class _Piece:
    first_tick: int
    last_tick: int
    label: str
    probability: float | None
    why: str
    state: int | None = None
    mean_w: float | None = None
    link: str | None = None
    from_u_s: float = 0.0
    stretch: Stretch | None = None


def name_of(label: StateLabel, asked: int | None, watched: bool, declared_operational: Sequence[int]) -> tuple[str, int | None]:
    """Return a label as text, and the state's number if the label is a state."""
    names: list[str] = []
    state: int | None = None
    for one in label.states:
        if one == WORK:
            names.append("background work" if watched else "active")
        elif one == OPERATIONAL:
            # On the way into the state that was asked for, it is in the one from before.
            awake = asked if asked in declared_operational else declared_operational[0] if len(declared_operational) == 1 else None
            names.append("operational" if awake is None else f"PS{awake}")
            state = awake
        else:
            names.append(f"PS{one}")
            state = one
    return " or ".join(names) if names else "unknown", state if len(names) == 1 else None


def look(context: Context) -> FoundStretches | None:
    """The stretches in the idle times, or, where nobody saw commands, of the whole rail; None if there is neither."""
    if context.rail is None:
        return None
    windows = context.gaps if context.saw_commands else np.array([[context.rail.first_tick, context.rail.last_tick]])
    return find(context, windows) if len(windows) else None


def power_states(context: Context, found: FoundStretches | None, wakeups: Wakeups) -> PowerStates:
    """Return spans in order (at most 2000), time by label, and each declared state beside its measurements."""
    base: PowerStates = {"spans": [], "time_s": {}, "share": {}, "states": [], "spans_total": 0}
    if found is None:
        return {**base, "absent": context.no_rail or "no time to look at"}
    parts = _between(context, found)
    if context.saw_commands:
        parts = _with_commands(context, parts, wakeups)
    parts = _without_resets(context, parts)
    time_s: dict[str, float] = {}
    for part in parts:
        time_s[part.label] = time_s.get(part.label, 0.0) + (part.last_tick - part.first_tick) * context.tick_s
    return {
        **base,
        "seen": {
            "rail_interval_s": context.rail.interval_s if context.rail else None,
            "link": found.link_seen,
            "commands": ("host" if context.by_host else "wire") if context.saw_commands else None,
            "identify": found.declared is not None,
            "requests": found.watched,
        },
        "bin_s": found.bin_s,
        "spans_total": len(parts),
        "spans": [_span(context, part) for part in parts[:MOST_SPANS]],
        "time_s": dict(sorted(time_s.items(), key=lambda item: -item[1])),
        "share": _shares(time_s, (context.last_tick - context.first_tick) * context.tick_s),
        "states": _judged(context, found, wakeups),
    }


def _shares(time_s: Mapping[str, float], whole_s: float) -> dict[str, float]:
    """Share of the capture's time by label, the greatest first. They add up to less than 1 where no state was looked for: before the rail,
    behind it, and in gaps."""
    found = {label: min(each / whole_s, 1.0) for label, each in time_s.items()} if whole_s > 0 else {}
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _between(context: Context, found: FoundStretches) -> list[_Piece]:
    """Return the stretches, and the times that no stretch covers."""
    parts: list[_Piece] = []
    operational = found.declared.operational if found.declared else ()
    for s in found.stretches:
        label, state = name_of(s.label, s.asked, found.watched, operational)
        probability: float | None = s.label.probability
        why = reason(s, found)
        if label == "unknown":
            probability = None
        lost = context.loss.between(s.first_tick, s.last_tick)
        if lost.under_commands and context.saw_commands:
            label, state, why = "unknown", None, "commands were lost here: that none was in flight is not known"
            probability = None
        link = LinkState(s.link).name if s.link is not None else None
        parts.append(_Piece(s.first_tick, s.last_tick, label, probability, why, state, s.mean_w, link, s.from_u_s, s))
    return parts


def reason(stretch: Stretch, found: FoundStretches) -> str:
    """Return the evidence for a stretch's label, in words."""
    if found.declared is None:
        return NO_IDENTIFY
    shares = sorted(stretch.label.shares.items(), key=lambda item: -item[1])
    if not stretch.label.states:
        if not shares:
            return "one of too many levels"
        each = ", ".join(f"{_short(state)} {share:.0%}" for state, share in shares[:3])
        return f"the evidence is thin: {each}"
    rests = ["level"]
    if stretch.link is not None:
        rests.append("link")
    if found.requested is not None and stretch.asked is not None:
        rests.append("Set Features 02h")
    if stretch.apst is not None:
        due = "" if stretch.by_table is None else f", by its table PS{stretch.by_table}"
        rests.append("APST " + ("on" if stretch.apst else "off") + due)
    return ", ".join(rests)


def _short(state: int) -> str:
    return {OPERATIONAL: "operational", WORK: "work"}.get(state, f"PS{state}")


def _with_commands(context: Context, between: list[_Piece], wakeups: Wakeups) -> list[_Piece]:
    """The times with commands, too, and of those the part until a sleeping drive takes the first one up."""
    out: list[_Piece] = []
    woken = {e["start_tick"]: e for e in wakeups["events"]}
    gaps = context.gaps.tolist()
    at = 0
    edges = [(context.first_tick, context.first_tick), *gaps, (context.last_tick, context.last_tick)]
    started = int(context.commands.start_tick[0]) if len(context.commands) else context.last_tick
    if len(context.markers):
        started = min(started, int(context.markers.start_tick[0]))
    for (low, high), (following, _) in zip(edges[:-1], edges[1:], strict=True):
        inside = []
        while at < len(between) and between[at].first_tick < max(high, low + 1):
            inside.append(between[at])
            at += 1
        out += _filled(inside, low, high)
        begin = max(high, started) if low == context.first_tick == high else high
        event = woken.get(begin)
        until = begin
        if event is not None:
            late = event["to_fetch_s"] if not context.by_host else event["extra_s"]
            if late is not None and late > WAKING_S:
                until = min(following, begin + round(late / context.tick_s))
        if until > begin:
            asleep = sum(p for s, p in inside[-1].stretch.label.shares.items() if s >= 0) if inside and inside[-1].stretch else 0.5
            sure = max(asleep, 0.9)  # that the command waits is on the wire
            out.append(_Piece(begin, until, "waking", sure, "the first command is not taken up yet"))
        if following > until:
            lost = context.loss.between(until, following).under_commands
            why = "commands in flight" + (", of which some were lost" if lost else "")
            out.append(_Piece(until, following, "active", 0.9 if lost else 0.999, why))
    return out


def _filled(inside: list[_Piece], low: int, high: int) -> list[_Piece]:
    """The pieces of an idle time, and between them ``unknown``."""
    out: list[_Piece] = []
    at = low
    for piece in inside:
        if piece.first_tick > at:
            out.append(_Piece(at, piece.first_tick, "unknown", None, TOO_SHORT))
        out.append(piece)
        at = piece.last_tick
    if high > at:
        out.append(_Piece(at, high, "unknown", None, TOO_SHORT))
    return out


def _without_resets(context: Context, parts: list[_Piece]) -> list[_Piece]:
    """The same, cut where PERST# was low."""
    for low, high in in_reset(context.events):
        cut: list[_Piece] = []
        for part in parts:
            if part.last_tick <= low or part.first_tick >= high:
                cut.append(part)
                continue
            if part.first_tick < low:
                cut.append(
                    _Piece(part.first_tick, low, part.label, part.probability, part.why, part.state, part.mean_w, part.link, part.from_u_s)
                )
            if part.last_tick > high:
                cut.append(_Piece(high, part.last_tick, part.label, part.probability, part.why, part.state, part.mean_w, part.link))
        cut.append(_Piece(low, high, "reset", 0.999, "PERST# is low"))
        parts = sorted(cut, key=lambda p: p.first_tick)
    return parts


def _span(context: Context, part: _Piece) -> Span:
    return {
        "first_tick": part.first_tick,
        "last_tick": part.last_tick,
        "duration_s": (part.last_tick - part.first_tick) * context.tick_s,
        "label": part.label,
        "state": part.state,
        "probability": part.probability,
        "shares": {_short(s): p for s, p in part.stretch.label.shares.items() if p >= 0.005} if part.stretch else {},
        "mean_w": part.mean_w,
        "link": part.link,
        "from_u_s": part.from_u_s,
        "why": part.why,
    }


# Declared beside measured.


def _judged(context: Context, found: FoundStretches, wakeups: Wakeups) -> list[StateRow]:
    states = (context.capture.meta.get("drive") or {}).get("power_states") or []
    return [_row(context, found, wakeups, state) for state in states]


def _row(context: Context, found: FoundStretches, wakeups: Wakeups, state: Mapping[str, Any]) -> StateRow:
    number, asleep = int(state["state"]), bool(state.get("non_operational"))
    mine = [s for s in found.stretches if _is(s, number, found)]
    time_s = sum(s.ticks for s in mine) * context.tick_s
    label = f"PS{number}"
    level = _mean(context, mine)
    quiet = [s for s in mine if s.link == LinkState.L1_2] if asleep else mine
    row: StateRow = {"state": number, "operational": not asleep, "time_s": time_s, "mean_w": level, "judged": {}}
    judged = row["judged"]
    never = f"{label} was not seen (with a probability of {SURE:.0%})"
    if asleep:
        judged["max_power_w"] = _maximum(state.get("max_power_w"), _mean(context, quiet or mine), bool(quiet), found.link_seen, never)
    else:
        judged["max_power_w"] = _sustained(context, state.get("max_power_w"), number, found)
    judged["idle_power_w"] = _idle_power(context, state.get("idle_power_w"), quiet if found.link_seen else mine, never)
    judged["active_power_w"] = _refused(
        state.get("active_power_w"),
        "W",
        "which workload runs is not told by a capture; `wattbell run power-states` runs it" if not asleep else "asleep",
    )
    if asleep:
        judged["entry_latency_s"] = _entry(context, found, state.get("entry_latency_s"), number)
        judged["exit_latency_s"] = _exit(context, state.get("exit_latency_s"), label, wakeups)
    return row


def _is(stretch: Stretch, number: int, found: FoundStretches) -> bool:
    if stretch.label.probability < SURE or found.declared is None:
        return False
    return name_of(stretch.label, stretch.asked, found.watched, found.declared.operational)[1] == number


def _mean(context: Context, members: list[Stretch]) -> Figure:
    rail = context.rail
    assert rail is not None
    joules = covered = edges = 0.0
    for s in members[:2000]:
        part = rail.energy(*s.settled)
        joules, covered, edges = joules + part.joules, covered + part.covered_s, edges + part.mean_u_j**2
    if covered <= 0:
        return absent("not seen", "W")
    mean = joules / covered
    # A level seen several times is as uncertain as its sightings lie apart: each is a level by itself, and no sighting is noise.
    spread = K * float(np.std([s.mean_w for s in members], ddof=1)) if len(members) > 1 else 0.0
    held = of_rail(rail, [s.settled for s in members[:2000]])
    u = math.hypot(context.power_u(mean), spread, math.sqrt(edges) / covered, held.spread if held and len(members) == 1 else 0.0)
    return Figure(mean, u, "W", conditions={"seen_s": covered})


def _refused(declared: float | None, unit: str, why: str) -> Judged:
    return _compare(declared, absent(why, unit))


def _compare(declared: float | None, measured: Figure, slack: float = 0.0) -> Judged:
    found = judge(declared, measured, slack)
    return {"declared": declared, "measured": measured, "verdict": found.verdict, "why": found.why}


def _maximum(declared: float | None, level: Figure, in_l1_2: bool, link_seen: bool, never: str) -> Judged:
    """Judge the maximum of a sleeping state, which has a steady level."""
    if level.value is None:
        return _refused(declared, "W", never)
    made = _compare(declared, level)
    if made["verdict"] == "fail" and not in_l1_2:
        made["verdict"] = "conditional fail"
        made["why"] = (
            "above it, but "
            + ("the link was not in L1.2" if link_seen else "the link's state is not known")
            + ", and its power is in the figure"
        )
    return made


def _sustained(context: Context, declared: float | None, number: int, found: FoundStretches) -> Judged:
    """Judge an operational state by the highest mean power of work in it: of the phases' loads and of any 10 s of one load."""
    if not found.watched:
        return _refused(declared, "W", "nobody saw what the host asked for")
    best: Figure | None = None
    for span in _at_work(context, number, found):
        lost = context.loss.between(span.first_tick, span.last_tick).under_rail
        means = [context.active_energy(span, lost, scored=True)[1]]
        if context.rail is not None and context.seconds(span.whole_ticks) >= ACTIVE_S and len(span.bursts) == 1:
            means.append(context.rail.largest_mean(span.first_tick, span.last_tick, ACTIVE_S))
        for mean in means:
            if mean.value is not None and (best is None or mean.known > best.known):
                best = replace(mean, conditions={**mean.conditions, "work_s": context.seconds(span.active_ticks)})
    if best is None:
        why = f"no work of {WORK_S:g} s on end while the host had asked for PS{number}: at rest no drive shows its maximum"
        return _refused(declared, "W", why)
    made = _compare(declared, best)
    if made["verdict"] == "pass":
        made["why"] = "by the loads of this capture; another may draw more"
    if UNSTEADY in best.conditions:
        made["why"] = "; ".join(filter(None, (made["why"], str(best.conditions[UNSTEADY]))))
    return made


def _at_work(context: Context, number: int, found: FoundStretches) -> Iterator[ActiveTime]:
    """Yield the loads in a state.

    A load has those bursts of I/O of a phase, or of a capture without phases, during which the host had asked for no other state. The
    bursts must last for :data:`WORK_S` together. Without phases each burst of that length is a load, too. A drive with a command in flight
    is awake, whatever APST is set to. Waking costs the first command only, and is no part of so long a load.
    """
    windows = [(phase.first_tick, phase.last_tick) for phase in context.phases] or [(context.first_tick, context.last_tick)]
    for first, last in windows:
        members = context.commands.between(first, last)
        span = active_span(members.take((members.qid > 0) & in_flight(members)), round(BURST_GAP_S / context.tick_s))
        if span is None:
            continue
        held = [burst for burst in span.bursts.tolist() if _asked(found, *burst) == {number}]
        if len(held) == len(span.bursts) and context.seconds(span.active_ticks) >= WORK_S:
            yield span
        elif held and context.seconds(sum(b - a for a, b in held)) >= WORK_S:
            yield ActiveTime(np.array(held, np.int64))
        if not context.phases:  # nobody said which are one load: each burst may be
            longest = sorted((b for b in held if context.seconds(b[1] - b[0]) >= WORK_S), key=lambda b: b[0] - b[1])[:MOST_LOADS]
            yield from (ActiveTime(np.array([burst], np.int64)) for burst in longest)


def _asked(found: FoundStretches, first: int, last: int) -> set[int]:
    """The states that the host asked for between two ticks."""
    return {state for state, ticks in found.requested.pieces(first, last) if ticks} if found.requested else {0}


def _idle_power(context: Context, declared: float | None, members: list[Stretch], never: str) -> Judged:
    """Judge idle power over 30 s that begin 10 s after the drive became idle, all in the state."""
    rail = context.rail
    assert rail is not None
    joined: list[tuple[int, int, int]] = []
    for s in members:
        if joined and joined[-1][2] == s.gap and s.first_tick - joined[-1][1] <= 0:
            joined[-1] = (joined[-1][0], s.last_tick, s.gap)
        else:
            joined.append((s.first_tick, s.last_tick, s.gap))
    if not joined:
        return _refused(declared, "W", never)
    before, over = round(IDLE_BEFORE_S / context.tick_s), round(IDLE_S / context.tick_s)
    means, spreads = [], []
    for first, last, gap in joined:
        begin = (int(context.gaps[gap, 0]) if len(context.gaps) > gap and context.saw_commands else first) + before
        if first <= begin and last >= begin + over:
            energy = rail.energy(begin, begin + over)
            if energy.covered_s > 0.999 * IDLE_S:
                means.append(energy.joules / energy.covered_s)
                held = of_rail(rail, [(begin, begin + over)])
                spreads.append(held.spread if held else 0.0)
    if not means:
        longest = max(last - first for first, last, _ in joined) * context.tick_s
        return _refused(declared, "W", f"IDLP is over 30 s after 10 s of idle; the longest idle time in this state is {longest:.3g} s")
    mean = float(np.mean(means))
    spread = K * float(np.std(means, ddof=1)) if len(means) > 1 else 0.0
    u = math.hypot(context.power_u(mean), spread, max(spreads))
    return _compare(declared, Figure(mean, u, "W", conditions={"windows": len(means)}))


def _entry(context: Context, found: FoundStretches, declared: float | None, number: int) -> Judged:
    """Measure from the host's request, or the last completion behind it, to where the rail arrives at the state's level."""
    times, us = [], []
    for before, s in zip(found.stretches[:-1], found.stretches[1:], strict=True):
        if s.gap == before.gap and s.asked == number and _is(s, number, found) and not _is(before, number, found):
            times.append((s.first_tick - int(context.gaps[s.gap, 0])) * context.tick_s)
            us.append(s.from_u_s)
    leading = [s for k, s in enumerate(found.stretches) if not k or found.stretches[k - 1].gap != s.gap]
    for s in leading if context.saw_commands else ():
        if s.asked == number and _is(s, number, found) and (quick := _quick_entry(context, found, s)) is not None:
            times.append(quick[0])
            us.append(quick[1])
    if not times:
        return _refused(declared, "s", "into a state that the drive takes by itself nobody sees it set out")
    at = int(np.argmax(times))
    return _longest(declared, times[at], us[at], len(times))


def _quick_entry(context: Context, found: FoundStretches, first: Stretch) -> tuple[float, float] | None:
    """Return the time in s, and its k = 2, from an idle time's begin to the level of its first stretch.

    The drive was there too soon for a level before. The last sample above the middle counts: between the level and the median of the
    samples clearly above it. None where the rail was never clearly above the level.
    """
    rail = context.rail
    assert rail is not None
    begin = int(context.gaps[first.gap, 0])
    tick, power = rail.power_between(begin, first.settled[0] + round(2 * found.bin_s / context.tick_s))
    high = power[power > CLEARLY * first.mean_w]
    if not len(high):
        return None
    above = np.flatnonzero(power >= (float(np.median(high)) + first.mean_w) / 2)
    arrived = tick + int(above[-1]) * rail.interval_ticks + rail.interval_ticks // 2
    return max(0.0, context.seconds(arrived - begin)), 2 * rail.interval_s + rail.model.alignment_u_s


def _exit(context: Context, declared: float | None, label: str, wakeups: Wakeups) -> Judged:
    """The longest time from a doorbell to the fetch of its command, after this state."""
    if context.by_host:
        return _refused(declared, "s", "a host's log does not tell when the drive takes a command up")
    times = [e["to_fetch_s"] for e in wakeups["events"] if e["state"] == label and e["to_fetch_s"] is not None]
    if not times:
        return _refused(declared, "s", "no wake-up from this state")
    return _longest(declared, max(times), context.tick_s, len(times))


def _longest(declared: float | None, seconds: float, u: float, n: int) -> Judged:
    """Judge a declared maximum latency by the longest of ``n`` latencies seen."""
    made = _compare(declared, Figure(seconds, u, "s", conditions={"n": n}), LINK_S)
    if made["verdict"] == "pass":
        made["why"] = "the only one seen; another may take longer" if n == 1 else f"the longest of {n}; another may take longer"
    return made
