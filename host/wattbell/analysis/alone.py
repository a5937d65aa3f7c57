"""Energy of a command that stands alone: the rail above its baseline, from the doorbell until the rail is back (``docs/energy.md``)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy.special import stdtrit
from wattbell_spec.wire import CommandFlag, EventType

from wattbell.analysis.commandclass import classify
from wattbell.analysis.context import in_flight
from wattbell.analysis.railpiece import GROUP_S, RailPiece, SteadyLevel, between_j2, offset_w, piece
from wattbell.analysis.result import Alone, AloneClass
from wattbell.measure.figure import Figure, K, absent

if TYPE_CHECKING:
    from wattbell.analysis.context import Context
    from wattbell.measure.rail import Rail

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]
Float = npt.NDArray[np.float64]

QUIET_S = 2e-3
"""Without any command before and after, at least, and no less than :data:`_QUIET_SAMPLES`."""
_QUIET_SAMPLES = 64
_BEFORE_S = 10e-3
"""Length in s of the quiet time before a command from which its baseline is taken, if half of the quiet time is not shorter."""
_LEAD_S = 200e-6
"""Before the doorbell the link may have to wake."""
LONGEST_S = 50e-3
"""Longest time in s after its completion for which power is still counted as the command's."""
_LOWER = 0.1
_SETTLED = 5
"""Groups of samples below the baseline in a row that are another state of the drive."""
_CHANGED = 0.03
"""Relative difference between the baselines before and after a command beyond which the drive changed its state."""
LEAST_SAMPLES = 8
"""Above the baseline, for a command by itself to be resolved."""
_MOST = 300
"""Commands of a class that are looked at, evenly spread over the capture."""
LEAST = 5
"""Fewest commands of a class for a figure."""
_WIDEST = 0.5

CHANGED = "the level before and after differs: the drive woke, or fell asleep"
WORKING = "the rail was not back at its baseline before the next command"
MISSING = "samples of the rail are missing"
NOISY = "the rail was not steady before the command"


@dataclass(frozen=True)
class Lone:
    """A command that stood alone. ``joules`` above the baseline; ``u_j``: k = 2, without the front end's gain, which all share;
    ``between_j2``: :func:`.railpiece.between_j2`; ``back_s``: from the CQE until the rail was back; ``samples``: above the baseline."""

    index: int
    start_tick: int
    joules: float
    u_j: float
    between_j2: float
    baseline_w: float
    back_s: float
    samples: int


def lone_commands(context: Context) -> Int64:
    """Indices of the I/O commands with nothing else in flight for long enough before and after."""
    assert context.rail is not None
    quiet = max(QUIET_S, _QUIET_SAMPLES * context.rail.interval_s) / context.tick_s
    until, seen, base = context.first_tick, 0, 0
    after_quiet: list[Int64] = []  # (which I/O command it is, its index) of those with quiet before them
    for part in context.commands.pieces():
        io = np.flatnonzero((part.qid > 0) & ~part.has(CommandFlag.NO_SQE))
        if len(io):
            starts = part.start_tick[io]
            ends = np.maximum.accumulate(np.maximum(part.cqe_tick[io], starts))
            before = np.concatenate(([until], np.maximum(ends[:-1], until) if seen else ends[:-1]))
            first = np.flatnonzero(starts - before >= quiet)
            after_quiet.append(np.stack((first + seen, io[first] + base)))
            until, seen = max(until, int(ends[-1])) if seen else int(ends[-1]), seen + len(io)
        base += len(part)
    if not after_quiet:
        return np.empty(0, np.int64)
    which, index = np.concatenate(after_quiet, axis=1)
    quiet_behind = np.append(np.diff(which) == 1, len(which) > 0 and which[-1] == seen - 1 and context.last_tick - until >= quiet)
    alone: Int64 = index[quiet_behind[: len(which)] & ~context.commands.take(index).has(CommandFlag.ABORTED)]
    return alone


def limits(context: Context) -> tuple[Int64, Int64]:
    """Starts, and the latest end so far, of all that may disturb a lone command: every command but event requests, in order."""
    starts, ends = [], []
    for table in (context.commands, context.markers):
        kept = in_flight(table)
        starts.append(table.start_tick[kept])
        ends.append(np.maximum(table.cqe_tick, table.start_tick)[kept])
    start, end = np.concatenate(starts), np.concatenate(ends)
    order = np.argsort(start, kind="stable")
    return start[order], np.maximum.accumulate(end[order])


def alone(context: Context) -> Alone:
    """``classes``: by name of :mod:`~wattbell.analysis.commandclass`; or ``absent``, and why."""
    if context.rail is None:
        return {"absent": context.no_rail or "no rail"}
    out = {one.name: _summary(context, one) for one in measure_alone(context, _MOST)}
    if not out:
        return {"absent": f"no I/O command without another for {_quiet_text(context.rail)} before and after it"}
    return {"quiet_s": max(QUIET_S, _QUIET_SAMPLES * context.rail.interval_s), "classes": out}


@dataclass(frozen=True)
class LoneClass:
    """The commands of one class that stood alone.

    count: number of all
    measured: the commands measured
    refused: why the others were not measured
    """

    name: str
    pattern: str
    count: int
    measured: list[Lone]
    refused: Counter[str]
    between_j: float
    """k = 2 of the energy between the samples of one command; part of ``u_j`` already."""


def measure_alone(context: Context, most: int) -> Iterator[LoneClass]:
    """Classes with at least one command that stands alone; at most ``most`` of each are looked at, evenly spread over the capture."""
    found = lone_commands(context)
    if not len(found):
        return
    starts, ends = limits(context)
    asserted = _asserted(context)
    for one in classify(context.commands.take(found)):
        members = found[one.members]
        chosen = members[np.unique(np.linspace(0, len(members) - 1, min(len(members), most)).round().astype(np.int64))]
        refused: Counter[str] = Counter()
        measured: list[Lone] = []
        for index in chosen.tolist():
            result = measure_one(context, index, starts, ends, asserted)
            if isinstance(result, str):
                refused[result] += 1
            elif result is not None:
                measured.append(result)
        if measured or refused:
            # The energy between samples is much the same for all of a class, and one command is one draw.
            between = K * math.sqrt(max(0.0, sum(x.between_j2 for x in measured) / max(1, len(measured))))
            measured = [replace(x, u_j=math.hypot(x.u_j, between)) for x in measured]
            yield LoneClass(one.name, one.pattern, len(members), measured, refused, between)


def _quiet_text(rail: Rail) -> str:
    return f"{1e3 * max(QUIET_S, _QUIET_SAMPLES * rail.interval_s):.3g} ms"


def _asserted(context: Context) -> Int64:
    """Ticks at which CLKREQ# was asserted."""
    events = context.events
    kind, level = events["type"].to_numpy(), events["arg8"].to_numpy()
    asserted: Int64 = events["tick"].cast(pl.Int64).to_numpy()[(kind == int(EventType.CLKREQ)) & (level == 0)]
    return asserted


def measure_one(context: Context, index: int, starts: Int64, ends: Int64, asserted: Int64) -> Lone | str | None:
    """One command; a reason why it has no energy of its own; None if it does not stand alone after all. ``starts``, ``ends``: see
    :func:`limits`; ``asserted``: ticks at which CLKREQ# was asserted."""
    rail, table, tick_s = context.rail, context.commands, context.tick_s
    assert rail is not None
    start = int(table.start_tick[index])
    cqe = max(start, int(table.cqe_tick[index]))
    place = int(np.searchsorted(starts, start))
    before = int(ends[place - 1]) if place else context.first_tick
    after = int(starts[place + 1]) if place + 1 < len(starts) else context.last_tick
    quiet = max(QUIET_S, _QUIET_SAMPLES * rail.interval_s) / tick_s
    if start - before < quiet or after - cqe < quiet:
        return None  # beside an admin command or a marker
    begin = start - _LEAD_S / tick_s
    at = int(np.searchsorted(asserted, start, side="right")) - 1
    if at >= 0 and before < asserted[at] < start:
        begin = min(begin, float(asserted[at]) - 10e-6 / tick_s)
    begin = min(begin, start - 2.0 * rail.interval_ticks)
    low = start - min((start - before) / 2, _BEFORE_S / tick_s)
    high = cqe + min(0.8 * (after - cqe), LONGEST_S / tick_s)
    samples = piece(rail, low, high)
    if not samples.whole:
        return MISSING
    base = samples.level(samples.within(low, begin))
    if base is None or _ends_above(samples.power_w[samples.within(low, start)], base, rail):
        return NOISY
    return _above(context, samples, base, index, (begin, start, cqe))


def _ends_above(before_w: Float, base: SteadyLevel, rail: Rail) -> bool:
    """Whether the rail lay clearly below the baseline at times: then the baseline is of a drive that was at work."""
    width = max(1, round(GROUP_S / rail.interval_s))
    n = len(before_w) // width
    return n > 0 and float(
        before_w[: n * width].reshape(n, width).mean(axis=1).min()
    ) < base.mean_w - _LOWER * base.mean_w - base.tolerance_w(width)


def _above(context: Context, samples: RailPiece, base: SteadyLevel, index: int, instants: tuple[float, int, int]) -> Lone | str:
    """The energy above the baseline of the command that begins at ``instants`` (earliest sign, doorbell, CQE)."""
    rail, tick_s = context.rail, context.tick_s
    assert rail is not None
    begin, start, cqe = instants
    width = max(1, round(GROUP_S / rail.interval_s))
    late = samples.within(begin, math.inf)
    tail = RailPiece(samples.ticks[late], samples.power_w[late], samples.step_s)
    off = tail.off(base, width)
    ended = _sustained(off < 0, _SETTLED)
    # Power that a drive saves because it fell asleep is not the command's.
    done = ended if ended is not None and tail.ticks[ended * width] > cqe else len(off)
    above = np.flatnonzero(off[:done] > 0)
    last = int(above[-1]) + 1 if len(above) else 0
    back = max(float(tail.ticks[min(last * width, len(tail.ticks) - 1)]), float(cqe)) + 10 * (rail.model.front_end_delay_s / tick_s)
    back = max(back, cqe + 2.0 * rail.interval_ticks)
    until = float(tail.ticks[min(done * width, len(tail.ticks) - 1)])
    after = samples.level(samples.within(back, until))
    if after is None:
        return WORKING
    if abs(after.mean_w - base.mean_w) > 4 * math.hypot(after.u_w, base.u_w) + _CHANGED * abs(base.mean_w):
        return CHANGED
    where = samples.within(begin, back)
    seconds = (where.stop - where.start) * samples.step_s
    level = (base.mean_w + after.mean_w) / 2
    level_u = math.hypot(base.u_w, after.u_w, abs(after.mean_w - base.mean_w) / math.sqrt(3.0))  # k = 2 of the mean of both
    joules = samples.joules(where) - level * seconds
    busy = int(np.count_nonzero(samples.power_w[where] > level + base.tolerance_w(1)))
    noise = K * base.sigma_w * math.sqrt(where.stop - where.start) * samples.step_s
    u = math.hypot(level_u * seconds, noise, offset_w(rail) * busy * samples.step_s)
    between = between_j2(rail, samples, where, SteadyLevel(level, level_u / K, base.sigma_w))
    return Lone(index, start, joules, u, between, level, (back - cqe) * tick_s, busy)


def _sustained(mask: Bool, length: int) -> int | None:
    """Return the begin of the first run of at least ``length``; None without such a run."""
    for low, high in runs(mask):
        if high - low >= length:
            return low
    return None


def runs(mask: Bool) -> Iterator[tuple[int, int]]:
    """Yield ``[first, last)`` of each run of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False])).astype(np.int8)))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


def _in_step(rail: Rail, measured: list[Lone]) -> float:
    """How much commands begin at the same place between two samples: 0 for anywhere, 1 for always there. Then no mean helps."""
    turns = np.exp(2j * np.pi * np.array([one.start_tick % rail.interval_ticks for one in measured]) / rail.interval_ticks)
    return float(abs(turns.mean()))


def _summary(context: Context, of: LoneClass) -> AloneClass:
    rail, measured = context.rail, of.measured
    assert rail is not None
    lost = sum(context.loss.between(one.start_tick, one.start_tick + 1).under_rail for one in measured)
    out: AloneClass = {"count": of.count, "measured": len(measured), "refused": dict(of.refused), "pattern": of.pattern}
    if len(measured) < LEAST:
        why = f"{len(measured)} commands that stood alone could be measured; {LEAST} are needed"
        return {**out, "mean_j": absent(why, "J", lost), "median_j": absent(why, "J", lost)}
    joules, us = np.array([one.joules for one in measured]), np.array([one.u_j for one in measured])
    n, gain = len(joules), rail.model.gain
    factor = float(stdtrit(n - 1, 0.975))
    scatter = factor * float(np.std(joules, ddof=1)) / math.sqrt(n)
    conditions: dict[str, str | float] = {"commands": n, "baseline_w": float(np.median([one.baseline_w for one in measured]))}
    mean = float(joules.mean())
    mean_u = math.hypot(scatter, gain * mean, of.between_j * _in_step(rail, of.measured))
    long = float(np.median([one.samples for one in measured]))
    if mean <= 0 or mean_u > _WIDEST * mean:
        why = f"not resolved: the mean of {n} commands is known to +-{1e6 * mean_u:.3g} uJ only"
        return {**out, "mean_j": absent(why, "J", lost), "median_j": absent(why, "J", lost)}
    out["mean_j"] = Figure(mean, mean_u, "J", lost, conditions)
    each_u = float(np.median(us))
    if long < LEAST_SAMPLES or each_u > _WIDEST * mean:
        why = f"not resolved: {long:g} samples above the baseline, {1e6 * rail.interval_s:g} us apart"
        if long >= LEAST_SAMPLES:
            why = f"not resolved: one command is known to +-{1e6 * each_u:.3g} uJ only"
        return {**out, "median_j": absent(why, "J", lost)}
    # The standard error of a median is 1.25 of a mean's.
    low, middle, high = (float(x) for x in np.quantile(joules, (0.1, 0.5, 0.9)))
    out["median_j"] = Figure(middle, math.hypot(1.2533 * scatter, gain * middle), "J", lost, conditions)
    out["p10_j"], out["p90_j"] = (Figure(x, math.hypot(each_u, gain * x), "J", lost) for x in (low, high))
    out["each_u_j"] = math.hypot(each_u, gain * middle)
    back = np.array([one.back_s for one in measured])
    spread = 2 * 1.2533 * float(np.std(back, ddof=1)) / math.sqrt(n)
    out["back_s"] = Figure(float(np.median(back)), math.hypot(spread, 2 * rail.interval_s), "s", lost)
    return out
