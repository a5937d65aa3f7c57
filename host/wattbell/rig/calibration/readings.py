"""Mean and noise of the rail over given intervals of a rig's stream."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from wattbell_spec.wire import RailFlag

from ...wire.decode import StreamDecoder
from ...wire.records import RailRecords
from .listen import batches

__all__ = ["IntervalReading", "Mean", "Stretches"]


@dataclass
class Mean:
    """Running mean and sum of squared deviations (Chan, Golub, LeVeque 1983), in wire units."""

    count: int = 0
    mean: float = 0.0
    square: float = 0.0

    def add(self, values: np.ndarray[tuple[int], np.dtype[np.int32]]) -> None:
        """Add values."""
        n = len(values)
        if not n:
            return
        mean = float(values.mean())
        square = float(((values - mean) ** 2).sum())
        whole = self.count + n
        self.square += square + (mean - self.mean) ** 2 * self.count * n / whole
        self.mean += (mean - self.mean) * n / whole
        self.count = whole

    @property
    def sigma(self) -> float:
        """Standard deviation of the mean.

        The rounding to whole units is not averaged away. If a unit is about a code, noise of a code or two does not dither the rounding.
        """
        if self.count < 2:
            return math.inf
        return math.sqrt(self.square / (self.count - 1) / self.count + 1 / 12)


@dataclass
class IntervalReading:
    """Both channels in one interval, and all flags of the RAIL blocks in it."""

    voltage: Mean
    current: Mean
    flags: int = 0


class Stretches:
    """Accumulates the stream over intervals: ``(from, to)`` in seconds since the first sample."""

    def __init__(self, stretches: list[tuple[float, float]], tick_s: float = 1e-9) -> None:
        self.readings = [IntervalReading(Mean(), Mean()) for _ in stretches]
        self._stretches = stretches
        self._tick_s = tick_s
        self._decoder = StreamDecoder()
        self._zero: int | None = None
        self._last_s = 0.0

    @property
    def complete(self) -> bool:
        """Whether the last interval has passed."""
        return self._last_s >= max(stop for _, stop in self._stretches)

    def feed(self, data: bytes) -> None:
        """Take bytes of the stream. Raises CalibrationError when some are missing: a gap may hide a change of the input."""
        for batch in batches(self._decoder, data):
            if batch.rail is not None:
                self._take(batch.rail)

    def _take(self, rail: RailRecords) -> None:
        first = 0
        for block in range(len(rail)):
            count, interval = int(rail.columns["count"][block]), int(rail.columns["interval_ticks"][block])
            if self._zero is None:
                self._zero = int(rail.first_tick[block])
            begin_s = (int(rail.first_tick[block]) - self._zero) * self._tick_s
            times = begin_s + np.arange(count) * (interval * self._tick_s)
            for (start, stop), reading in zip(self._stretches, self.readings):
                low, high = np.searchsorted(times, [start, stop])
                if high > low:
                    reading.voltage.add(rail.voltage[first + low : first + high])
                    reading.current.add(rail.current[first + low : first + high])
                    reading.flags |= int(rail.columns["flags"][block])
            first += count
            self._last_s = begin_s + count * interval * self._tick_s


def clipped(flags: int) -> tuple[bool, bool]:
    """Whether voltage and current were at an end of their scale."""
    saturated = bool(flags & RailFlag.SATURATED)
    return saturated or bool(flags & RailFlag.OVERLOAD_V), saturated or bool(flags & RailFlag.OVERLOAD_I)
