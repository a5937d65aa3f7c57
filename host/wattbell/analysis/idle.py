"""Idle power by power state: steady levels of the rail while no command is in flight.

A state that the host asked for is known from the wire (POWER_STATE events). A state that the drive entered by itself
(APST) never shows on the wire: it is inferred from the level, and every such label says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl
from wattbell_spec.wire import EventType, LinkState

from wattbell.analysis.context import IDLE_MIN_S
from wattbell.analysis.result import Idle, IdleLevel
from wattbell.measure.figure import Figure, K
from wattbell.measure.instruments import NO_COMMANDS
from wattbell.measure.table import Commands

if TYPE_CHECKING:
    from wattbell.analysis.context import Context
    from wattbell.measure.rail import Rail

Float = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

BIN_S = 1e-3
STEADY_BINS = 5
"""A level is steady when this many consecutive bins agree."""
_MAX_BINS = 400_000
_TOLERANCE = 0.12
_FLOOR_W = 4e-4
_READ = 1 << 21


@dataclass
class Segment:
    """A steady stretch of idle time. ``position``: of its gap, seconds from the gap's start to the segment's."""

    first_tick: int
    last_tick: int
    mean_w: float
    gap: int
    position_s: float
    level: int = -1

    @property
    def ticks(self) -> int:
        return self.last_tick - self.first_tick


def steady_runs(means: Float, noise_w: float = 0.0) -> list[tuple[int, int, float]]:
    """Runs ``(first, last, mean)`` of at least ``STEADY_BINS`` consecutive bins within 12 % + 0.4 mW + 4 sigma of the
    run's running mean. NaN ends a run."""
    runs: list[tuple[int, int, float]] = []
    start, total = 0, 0.0

    def close(end: int) -> None:
        if end - start >= STEADY_BINS:
            runs.append((start, end, total / (end - start)))

    for i, value in enumerate(means.tolist()):
        n = i - start
        if math.isnan(value):
            close(i)
            start, total = i + 1, 0.0
            continue
        if n > 0:
            mean = total / n
            if abs(value - mean) > _TOLERANCE * abs(mean) + _FLOOR_W + 4 * noise_w:
                close(i)
                start, total = i, 0.0
        total += value
    close(len(means))
    return runs


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


class StateTrack:
    """A signal that only events change: value at a tick, and share of time by value."""

    def __init__(self, ticks: Int64, values: Int64, initial: int) -> None:
        self._ticks, self._values, self._initial = ticks, values, initial

    def at(self, tick: int) -> int:
        """Value just before ``tick``."""
        i = int(np.searchsorted(self._ticks, tick, side="left"))
        return int(self._values[i - 1]) if i else self._initial

    def pieces(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """(value, ticks) of each constant piece of ``[first, last)``."""
        a, b = np.searchsorted(self._ticks, first, side="right"), np.searchsorted(self._ticks, last, side="left")
        edges = [first, *self._ticks[a:b].tolist(), last]
        values = [int(self._values[a - 1]) if a else self._initial, *self._values[a:b].tolist()]
        for value, low, high in zip(values, edges[:-1], edges[1:], strict=True):
            yield int(value), int(high - low)


def track(events: pl.DataFrame, kind: EventType, initial: int) -> StateTrack | None:
    """``arg8`` of the events of one type; None when there are none."""
    rows = events.filter(pl.col("type") == int(kind))
    if not len(rows):
        return None
    return StateTrack(rows["tick"].cast(pl.Int64).to_numpy(), rows["arg8"].cast(pl.Int64).to_numpy(), initial)


def requested_state(events: pl.DataFrame) -> StateTrack | None:
    """The power state the host asked for; a reset of the controller (CC.EN) puts it back to 0. None: never asked."""
    rows = events.filter(pl.col("type").is_in([int(EventType.POWER_STATE), int(EventType.CC_EN)]))
    asked = rows["type"].to_numpy() == int(EventType.POWER_STATE)
    if not asked.any():
        return None
    values = np.where(asked, rows["arg8"].cast(pl.Int64).to_numpy() & 0x1F, 0).astype(np.int64)
    return StateTrack(rows["tick"].cast(pl.Int64).to_numpy(), values, 0)


def in_reset(events: pl.DataFrame) -> list[tuple[int, int]]:
    """Spans in ticks in which PERST# was low, but for one that the capture began in: a drive in reset, or without supply, is not idle."""
    levels = events.filter(pl.col("type") == int(EventType.PERST)).select("tick", "arg8").rows()
    return [
        (fell, next((tick for tick, level in levels[i + 1 :] if level), int(events["tick"][-1])))
        for i, (fell, low) in enumerate(levels)
        if i and low == 0 and levels[i - 1][1] == 1
    ]


def _bins(rail: Rail, first: int, last: int, width: int) -> Float:
    """Mean power of consecutive bins of ``width`` samples between two ticks; NaN where samples are missing."""
    low, high = rail.indices(first, last)
    out: list[Float] = []
    step = max(width, _READ // width * width)
    for start in range(low, high - width + 1, step):
        stop = min(start + step, high)
        if not any(rail.reader.stored(start, stop)):  # of a long gap
            out.append(np.full((stop - start) // width, np.nan))
            continue
        power = rail.reader.power(start, stop).astype(np.float64)
        n = len(power) // width
        out.append(power[: n * width].reshape(n, width).mean(axis=1))
    return np.concatenate(out) if out else np.empty(0)


def find_segments(context: Context, gaps: Int64) -> tuple[list[Segment], float]:
    """Steady stretches inside the gaps, and the length of a bin in s."""
    rail = context.rail
    assert rail is not None
    total_s = float((gaps[:, 1] - gaps[:, 0]).sum()) * context.tick_s
    width = max(4, math.ceil(max(BIN_S, total_s / _MAX_BINS) / rail.interval_s))
    held = in_reset(context.events)
    segments: list[Segment] = []
    for g, (first, last) in enumerate(gaps.tolist()):
        low, _ = rail.indices(first, last)
        means = _bins(rail, first, last, width)
        origin = rail.reader.tick_of(low)
        pitch = width * rail.interval_ticks
        for low_tick, high_tick in held:
            if low_tick < last and high_tick > first:
                means[max(0, (low_tick - origin) // pitch) : max(0, -(-(high_tick - origin) // pitch))] = np.nan
        steps = np.abs(np.diff(means))
        steps = steps[~np.isnan(steps)]
        scatter = float(np.median(steps)) if len(steps) > 1 else 0.0
        for a, b, mean in steady_runs(means, scatter):
            segments.append(Segment(origin + a * pitch, origin + b * pitch, mean, g, (origin + a * pitch - first) * context.tick_s))
    return segments, width * rail.interval_s


def nearest_declared(mean_w: float, states: Sequence[Mapping[str, Any]]) -> int | None:
    """The non-operational state whose declared maximum is nearest on a log scale; None where the level is more than
    2.5 times the largest of them, that is operational."""
    candidates = [s for s in states if s.get("non_operational") and s.get("max_power_w")]
    if not candidates or mean_w <= 0:
        return None
    if mean_w > 2.5 * max(float(s["max_power_w"]) for s in candidates):
        return None
    best = min(candidates, key=lambda s: abs(math.log(mean_w / float(s["max_power_w"]))))
    return int(best["state"])


def idle_power(context: Context) -> Idle:
    """Levels of idle power, each with its state, how the state is known, and the link state under it.

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
    segments, bin_s = find_segments(context, gaps)
    requested = requested_state(context.events)
    link = track(context.events, EventType.LINK, int(LinkState.UNKNOWN))
    clkreq = track(context.events, EventType.CLKREQ, 0)
    states = (context.capture.meta.get("drive") or {}).get("power_states") or []
    levels = []
    for number, members in enumerate(cluster([s.mean_w for s in segments])):
        chosen = [segments[i] for i in sorted(members)]
        for segment in chosen:
            segment.level = number
        levels.append(_level(context, chosen, requested, link, clkreq, states))
    steady = sum(s.ticks for s in segments) * context.tick_s
    return {
        **base,
        "bin_s": bin_s,
        "levels": levels,
        "unsettled_s": max(0.0, idle_s - steady),
        "segments": [
            {
                "first_tick": s.first_tick,
                "last_tick": s.last_tick,
                "mean_w": s.mean_w,
                "level": s.level,
                "gap": s.gap,
                "after_idle_s": s.position_s,
            }
            for s in segments[:1000]
        ],
    }


def _level(
    context: Context,
    segments: list[Segment],
    requested: StateTrack | None,
    link: StateTrack | None,
    clkreq: StateTrack | None,
    states: Sequence[Mapping[str, Any]],
) -> IdleLevel:
    rail = context.rail
    assert rail is not None
    joules = covered = edges = 0.0
    for segment in segments[:2000]:
        part = rail.energy(segment.first_tick, segment.last_tick)
        joules, covered, edges = joules + part.joules, covered + part.covered_s, edges + part.mean_u_j**2
    ticks = sum(s.ticks for s in segments)
    mean = joules / covered if covered > 0 else sum(s.mean_w * s.ticks for s in segments) / ticks
    spread = float(np.std([s.mean_w for s in segments], ddof=1)) if len(segments) > 1 else 0.0
    u = math.hypot(context.model.power_u(mean, context.rail.supply_v if context.rail else 0.0), K * spread / math.sqrt(len(segments)))
    if covered > 0:
        u = math.hypot(u, math.sqrt(edges) / covered)
    host = {requested.at(s.last_tick) if requested else 0 for s in segments}
    lost = sum(_missing(context, s) for s in segments)
    how, state = _state(mean, host, states)
    declared = next((s for s in states if s.get("state") == state), None) if state is not None else None
    return {
        "label": f"PS{state}" if state is not None else "operational idle",
        "state": state,
        "how": how,
        "mean_w": Figure(mean, u, "W", lost, {"steady_s": ticks * context.tick_s}),
        "declared_max_w": declared.get("max_power_w") if declared else None,
        "duration_s": ticks * context.tick_s,
        "segments": len(segments),
        "first_reached_s": min(s.position_s for s in segments),
        "phases": _phases_of(context, segments),
        "link": _shares(link, segments, {int(v): v.name for v in LinkState}),
        "clkreq": _shares(clkreq, segments, {0: "asserted", 1: "released"}),
    }


def _phases_of(context: Context, segments: list[Segment]) -> list[str]:
    """Names of the phases in which the level was seen, in their order."""
    starts = np.array([s.first_tick for s in segments])
    ends = np.array([s.last_tick for s in segments])
    return [p.name for p in context.phases if bool(np.any((ends > p.first_tick) & (starts < p.last_tick)))]


def _missing(context: Context, segment: Segment) -> int:
    loss = context.loss.between(segment.first_tick, segment.last_tick)
    return loss.under_rail + loss.under_commands  # that the time is idle is told by the commands


def _state(mean_w: float, host: set[int], states: Sequence[Mapping[str, Any]]) -> tuple[str, int | None]:
    asked = host - {0}
    nearest = nearest_declared(mean_w, states)
    if len(asked) == 1 and len(host) == 1:
        state = asked.pop()
        return "requested by the host (Set Features 02h)", state
    if nearest is None:
        if host == {0} and states:
            return "nothing requested; far above every non-operational state", 0
        return "nothing requested, no declared state near: level only", None
    return "inferred: nearest declared power of a non-operational state", nearest


def _shares(signal: StateTrack | None, segments: list[Segment], names: Mapping[int, str]) -> dict[str, float] | None:
    """Share of the segments' time by value of a signal; None when its events were never seen."""
    if signal is None:
        return None
    ticks: dict[str, int] = {}
    for segment in segments:
        for value, length in signal.pieces(segment.first_tick, segment.last_tick):
            name = names.get(value, str(value))
            ticks[name] = ticks.get(name, 0) + length
    total = sum(ticks.values())
    return {name: t / total for name, t in ticks.items() if t} if total else {}


def operational_idle(result: Idle) -> Figure | None:
    """Idle power without a sleeping state, which power under load is compared with; None if there is none.

    Of the levels in PS0 the lowest with the link in L0, as it is under load; where that is more than 1.5 times the
    level seen longest (a drive that is busy with itself), or the link is not known, the one seen longest.
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
