"""Active time of a load, and rates over it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .depth import DepthSteps, idle_gaps
from .errormodel import ErrorModel
from .figure import Figure, absent

Int64 = npt.NDArray[np.int64]
BURST_GAP_S = 0.010
"""A time without any I/O command in flight of at least this separates two bursts."""


@dataclass(frozen=True)
class Span:
    """Active time of a set of commands: ``bursts`` is (n, 2) int64, [first start, last CQE] of each burst."""

    bursts: Int64

    @property
    def first_tick(self) -> int:
        return int(self.bursts[0, 0])

    @property
    def last_tick(self) -> int:
        return int(self.bursts[-1, 1])

    @property
    def whole_ticks(self) -> int:
        """First start to last CQE."""
        return self.last_tick - self.first_tick

    @property
    def active_ticks(self) -> int:
        """The same without the gaps between bursts."""
        return int((self.bursts[:, 1] - self.bursts[:, 0]).sum())


def find_span(steps: DepthSteps, gap_ticks: int) -> Span | None:
    """The bursts of a depth function; None if there are no commands."""
    if len(steps.ticks) == 0:
        return None
    gaps = idle_gaps(steps, gap_ticks)
    starts = np.concatenate((steps.ticks[:1], gaps[:, 1]))
    ends = np.concatenate((gaps[:, 0], steps.ticks[-1:]))
    return Span(np.stack((starts, ends), axis=1))


def rate(amount: float, seconds: float, unit: str, model: ErrorModel, lost: int, **conditions: str) -> Figure:
    """``amount`` a second; as uncertain as the time is. Absent where there was none."""
    if seconds <= 0:
        return absent("no active time", unit, lost)
    value = amount / seconds
    return Figure(value, value * model.interval_u(seconds) / seconds, unit, lost, conditions)
