"""Active time of a load, and rates over it."""

from __future__ import annotations

import math
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
class ActiveTime:
    """Active time of a set of commands: ``bursts`` is (n, 2) int64, [first start, last CQE] of each burst.

    ``least``: where their instants are a host's, outside of the wire's, the bursts that there are at least: (n, 2) int64, [first
    completion, last start] of each. A command was at the drive at some time between its start and its completion, nobody knows when.
    """

    bursts: Int64
    least: Int64 | None = None

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

    @property
    def least_ticks(self) -> int | None:
        """Least possible active time in ticks; None if it is :attr:`active_ticks`."""
        return None if self.least is None else int(np.maximum(self.least[:, 1] - self.least[:, 0], 0).sum())

    @property
    def ends_ticks(self) -> int | None:
        """Largest excess of :attr:`whole_ticks` over the true span; None if the span is certain."""
        return None if self.least is None else self.whole_ticks - int(self.least[-1, 1] - self.least[0, 0])


def find_span(steps: DepthSteps, gap_ticks: int) -> ActiveTime | None:
    """The bursts of a depth function; None if there are no commands."""
    if len(steps.ticks) == 0:
        return None
    gaps = idle_gaps(steps, gap_ticks)
    starts = np.concatenate((steps.ticks[:1], gaps[:, 1]))
    ends = np.concatenate((gaps[:, 0], steps.ticks[-1:]))
    return ActiveTime(np.stack((starts, ends), axis=1))


def least_bursts(first_end: Int64, last_start: Int64, gap_ticks: int) -> Int64:
    """Return ``least`` of an :class:`ActiveTime`, from commands (or parts of one) sorted by start: [first completion, last start] of each.

    Two bursts are separate if possibly nothing was at the drive for ``gap_ticks`` between them.
    """
    if not len(first_end):
        return np.empty((0, 2), np.int64)
    soonest = np.minimum.accumulate(first_end[::-1])[::-1]
    latest = np.maximum.accumulate(last_start)
    after = np.flatnonzero(soonest[1:] - latest[:-1] >= gap_ticks)
    begins = np.concatenate((soonest[:1], soonest[after + 1]))
    return np.stack((begins, np.concatenate((latest[after], latest[-1:]))), axis=1)


def rate(amount: float, seconds: float, unit: str, model: ErrorModel, lost: int, least_s: float | None = None, **conditions: str) -> Figure:
    """``amount`` a second; as uncertain as the time is, which may be as short as ``least_s``. Absent where there was none."""
    if seconds <= 0:
        return absent("no active time", unit, lost)
    value = amount / seconds
    u = value * model.interval_u(seconds) / seconds
    if least_s is not None:
        u = math.hypot(u, amount / least_s - value) if least_s > 0 else math.inf
    return Figure(value, u, unit, lost, conditions)
