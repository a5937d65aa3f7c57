"""Transitions between power states that the host asked for (Set Features 02h): time and energy, by ordered pair of states.

A transition begins at the doorbell of its Set Features. Its time has two parts: from there to the completion, and from the last completion
before the drive was left alone to the rail at the level of the new state. Commands between these parts are the host's, and do not count.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from scipy.special import bdtr
from wattbell_spec.nvme import admin, feature
from wattbell_spec.wire import EventType

from wattbell.analysis.context import in_flight
from wattbell.analysis.railpiece import GROUP_S, RailPiece, SteadyLevel, piece
from wattbell.analysis.signals import StateTrack, apst_enabled, requested_state
from wattbell.measure.figure import Figure, absent

if TYPE_CHECKING:
    from wattbell.analysis.context import Context

SHARE = 0.1
"""The rail has arrived within this share of the difference between the levels of the old state and the new one."""
SEEN = 1 / 3
"""The level of the new state is known to this share of the difference, or the rail does not tell the states apart."""
LONGEST_GROUP_S = 1e-3
HOLD_S = 2e-3
"""The rail stays there for as long as that: a pulse of background work later does not count."""
LEVEL_S = 10e-3
"""A level is measured over at most this time at the end of a rest."""
RESTLESS = 0.1
"""Share of a level's samples that may be off the level."""
APART = 0.25
"""Levels of one state differ by less than this share. A drive that stopped further off had not settled."""
APART_W = 5e-3
RESTS = 2.0
"""A drive rested in its old state for as many declared entry latencies before it counts as being there."""
LONGEST_S = 20.0
"""Most of a rest that is searched for the arrival."""
P999_LEAST = 1000
"""Transitions that a percentile of 99.9 needs."""
Pair = tuple[int, int]
"""(old state, new state)."""


@dataclass(frozen=True)
class RequestedTransition:
    """A transition between two power states.

    old, new : numbers of the states.
    time : in s, absent with its reason.
    energy : over the same two parts, in J.
    by_rail : whether the rail shows the arrival; else the end is the completion of Set Features.
    level_w : the rail's level in the new state.
    apst_known : whether APST was known to be off.
    """

    old: int
    new: int
    time: Figure
    energy: Figure
    by_rail: bool = False
    level_w: float | None = None
    apst_known: bool = True

    @property
    def pair(self) -> Pair:
        """Old and new state."""
        return self.old, self.new


@dataclass(frozen=True)
class PairFigures:
    """The figures of one ordered pair of states.

    measured : number of transitions with a time, of ``seen`` in all.
    longest, median, p999 : times in s. ``u`` of the percentiles includes the interval of their order statistics.
    energy : mean in J.
    by_rail : whether the rail shows the arrival of the longest.
    apst_known : whether APST was known to be off each time.
    """

    old: int
    new: int
    seen: int
    measured: int
    longest: Figure
    median: Figure
    p999: Figure
    energy: Figure
    by_rail: bool
    apst_known: bool


def words(old: int, new: int) -> str:
    """Return the name of a pair."""
    return f"PS{old} to PS{new}"


def ordered_pairs(states: Iterable[int]) -> list[Pair]:
    """Return all ordered pairs of different states."""
    numbers = list(states)
    return [(old, new) for old in numbers for new in numbers if old != new]


def transitions_asked(context: Context) -> list[RequestedTransition]:
    """Return the transitions that the host asked for, in order of time, also those without a time."""
    requests = _requests(context)
    if not len(requests):
        return []
    host = _Host.of(context, requests["start"].to_list())
    found = [_transition(context, host, *row) for row in requests.select("start", "cqe", "state").iter_rows()]
    return _settled([one for one in found if one is not None])


def by_pair(found: Sequence[RequestedTransition]) -> dict[Pair, PairFigures]:
    """Return the figures of each pair that was asked for."""
    members: dict[Pair, list[RequestedTransition]] = {}
    for one in found:
        members.setdefault(one.pair, []).append(one)
    return {pair: _pair(pair, ones) for pair, ones in sorted(members.items())}


def declared_latency(states: Mapping[int, tuple[float | None, float | None]], old: int, new: int) -> Figure:
    """Return the latency that a drive declares for a pair: EXLAT of the old state and ENLAT of the new one.

    states : (entry latency, exit latency) in s by state; None or 0: not reported.
    """
    exit_s, entry_s = states.get(old, (None, None))[1], states.get(new, (None, None))[0]
    missing = [*([f"EXLAT of PS{old}"] if not exit_s else []), *([f"ENLAT of PS{new}"] if not entry_s else [])]
    if missing or not exit_s or not entry_s:
        return absent(f"is not declared ({' and '.join(missing)}: 0, not reported)", "s")
    return Figure(exit_s + entry_s, 0.0, "s")


# -- one transition ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Host:
    """The host's commands and requests, and the drive's declarations.

    starts, ends : ticks of all commands but event requests, by start.
    over : the latest end so far.
    io, requests : starts of I/O commands, and of the requests.
    known_from, reset : ticks of the first request or reset, and of the first reset; None without one.
    """

    starts: np.ndarray[Any, np.dtype[np.int64]]
    ends: np.ndarray[Any, np.dtype[np.int64]]
    over: np.ndarray[Any, np.dtype[np.int64]]
    io: np.ndarray[Any, np.dtype[np.int64]]
    requests: Sequence[int]
    requested: StateTrack | None
    known_from: int | None
    apst: StateTrack | None
    reset: int | None
    sleeping: frozenset[int]
    entry_s: Mapping[int, float]

    @classmethod
    def of(cls, context: Context, requests: Sequence[int]) -> _Host:
        tables = [table.take(in_flight(table)) for table in (context.commands, context.markers)]
        starts = np.concatenate([table.start_tick for table in tables])
        ends = np.concatenate([np.maximum(table.cqe_tick, table.start_tick) for table in tables])
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
        states: Sequence[Mapping[str, Any]] = (context.capture.meta.get("drive") or {}).get("power_states") or []
        sleeping = frozenset(int(one["state"]) for one in states if one.get("non_operational"))
        io = context.commands.start_tick[context.commands.qid > 0]
        kinds = [int(EventType.POWER_STATE), int(EventType.CC_EN)]
        known = context.events.filter(pl.col("type").is_in(kinds))["tick"].min()
        reset = context.events.filter(pl.col("type") == kinds[1])["tick"].min()
        return cls(
            starts,
            ends,
            np.maximum.accumulate(ends) if len(ends) else ends,
            io,
            requests,
            requested_state(context.events, io, tuple(sleeping)),
            _whole(known),
            apst_enabled(context.capture.commands),
            _whole(reset),
            sleeping,
            {int(one["state"]): float(one.get("entry_latency_s") or 0.0) for one in states},
        )


def _whole(tick: Any) -> int | None:
    return None if tick is None else int(tick)


def _requests(context: Context) -> pl.DataFrame:
    """Return the completed requests for a power state: columns ``start``, ``cqe`` and ``state``."""
    start = pl.coalesce("doorbell_tick", "fetch_tick", "cqe_tick")
    return (
        context.capture.commands.filter((pl.col("qid") == 0) & (pl.col("opcode") == admin("set_features")) & (pl.col("status") == 0))
        .filter((pl.col("slba") & 0xFF) == feature("power_management"))
        .select(
            start.cast(pl.Int64).alias("start"), pl.col("cqe_tick").cast(pl.Int64).alias("cqe"), (pl.col("blocks") & 0x1F).alias("state")
        )
        .filter(pl.col("start").is_between(context.first_tick, context.last_tick))
        .collect()
        .sort("start")
    )


def _transition(context: Context, host: _Host, start: int, cqe: int, new: int) -> RequestedTransition | None:
    """Return the transition of one request; None where it asks for the state that the drive is in, or where that is not known."""
    if host.known_from is None or host.known_from >= start:
        return None
    old = host.requested.at(start) if host.requested else 0
    if old == new:
        return None
    on = host.apst.at(start) if host.apst else -1
    apst_known = on == 0 or (host.reset is not None and host.reset < start) or _off_by_phase(context, start)

    def without(why: str) -> RequestedTransition:
        return RequestedTransition(old, new, absent(why, "s"), absent(why, "J"), apst_known=apst_known)

    if on == 1:
        return without("APST was on: the drive may have left the old state by itself")
    at = int(np.searchsorted(host.starts, start, side="left"))
    before = int(host.over[at - 1]) if at else context.first_tick
    if before > start:
        return without("a command was in flight when the host asked")
    if context.seconds(start - before) < RESTS * host.entry_s.get(old, 0.0):
        return without("the host asked before the drive had rested in the old state")
    rest = _longest_rest(context, host, start, cqe)
    lost = context.loss.between(before, rest[1])
    figures = _measured(context, host, (old, new), (before, start, cqe, *rest), lost.under_commands + lost.under_rail)
    return without(figures) if isinstance(figures, str) else replace(figures, apst_known=apst_known)


def _off_by_phase(context: Context, tick: int) -> bool:
    """Whether the phase next to a tick says that APST was off."""
    near = min(context.phases, key=lambda phase: max(phase.first_tick - tick, tick - phase.last_tick), default=None)
    return near is not None and near.described.get("apst") is False


def _longest_rest(context: Context, host: _Host, start: int, cqe: int) -> tuple[int, int]:
    """Return the longest time without a command between a request and the next request or I/O command."""
    behind = next((tick for tick in host.requests if tick > start), context.rail.last_tick if context.rail else context.last_tick)
    end = min([behind, *host.io[np.searchsorted(host.io, start) :][:1].tolist()])
    low, high = np.searchsorted(host.starts, (start + 1, end))
    begins = np.maximum.accumulate(np.concatenate(([cqe], host.ends[low:high])))
    until = np.concatenate((host.starts[low:high], [end]))
    longest = int(np.argmax(until - begins))
    return int(begins[longest]), max(int(until[longest]), int(begins[longest]))


def _measured(context: Context, host: _Host, pair: Pair, ticks: tuple[int, int, int, int, int], lost: int) -> RequestedTransition | str:
    """Return a transition with its figures, or the reason why it has none.

    ticks : the end of the last command before, the request's doorbell and completion, begin and end of the rest behind it.
    """
    (old, new), (before, start, cqe, rest, until) = pair, ticks
    rail, asleep = context.rail, new in host.sleeping
    taken_s = context.seconds(cqe - start)
    if rail is None:
        if asleep:
            return context.no_rail or "no rail: the wire does not show when a drive has fallen asleep"
        return RequestedTransition(old, new, Figure(taken_s, context.model.interval_u(taken_s), "s", lost), absent("no rail", "J"))
    reach = LONGEST_S / context.tick_s
    # a sample covers the time around it, and a decimated one more: the last ones before a command have its power
    margin = 3 * rail.interval_ticks
    earlier, later = piece(rail, max(before, start - reach), start - margin), piece(rail, rest, min(until - margin, rest + reach))
    was, now = _level(earlier), _level(later)
    if was is None or now is None:
        return f"the rail was not at rest {'before' if was is None else 'behind'} the request, or samples are missing"
    step_w = abs(now.mean_w - was.mean_w)
    width = _width(now, step_w, rail.interval_s)
    if width is None:
        if asleep:
            return f"the rail does not tell the two states apart ({was.mean_w:.4g} W and {now.mean_w:.4g} W), or the drive never went"
        energy = context.energy(start, cqe, lost)[0]
        return RequestedTransition(old, new, Figure(taken_s, context.model.interval_u(taken_s), "s", lost), energy, False, now.mean_w)
    arrived = _arrival(later, now, max(SHARE * step_w, now.tolerance_w(width)), width)
    if arrived is None:
        return "the rail did not come to rest behind the request"
    if not np.isfinite(later.power_w[later.within(rest, arrived)]).all():
        return "samples are missing before the rail came to rest: it may have done so earlier"
    arrived = max(arrived, float(rest))
    group_s = width * rail.interval_s
    u_s = math.hypot(group_s, 2 * rail.interval_s, context.model.alignment_u_s, context.model.interval_u(taken_s))
    parts = [context.energy(first, last, lost)[0] for first, last in ((start, cqe), (rest, arrived)) if last > first]
    return RequestedTransition(
        old, new, Figure(taken_s + context.seconds(arrived - rest), u_s, "s", lost), _sum(parts, lost), True, now.mean_w
    )


def _width(level: SteadyLevel, step_w: float, interval_s: float) -> int | None:
    """Return how many samples to take together to see a step to a level; None if a millisecond of them is too few."""
    width = max(1, round(GROUP_S / interval_s))
    while level.tolerance_w(width) > step_w * SEEN:
        width *= 2
        if width * interval_s > LONGEST_GROUP_S:
            return None
    return width


def _level(found: RailPiece) -> SteadyLevel | None:
    """Return the level at the end of a rest: of its last half, at most 10 ms; None if the rail is not at rest there."""
    n = min(len(found.power_w) // 2, max(16, round(LEVEL_S / found.step_s)))
    where = slice(len(found.power_w) - n, len(found.power_w))
    level = found.level(where)
    if level is None:
        return None
    off = np.abs(found.power_w[where] - level.mean_w) > level.tolerance_w(1)
    return level if float(off.mean()) <= RESTLESS else None


def _arrival(found: RailPiece, level: SteadyLevel, within_w: float, width: int) -> float | None:
    """Return the tick from which the rail stays at a level for :data:`HOLD_S`; None if it never does."""
    n = len(found.power_w) // width
    near = np.abs(found.power_w[: n * width].reshape(n, width).mean(axis=1) - level.mean_w) <= within_w
    hold = max(4, round(HOLD_S / (width * found.step_s)))
    if n < hold:
        return None
    held = np.convolve(near, np.ones(hold, np.int64), "valid") == hold
    first = int(np.argmax(held))
    half = (found.ticks[1] - found.ticks[0]) / 2 if len(found.ticks) > 1 else 0.0
    return float(found.ticks[first * width] - half) if held[first] else None


def _sum(parts: Sequence[Figure], lost: int) -> Figure:
    """Return the sum of energies of one front end, which share its error."""
    if not parts or any(part.value is None for part in parts):
        return absent("samples of the rail are missing", "J", lost)
    u = None if any(part.u is None for part in parts) else sum(part.u or 0.0 for part in parts)
    return Figure(sum(part.known for part in parts), u, "J", lost)


def _settled(found: Sequence[RequestedTransition]) -> list[RequestedTransition]:
    """Return the transitions, those without a time that ended at another level than most transitions into their state."""
    levels: dict[int, list[float]] = {}
    for one in found:
        if one.level_w is not None:
            levels.setdefault(one.new, []).append(one.level_w)
    middle = {state: float(np.median(each)) for state, each in levels.items()}
    out = []
    for one in found:
        if one.level_w is not None and abs(one.level_w - middle[one.new]) > APART * middle[one.new] + APART_W:
            why = f"the rail rested at {one.level_w:.4g} W, and at {middle[one.new]:.4g} W in other visits of PS{one.new}"
            one = replace(one, time=absent(why, "s"), energy=absent(why, "J"), by_rail=False)
        out.append(one)
    return out


# -- one pair ---------------------------------------------------------------------------------------------------------


def _pair(pair: Pair, members: Sequence[RequestedTransition]) -> PairFigures:
    known = sorted((one for one in members if one.time.value is not None), key=lambda one: one.time.known)
    apst_known = all(one.apst_known for one in members)
    if not known:
        none = members[0]
        return PairFigures(*pair, len(members), 0, none.time, none.time, none.time, none.energy, False, apst_known)
    lost = sum(one.time.lost for one in known)
    longest = replace(known[-1].time, lost=lost)
    joules = [one.energy for one in known if one.energy.value is not None]
    return PairFigures(
        *pair,
        len(members),
        len(known),
        longest,
        _quantile(known, 0.5),
        _quantile(known, 0.999),
        _mean(joules) if joules else known[-1].energy,
        known[-1].by_rail,
        apst_known,
    )


def _quantile(known: Sequence[RequestedTransition], share: float) -> Figure:
    """Return the quantile of sorted times by nearest rank.

    ``u`` has the half width of its interval of order statistics, of at least 95 %; None where the times are too few for one.
    """
    n, lost = len(known), sum(one.time.lost for one in known)
    if share > 0.5 and n < P999_LEAST:
        return absent(f"needs {P999_LEAST} transitions; {n} were measured", "s", lost)
    times = np.array([one.time.known for one in known])
    at = max(0, math.ceil(share * n) - 1)
    value = float(np.median(times)) if share == 0.5 else float(times[at])
    # the number of times below the quantile is binomial
    low = next((k for k in range(at, 0, -1) if bdtr(k - 1, n, share) <= 0.025), None)
    high = next((k for k in range(at, n) if 1 - bdtr(k, n, share) <= 0.025), None)
    own = [one.time.u for one in known]
    if low is None or high is None or any(u is None for u in own):
        return Figure(value, None, "s", lost)
    half = max(value - float(times[low - 1]), float(times[high]) - value, 0.0)
    return Figure(value, math.hypot(half, max(u or 0.0 for u in own)), "s", lost)


def _mean(joules: Sequence[Figure]) -> Figure:
    """Return the mean energy. ``u`` is the largest of a single energy, with two standard errors where there are several."""
    values = [one.known for one in joules]
    spread = 2 * float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    us = [one.u for one in joules if one.u is not None]
    u = math.hypot(spread, max(us)) if len(us) == len(joules) else None
    return Figure(float(np.mean(values)), u, "J", sum(one.lost for one in joules))
