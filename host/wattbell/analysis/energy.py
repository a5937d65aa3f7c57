"""Energy from the rig's 64-bit accumulator.

Each RAIL block carries the sum of voltage x current over every conversion so far, as an integer modulo 2^64. The
difference of two of them, times the conversion period, is the energy between them with no rounding and no sample left
out: not even those whose blocks were lost on the way. Only the edges of a window, which fall between two blocks, need
samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from wattbell.analysis.figures import K
from wattbell.wire.spec import ENERGY_LSB_W

Int64 = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]

_SURE_CONVERSIONS = (1 << 63) // (2 * 10**12)
"""Steps up to this many conversions stay below half a turn at any power up to 20 W."""

ReadPower = Callable[[int, int], tuple[int, Float]]
"""(first_tick, last_tick) -> (tick of the first sample, power in W of the samples centred in the interval)."""


@dataclass(frozen=True)
class Energy:
    """Energy of a window. ``edge_u_j``: k = 2 of the two interpolated edges. ``exact_j``: the part that is a difference
    of accumulators. ``covered_s`` is shorter than the window where the rail was not recorded."""

    joules: float
    edge_u_j: float
    exact_j: float
    covered_s: float


def _lost_turns(step: Int64, conversions: Int64) -> Int64:
    """How often the accumulator turned over unseen in each step between blocks.

    One turn is 184 J at 1 MSPS, so this is 0 but after a gap of many seconds. There the mean power of the last short
    steps before it tells the number of turns: it only needs to be right within half a turn (92 J).
    """
    turns: Int64 = np.zeros(len(step), np.int64)
    short = conversions <= _SURE_CONVERSIONS
    for i in np.nonzero(~short)[0].tolist():
        known = np.nonzero(short[:i])[0]
        if len(known) == 0:
            known = np.nonzero(short[i:])[0] + i
        if len(known) == 0:
            continue
        near = known[-64:]
        mean = float(step[near].astype(np.float64).sum()) / max(1, int(conversions[near].sum()))
        turns[i] = round((mean * int(conversions[i]) - float(step[i])) / 2.0**64)
    return turns


class EnergyMeter:
    """Energy of any window of a capture.

    ``blocks``: columns ``first_tick``, ``interval_ticks``, ``count``, ``adc_index``, ``energy_raw`` (rows of
    ``rail_blocks.parquet``). ``period_ticks``: between conversions. ``delay_ticks``: from the tick of a sample to the
    last conversion that entered it (the decimation filter's group delay; 0 without decimation).
    """

    def __init__(
        self, blocks: pl.DataFrame, period_ticks: float, delay_ticks: float, tick_s: float, read_power: ReadPower
    ) -> None:
        ordered = blocks.sort("first_tick").filter(pl.col("count") > 0)
        first = ordered["first_tick"].cast(pl.Int64).to_numpy()
        interval = ordered["interval_ticks"].cast(pl.Int64).to_numpy()
        count = ordered["count"].cast(pl.Int64).to_numpy()
        index = ordered["adc_index"].cast(pl.Int64).to_numpy()
        raw = ordered["energy_raw"]
        energy = raw.cast(pl.Int64, wrap_numerical=True).to_numpy()
        self._tick_s = tick_s
        self._period = period_ticks
        self._read = read_power
        self._interval = float(interval[0]) if len(interval) else 1.0
        self._delay = delay_ticks
        # Each conversion stands for its own period, so a block's sum ends half a period after its last conversion.
        self.boundary: Float = first + (count - 1) * interval + delay_ticks + period_ticks / 2
        with np.errstate(over="ignore"):
            step = np.diff(energy)  # modulo 2^64, which is what the accumulator does
        self._index: Int64 = index
        # A restart of the rig sets the counts back; nothing exact spans that.
        self._breaks: Int64 = np.nonzero(np.diff(index) <= 0)[0]
        step[self._breaks] = 0
        # Exact running sum in two halves: 2^63 units are only 92 J at 1 MSPS.
        high = (step >> 32) + (_lost_turns(step, np.diff(index)) << 32)
        self._high: Int64 = np.concatenate(([0], np.cumsum(high)))
        self._low: Int64 = np.concatenate(([0], np.cumsum(step & 0xFFFFFFFF)))

    def __len__(self) -> int:
        return len(self.boundary)

    def exact_units(self, i: int, j: int) -> int:
        """Sum of voltage x current units between the ends of blocks ``i`` and ``j`` (an integer, any size)."""
        return (int(self._high[j] - self._high[i]) << 32) + int(self._low[j] - self._low[i])

    def _unit_joules(self) -> float:
        return ENERGY_LSB_W * self._period * self._tick_s

    def _samples(self, first: float, last: float) -> tuple[float, float, float]:
        """Energy between two near ticks from the samples (hold of one interval around each), its k = 2 at the edge
        ``first``, and the time covered in s. ``last`` is a block boundary and adds no uncertainty of its own."""
        if last <= first:
            return 0.0, 0.0, 0.0
        half = self._interval / 2
        around_edge = self._interval + self._delay
        tick, power = self._read(math.floor(first - around_edge), math.ceil(last + around_edge) + 1)
        if not len(power):
            return 0.0, 0.0, 0.0
        centres = tick + np.arange(len(power)) * self._interval
        overlap = np.clip(np.minimum(centres + half, last) - np.maximum(centres - half, first), 0, None)
        good = ~np.isnan(power)
        covered = float(overlap[good].sum()) * self._tick_s
        joules = float(np.dot(np.where(good, power, 0.0), overlap)) * self._tick_s
        # How the power of the samples around the edge is spread inside their intervals is not known.
        near = np.abs(centres - first) <= around_edge
        around = power[near & good]
        swing = float(around.max() - around.min()) if len(around) else 0.0
        return joules, K * swing * self._interval * self._tick_s / math.sqrt(12.0), covered

    def between(self, first_tick: float, last_tick: float) -> Energy:
        """Energy of ``[first_tick, last_tick)``."""
        n = len(self.boundary)
        if n == 0 or last_tick <= first_tick:
            return Energy(0.0, 0.0, 0.0, 0.0)
        i = int(np.searchsorted(self.boundary, first_tick, side="left"))
        j = int(np.searchsorted(self.boundary, last_tick, side="right")) - 1
        broken = bool(np.any((self._breaks >= i) & (self._breaks < j)))
        if i >= n or j <= i or broken:
            joules, u, covered = self._samples(first_tick, last_tick)
            return Energy(joules, u * math.sqrt(2.0), 0.0, covered)
        exact = self.exact_units(i, j) * self._unit_joules()
        head, head_u, head_s = self._samples(first_tick, float(self.boundary[i]))
        # The tail is measured back from the next boundary where there is one, so that only its own edge is uncertain.
        tail, tail_u, tail_s = self._samples_to(float(self.boundary[j]), last_tick)
        counted = int(self._index[j] - self._index[i]) * self._period * self._tick_s
        covered = counted + head_s + tail_s
        return Energy(exact + head + tail, math.hypot(head_u, tail_u), exact, covered)

    def _samples_to(self, boundary: float, last: float) -> tuple[float, float, float]:
        joules, _, covered = self._samples(boundary, last)
        if last <= boundary:
            return joules, 0.0, covered
        _, u, _ = self._samples(last, last + self._interval)
        return joules, u, covered
