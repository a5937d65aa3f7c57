"""A load pattern that the host makes, for a meter without tap or markers: bursts of work at known times, found again in the waveform.

**The pattern** is a Golomb ruler: eight bursts that begin at marks with all distances different. If the pattern is moved, at most one burst
falls onto another. So nothing else looks like it, whatever a drive does at rest. It is made before the work and, reversed, behind it: two
patterns far apart give the drift.

**The search.** Each pattern is sought separately by the correlation of power with the pattern, around the pattern only. The rest is as in
:mod:`.edges`: the steps of the bursts must confirm one place and no other, and their limits give the bound. A pattern that is not found
(its drive drew too little) has no limits. All patterns found, one or more, give the map.

**Sparse bursts.** On a slow computer a burst is a few commands with milliseconds between them. So a rise is where power first leaves the
rest before a burst, and a fall is where it last returns to the rest behind it, whatever happens between. The limits use :data:`SEVERAL`
commands, since a single command need not show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ..errors import ClockError
from .edges import F64, Coarse, EdgeSearch, HostEdges, WaveformSteps, samples
from .map import ClockMap

MARKS = (0, 1, 4, 9, 15, 22, 32, 34)
"""An optimal Golomb ruler of order 8."""
UNIT_S = 0.2
"""Time between two marks, in s: half is long enough for a drive to finish its load, the whole too short to fall asleep."""
BURST = 0.5
"""Length of a burst as a share of the unit."""
PATTERN_SETTLE_S = 2e-3
"""Time in s after the first I/O of a burst by which a drive's power has risen.

The drive is awake: no pause of a pattern is long enough to fall asleep in (with APST off).
"""
_BINS = 20
"""In a unit."""
_LEAST_COVERED = 0.9
"""Least share of a pattern that must have samples."""
SEVERAL = 4
"""Number of commands after which a waveform shows a change.

Power has risen once this many commands are complete, and has not finally fallen before this many last commands were sent.
"""
_REST_S = 0.04
"""Time in s of the rest that is examined before and behind a burst."""
_LEAST_REST = 4
"""Samples of it."""
_DEVIATIONS, _OF_HEIGHT_UP, _OF_HEIGHT_DOWN = 6.0, 0.1, 0.02
"""Thresholds above which power is not at rest: standard deviations of the rest, and shares of the bursts' height before and behind a burst.

Behind a burst the share is less, since its last command may need little power before it completes.
"""
_PULLED_S, _LONGEST_TAIL_S = 0.04, 0.25
"""How long before its begin a burst's rise is looked for, and behind its end its fall."""


@dataclass(frozen=True)
class Burst:
    """A burst that the host made: it began and ended between two readings of the host's clock each (ns)."""

    begin_before_ns: int
    begin_after_ns: int
    end_before_ns: int
    end_after_ns: int

    @classmethod
    def of(cls, start_ns: npt.ArrayLike, end_ns: npt.ArrayLike, settle_s: float = PATTERN_SETTLE_S) -> Burst:
        """Return the burst of commands that the host sent and saw completed (ns, in any order).

        Power rises no earlier than the first was sent, and no later than :data:`SEVERAL` were complete, or ``settle_s`` behind the first.
        It falls no earlier than the sending of the first of the last :data:`SEVERAL` commands.
        """
        start, end = np.sort(np.asarray(start_ns, np.int64)), np.sort(np.asarray(end_ns, np.int64))
        several = min(SEVERAL, len(start))
        first = int(start[0])
        return cls(first, max(first, int(end[several - 1]) - round(settle_s * 1e9)), int(start[-several]), int(end[-1]))


def schedule(*, backwards: bool = False, unit_s: float = UNIT_S) -> list[tuple[float, float]]:
    """(begin, end) of each burst, s from the begin of the pattern. ``backwards``: the one behind the work."""
    marks = [MARKS[-1] - mark for mark in reversed(MARKS)] if backwards else list(MARKS)
    return [(mark * unit_s, (mark + BURST) * unit_s) for mark in marks]


def match_pattern(
    time_s: npt.ArrayLike,
    power_w: npt.ArrayLike,
    patterns: Sequence[Sequence[Burst]],
    *,
    offset_s: float = 0.0,
    offset_limit_s: float = 10.0,
    drift_limit: float = 100e-6,
    settle_s: float = PATTERN_SETTLE_S,
    covers_ns: tuple[int, int] | None = None,
) -> ClockMap:
    """Return the map of a meter's clock (source, ``time_s`` x 1e9 ns) onto the host's (reference), from patterns of bursts that the host
    made.

    Other arguments are as in :func:`.edges.match_edges`.

    patterns: each from one :func:`schedule`, in order of time. A burst begins with its first I/O and ends with the completion of its last.
    settle_s: longest delay of the rise in power after that first I/O
    covers_ns: the instants of the host's clock between which the bound holds; None: over the whole waveform

    Raises ClockError if no pattern is in the waveform, one is there more than once, or a pattern contradicts itself or the other.
    """
    time, power = samples(time_s, power_w)
    if not patterns or any(len(bursts) < 3 for bursts in patterns):
        raise ValueError("patterns of three bursts or more")
    # ns to s from an origin, so that nothing is rounded
    origin = patterns[0][0].begin_before_ns
    found: list[WaveformSteps] = []
    every: list[HostEdges] = []
    missed: list[ClockError] = []
    bin_s = 0.0
    for k, bursts in enumerate(patterns):
        edges = _edges(bursts, origin)
        bin_s = max(UNIT_S / _BINS, float(np.median(np.diff(time))))
        what = f"edges of load pattern {k + 1}"
        search = EdgeSearch(time, power, edges, correlated, bin_s, UNIT_S, what, drift_limit, settle_s, departures)
        try:
            _, steps = search.found(offset_s - origin * 1e-9, offset_limit_s)
        except ClockError as error:
            missed.append(error)
        else:
            found.append(steps)
            every.append(edges)
    if not found:
        raise missed[0]
    together = HostEdges(
        *(np.concatenate([getattr(part, name) for part in every]) for name in ("earliest_s", "latest_s", "rising", "tells"))
    )
    before = np.cumsum([0, *(len(part) for part in every)])
    steps = WaveformSteps(
        np.concatenate([part.first_s for part in found]),
        np.concatenate([part.last_s for part in found]),
        np.concatenate([part.edge + shift for part, shift in zip(found, before)]),
    )
    of_all = f"{len(found)} of {len(patterns)}" if missed else str(len(found))
    what = f"edges of {of_all} load pattern{'s' if len(patterns) > 1 else ''}"
    search = EdgeSearch(time, power, together, correlated, bin_s, 0.0, what, drift_limit, settle_s, departures)
    clock, _ = search.of(steps)
    if covers_ns is not None:
        first, last = clock.inverse().to_reference(np.array(covers_ns) - origin) * 1e-9
        clock, _ = search.of(steps, (float(first), float(last)))
    return ClockMap(clock.source_ns, clock.reference_ns + origin, clock.drift, clock.bound_s, clock.method, clock.first_ns, clock.last_ns)


def _edges(bursts: Sequence[Burst], origin: int) -> HostEdges:
    rows = [
        row
        for burst in bursts
        for row in ((burst.begin_before_ns, burst.begin_after_ns, True), (burst.end_before_ns, burst.end_after_ns, False))
    ]
    early = np.array([row[0] - origin for row in rows]) * 1e-9
    late = np.array([row[1] - origin for row in rows]) * 1e-9
    if not (np.all(late >= early) and np.all(np.diff((early + late) / 2) > 0)):
        raise ClockError("the bursts of a load pattern are not in order of time: the host's clock was set while they were made.")
    return HostEdges(early, late, np.array([row[2] for row in rows], bool), np.ones(len(rows), bool))


def departures(time: F64, power: F64, edges: HostEdges, at_s: F64, reach_s: float, widest_s: float) -> WaveformSteps:
    """A :data:`.edges.Finder`: where power leaves the rest before each burst for the first time, and returns to the rest behind it for
    the last time. ``at_s``: begins and ends of bursts in turn."""
    height = _height(time, power, at_s)
    spacing = float(np.median(np.diff(time)))
    rows: list[tuple[float, float, int]] = []
    uncertain = edges.latest_s - edges.earliest_s
    last = len(at_s) - 1
    for k, at in enumerate(at_s.tolist()):
        up = bool(edges.rising[k])
        room = 4 * _REST_S
        if up and k:
            room = at - float(at_s[k - 1])
        if not up and k < last:
            room = float(at_s[k + 1]) - at
        inwards = 0.45 * float(at_s[k + 1] - at if up else at - at_s[k - 1])
        # a drive's work behind its bursts pulls the place found so far behind the true place
        outwards = min(max(reach_s + float(uncertain[k]), _PULLED_S) if up else max(reach_s, _LONGEST_TAIL_S), 0.5 * room)
        inwards = min(reach_s + float(uncertain[k]), inwards) if up else inwards
        low, high = (at - outwards, at + inwards) if up else (at - inwards, at + outwards)
        rest = (low - min(_REST_S, 0.4 * room), low) if up else (high, high + min(_REST_S, 0.4 * room))
        a, b, c, d = np.searchsorted(time, (low, high, *rest))
        calm = power[c:d]
        if b - a < 2 or d - c < _LEAST_REST or np.isnan(calm).any():
            continue
        level = float(np.median(calm))
        spread = 1.4826 * float(np.median(np.abs(calm - level)))
        above = max(_DEVIATIONS * spread, (_OF_HEIGHT_UP if up else _OF_HEIGHT_DOWN) * height)
        away = np.flatnonzero(~(power[a:b] <= level + above))  # missing samples count, too
        if not len(away):
            continue
        i = a + int(away[0 if up else -1])
        before, behind = (i - 1, i) if up else (i, i + 1)
        if before < a or behind >= b or np.isnan(power[i]) or time[behind] - time[before] > 1.5 * spacing:
            continue
        # a sample is the mean over the interval around it
        rows.append((float(time[before]) - spacing / 2, float(time[behind]) + spacing / 2, k))
    first, end, index = zip(*rows) if rows else ((), (), ())
    return WaveformSteps(np.array(first, float), np.array(end, float), np.array(index, np.int64))


def _height(time: F64, power: F64, at_s: F64) -> float:
    """Return how much higher power is in the bursts than between, by the high values of most bursts."""
    parts = [power[a:b] for a, b in pairwise(np.searchsorted(time, at_s).tolist())]
    high = [float(np.nanquantile(part, 0.9)) for part in parts[::2] if np.isfinite(part).any()]
    low = [float(np.nanmedian(part)) for part in parts[1::2] if np.isfinite(part).any()]
    return max(float(np.median(high)) - float(np.median(low)), 0.0) if high and low else 0.0


def correlated(coarse: Coarse, at: list[float], count: int) -> F64:
    """Return a :data:`.edges.Score`: 1 less the squared correlation of power with the pattern, from one pause before it to one behind it.

    It is 1 if power is lower in the bursts than between them, or samples are missing.
    """
    pause = min(b - a for a, b in zip(at, at[1:]))
    bounds = [at[0] - pause, *at, at[-1] + pause]

    def parts(sums: F64) -> list[F64]:
        up_to = [coarse.up_to(sums, place, count) for place in bounds]
        return [b - a for a, b in zip(up_to, up_to[1:])]

    amount, filled, squares = parts(coarse.amount), parts(coarse.filled), parts(coarse.squares)
    on, on_n = sum(amount[1::2], np.zeros(count)), sum(filled[1::2], np.zeros(count))
    off, off_n = sum(amount[::2], np.zeros(count)), sum(filled[::2], np.zeros(count))
    n = on_n + off_n
    covered = (n >= _LEAST_COVERED * (bounds[-1] - bounds[0])) & (on_n > 0.5) & (off_n > 0.5)
    n, on_n, off_n = np.maximum(n, 1), np.maximum(on_n, 0.5), np.maximum(off_n, 0.5)
    step = on / on_n - off / off_n
    whole = sum(squares, np.zeros(count)) - (on + off) ** 2 / n
    share = on_n * off_n / n * step**2 / np.maximum(whole, 1e-30)
    return np.where(covered & (step > 0) & (whole > 1e-12), 1 - np.minimum(share, 1.0), 1.0)
