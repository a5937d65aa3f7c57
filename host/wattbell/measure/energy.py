"""Energy from the rig's 96-bit accumulator.

Each RAIL block carries the sum of voltage x current over every conversion so far, as an integer that lasts for 17 years. The difference of
two sums, times the conversion period, is the energy between them. Nothing is rounded and no sample is left out, not even samples of blocks
lost on the way. Only the edges of a window, which fall between two blocks, need samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
from wattbell_spec.units import ENERGY_LSB_W
from wattbell_spec.wire import RailFlag

from ..capture.railrate import contradicts
from .figure import K

Int64 = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]

ReadPower = Callable[[int, int], tuple[int, Float]]
"""(first_tick, last_tick) -> (tick of the first sample, power in W of the samples centred in the interval)."""
Stretches = Callable[[int, int], Iterable[tuple[int, int]]]
"""(first_tick, last_tick) -> the recorded parts of that span, as ticks."""
_PIECE = 1 << 20
"""Samples that are read at a time."""


@dataclass(frozen=True)
class Energy:
    """Energy of a window.

    edge_u_j: k = 2 of the two interpolated edges
    exact_j: the part that is a difference of accumulators
    covered_s: recorded time, shorter than the window if the rail has gaps
    moved_j: possible change of the energy if commands and rail have clocks of their own, which shifts the edges
    moved_above_mean_j: possible change of the energy above the mean power, which changes the mean

    ``moved_j`` and ``moved_above_mean_j`` are sums of two limits (the edges have their error from one clock), read as k = 2.
    """

    joules: float
    edge_u_j: float
    exact_j: float
    covered_s: float
    moved_j: float = 0.0
    moved_above_mean_j: float = 0.0

    @property
    def energy_u_j(self) -> float:
        """k = 2 in the energy of where the window begins and ends."""
        return math.hypot(self.edge_u_j, self.moved_j)

    @property
    def mean_u_j(self) -> float:
        """The same in mean power x time covered."""
        return math.hypot(self.edge_u_j, self.moved_above_mean_j)


class EnergyMeter:
    """Energy of any window of a capture.

    blocks: columns ``first_tick``, ``interval_ticks``, ``count``, ``adc_index``, ``energy_raw``, ``energy_high``, ``epoch``, ``flags``
        (rows of ``rail_blocks.parquet``); empty for a rail without an accumulator
    period_ticks: between conversions
    delay_ticks: from the tick of a sample to the last conversion that entered it (the decimation filter's group delay; 0 without
        decimation)
    stretches: recorded parts of a window, so that no sample of a long gap is read; by default everything was recorded
    interval_ticks: between samples; only for a rail without an accumulator, which gets its energy from samples
    """

    def __init__(
        self,
        blocks: pl.DataFrame,
        period_ticks: float,
        delay_ticks: float,
        tick_s: float,
        read_power: ReadPower,
        stretches: Stretches = lambda first, last: [(first, last)],
        interval_ticks: float = 1.0,
    ) -> None:
        ordered = blocks.sort("first_tick").filter(pl.col("count") > 0)
        first = ordered["first_tick"].cast(pl.Int64).to_numpy()
        interval = ordered["interval_ticks"].cast(pl.Int64).to_numpy()
        count = ordered["count"].cast(pl.Int64).to_numpy()
        index = ordered["adc_index"].cast(pl.Int64).to_numpy()
        low = ordered["energy_raw"].cast(pl.Int64).to_numpy().view(np.uint64)
        high = ordered["energy_high"].cast(pl.Int64).to_numpy() << 32 | (low >> np.uint64(32)).astype(np.int64)
        self._tick_s = tick_s
        self._period = period_ticks
        self._read, self._stretches = read_power, stretches
        self._interval = float(interval[0]) if len(interval) else float(interval_ticks)
        self._delay = delay_ticks
        # Each conversion covers its own period, so a block's sum ends half a period after its last conversion.
        self.boundary: Float = first + (count - 1) * interval + delay_ticks + period_ticks / 2
        self._index: Int64 = index
        # A restart of the rig sets the counts back, and another period is another unit: nothing exact spans either.
        epoch = ordered["epoch"].cast(pl.Int64).to_numpy()
        other = interval != interval[0] if len(interval) else interval > 0
        begins = (ordered["flags"].cast(pl.Int64).to_numpy() & int(RailFlag.RESTARTED)) != 0
        # Conversions that do not last as long as the blocks say have another period than the one that is stated: their unit is not known.
        odd = contradicts(np.diff(index), period_ticks, np.diff(first + (count - 1) * interval), interval[1:])
        broken = odd | (np.diff(index) <= 0) | (np.diff(epoch) != 0) | other[1:] | other[:-1] | begins[1:]
        self._breaks: Int64 = np.nonzero(broken)[0]
        steps = np.stack((np.diff(high), np.diff((low & np.uint64(0xFFFFFFFF)).astype(np.int64))))
        steps[:, self._breaks] = 0
        # Exact sums in two halves: 2^63 units are only 92 J at 1 MSPS.
        self._high: Int64 = np.concatenate(([0], np.cumsum(steps[0])))
        self._low: Int64 = np.concatenate(([0], np.cumsum(steps[1])))

    def __len__(self) -> int:
        return len(self.boundary)

    def exact_units(self, i: int, j: int) -> int:
        """Sum of voltage x current units between the ends of blocks ``i`` and ``j`` (an integer, any size)."""
        return (int(self._high[j] - self._high[i]) << 32) + int(self._low[j] - self._low[i])

    def _unit_joules(self) -> float:
        return ENERGY_LSB_W * self._period * self._tick_s

    def _samples(self, first: float, last: float) -> tuple[float, float, float]:
        """Return the energy between two ticks from samples, its k = 2 at the edge ``first``, and the time covered in s.

        Each sample holds for one interval around it. ``last`` is a block boundary and adds no uncertainty of its own.
        """
        if last <= first:
            return 0.0, 0.0, 0.0
        half = self._interval / 2
        around_edge = self._interval + self._delay
        joules = covered = swing = 0.0
        for begin, end in self._stretches(math.floor(first - around_edge), math.ceil(last + around_edge) + 1):
            for low in range(begin, end, max(1, round(_PIECE * self._interval))):
                tick, power = self._read(low, min(end, low + max(1, round(_PIECE * self._interval))))
                centres = tick + np.arange(len(power)) * self._interval
                overlap = np.clip(np.minimum(centres + half, last) - np.maximum(centres - half, first), 0, None)
                good = ~np.isnan(power)
                covered += float(overlap[good].sum()) * self._tick_s
                joules += float(np.dot(np.where(good, power, 0.0), overlap)) * self._tick_s
                # How the power of the samples around the edge is spread inside their intervals is not known.
                around = power[(np.abs(centres - first) <= around_edge) & good]
                swing = max(swing, float(around.max() - around.min()) if len(around) else 0.0)
        return joules, K * swing * self._interval * self._tick_s / math.sqrt(12.0), covered

    def between(self, first_tick: float, last_tick: float) -> Energy:
        """Return the energy of ``[first_tick, last_tick)``. Across a restart it comes from the samples, if there are any."""
        n = len(self.boundary)
        if last_tick <= first_tick:
            return Energy(0.0, 0.0, 0.0, 0.0)
        i = int(np.searchsorted(self.boundary, first_tick, side="left"))
        j = int(np.searchsorted(self.boundary, last_tick, side="right")) - 1
        if i >= n or j <= i:
            joules, u, covered = self._samples(first_tick, last_tick)
            _, u_last, _ = self._samples(last_tick, last_tick + self._interval)
            return Energy(joules, math.hypot(u, u_last), 0.0, covered)
        units = counted = 0
        parts = [self._samples(first_tick, float(self.boundary[i]))]
        begin = i
        for k in [*self._breaks[(self._breaks >= i) & (self._breaks < j)].tolist(), j]:
            units, counted = units + self.exact_units(begin, k), counted + int(self._index[k] - self._index[begin])
            if k < j:
                parts.append(self._samples(float(self.boundary[k]), float(self.boundary[k + 1])))
            begin = k + 1
        # The tail is measured back from the next boundary where there is one, so that only its own edge is uncertain.
        parts.append(self._samples_to(float(self.boundary[j]), last_tick))
        exact = units * self._unit_joules()
        seconds = counted * self._period * self._tick_s + sum(part[2] for part in parts)
        return Energy(exact + sum(part[0] for part in parts), math.hypot(*(part[1] for part in parts)), exact, seconds)

    def moved(self, edge: float, most_ticks: float, above_w: float) -> tuple[float, float]:
        """Return in J how much the energy up to ``edge`` may change if the edge moves by up to ``most_ticks`` to either side.

        The second value is the same for the energy above a power of ``above_w``. Time without a record counts as the largest sample around.
        """
        half, step = self._interval / 2, max(1, round(_PIECE * self._interval))
        largest, sides = 0.0, []
        for low, high in ((edge - most_ticks, edge), (edge, edge + most_ticks)):
            joules = above_j = seconds = 0.0
            end = math.ceil(high + half) + 1
            for begin in range(math.floor(low - half), end, step):
                tick, power = self._read(begin, min(begin + step, end))
                centres = tick + np.arange(len(power)) * self._interval
                overlap = np.clip(np.minimum(centres + half, high) - np.maximum(centres - half, low), 0, None) * self._tick_s
                good = ~np.isnan(power)
                watts, held = power[good], overlap[good]
                joules += float(np.abs(watts) @ held)
                above_j += float(np.abs(watts - above_w) @ held)
                seconds += float(held.sum())
                largest = max(largest, float(np.abs(watts).max()) if len(watts) else 0.0)
            sides.append((joules, above_j, max(0.0, most_ticks * self._tick_s - seconds)))
        return max(j + missing_s * largest for j, _, missing_s in sides), max(j + missing_s * largest for _, j, missing_s in sides)

    def _samples_to(self, boundary: float, last: float) -> tuple[float, float, float]:
        joules, _, covered = self._samples(boundary, last)
        if last <= boundary:
            return joules, 0.0, covered
        _, u, _ = self._samples(last, last + self._interval)
        return joules, u, covered
