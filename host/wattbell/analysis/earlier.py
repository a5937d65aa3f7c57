"""How much of a phase's energy may be work that earlier commands left to do. ``docs/energy.md`` has the method."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from wattbell.analysis.energybins import busy_ticks
from wattbell.analysis.railpiece import SteadyLevel, piece
from wattbell.measure.depth import DepthSteps
from wattbell.measure.rail import CHUNK, Rail
from wattbell.measure.table import Commands

if TYPE_CHECKING:
    from wattbell.analysis.context import Context

Float = npt.NDArray[np.float64]
Spans = Sequence[tuple[float, float]]

PARTS = 24
"""Parts of equal length that a phase is looked at in: its first half beside its second."""
AT_REST = 0.03
"""Share of operational idle power. A rail nearer to idle than this was at rest."""
STILL_AT_WORK = "the drive was still at work when this phase began: what it goes on to draw is in the interval"
STANDS_OUT = "its beginning drew more for each command than its end: that may be work that earlier commands left, and is in the interval"
NOT_TOLD = "no interval: the phase is too short, or changes too much, to tell how much of it is work that earlier commands left"
WARNINGS = (STILL_AT_WORK, STANDS_OUT)
MAP_SHARE = 2e-3
"""Share of the power above idle of sequential reads: the most that evicting changed pages of the map may add.

A map is a thousandth of the data, and writing a byte takes about twice the energy of reading one. A stream needs another page every few MiB
from beginning to end, so neither half of a phase stands out.
"""
_HALF = PARTS // 2
_FREE = _HALF - 2
_SAMPLES = 8
"""Least samples of a part."""
_LEAST_COMMANDS = 2.0
"""Least commands of a part, on average."""
_CLEAR = 3.0
"""Standard deviations by which the first half must stand out before its decay is read off."""
_SLOWEST = 0.8
"""Ratio of one quarter's excess to the quarter before. With a larger ratio, the phase ends long before the work does."""
_GAPS = 0.2
"""Share of the time at work with nothing in flight from which on work shows there."""
_BEHIND_S = 50e-6
"""Time in s after a command in which its own data path and the front end's pole still draw energy."""
_BACK_S = 50e-3
"""How far before a phase its rest is looked for."""
_LEAD_S = 0.5e-3
"""Start of the rest that is left to the command before."""
_LEAST_S = 1e-3
"""Shortest rest that is used."""
_LOOKED_AT_S = 10e-3
"""Longest part of the rest that is used, up to the phase."""
_SHORT_OF_S = 20e-6
"""End of the rest that is left out: a drive wakes so long before a doorbell that follows CLKREQ#."""


@dataclass(frozen=True)
class Earlier:
    """The part of a phase's energy that may belong to an earlier phase.

    most_j: k = 2; None if the phase does not show it
    seen: whether the first half of the phase stands out
    before_w: power of the rail just before the phase, if above idle
    """

    most_j: float | None
    seen: bool = False
    before_w: float | None = None

    def with_level(self, before: SteadyLevel | None, base_w: float, seconds: float, above_j: float) -> Earlier:
        """Add the rail's level just before a phase: work going on there may go on as long as the phase does.

        before: the level
        seconds: length of the phase
        above_j: energy of the phase above idle
        """
        if before is None or before.mean_w - base_w < max(AT_REST * base_w, 4 * before.u_w):
            return self
        going_on = min((before.mean_w - base_w) * seconds, abs(above_j))
        return Earlier(None if self.most_j is None else math.hypot(self.most_j, going_on), self.seen, before.mean_w)

    def of_a_stream(self, above_j: float) -> Earlier:
        """The same of a phase behind writes with sequential reads in it, which draws ``above_j`` above idle."""
        return self if self.most_j is None else replace(self, most_j=math.hypot(self.most_j, MAP_SHARE * abs(above_j)))

    @property
    def conditions(self) -> dict[str, str | float]:
        """Return the conditions to show beside a figure."""
        if self.most_j == 0 and self.before_w is None:
            return {}
        notes = [STILL_AT_WORK] * (self.before_w is not None) + [STANDS_OUT] * self.seen
        notes = [NOT_TOLD] if self.most_j is None else notes
        return {
            **({} if self.before_w is None else {"before_w": self.before_w}),
            **({} if self.most_j is None else {"earlier_j": self.most_j}),
            **({"note": "; ".join(notes)} if notes else {}),
        }


def earlier_work(rail: Rail, commands: Commands, steps: DepthSteps, at_work: Spans, base_w: float, behind_writes: bool) -> Earlier:
    """Return the energy that earlier commands may have left to a phase that puts nothing off itself.

    at_work: bursts of the phase in ticks, in order
    base_w: power of operational idle
    behind_writes: whether the capture has earlier commands that leave work. Without such commands, a phase too short for this test is taken
        to have none.

    The second half of the phase is the model for each part. The model has a power above idle while anything is in flight, and an energy for
    each command. Energy in the first half beyond the model may be owed. Work that lasts as long as the phase shows in the gaps between
    commands.
    """
    spans = np.array(at_work, np.float64)
    worked = np.concatenate(([0.0], np.cumsum(spans[:, 1] - spans[:, 0])))
    if worked[-1] < PARTS * _SAMPLES * rail.interval_ticks or len(commands) < PARTS * _LEAST_COMMANDS:
        return Earlier(None if behind_writes else 0.0)
    parts = _parts(rail, commands, steps, spans, worked, base_w)
    if not np.isfinite(parts).all():
        return Earlier(None)
    most_j, seen = _first_half(parts)
    if most_j is None:
        return Earlier(None, seen)
    return Earlier(max(most_j, _in_gaps(rail, steps, spans, base_w)), seen)


def level_at_rest(context: Context, first_tick: int) -> SteadyLevel | None:
    """Return the rail's level just before a phase's first command; None without a free stretch of 1 ms.

    The level is taken in the longest stretch without a command or marker, at most 50 ms back.
    """
    rail = context.rail
    assert rail is not None
    begin = first_tick - _BACK_S / context.tick_s
    lead, least = _LEAD_S / context.tick_s, _LEAST_S / context.tick_s
    tables = (context.commands.between(round(begin), first_tick), context.markers.between(round(begin), first_tick))
    ends = np.array([begin, *(tick for table in tables for tick in np.maximum(table.cqe_tick, table.start_tick).tolist())], np.float64)
    starts = np.sort(np.array([first_tick, *(tick for table in tables for tick in table.start_tick.tolist())], np.float64))
    free = [(float(end) + lead, float(starts[np.searchsorted(starts, end)])) for end in np.sort(ends) if end < first_tick]
    free = [(a, b) for a, b in free if b - a >= least]
    if not free:
        return None
    a, b = max(free, key=lambda one: one[1] - one[0])
    found = piece(rail, max(a, b - _LOOKED_AT_S / context.tick_s), b - _SHORT_OF_S / context.tick_s)
    return found.level(slice(0, len(found.power_w)))


def _parts(rail: Rail, commands: Commands, steps: DepthSteps, spans: Float, worked: Float, base_w: float) -> Float:
    """Energy above idle in J, time with anything in flight in s, and commands, of each part: (PARTS, 3)."""
    at = np.linspace(0.0, worked[-1], PARTS + 1)
    inner = at[1:-1]
    which = np.clip(np.searchsorted(worked, inner, side="right") - 1, 0, len(spans) - 1)
    edges = np.concatenate(([spans[0, 0]], spans[which, 0] + inner - worked[which], [spans[-1, 1]]))
    joules = np.zeros(PARTS)
    cuts = np.unique(np.concatenate((spans.ravel(), edges)))
    middles = (cuts[:-1] + cuts[1:]) / 2
    inside = np.searchsorted(spans[:, 0], middles, side="right") > np.searchsorted(spans[:, 1], middles, side="right")
    for low, high, part in zip(cuts[:-1][inside], cuts[1:][inside], np.searchsorted(edges, middles[inside]) - 1, strict=True):
        found = rail.energy(float(low), float(high))
        joules[part] += found.joules - base_w * found.covered_s
    busy_s = np.diff(busy_ticks(steps, edges)) * rail.tick_s
    return np.column_stack((joules, busy_s, np.diff(_done(commands, edges))))


def _done(commands: Commands, edges: Float) -> Float:
    """Commands until each of ``edges``; one in flight counts by the part of its time that is over."""
    out = np.zeros(len(edges))
    for some in commands.pieces():
        start, end = some.start_tick.astype(np.float64), np.maximum(some.cqe_tick, some.start_tick + 1).astype(np.float64)
        out += [float(np.clip((edge - start) / (end - start), 0.0, 1.0).sum()) for edge in edges]
    return out


def _first_half(parts: Float) -> tuple[float | None, bool]:
    """Return the k = 2 limit of the first half's excess over the second half's model, and whether the excess is clear.

    The limit includes the excess left in the second half. It is None if the excess is clear and hardly falls towards the end of the phase.
    """
    joules, busy, count = parts.T
    late = slice(_HALF, PARTS)
    each, on = joules[late].sum(), busy[late].sum()
    if each <= 0 or on <= 0:
        return None, False
    # The second half met on average: one free slope, J a command; the rest is the controller's, by time.
    y, x = joules - each / on * busy, count - count[late].sum() / on * busy
    square = float(x[late] @ x[late])
    mean_j = each / count[late].sum()
    slope = float(x[late] @ y[late]) / square if square > 0 else mean_j / 2
    scatter = float(np.sqrt(np.sum((y[late] - slope * x[late]) ** 2) / _FREE))
    reach = 2.0 * scatter / math.sqrt(square) if square > 0 else math.inf
    # Neither commands nor the controller give energy back.
    slopes = np.clip([slope - reach, slope + reach], 0.0, mean_j)
    excess = np.array([y - b * x for b in slopes])
    first = excess[:, :_HALF].sum(axis=1)
    sigma = scatter * math.sqrt(PARTS)
    largest, least = float(first.max()), float(first.min())
    if largest <= 0:
        return 2.0 * sigma, False
    seen = least > _CLEAR * sigma
    if not seen:
        return largest + 2.0 * sigma, False
    quarters = excess[int(first.argmax()), :_HALF].reshape(2, -1).sum(axis=1)
    ratio = max(0.0, float(quarters[1] / quarters[0])) if quarters[0] > 0 else math.inf
    if ratio > _SLOWEST:
        return None, True
    half = ratio**2
    return largest * (1 + half) / (1 - half) + 2.0 * sigma, True


def _in_gaps(rail: Rail, steps: DepthSteps, spans: Float, base_w: float) -> float:
    """Return the energy above idle with nothing in flight.

    Gaps between commands, if there are enough, are scaled to the whole time from the first to the last command of a burst. Energy behind
    the last command of a burst is added.
    """
    late = rail.model.front_end_delay_s / rail.tick_s
    behind = _BEHIND_S / rail.tick_s + 4 * late + rail.interval_ticks
    step = rail.interval_ticks
    over = steps.ticks[np.clip(np.searchsorted(steps.ticks, spans[:, 1], side="right") - 1, 0, None)].astype(np.float64)
    low, high = rail.indices(math.floor(spans[0, 0] + late), math.ceil(spans[-1, 1] + late))
    joules, seconds = np.zeros(2), np.zeros(2)  # between, behind
    for start, stop, stored in rail.reader.chunks(low, high, CHUNK):
        if not stored:
            continue
        edges = rail.reader.tick_of(start) - step / 2 - late + np.arange(stop - start + 1, dtype=np.float64) * step
        before, until = busy_ticks(steps, np.concatenate((edges[:-1] - behind, edges[1:]))).reshape(2, -1)
        span = np.searchsorted(spans[:, 0], edges[:-1], side="right") - 1
        quiet = (until <= before) & (span >= 0) & (edges[1:] <= spans[span, 1])
        power = rail.reader.power(start, stop).astype(np.float64) - base_w
        quiet &= np.isfinite(power)
        last = (edges[:-1] >= over[span])[quiet].astype(np.int64)
        joules += np.bincount(last, weights=power[quiet], minlength=2) * rail.interval_s
        seconds += np.bincount(last, minlength=2) * rail.interval_s
    share = seconds[0] / max(float((over - spans[:, 0]).sum()) * rail.tick_s, rail.interval_s)
    between = float(joules[0]) / share if share > _GAPS else 0.0
    return max(0.0, between) + max(0.0, float(joules[1]))
