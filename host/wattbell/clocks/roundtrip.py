"""Round trips: the host asks a meter for its counter and notes its own clock before it asks and after it has the answer.

The counter was read between the two, nothing else is assumed: the way there and back need not take the same time. The fastest answers
decide, since they are the limits on the hull. Where there is nothing to ask, data that has arrived is a limit on one side: its samples
are no later.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from .hull import DRIFT_LIMIT, ClockLimits, fit
from .map import ClockMap
from .ticks import read_between


def round_trip_limits(
    before_ns: Sequence[int | None], after_ns: npt.ArrayLike, tick: npt.ArrayLike, tick_ps: int, *, step_ticks: int = 1
) -> ClockLimits:
    """Return limits of a meter's clock (source, ns from tick 0) by the host's (reference).

    before_ns: None: the tick is only known to be no later than ``after_ns``
    step_ticks: step of the counter (a tick was read that long at most after it began); 0 for the instant of a sample
    """
    early, late = read_between(tick, tick_ps, step_ticks)
    known = np.array([ns is not None for ns in before_ns], bool)
    before = np.array([0 if ns is None else ns for ns in before_ns], np.int64)
    return ClockLimits(late[known], before[known], early, np.asarray(after_ns, np.int64))


def by_round_trips(
    before_ns: Sequence[int | None],
    after_ns: npt.ArrayLike,
    tick: npt.ArrayLike,
    tick_ps: int,
    *,
    step_ticks: int = 1,
    span: tuple[int, int] | None = None,
    drift_limit: float = DRIFT_LIMIT,
) -> ClockMap:
    """The map of a meter's clock onto the host's. Raises ClockError (:func:`.hull.fit`), also where no ``before_ns`` is known."""
    found = round_trip_limits(before_ns, after_ns, tick, tick_ps, step_ticks=step_ticks)
    return fit(found, f"{len(found.low_ns)} round trips", span=span, drift_limit=drift_limit)
