"""The drive's supply beside its commands: voltage and current as a test bench or a model gives them."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator


class SupplyRail:
    """Voltage and current of a supply. Both are constant from one change to the next.

    Energy is exact between the changes. Nothing is known before the first change.
    """

    def __init__(self) -> None:
        """Begin without a value."""
        self._times_ps: list[int] = []
        self._levels: list[tuple[float, float]] = []
        self._sums_j: list[float] = []
        """Energy from the first change to each."""

    def __len__(self) -> int:
        """Return the number of changes."""
        return len(self._times_ps)

    def set(self, time_ps: int, volts: float, amps: float) -> None:
        """Give voltage and current from ``time_ps`` on.

        Raises:
            ValueError: The time is earlier than the last change, or a value is no finite number.
        """
        if not (math.isfinite(volts) and math.isfinite(amps)):
            raise ValueError(f"the rail at {time_ps} ps has {volts} V and {amps} A: both must be finite")
        joules = 0.0
        if self._times_ps:
            if time_ps < self._times_ps[-1]:
                raise ValueError(f"the rail at {time_ps} ps is earlier than its last change at {self._times_ps[-1]} ps")
            joules = self._until_j(time_ps)
            if time_ps == self._times_ps[-1]:
                del self._times_ps[-1], self._levels[-1], self._sums_j[-1]
        self._times_ps.append(time_ps)
        self._levels.append((volts, amps))
        self._sums_j.append(joules)

    def energy_j(self, start_ps: int, stop_ps: int) -> float | None:
        """Return the energy between two instants in J; None where the rail is unknown at the first, or the second is earlier."""
        if not self._times_ps or start_ps < self._times_ps[0] or stop_ps < start_ps:
            return None
        return self._energy_j(start_ps, stop_ps)

    def mean_w(self, start_ps: int, stop_ps: int) -> float | None:
        """Return the mean power between two instants in W; None where :meth:`energy_j` is, and for no time at all."""
        joules = self.energy_j(start_ps, stop_ps)
        return None if joules is None or stop_ps == start_ps else joules / ((stop_ps - start_ps) * 1e-12)

    def changes(self) -> Iterator[tuple[int, float, float]]:
        """Yield ``(time_ps, volts, amps)`` of every change."""
        for time_ps, (volts, amps) in zip(self._times_ps, self._levels, strict=True):
            yield time_ps, volts, amps

    def samples(self, interval_ps: int, stop_ps: int) -> Iterator[tuple[float, float]]:
        """Yield volts and amps over each whole interval from the first change to ``stop_ps``.

        The voltage is the mean of the interval. The product of both is the mean power, so sums of samples are exact energies. Where the
        mean voltage is 0, the current is the mean current.

        Raises:
            ValueError: ``interval_ps`` is not above 0.
        """
        if interval_ps <= 0:
            raise ValueError(f"interval_ps is {interval_ps}; it must be above 0")
        if not self._times_ps:
            return
        start_ps = self._times_ps[0]
        while start_ps + interval_ps <= stop_ps:
            end_ps = start_ps + interval_ps
            volts = amps = 0.0
            first, last = bisect_right(self._times_ps, start_ps) - 1, bisect_left(self._times_ps, end_ps)
            for at in range(first, last):
                begin_ps = max(start_ps, self._times_ps[at])
                until_ps = end_ps if at + 1 == len(self._times_ps) else min(end_ps, self._times_ps[at + 1])
                share = (until_ps - begin_ps) / interval_ps
                volts += share * self._levels[at][0]
                amps += share * self._levels[at][1]
            if volts:
                amps = self._energy_j(start_ps, end_ps) / (interval_ps * 1e-12) / volts
            yield volts, amps
            start_ps = end_ps

    def _energy_j(self, start_ps: int, stop_ps: int) -> float:
        return self._until_j(stop_ps) - self._until_j(start_ps)

    def _until_j(self, time_ps: int) -> float:
        """Return the energy from the first change to an instant that is not before it, in J."""
        at = bisect_right(self._times_ps, time_ps) - 1
        volts, amps = self._levels[at]
        return self._sums_j[at] + volts * amps * (time_ps - self._times_ps[at]) * 1e-12
