"""Ways into and out of a sleeping state: energy and time, the parts of a wake-up, break-even idle time. See ``docs/energy.md``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import stdtrit

from wattbell.analysis.railpiece import GROUP_S, RailPiece, SteadyLevel, between_j2, offset_w, piece, smear_j, smeared
from wattbell.analysis.result import Alone, Idle, IdleSegment, Transition, TransitionPart, Wakeup
from wattbell.analysis.wakeup import Sidebands
from wattbell.measure.figure import Figure, K, absent
from wattbell.measure.rail import Rail

if TYPE_CHECKING:
    from wattbell.analysis.context import Context

AWAKE = ("PS0", "operational idle")
PARTS = ("clkreq", "link", "to_doorbell", "fetch", "controller", "data", "settling")
"""Parts of a wake-up, each until the next one's begin: CLKREQ# asserted, link recovering, L0, doorbell, SQE fetched, first data, CQE."""
_EDGE_S = 3e-3
_LEVEL_S = 10e-3
_LEAST_SAMPLES = 4
_LEAST_ON_THE_WAY = 2
"""Samples between two levels that tell how high the rail was in between."""
GAIN_LEFT = 1.0
"""Share of the front end's gain error that does not cancel between energies and powers of one board. Models showed half to be too little.
"""
_MARGIN_S = 2e-3
"""Margin in s at the ends of a steady stretch. The stretch is found in bins of 1 ms, which may include a little of its neighbours."""


@dataclass(frozen=True)
class StateEntry:
    """Entry: from when the rail leaves the level of operational idle until it is at the state's. ``above_j``: above the state's level."""

    first_tick: float
    last_tick: float
    above_j: float
    u_j: float
    u_s: float


@dataclass(frozen=True)
class WakeUp:
    """One wake-up. ``instants``: begin of each of :data:`PARTS` that was seen, in ticks, and ``back_tick``, when the rail is at idle again.
    ``above_j``: above operational idle from the first instant on, the command's own energy in it; ``u_j``: k = 2, without gain;
    ``step_u_w``: k = 2 of idle less the state."""

    event: Wakeup
    state_w: float
    idle_w: float
    entry: StateEntry | None
    instants: dict[str, float]
    back_tick: float
    above_j: float
    u_j: float
    step_u_w: float = 0.0
    without: str = ""

    def break_even(self, entry: StateEntry, own: tuple[float, float], gain: float) -> tuple[float, float]:
        """Return (value, k = 2) in s of (energy of the entry above the state + of the exit above idle) / (idle - state).

        own: energy of the waking command and its k = 2, which is subtracted

        The gain is a factor of every term, but differs between low and high power.
        """
        step_w, joules = self.idle_w - self.state_w, entry.above_j + self.above_j - own[0]
        value = joules / step_w
        return value, math.hypot(entry.u_j, self.u_j, own[1], GAIN_LEFT * gain * joules, value * self.step_u_w) / step_w


def transitions(context: Context, idle_result: Idle, events: Sequence[Wakeup], alone: Alone) -> list[Transition]:
    """Group the transitions by state and by class of the waking command."""
    groups: dict[tuple[str, str], list[WakeUp]] = {}
    for wake in wakes(context, idle_result, events):
        groups.setdefault((wake.event["state"], wake.event["class"]), []).append(wake)
    return [_group(context, kind, members, alone) for (_, kind), members in sorted(groups.items())]


def wakes(context: Context, idle_result: Idle, events: Sequence[Wakeup]) -> Iterator[WakeUp]:
    """Yield the wake-ups from a sleeping state with a known level of operational idle, before the sleep or after the wake-up.

    ``without`` of a wake-up says why the energy of its exit is missing, if the rail was not seen to come to rest.
    """
    rail = context.rail
    if rail is None or not idle_result["segments"]:
        return
    levels, segments = idle_result["levels"], idle_result["segments"]
    starts = np.array([segment["first_tick"] for segment in segments])
    sidebands = Sidebands(context.events)
    by_gap: dict[int, list[IdleSegment]] = {}
    for segment in segments:
        by_gap.setdefault(segment["gap"], []).append(segment)
    for event in events:
        if event["state"] in (*AWAKE, "unknown") or event["class"].startswith(("marker", "admin")):
            continue
        start = event["start_tick"]
        gap = int(np.searchsorted(context.gaps[:, 1], start))
        mine = by_gap.get(gap, [])
        awake = [segment for segment in mine if levels[segment["level"]]["label"] in AWAKE]
        asleep = [segment for segment in mine if levels[segment["level"]]["label"] == event["state"]]
        cqe = start + event["latency_ticks"]
        place = int(np.searchsorted(starts, cqe))
        after = segments[place] if place < len(segments) else None
        if after is not None and (levels[after["level"]]["label"] not in AWAKE or context.next_start(start + 1) < after["first_tick"]):
            after = None
        if not asleep:
            continue
        state = _level(context, rail, asleep[-1], at_end=True)
        before = awake[-1] if awake and awake[-1]["first_tick"] < asleep[0]["first_tick"] else None
        known = before or after
        if state is None or known is None:
            continue
        idle = _level(context, rail, known, at_end=before is not None)
        if idle is None or idle.mean_w <= state.mean_w:
            continue
        entry = _entry(context, rail, before, asleep[0], idle, state) if before else None
        index = int(np.searchsorted(context.commands.start_tick, start))
        instants = sidebands.instants(int(context.gaps[gap, 0]), cqe)
        table = context.commands
        for name, tick in (
            ("to_doorbell", instants.pop("l0", None)),
            ("fetch", table.doorbell_tick[index]),
            ("controller", table.fetch_tick[index]),
            ("data", table.first_data_tick[index]),
            ("settling", cqe),
        ):
            if tick is not None and tick > 0:
                instants[name] = float(tick)
        yield _wake(context, rail, event, (state, idle), entry, instants, after)


def _level(context: Context, rail: Rail, segment: IdleSegment, at_end: bool) -> SteadyLevel | None:
    """Return the level of up to 10 ms at the end of a steady stretch, or at its beginning."""
    margin, length = min(_MARGIN_S / context.tick_s, (segment["last_tick"] - segment["first_tick"]) / 4), _LEVEL_S / context.tick_s
    first, last = segment["first_tick"] + margin, segment["last_tick"] - margin
    found = piece(rail, max(first, last - length), last) if at_end else piece(rail, first, min(last, first + length))
    return found.level(slice(0, len(found.power_w)))


def _entry(
    context: Context, rail: Rail, before: IdleSegment, asleep: IdleSegment, idle: SteadyLevel, state: SteadyLevel
) -> StateEntry | None:
    tick_s = context.tick_s
    width = max(1, round(GROUP_S / rail.interval_s))
    group = width * rail.interval_ticks
    edge = max(_EDGE_S / tick_s, 3 * group)
    leaving = piece(rail, before["last_tick"] - edge, min(before["last_tick"] + edge, asleep["first_tick"] + edge))
    off = np.flatnonzero(leaving.off(idle, width))
    arriving = piece(rail, max(asleep["first_tick"] - edge, before["last_tick"] - edge), asleep["first_tick"] + edge)
    at = np.flatnonzero(arriving.off(state, width))
    if not len(off) or not len(at) or not leaving.whole or not arriving.whole:
        return None
    last = float(arriving.ticks[min((at[-1] + 1) * width, len(arriving.ticks) - 1)])
    half, late = rail.interval_ticks / 2, rail.model.front_end_delay_s / tick_s
    # The rail left between two samples; the front end's pole shows that at once, only not in full.
    first = _refined(leaving, int(off[0]) * width, width, idle) + late - half
    last = max(last - half, first)
    # From steady power to steady power, between which the pole's delay makes no error.
    lead = 4 * rail.interval_ticks + 10 * late
    drawn = rail.energy(first - lead, last)
    lead_s, rest_s = lead * tick_s, drawn.covered_s - lead * tick_s
    above = drawn.joules - idle.mean_w * lead_s - state.mean_w * rest_s
    # The instant of leaving is known within a sample. The error of the samples' sum cancels part of that error, except for levels on the
    # way, if they were seen, and for the errors that the filters reduce in the sum alone.
    inside = leaving.power_w[leaving.within(first - late, last)] - state.mean_w
    seen = int(np.count_nonzero(inside > state.tolerance_w(1))) >= _LEAST_ON_THE_WAY
    step_w = idle.mean_w - state.mean_w
    height_w, same = min(step_w, float(inside.max())) if seen else step_w, smeared(rail)
    edges = K * rail.interval_s / math.sqrt(12.0) * math.hypot((1.0 - same) * step_w + same * height_w, same * height_w)
    noise = K * state.sigma_w * math.sqrt(max(drawn.covered_s, rail.interval_s) * rail.interval_s)
    u = math.hypot(edges, noise, K * idle.u_w * lead_s, K * state.u_w * rest_s, offset_w(rail) * lead_s)
    return StateEntry(first, last, above, u, math.hypot(group * tick_s, 2 * rail.interval_s))


def _refined(found: RailPiece, at: int, width: int, level: SteadyLevel) -> float:
    """The first sample in a group, or in the one before it, from which on the rail is off its level."""
    low = max(0, at - width)
    off = np.abs(found.power_w[low : at + width] - level.mean_w) > level.tolerance_w(1)
    near = np.flatnonzero(~off)
    return float(found.ticks[low + (int(near[-1]) + 1 if len(near) and near[-1] + 1 < len(off) else 0)])


def _wake(
    context: Context,
    rail: Rail,
    event: Wakeup,
    levels: tuple[SteadyLevel, SteadyLevel],
    entry: StateEntry | None,
    instants: dict[str, float],
    after: IdleSegment | None,
) -> WakeUp:
    state, idle = levels
    tick_s, cqe = context.tick_s, instants["settling"]
    begin = min(instants.values())
    if after is None:
        return WakeUp(
            event, state.mean_w, idle.mean_w, entry, instants, cqe, 0.0, 0.0, 0.0, "another command came before the rail was at rest"
        )
    width = max(1, round(GROUP_S / rail.interval_s))
    step_u = math.hypot(K * idle.u_w, K * state.u_w, offset_w(rail))
    settled = _level(context, rail, after, at_end=False)
    lead = GROUP_S / tick_s + 4 * rail.interval_ticks
    samples = piece(rail, begin - lead, min(after["last_tick"], after["first_tick"] + _EDGE_S / tick_s))
    if settled is None or not samples.whole:
        return WakeUp(event, state.mean_w, idle.mean_w, entry, instants, cqe, 0.0, 0.0, 0.0, "samples of the rail are missing")
    from_cqe = samples.within(cqe, math.inf)
    tail = RailPiece(samples.ticks[from_cqe], samples.power_w[from_cqe], samples.step_s)
    off = np.flatnonzero(tail.off(settled, width))
    last = (int(off[-1]) + 1) * width if len(off) else 0
    back = float(tail.ticks[min(last, len(tail.ticks) - 1)]) + 10 * rail.model.front_end_delay_s / tick_s + 2 * rail.interval_ticks
    where = samples.within(begin - lead, back)
    seconds = (where.stop - where.start) * samples.step_s
    # A sample covers the interval around it.
    asleep_s = (begin - float(samples.ticks[where.start]) + rail.interval_ticks / 2) * tick_s
    joules = samples.joules(where) - state.mean_w * asleep_s - idle.mean_w * (seconds - asleep_s)
    between = K * math.sqrt(max(0.0, between_j2(rail, samples, where, idle)))
    # The window's end lies within a sample.
    end = K * rail.interval_s / math.sqrt(12.0) * abs(settled.mean_w - idle.mean_w)
    noise = K * idle.sigma_w * math.sqrt(where.stop - where.start) * samples.step_s
    levels_u = math.hypot(K * idle.u_w * (seconds - asleep_s), K * state.u_w * asleep_s, offset_w(rail) * seconds)
    return WakeUp(event, state.mean_w, idle.mean_w, entry, instants, back, joules, math.hypot(levels_u, between, end, noise), step_u)


def _spread(values: Sequence[float], own_u: Sequence[float], gain: float, unit: str, **conditions: str | float) -> Figure:
    """Return the mean of several wake-ups. Its uncertainty is their scatter or the uncertainty of each, whichever is larger."""
    n, mean = len(values), float(np.mean(values))
    scatter = float(stdtrit(n - 1, 0.975)) * float(np.std(values, ddof=1)) / math.sqrt(n) if n > 1 else 0.0
    return Figure(mean, math.hypot(max(scatter, float(np.mean(own_u))), gain * mean), unit, 0, {"wakeups": n, **conditions})


def _group(context: Context, kind: str, members: Sequence[WakeUp], alone: Alone) -> Transition:
    rail = context.rail
    assert rail is not None
    gain = rail.model.gain
    out: Transition = {"state": members[0].event["state"], "how": members[0].event["how"], "class": kind, "count": len(members)}
    out["idle_w"] = _spread([one.idle_w for one in members], [0.0] * len(members), gain, "W")
    out["state_w"] = _spread([one.state_w for one in members], [rail.model.offset_a * rail.supply_v] * len(members), gain, "W")
    entries = [(one, one.entry) for one in members if one.entry is not None]
    if entries:
        out["entry_s"] = _spread([(e.last_tick - e.first_tick) * context.tick_s for _, e in entries], [e.u_s for _, e in entries], 0.0, "s")
        out["entry_j"] = _spread([e.above_j for _, e in entries], [e.u_j for _, e in entries], gain, "J")
    else:
        why = "the drive was not seen at operational idle before it went to sleep"
        out["entry_s"], out["entry_j"] = absent(why, "s"), absent(why, "J")
    done = [one for one in members if not one.without]
    own = next((c["mean_j"] for name, c in alone.get("classes", {}).items() if name == kind and c["mean_j"].value is not None), None)
    own_j, own_u = (own.known, own.u or 0.0) if own else (0.0, 0.0)
    out["command_j"] = own or absent("no such command stood alone while the drive was awake", "J")
    note = {} if own else {"note": "the command's own energy is in it"}
    if not done:
        out["exit_s"], out["exit_j"] = absent(members[0].without, "s"), absent(members[0].without, "J")
        out["break_even_s"] = absent(members[0].without, "s")
    else:
        times = [(one.back_tick - min(one.instants.values())) * context.tick_s for one in done]
        out["exit_s"] = _spread(times, [max(GROUP_S, 2 * rail.interval_s)] * len(done), 0.0, "s")
        out["exit_j"] = _spread([one.above_j - own_j for one in done], [math.hypot(one.u_j, own_u) for one in done], gain, "J", **note)
        out["break_even_s"] = _break_even(done, (own_j, own_u), out["entry_j"], gain, note)
    out["parts"] = [part for name in PARTS if (part := _part(context, rail, name, members)) is not None]
    return out


def _break_even(done: Sequence[WakeUp], own: tuple[float, float], entry_j: Figure, gain: float, note: dict[str, str]) -> Figure:
    """:meth:`WakeUp.break_even` of all."""
    both = [(one, one.entry) for one in done if one.entry is not None]
    if not both:
        return absent(str(entry_j.conditions.get("absent", "no way in and out of the same sleep was seen")), "s")
    found = [one.break_even(entry, own, gain) for one, entry in both]
    return _spread([value for value, _ in found], [u for _, u in found], 0.0, "s", **note)


def _part(context: Context, rail: Rail, name: str, members: Sequence[WakeUp]) -> TransitionPart | None:
    """Return time and energy of one part of the wake-ups, of the unchanged rail, nothing subtracted."""
    tick_s, spans = context.tick_s, []
    for one in members:
        order = [part for part in PARTS if part in one.instants]
        if name not in order or (name == "settling" and one.without):
            continue
        following = order[order.index(name) + 1 :]
        spans.append((one.instants[name], one.instants[following[0]] if following else one.back_tick))
    spans = [(first, last) for first, last in spans if last >= first]
    if not spans:
        return None
    seconds = [(last - first) * tick_s for first, last in spans]
    time_u = context.model.interval_u(max(seconds)) if name != "settling" else max(GROUP_S, 2 * rail.interval_s)
    time = _spread(seconds, [time_u] * len(spans), 0.0, "s")
    if float(np.median(seconds)) < _LEAST_SAMPLES * rail.interval_s:
        why = f"not resolved: shorter than {_LEAST_SAMPLES} samples, {1e6 * rail.interval_s:g} us apart"
        return {"name": name, "s": time, "j": absent(why, "J")}
    found = [(rail.energy(first, last), first, last) for first, last in spans]
    us = [math.hypot(e.energy_u_j, smear_j(rail, first), smear_j(rail, last)) for e, first, last in found]
    return {"name": name, "s": time, "j": _spread([e.joules for e, _, _ in found], us, rail.model.gain, "J")}
