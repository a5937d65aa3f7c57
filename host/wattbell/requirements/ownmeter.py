"""The drive's own power meter against the rail, over the same seconds.

The host starts the drive's meter (Set Features 25h), stops it or lets it run, and reads log page 25h. The capture has the instants of these
commands. The drive's intervals of one second begin at an unknown instant behind the start. All begins that leave room for the counted
intervals are tried, in steps of `STEP_S`, and those that fit the page best are kept. The spread of a figure over these begins is
part of its uncertainty.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from wattbell_spec.nvme import POWER_MEASUREMENT

from ..analysis.context import Context
from ..measure.figure import Figure, absent
from ..measure.loss import WindowLoss
from ..measure.rail import Rail
from ..measure.table import NONE
from .logcommands import log_commands
from .powerlog import INTERVAL_S, PowerLog
from .railsteps import STEP_S, step_means

LONGEST_S = 86400.0
"""Longest measuring time that is compared."""
ROOM_S = 2 * INTERVAL_S
"""Time of the measurement that need not be in an interval: before the first one, and behind the last."""
MISSING_MOST = 0.01
"""Largest part of the measuring time without rail samples. Fewer are replaced by the mean of their neighbours."""
_ACTION, _START = 0xF, 1
"""CDW11 of feature 25h: bits 3:0, 1 starts."""
_STOP_MIN = 16
"""CDW11 of feature 25h: bits 31:16 are the minutes after which the drive stops by itself; 0: never."""
_MINUTE_S = 60.0
_NEARLY = 0.5
"""Begins within this number of misplaced intervals of the best are kept."""
Float = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class MeasuringTime:
    """The time in which the drive measured, in ticks.

    first : earliest begin: the fetch of the command that started it.
    started : its CQE.
    last : latest end: the CQE of the command that stopped it or read the page, or the end of the drive's own timer.
    """

    first: int
    started: int
    last: int


class OwnMeter:
    """One page of the drive's own meter, beside the capture in which it was measured.

    Figures without a value give the reason.
    """

    def __init__(self, context: Context, log: PowerLog) -> None:
        self._context, self._log = context, log

    def figure(self, measurand: str) -> Figure:
        """Return the figure of a measurand of :data:`.measurands.OWN_METER`."""
        figures: Mapping[str, Callable[[], Figure]] = {
            "own-meter-mean": self.mean_error,
            "own-meter-largest": self.largest_error,
            "own-meter-count": self.count_error_s,
            "own-meter-histogram": self.misplaced,
            "own-meter-time": self.largest_apart_s,
        }
        return figures[measurand]()

    def mean_error(self) -> Figure:
        """Return the difference between the drive's mean and the rail's, as a part of the rail's; never negative."""
        return self._error("mean")

    def largest_error(self) -> Figure:
        """Return the difference between the drive's largest interval and the rail's, as a part of the rail's; never negative."""
        return self._error("largest")

    def count_error_s(self) -> Figure:
        """Return how far the measuring time is from the counted intervals and one second more, in s; never negative.

        Up to one second before the first interval and one behind the last are in no interval, so a right count is at most 1 s off.
        """
        found = self._time
        if isinstance(found, str):
            return absent(found, "s")
        if not self._log.contiguous:
            return absent("the drive says that intervals are missing", "s")
        context = self._context
        seconds = context.seconds(found.last - found.started)
        ran_s = context.seconds(found.started - found.first)
        off_s = abs(seconds - (self._log.intervals + 1) * INTERVAL_S)
        return Figure(off_s, math.hypot(context.model.interval_u(seconds), ran_s), "s", self._whole.under_commands)

    def misplaced(self) -> Figure:
        """Return the number of intervals in a wrong bin of the drive's histogram, beyond the claimed error and our uncertainty."""
        found = self._aligned
        if isinstance(found, str):
            return absent(found)
        if not self._log.bins:
            return absent("the drive keeps no histogram")
        if self._log.claimed_error is None:
            return absent("the drive claims no error of its meter")
        return Figure(float(found.misplaced.min()), 0.0, "", found.loss.under_rail)

    def largest_apart_s(self) -> Figure:
        """Return the time in s between the drive's stamp of its largest interval and the nearest such interval of the rail."""
        found, log = self._aligned, self._log
        if isinstance(found, str):
            return absent(found, "s")
        if log.largest_ms is None or log.stopped_ms is None:
            return absent("the page has no time stamps of the largest interval and of the stop", "s")
        if log.claimed_error is None or log.largest is None:
            return absent("the drive claims no error of its meter", "s")
        assert isinstance(self._time, MeasuringTime)
        ran_s = self._context.seconds(self._time.last - self._time.started)
        at_s = ran_s - (log.stopped_ms - log.largest_ms) * 1e-3
        apart = []
        for k in np.flatnonzero(found.kept):
            large = found.intervals[k] >= found.intervals[k].max() * (1 - 2 * log.claimed_error) - 2 * found.rail_u
            begins = found.begins_s[k] + np.flatnonzero(large) * INTERVAL_S
            apart.append(float(np.maximum(np.maximum(begins - at_s, at_s - begins - INTERVAL_S), 0.0).min()))
        spread = max(apart) - min(apart)
        return Figure(min(apart), math.hypot(STEP_S, spread), "s", found.loss.under_rail)

    @property
    def remark(self) -> str:
        """The alignment, in words; empty without one."""
        found = self._aligned
        if isinstance(found, str):
            return ""
        begins = found.begins_s[found.kept]
        return f"{self._log.intervals} intervals, the first {begins.min():.2f} to {begins.max():.2f} s behind the start"

    @cached_property
    def _time(self) -> MeasuringTime | str:
        """The measuring time, or the reason why it is unknown."""
        context, log = self._context, self._log
        if not context.saw_commands:
            return "nobody saw the commands that start and read the drive's meter"
        if log.kind != 0:
            return f"the drive measured power of type {log.kind}, not of the whole drive"
        if not log.intervals:
            return "the drive counted no interval"
        begun: tuple[int, int, int] | None = None
        stop_tick = read_tick = NONE
        for one in log_commands(context, POWER_MEASUREMENT, POWER_MEASUREMENT):
            if one.reads:
                read_tick = one.cqe_tick if stop_tick == NONE else read_tick
            elif one.cdw11 & _ACTION == _START:
                begun, stop_tick, read_tick = (one.fetch_tick, one.cqe_tick, one.cdw11 >> _STOP_MIN), NONE, NONE
            elif stop_tick == NONE:
                stop_tick = one.cqe_tick
        if begun is None:
            return "the capture has no Set Features 25h that starts the drive's meter"
        fetch, cqe, minutes = begun
        timer = cqe + round(minutes * _MINUTE_S / context.tick_s) if minutes else NONE
        if log.enabled:
            if read_tick == NONE:
                return "the drive was still measuring, and the capture has no Get Log Page 25h"
            last = read_tick
        else:
            ends = [tick for tick in (stop_tick, timer) if tick != NONE and tick <= context.last_tick]
            if not ends:
                return "the drive had stopped measuring, and the capture has no stop"
            last = min(ends)
        if context.seconds(last - fetch) > LONGEST_S:
            return f"the drive measured for more than {LONGEST_S / 3600:g} hours, the longest time that is compared"
        return MeasuringTime(fetch, cqe, last)

    @cached_property
    def _aligned(self) -> Alignment | str:
        """The rail over the drive's intervals, or the reason why there is none."""
        context, log, found = self._context, self._log, self._time
        if isinstance(found, str):
            return found
        if context.rail is None:
            return context.no_rail or "no rail"
        if not log.contiguous:
            return "the drive says that intervals are missing, so its seconds are not known"
        room_s = context.seconds(found.last - found.first) - log.intervals * INTERVAL_S
        if not 0 <= room_s <= ROOM_S:
            return f"the drive counted {log.intervals} intervals in {log.intervals * INTERVAL_S + room_s:.2f} s: its seconds are not known"
        return _align(context.rail, found, log, room_s, context.loss.between(found.first, found.last))

    @property
    def _whole(self) -> WindowLoss:
        return self._context.loss.between(self._context.first_tick, self._context.last_tick)

    def _error(self, which: str) -> Figure:
        found = self._aligned
        if isinstance(found, str):
            return absent(found)
        own = self._log.mean if which == "mean" else self._log.largest
        if own is None:
            return absent(f"the drive reports no {which} power")
        values = found.intervals.mean(axis=1) if which == "mean" else found.intervals.max(axis=1)
        kept = values[found.kept]
        rail = float(kept[int(np.argmin(np.abs(kept - own.watts)))])
        if not rail > 0:
            return absent("the rail drew nothing")
        quantum = own.step_w / math.sqrt(3.0)
        spread = float(kept.max() - kept.min())
        u = math.hypot(found.rail_u, quantum, spread) / rail
        return Figure(abs(own.watts - rail) / rail, u, "", found.loss.under_rail, {"rail_w": rail, "own_w": own.watts})


@dataclass(frozen=True)
class Alignment:
    """The rail's means over the drive's intervals, for each begin that was tried.

    begins_s : begin of the first interval behind the CQE of the start.
    intervals : means in W; shape (begins, intervals).
    misplaced : intervals in a wrong bin, by begin; 0 without a histogram.
    kept : begins that fit the page best.
    rail_u : k = 2 of the mean in W.
    """

    begins_s: Float
    intervals: Float
    misplaced: Float
    kept: Bool
    rail_u: float
    loss: WindowLoss


def _align(rail: Rail, time: MeasuringTime, log: PowerLog, room_s: float, loss: WindowLoss) -> Alignment | str:
    fine = step_means(rail, time.first, time.last)
    gone = np.isnan(fine)
    if gone.mean() > MISSING_MOST:
        return f"the rail is missing in {gone.mean():.0%} of the measuring time"
    if gone.any():  # the loss book has the samples, and makes every verdict conditional
        fine[gone] = np.interp(np.flatnonzero(gone), np.flatnonzero(~gone), fine[~gone])
    width = round(INTERVAL_S / STEP_S)
    early_s = (time.started - time.first) * rail.tick_s
    sums = np.concatenate([[0.0], np.cumsum(fine)])
    offsets = np.arange(int(room_s / STEP_S) + 1)
    offsets = offsets[offsets + log.intervals * width <= len(fine)]
    if not len(offsets):
        return "the rail ends before the measuring time"
    edges = offsets[:, None] + np.arange(log.intervals + 1) * width
    intervals = np.diff(sums[edges], axis=1) / width
    volts = rail.supply_v
    rail_u = rail.mean_u(time.first, time.last, float(intervals.mean()), volts)
    misplaced = _misplaced(intervals, log, rail_u)
    kept = misplaced <= misplaced.min() + _NEARLY
    if log.largest is not None:  # among the begins whose histogram fits as well, those with a largest interval nearest to the drive's
        apart = np.abs(intervals.max(axis=1) - log.largest.watts)
        best = apart[kept].min()
        kept &= apart <= best + rail_u + log.largest.step_w
    begins_s = (offsets * STEP_S - early_s).astype(np.float64)
    return Alignment(begins_s, intervals, misplaced, kept, rail_u, loss)


def _misplaced(intervals: Float, log: PowerLog, rail_u: float) -> Float:
    """Return how many intervals the histogram has on the wrong side of an edge, at its worst edge, for each begin.

    An interval nearer to an edge than the claimed error and our uncertainty may be on either side.
    """
    if not log.bins:
        return np.zeros(len(intervals))
    claimed = log.claimed_error or 0.0
    counts = np.array([count for _, count in log.bins])
    if log.above is None:
        above = np.append(np.cumsum(counts[::-1])[::-1], 0.0)
        edges = np.array([edge for edge, _ in log.bins])
    else:
        above = np.cumsum(np.append(counts, log.above)[::-1])[::-1]
        width = log.bins[1][0] - log.bins[0][0] if len(log.bins) > 1 else 0.25
        edges = np.array([*(edge for edge, _ in log.bins), log.bins[-1][0] + width])
    worst = np.zeros(len(intervals))
    for k, edge in enumerate(edges):
        slack = claimed * intervals + rail_u
        surely = (intervals - slack >= edge).sum(axis=1)
        perhaps = (intervals + slack >= edge).sum(axis=1)
        worst = np.maximum(worst, np.maximum(surely - above[k], above[k] - perhaps))
    return worst
