"""In-band markers: a command with a value in it, which the host sends and the tap sees on the wire.

The tap's tick (doorbell, fetch or completion) lies between two readings of the host's clock. One is before nvme-cli was called, the other
after it returned, some milliseconds apart. If the kernel was traced, they are nvme_setup_cmd and nvme_complete_rq of the same Get Features,
some ten us apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np

from .hull import DRIFT_LIMIT, ClockLimits, fit
from .map import ClockMap
from .ticks import read_between


@dataclass(frozen=True)
class SentMarker:
    """A marker of ``value`` that the host sent at an instant from ``before_ns`` to ``after_ns``."""

    value: int
    before_ns: int
    after_ns: int


@dataclass(frozen=True)
class MarkerPairs:
    """``pairs``: (index of the marker sent, index of the one seen), in order; ``not_seen`` and ``not_sent``: indices without a partner."""

    pairs: list[tuple[int, int]]
    not_seen: list[int]
    not_sent: list[int]


def pair_markers(sent: Sequence[int], seen: Sequence[int]) -> MarkerPairs:
    """Pair markers by their values and their order; a value may come again. A marker missing on either side stays unpaired."""
    pairs = [
        (block.a + k, block.b + k)
        for block in SequenceMatcher(None, list(sent), list(seen), autojunk=False).get_matching_blocks()
        for k in range(block.size)
    ]
    here, there = {a for a, _ in pairs}, {b for _, b in pairs}
    return MarkerPairs(pairs, [a for a in range(len(sent)) if a not in here], [b for b in range(len(seen)) if b not in there])


def marker_limits(
    sent: Sequence[SentMarker], seen: Sequence[tuple[int, int]], tick_ps: int, *, step_ticks: int = 1
) -> tuple[ClockLimits, MarkerPairs]:
    """Limits of the tap's clock (source) by the host's (reference). ``seen``: (tick, value) in order of time."""
    found = pair_markers([marker.value for marker in sent], [value for _, value in seen])
    early, late = read_between([seen[b][0] for _, b in found.pairs], tick_ps, step_ticks)
    before = np.array([sent[a].before_ns for a, _ in found.pairs], np.int64)
    after = np.array([sent[a].after_ns for a, _ in found.pairs], np.int64)
    return ClockLimits(late, before, early, after), found


def by_markers(
    sent: Sequence[SentMarker],
    seen: Sequence[tuple[int, int]],
    tick_ps: int,
    *,
    step_ticks: int = 1,
    span: tuple[int, int] | None = None,
    drift_limit: float = DRIFT_LIMIT,
) -> ClockMap:
    """The map of the tap's clock onto the host's. Raises ClockError (:func:`.hull.fit`), also where no marker has a partner."""
    made, found = marker_limits(sent, seen, tick_ps, step_ticks=step_ticks)
    missing = f", {len(found.not_seen)} not seen" if found.not_seen else ""
    return fit(made, f"{len(found.pairs)} in-band markers{missing}", span=span, drift_limit=drift_limit)
