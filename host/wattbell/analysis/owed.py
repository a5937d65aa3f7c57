"""Energy owed: a drive's energy above its baseline after a burst of writes, until the power is back at the baseline. See
``docs/energy.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from wattbell.analysis.alone import runs
from wattbell.analysis.context import PUT_OFF
from wattbell.analysis.railpiece import RailPiece, SteadyLevel, between_j2, offset_w, piece, smear_j
from wattbell.analysis.result import Owed, Window
from wattbell.measure.figure import Figure, K, ratio
from wattbell.measure.table import Commands, is_one_of
from wattbell.measure.throughput import ActiveTime

if TYPE_CHECKING:
    from wattbell.analysis.context import Context
    from wattbell.measure.rail import Rail

Float = npt.NDArray[np.float64]

BIN_S = 0.5e-3
MOST_BINS = 200_000
SHORTEST_S = 2e-3
"""Shortest rest in s that can show owed energy."""
_NEAR = 0.01
"""Relative distance to the baseline that counts as at the baseline, except in the first bins, which count in full."""
_FIRST = 4
_REST = 0.1
"""Last share of the rest. A drive at its baseline throughout this part is back there."""
_LONG_S = 0.1
_LIKE_IDLE = 0.1
_SAME = 0.03
_READ = 1 << 21
LOWER = "a lower bound: the rest ended before the drive was back at its baseline"


def owed(context: Context, commands: Commands, span: ActiveTime | None, idle_w: Figure | None, window: Window, lost: int) -> Owed | None:
    """Return the energy owed by the commands of a window and of a phase; None for commands that put nothing off.

    The rests lie between the bursts, and between the last burst and the next command other than a marker.
    """
    rail = context.rail
    if span is None or rail is None or not is_one_of(commands.opcode, PUT_OFF).any():
        return None
    if idle_w is None or idle_w.value is None:
        return {"absent": "no steady operational idle level in this capture to measure above"}
    last = int(span.bursts[-1, 1])
    until = min(context.next_start(last), int(rail.last_tick))
    rests = [(int(a), int(b)) for a, b in zip(span.bursts[:-1, 1], span.bursts[1:, 0], strict=True)] + [(last, until)]
    rests = [(a, b) for a, b in rests if (b - a) * context.tick_s >= SHORTEST_S]
    if not rests or rests[-1][0] != last:
        return {"absent": f"the next command came less than {1e3 * SHORTEST_S:g} ms after the last of these"}
    before = _before(context, int(span.first_tick))
    found = [_rest(context, first, end, idle_w, before) for first, end in rests]
    seen = [one for one in found if one is not None]
    if len(seen) < len(found):
        return {"absent": "samples of the rail are missing in the rest after the writes"}
    joules = sum(one.joules for one in seen)
    edges = math.sqrt(sum(one.edge_u_j**2 for one in seen))
    u = math.hypot(sum(one.base_u_w * one.seconds for one in seen), edges, rail.model.gain * joules)
    rest_s, back = (rests[-1][1] - last) * context.tick_s, seen[-1].back  # work left after an earlier rest is done in the next burst
    note: dict[str, str | float] = {} if back else {"note": LOWER}
    other = {} if seen[-1].by_idle else {"baseline": f"as before the burst; the capture's operational idle is {idle_w.known:.4g} W"}
    energy = Figure(joules, u if back else None, "J", lost, {"rest_s": rest_s, "baseline_w": seen[-1].base_w, **other, **note})
    out: Owed = {"energy_j": energy, "back": back, "rest_s": rest_s, "back_s": max(0.0, (seen[-1].last_tick - last) * context.tick_s)}
    return {**out, **_with(window, energy, note)}


def _before(context: Context, first_tick: int) -> SteadyLevel | None:
    """The level before a burst, where the drive was left alone before it."""
    rail = context.rail
    assert rail is not None
    lead, length = 0.5e-3 / context.tick_s, 20e-3 / context.tick_s
    begin = first_tick - lead - length
    for table in (context.commands, context.markers):
        near = table.between(round(begin), first_tick)
        if len(near):
            begin = max(begin, float(near.cqe_tick.max()) + lead)
    found = piece(rail, begin, first_tick - lead)
    return found.level(slice(0, len(found.power_w)))


def _with(window: Window, owed_j: Figure, note: dict[str, str | float]) -> Owed:
    """Return the efficiency including the owed energy."""
    active = window["power"].get("active") or {"absent": ""}
    count = window["rates"].get("bytes", 0)
    if "absent" in active or not count:
        return {}
    drawn = active["energy_j"]
    if drawn.value is None:
        return {}
    # One front end: both are off by the same gain.
    u = None if drawn.u is None or owed_j.u is None else drawn.u + owed_j.u
    whole = Figure(drawn.known + owed_j.known, u, "J", drawn.lost + owed_j.lost)
    megabytes, gigabytes = (Figure(count / scale, 0.0, unit) for scale, unit in ((1e6, "MB"), (1e9, "GB")))
    over: dict[str, str | float] = {"over": "active span, and what is owed"}
    upper = {"note": "an upper bound: not all that is owed was seen"} if note else {}
    rate, each = ratio(megabytes, whole, "MB/J"), ratio(whole, gigabytes, "J/GB")
    return {
        "share": ratio(owed_j, whole, "1"),
        "mb_per_j": replace(rate, conditions={**over, **upper}),
        "j_per_gb": replace(each, conditions={**over, **note}),
    }


@dataclass(frozen=True)
class _Rest:
    """``joules`` above ``base_w`` in ``seconds``; ``back``: whether the drive came back to it, at ``last_tick``. ``by_idle``: the
    baseline is near the capture's operational idle."""

    joules: float
    seconds: float
    edge_u_j: float
    base_w: float
    base_u_w: float
    back: bool
    last_tick: float
    by_idle: bool


def _rest(context: Context, first: int, end: int, idle_w: Figure, before: SteadyLevel | None) -> _Rest | None:
    rail = context.rail
    assert rail is not None
    seconds = (end - first) * context.tick_s
    width = max(1, round(max(BIN_S, seconds / MOST_BINS) / rail.interval_s))
    begin, means = _means(context, first, end, width)
    if len(means) < 4 or not np.isfinite(means).all():
        return None
    level, by_idle = _baseline(means, idle_w, before)
    limit = level.mean_w * _NEAR + 4 * level.sigma_w
    above = means > level.mean_w + limit
    grown = above.copy()
    grown[1:] |= above[:-1]
    grown[:-1] |= above[1:]
    grown[:_FIRST] = True
    # A drive that falls asleep is below: it owes nothing any more, or wakes for it later.
    grown &= means > level.mean_w - limit
    edge = begin + np.arange(len(means) + 1) * float(width * rail.interval_ticks)
    noise_w = level.sigma_w * math.sqrt(width)
    joules = covered = edge_u = 0.0
    for a, b in runs(grown):
        part = rail.energy(max(float(edge[a]), float(first)) if a else float(first), float(edge[b]))
        joules, covered = joules + part.joules - level.mean_w * part.covered_s, covered + part.covered_s
        # At the last CQE the front end's pole still shows earlier power; elsewhere a run begins and ends on steady power.
        smear = smear_j(rail, float(first)) if a == 0 else 0.0
        between = K * math.sqrt(max(0.0, _between_j2(rail, float(edge[a]), float(edge[b]), SteadyLevel(level.mean_w, level.u_w, noise_w))))
        other = offset_w(rail) * part.covered_s  # work may be drawn through the other current path than the baseline
        edge_u = math.hypot(edge_u, part.energy_u_j, smear, between, other)
    last = int(np.flatnonzero(above)[-1]) + 1 if above.any() else 0
    back = len(means) - last >= max(4, math.ceil(_REST * len(means)) if seconds > _LONG_S else 4)
    at = float(edge[last]) if last else float(first)
    return _Rest(joules, covered, edge_u, level.mean_w, K * level.u_w, back, at, by_idle)


def _between_j2(rail: Rail, first_tick: float, last_tick: float, level: SteadyLevel) -> float:
    """:func:`.railpiece.between_j2` of a run that may be long."""
    reach = float(_READ * rail.interval_ticks)
    total = 0.0
    for low in np.arange(first_tick, last_tick, reach).tolist():
        part = piece(rail, low, min(low + reach, last_tick))
        total += between_j2(rail, part, slice(0, len(part.power_w)), level)
    return total


def _baseline(means: Float, idle_w: Figure, before: SteadyLevel | None) -> tuple[SteadyLevel, bool]:
    """Return the level that the drive settles at, and whether the level is near operational idle.

    This is the end of the rest if it is near operational idle, or as it was before the burst; else operational idle.
    """
    tail = means[-max(8, len(means) // 4) :]
    middle = float(np.median(tail))
    sigma = 1.4826 * float(np.median(np.abs(tail - middle)))
    level = SteadyLevel(middle, sigma / math.sqrt(len(tail)), sigma)
    by_idle = abs(middle - idle_w.known) < _LIKE_IDLE * idle_w.known
    if by_idle or (before is not None and middle > idle_w.known and abs(middle - before.mean_w) < _SAME * before.mean_w):
        return level, by_idle
    return SteadyLevel(idle_w.known, (idle_w.u or 0.0) / K, 0.0), True


def _means(context: Context, first: int, end: int, width: int) -> tuple[float, Float]:
    """Return the begin of the first bin in ticks, and the mean power of each whole bin of ``width`` samples."""
    rail = context.rail
    assert rail is not None
    step = width * rail.interval_ticks
    count = max(1, _READ // width)
    out, begin = [], None
    for low in range(0, max(1, -(-(end - first) // step)), count):
        part: RailPiece = piece(rail, first + low * step, min(float(end), first + (low + count) * step))
        n = len(part.power_w) // width
        if not n:
            continue
        begin = float(part.ticks[0]) - rail.interval_ticks / 2 if begin is None else begin
        out.append(part.power_w[: n * width].reshape(n, width).mean(axis=1))
    return float(first) if begin is None else begin, np.concatenate(out) if out else np.empty(0)
