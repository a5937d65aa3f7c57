"""A load pattern that the host makes, for a meter without tap or markers: bursts of work at known times, found again in the waveform.

**The pattern** is a Golomb ruler: eight bursts that begin at marks no two pairs of which are equally far apart. Moved by any amount but
none, at most one burst falls onto another, so nothing but the pattern looks like it, whatever a drive does at rest. It is made once
before the work and, from back to front, once behind it: two patterns far apart tell the drift.

**Finding it.** Each pattern is sought on its own by the correlation of power with the pattern, around the pattern only; the rest as in
:mod:`.edges`: the steps of the bursts must confirm one place and no other, and their limits give the bound. Both patterns together give
the map.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..errors import ClockError
from .edges import F64, Coarse, HostEdges, Search, Steps, samples
from .map import ClockMap

MARKS = (0, 1, 4, 9, 15, 22, 32, 34)
"""An optimal Golomb ruler of order 8."""
UNIT_S = 0.2
"""Between two marks. Long enough for a drive to leave its load behind in half of it, short enough not to fall asleep."""
BURST = 0.5
"""Of the unit, for which a burst lasts."""
PATTERN_SETTLE_S = 2e-3
"""How long after the first I/O of a burst a drive's power has risen: it is awake, for no pause of a pattern is long enough to fall asleep
in (with APST off)."""
_BINS = 20
"""In a unit."""
_LEAST_COVERED = 0.9
"""Of a pattern that must have samples."""


@dataclass(frozen=True)
class Burst:
    """A burst that the host made: it began and ended between two readings of the host's clock each (ns)."""

    begin_before_ns: int
    begin_after_ns: int
    end_before_ns: int
    end_after_ns: int


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
) -> ClockMap:
    """The map of a meter's clock (source, ``time_s`` x 1e9 ns) onto the host's (reference), from patterns of bursts that the host made.

    Arguments as of :func:`.edges.match_edges`; ``patterns``: each what was made of one :func:`schedule`, in order of time. A burst begins
    with its first I/O and ends with the completion of its last. ``settle_s``: how much later than that first I/O power may rise. The
    bound holds over the whole waveform.

    Raises ClockError where a pattern is not in the waveform, is there more than once, or contradicts itself or the other.
    """
    time, power = samples(time_s, power_w)
    if not patterns or any(len(bursts) < 3 for bursts in patterns):
        raise ValueError("patterns of three bursts or more")
    # ns to s from an origin, so that nothing is rounded
    origin = patterns[0][0].begin_before_ns
    found: list[Steps] = []
    every: list[HostEdges] = []
    bin_s = 0.0
    for k, bursts in enumerate(patterns):
        edges = _edges(bursts, origin)
        unit = float(np.diff(edges.middle_s).min()) / BURST
        bin_s = max(unit / _BINS, float(np.median(np.diff(time))))
        what = f"edges of load pattern {k + 1}"
        search = Search(time, power, edges, correlated, bin_s, unit, what, drift_limit, settle_s)
        _, steps = search.found(offset_s - origin * 1e-9, offset_limit_s)
        found.append(steps)
        every.append(edges)
    together = HostEdges(*(np.concatenate([getattr(part, name) for part in every]) for name in ("earliest_s", "latest_s", "rising")))
    before = np.cumsum([0, *(len(part) for part in every)])
    steps = Steps(
        np.concatenate([part.first_s for part in found]),
        np.concatenate([part.last_s for part in found]),
        np.concatenate([part.edge + shift for part, shift in zip(found, before)]),
    )
    what = f"edges of {len(patterns)} load pattern{'s' if len(patterns) > 1 else ''}"
    clock, _ = Search(time, power, together, correlated, bin_s, 0.0, what, drift_limit, settle_s).of(steps)
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
    return HostEdges(early, late, np.array([row[2] for row in rows], bool))


def correlated(coarse: Coarse, at: list[float], count: int) -> F64:
    """A :data:`.edges.Score`: 1 less the squared correlation of power with the pattern, from one pause before it to one behind it. 1
    where power is lower in the bursts than between them, or samples are missing."""
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
