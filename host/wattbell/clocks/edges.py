"""Relate a meter's clock to the host's by the edges of power that the host's work makes, for a meter without tap and markers.

**The place** (coarse). The host's instants, moved and stretched, cut the waveform into segments. A level for each segment explains part of
the waveform, and the right place leaves the least unexplained. Another place that leaves nearly as little makes the result ambiguous: that
is an error, never a choice.

**The bound** (fine). Around every instant a step of power is sought in the unfiltered samples, with the interval in which it may lie. A
step gives a limit on either side:

- Cause comes before effect: power rises no earlier than the host began, and falls no earlier than it ended.
- Power rises no later than ``settle_s`` after the host began. This is an assumption on drive and host: no waveform can distinguish a drive
  that is always late from a clock that is. A fall has no such limit, since a drive may go on working.

The limits go into :mod:`.hull`. Its bound therefore contains the drive's rise, the samples' spacing and noise, and the uncertainty of the
host's instants.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..errors import ClockError
from . import hull
from .map import ClockMap

F64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

SETTLE_S = 10e-3
"""How long after the host began a drive's power has risen: a command under way and the link awake. Wake-up takes longer, but not to draw
power."""
LEAST_EXPLAINED = 0.3
"""Least share of the waveform's variance that the levels of the segments must explain."""
RIVAL = 1.5
"""Ratio by which the next best place must leave more unexplained ..."""
RIVAL_OF_ALL = 0.02
"""... and more by at least this share of all."""
_MOST_PLACES = 60_000
_MOST_SEGMENTS = 2000
_LEAST_STEP = 5.0
"""Standard deviations of the mean on either side that a step must have."""
_LIKELY = 14.0
"""Rise of the residual squares, in variances of a sample, within which a step may lie.

It is 4.5 in log-likelihood, doubled for noise that is not white.
"""
_MOST_LEFT = 0.75
"""Largest share of the squares around a step that its two levels may leave unexplained."""
_CONFIRMED = 0.75
"""Share of the edges that must be found, and agree; the others are left out."""
_MOST_CANDIDATES = 24
_TAIL_S = 0.25
"""How long behind its edge a fall is looked for, and a rise before it."""
_SAME_S = 1e-3
"""Two places with steps this close, in s, are one place, reached from two sides."""


@dataclass(frozen=True)
class HostEdges:
    """Instants of the host's clock at which its work began (``rising``) or ended, between ``earliest_s`` and ``latest_s``; in order.

    tells: whether a step of power is to be expected; the other instants only cut the waveform
    """

    earliest_s: F64
    latest_s: F64
    rising: Bool
    tells: Bool

    def __len__(self) -> int:
        return len(self.rising)

    @property
    def middle_s(self) -> F64:
        return (self.earliest_s + self.latest_s) / 2


@dataclass(frozen=True)
class WaveformSteps:
    """Steps found in a waveform: each within ``[first_s, last_s]`` of the meter's clock; ``edge``: which of the host's it is."""

    first_s: F64
    last_s: F64
    edge: npt.NDArray[np.int64]


class Coarse:
    """A waveform as sums over bins of ``bin_s``, from its first sample: ``amount`` W s / bin and ``filled`` bins up to each bin's
    beginning."""

    def __init__(self, time_s: F64, power_w: F64, bin_s: float) -> None:
        self.bin_s, self.first_s = bin_s, float(time_s[0])
        good = ~np.isnan(power_w)
        index = ((time_s[good] - time_s[0]) / bin_s).astype(np.int64)
        count = np.bincount(index)
        mean = np.bincount(index, power_w[good]) / np.maximum(count, 1)
        there = count > 0
        self.overall_w = float(mean[there].mean())
        above = np.where(there, mean - self.overall_w, 0.0)
        self.amount = np.concatenate(([0.0], np.cumsum(above)))
        self.squares = np.concatenate(([0.0], np.cumsum(above**2)))
        self.filled = np.concatenate(([0.0], np.cumsum(there)))

    def up_to(self, sums: F64, place: float, count: int) -> F64:
        """A sum up to ``place`` bins, and up to 1, 2, ... further."""
        whole = math.floor(place)
        at = whole + np.arange(count + 1)
        found = sums[np.clip(at, 0, len(sums) - 1)]
        share = place - whole
        return np.asarray((1 - share) * found[:-1] + share * found[1:])


def match_edges(
    time_s: npt.ArrayLike,
    power_w: npt.ArrayLike,
    spans: Sequence[tuple[float, float, float]],
    *,
    offset_s: float = 0.0,
    offset_limit_s: float = 10.0,
    drift_limit: float = 100e-6,
    settle_s: float = SETTLE_S,
) -> ClockMap:
    """The map of a meter's clock (source, ``time_s`` x 1e9 ns) onto the host's (reference), from phases of work.

    ``time_s``: of the samples, ascending, by the meter's clock; ``power_w``: W, NaN is missing (means over 0.1 ms to 1 ms do). ``spans``:
    when the host's work ran, ``(begin_s, end_s, u_s)`` by its clock, each instant within ``u_s``; in order, not overlapping.
    ``offset_limit_s``: host less meter is at most this from ``offset_s``; ``drift_limit``: their rates differ by no more. The bound holds
    over the whole waveform.

    Raises ClockError, with the reason, where the waveform does not show the spans, shows them at several places, or its edges contradict
    each other.
    """
    time, power = samples(time_s, power_w)
    edges = _edges_of(spans)
    segments = np.diff(edges.middle_s)
    length = float(edges.middle_s[-1] - edges.middle_s[0])
    shortest = float(segments[segments > 0].min())
    spacing = float(np.median(np.diff(time)))
    bin_s = max(spacing, shortest / 10, 2 * offset_limit_s / _MOST_PLACES, length / 1e6)
    if bin_s > shortest / 2:
        raise ClockError(
            f"the shortest phase or pause lasts {shortest:.3g} s; to find it within {offset_limit_s:g} s the waveform is looked at in "
            f"steps of {bin_s:.3g} s. Leave out the short ones, or say better when the recording began."
        )
    search = EdgeSearch(time, power, edges, explained, bin_s, shortest, "edges of the phases", drift_limit, settle_s, find_steps)
    return search.found(offset_s, offset_limit_s)[0]


Score = Callable[["Coarse", list[float], int], F64]
"""(waveform, places of the edges in bins, count): unexplained share with the edges there, and 1, 2, ... bins further."""
Finder = Callable[[F64, F64, HostEdges, F64, float, float], WaveformSteps]
"""(time_s, power_w, edges, their instants by the meter's clock, reach_s, widest_s): as :func:`find_steps`."""


@dataclass(frozen=True)
class EdgeSearch:
    """Looks for edges in a waveform: first in bins of ``bin_s``, then finer, then step by step. ``apart_s``: two places that are not the
    same are at least a quarter of this from each other. ``what``: the edges, for the user. ``finder``: finds the steps."""

    time: F64
    power: F64
    edges: HostEdges
    score: Score
    bin_s: float
    apart_s: float
    what: str
    drift_limit: float
    settle_s: float
    finder: Finder

    def found(self, offset_s: float, offset_limit_s: float) -> tuple[ClockMap, WaveformSteps]:
        """The map over the whole waveform and the steps that it follows from, with host less meter within a limit of ``offset_s``. Raises
        ClockError where there is none, or more than one."""
        spacing = float(np.median(np.diff(self.time)))
        coarse = Coarse(self.time, self.power, self.bin_s)
        finer = Coarse(self.time, self.power, max(spacing, self.bin_s / 30))
        if coarse.squares[-1] <= 0:
            raise ClockError("the waveform is the same everywhere: there is nothing to be found in it.")
        left, drifts = self._left(coarse, offset_s, offset_limit_s)
        candidates = []
        for place in places(left, max(3, round(self.apart_s / 4 / self.bin_s))):
            offset = offset_s + offset_limit_s - place * self.bin_s
            near, near_drifts = self._left(finer, offset, 2 * self.bin_s, float(drifts[place]))
            best = int(np.argmin(near))
            at = moved(self.edges, offset + 2 * self.bin_s - best * finer.bin_s, float(near_drifts[best]))
            reach_s, widest_s = max(3 * finer.bin_s, self.settle_s, 10 * spacing), 2 * self.settle_s + 6 * spacing
            steps = self.finder(self.time, self.power, self.edges, at, reach_s, widest_s)
            try:
                clock, kept = self.of(steps)
            except ClockError as error:
                candidates.append(Candidate(float(left[place]), steps, 0, None, error))
            else:
                candidates.append(Candidate(float(left[place]), steps, kept, clock, None))
        return chosen(candidates)

    def of(self, steps: WaveformSteps, span_s: tuple[float, float] | None = None) -> tuple[ClockMap, int]:
        """See :func:`from_steps`. ``span_s``: of the whole waveform if None."""
        span = span_s or (float(self.time[0]), float(self.time[-1]))
        return from_steps(steps, self.edges, span, self.what, drift_limit=self.drift_limit, settle_s=self.settle_s)

    def _left(self, coarse: Coarse, offset_s: float, reach_s: float, near: float | None = None) -> tuple[F64, F64]:
        """Return (unexplained share; the drift with this share) for the offsets from ``offset_s`` + ``reach_s`` downwards, a bin each.

        Drifts are within the limit (around ``near``).
        """
        length = float(self.edges.middle_s[-1] - self.edges.middle_s[0])
        steps = math.ceil(self.drift_limit * length / coarse.bin_s) if self.drift_limit else 0
        drifts = np.linspace(-self.drift_limit, self.drift_limit, 2 * steps + 1)
        if near is not None and steps > 20:
            drifts = drifts[np.abs(drifts - near) <= 20 * self.drift_limit / steps]
        count = max(1, math.ceil(2 * reach_s / coarse.bin_s))
        left, best = np.full(count, np.inf), np.zeros(count)
        for drift in drifts.tolist():
            at = moved(self.edges, offset_s + reach_s, drift) - coarse.first_s
            rest = self.score(coarse, (at / coarse.bin_s).tolist(), count)
            better = rest < left
            left[better], best[better] = rest[better], drift
        return left, best


@dataclass(frozen=True)
class Candidate:
    """A place that may be the right one.

    left: unexplained share
    confirmed: number of edges that confirm it
    clock: the map; None if there is none
    error: why there is no map
    """

    left: float
    steps: WaveformSteps
    confirmed: int
    clock: ClockMap | None
    error: ClockError | None


def places(left: F64, apart: int) -> list[int]:
    """Return the possible places, best first and at least ``apart`` from each other: those that explain half as much as the best."""
    best = float(left.min())
    if 1 - best < LEAST_EXPLAINED:
        raise ClockError(
            f"the waveform does not show the work: at the best place it explains {1 - best:.0%} of it "
            f"({LEAST_EXPLAINED:.0%} is asked for). Are the meter's file and the host's report of the same "
            "run, and the offset of their clocks within the limit?"
        )
    rest = left.copy()
    found: list[int] = []
    while len(found) < _MOST_CANDIDATES:
        place = int(np.argmin(rest))
        if rest[place] > (1 + best) / 2:
            break
        found.append(place)
        rest[max(0, place - apart) : place + apart + 1] = np.inf
    return found


def chosen(candidates: Sequence[Candidate]) -> tuple[ClockMap, WaveformSteps]:
    """Return the one place that the edges confirm. Raises ClockError if they confirm none, or another one as well."""
    best = max(candidates, key=lambda candidate: (candidate.confirmed, -candidate.left))
    if best.clock is None:
        assert candidates[0].error is not None
        raise candidates[0].error
    for other in candidates:
        if other is best or other.clock is None:
            continue
        clearly = other.left >= max(RIVAL * best.left, best.left + RIVAL_OF_ALL)
        if other.confirmed >= best.confirmed or not clearly:
            apart = _apart_s(other.steps, best.steps)
            if apart < _SAME_S:
                continue
            raise ClockError(
                f"the work fits the waveform at several places, {apart:.3f} s apart: {best.confirmed} edges confirm one, "
                f"{other.confirmed} another. Say better when the recording began, or give phases that differ in length."
            )
    return best.clock, best.steps


def _apart_s(one: WaveformSteps, other: WaveformSteps) -> float:
    """How far apart two places have found the same edges."""
    _, i, j = np.intersect1d(one.edge, other.edge, return_indices=True)
    return float(np.median(np.abs(one.first_s[i] - other.first_s[j]))) if len(i) else 0.0


def moved(edges: HostEdges, offset_s: float, drift: float) -> F64:
    """Return the edges by the meter's clock, if the host's is ahead by ``offset_s`` in their middle and runs faster by ``drift``."""
    centre = float(edges.middle_s[0] + edges.middle_s[-1]) / 2
    return np.asarray((edges.middle_s - centre) * (1 - drift) + centre - offset_s)


def samples(time_s: npt.ArrayLike, power_w: npt.ArrayLike) -> tuple[F64, F64]:
    """A waveform as float64. Raises ClockError if there is nothing to look at."""
    time, power = np.asarray(time_s, np.float64), np.asarray(power_w, np.float64)
    if len(time) != len(power):
        raise ValueError("a time for every sample")
    if len(time) < 16 or np.isnan(power).all():
        raise ClockError("the waveform has too few samples to find anything in it.")
    return time, power


def _edges_of(spans: Sequence[tuple[float, float, float]]) -> HostEdges:
    if not spans:
        raise ClockError("there is no phase to look for.")
    if len(spans) > _MOST_SEGMENTS:
        raise ClockError(f"{len(spans)} phases are more than can be looked for at once ({_MOST_SEGMENTS}); give the longest.")
    rows: list[tuple[float, float, bool]] = []
    for begin, end, u in spans:
        if not end > begin or u < 0 or (rows and begin + u < rows[-1][0]):
            raise ValueError("phases in order of time that do not overlap, with u_s of 0 or more")
        rows += [(begin - u, begin + u, True), (end - u, end + u, False)]
    # Where one phase begins as another ends, the step may go either way and belong to either: it says nothing, but cuts segments.
    merged: list[tuple[float, float, bool, bool]] = []
    for early_s, late_s, up in rows:
        joined = bool(merged) and up and early_s <= merged[-1][1]
        if joined:
            merged.pop()
        merged.append((early_s, late_s, up, not joined))
    early, late, rising, tells = zip(*merged)
    return HostEdges(np.array(early), np.array(late), np.array(rising, bool), np.array(tells, bool))


def explained(coarse: Coarse, at: list[float], count: int) -> F64:
    """A :data:`Score`: a level of its own for each segment between the edges, over the whole waveform."""
    zero = np.zeros(count)
    amount = [zero, *(coarse.up_to(coarse.amount, place, count) for place in at), np.full(count, coarse.amount[-1])]
    filled = [zero, *(coarse.up_to(coarse.filled, place, count) for place in at), np.full(count, coarse.filled[-1])]
    found = np.zeros(count)
    if not coarse.squares[-1]:  # a flat power, which steps cannot explain
        return np.ones(count)
    for k in range(len(at) + 1):
        n = filled[k + 1] - filled[k]
        found += np.where(n > 0.5, (amount[k + 1] - amount[k]) ** 2 / np.maximum(n, 0.5), 0.0)
    return np.asarray(1 - found / float(coarse.squares[-1]))


def find_steps(time: F64, power: F64, edges: HostEdges, at_s: F64, reach_s: float, widest_s: float) -> WaveformSteps:
    """Return the step of power near each of ``at_s`` (meter's clock, one an edge).

    The step is sought within ``reach_s`` and the edge's uncertainty, at most half way to its neighbours. It is left out if there is none in
    the right direction, none within ``widest_s``, or samples are missing around it.
    """
    rows: list[tuple[float, float, int]] = []
    distance = np.diff(at_s, prepend=at_s[0] - 1e9, append=at_s[-1] + 1e9)
    for k, at in enumerate(at_s.tolist()):
        if not edges.tells[k]:
            continue
        reach = 2 * (reach_s + float(edges.latest_s[k] - edges.earliest_s[k]))
        # A drive's work behind the end of its load pulls the place found so far behind the true place: a rise may be earlier, a fall
        # later.
        wide = max(reach, _TAIL_S)
        low = at - min(wide if edges.rising[k] else reach, 0.45 * float(distance[k]))
        high = at + min(reach if edges.rising[k] else wide, 0.45 * float(distance[k + 1]))
        a, b = np.searchsorted(time, (low, high))
        found = step_in(time[a:b], power[a:b], bool(edges.rising[k]))
        if found is not None and found[1] - found[0] <= widest_s:
            rows.append((*found, k))
    first, last, index = zip(*rows) if rows else ((), (), ())
    return WaveformSteps(np.array(first, float), np.array(last, float), np.array(index, np.int64))


def step_in(time: F64, power: F64, rising: bool) -> tuple[float, float] | None:
    """Return the (first, last) instant at which power steps up (down) in a window; None without a step."""
    good = ~np.isnan(power)
    time, power = time[good], power[good]
    n = len(power)
    if n < 8:
        return None
    spacing = float(np.median(np.diff(time)))
    total = np.cumsum(power)
    squares = float(np.sum((power - power.mean()) ** 2))
    k = np.arange(2, n - 1)
    before, behind = total[k - 1] / k, (total[-1] - total[k - 1]) / (n - k)
    between = (behind - before) ** 2 * k * (n - k) / n
    left = np.where((behind > before) == rising, squares - between, np.inf)
    best = int(np.argmin(left))
    if not math.isfinite(left[best]):
        return None
    split = int(k[best])
    step = abs(float(behind[best] - before[best]))
    # twice the variance: neighbours in a real waveform are alike
    variance = max(float(left[best]) / n, 1e-18)
    if step < _LEAST_STEP * math.sqrt(2 * variance * (1 / split + 1 / (n - split))) or float(left[best]) > _MOST_LEFT * squares:
        return None
    likely = k[left <= left[best] + _LIKELY * variance]
    first, last = int(likely[0]) - 1, int(likely[-1])
    # from where the level before is left to where the level behind is reached, or passed: a drive may draw more to wake than to work
    quiet = [power[: max(2, split - (split // 4))], power[min(n - 2, split + (n - split) // 4) :]]
    levels = [float(np.median(part)) for part in quiet]
    spread = [max(0.1 * step, 4 * float(np.median(np.abs(part - level))) * 1.4826) for part, level in zip(quiet, levels)]
    while first > 0 and abs(power[first] - levels[0]) > spread[0]:
        first -= 1
    sign = 1 if rising else -1
    while last < n - 1 and sign * (levels[1] - power[last]) > spread[1]:
        last += 1
    if first <= 1 or last >= n - 2 or float(np.diff(time[first : last + 1]).max(initial=0.0)) > 1.5 * spacing:
        return None
    # A sample is the mean over the interval around it.
    return float(time[first]) - spacing / 2, float(time[last]) + spacing / 2


def from_steps(
    steps: WaveformSteps, edges: HostEdges, span_s: tuple[float, float], what: str, *, drift_limit: float, settle_s: float
) -> tuple[ClockMap, int]:
    """Return the map of the meter's clock onto the host's from the steps found, and the number of steps that confirm it.

    Raises ClockError if there are too few, or they contradict each other.
    """
    many = int(np.count_nonzero(edges.tells))
    least = max(2, math.ceil(_CONFIRMED * many))
    if not np.any(edges.rising[steps.edge]):
        raise ClockError(f"{what}: {len(steps.edge)} steps of power were found of {many}, none of them a rise; the offset has no bound.")
    if len(steps.edge) < least:
        raise ClockError(f"{what}: only {len(steps.edge)} steps of power were found of {many}; the rest is hidden by what the drive does.")
    kept = _together(steps, edges, drift_limit, settle_s)
    while True:
        if len(kept) < least:
            raise ClockError(
                f"{what}: the steps of power contradict each other: no more than {len(kept)} of {many} follow the host's work within "
                f"{settle_s * 1e3:g} ms of one offset."
            )
        need = _needed(_limits(steps, edges, kept, settle_s), drift_limit)
        if need == 0:
            break
        without = [_needed(_limits(steps, edges, np.delete(kept, k), settle_s), drift_limit) for k in range(len(kept))]
        kept = np.delete(kept, int(np.argmin(without)))
    span = round(span_s[0] * 1e9), round(span_s[1] * 1e9)
    text = f"{len(kept)} of {many} {what}, power up within {settle_s * 1e3:g} ms"
    return hull.fit(_limits(steps, edges, kept, settle_s), text, span=span, drift_limit=drift_limit), len(kept)


def _together(steps: WaveformSteps, edges: HostEdges, drift_limit: float, settle_s: float) -> npt.NDArray[np.int64]:
    """The steps that one offset can explain, with whatever drift: the most that there are."""
    slack = drift_limit * float(np.ptp(steps.last_s)) / 2
    low = edges.earliest_s[steps.edge] - steps.last_s - slack
    high = np.where(edges.rising[steps.edge], edges.latest_s[steps.edge] + settle_s - steps.first_s + slack, np.inf)
    depth = [int(np.count_nonzero((low <= at) & (at <= high))) for at in low.tolist()]
    best = float(low[int(np.argmax(depth))])
    return np.flatnonzero((low <= best) & (best <= high))


def _limits(steps: WaveformSteps, edges: HostEdges, kept: npt.NDArray[np.int64], settle_s: float) -> hull.ClockLimits:
    edge = steps.edge[kept]
    rising = edges.rising[edge]

    def ns(seconds: F64) -> npt.NDArray[np.int64]:
        return np.rint(seconds * 1e9).astype(np.int64)

    return hull.ClockLimits(
        ns(steps.last_s[kept]), ns(edges.earliest_s[edge]), ns(steps.first_s[kept][rising]), ns(edges.latest_s[edge][rising] + settle_s)
    )


def _needed(given: hull.ClockLimits, drift_limit: float) -> int:
    """Return in ns how much all limits must be widened for one line to satisfy them; 0: not at all."""

    def fits(wander_ns: int) -> bool:
        return hull.possible(given, drift_limit=drift_limit, wander_ns=wander_ns)

    if not len(given.high_ns):
        return 1 << 62
    if fits(0):
        return 0
    high = 1000
    while not fits(high):
        high *= 4
    low = high // 4 if high > 1000 else 0
    while high - low > max(1, high // 100):
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high
