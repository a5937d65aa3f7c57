"""Ticks of a counter as ns of its clock."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]


def ns_of(ticks: npt.ArrayLike, tick_ps: int) -> Int64:
    """The ns in which ticks begin (rounded down); exact where ticks x tick_ps would not fit 64 bits."""
    whole, rest = np.divmod(np.asarray(ticks, np.int64), np.int64(1000))
    return np.asarray(whole * tick_ps + rest * tick_ps // 1000, np.int64)


def read_between(ticks: npt.ArrayLike, tick_ps: int, step_ticks: int) -> tuple[Int64, Int64]:
    """(earliest, latest) ns of the source at which a counter that advances by ``step_ticks`` shows ``ticks``. ``step_ticks`` 0: the tick
    is an instant (of a sample), known to the ns."""
    counted = np.asarray(ticks, np.int64)
    return ns_of(counted, tick_ps), ns_of(counted + step_ticks, tick_ps) + (tick_ps % 1000 != 0)
