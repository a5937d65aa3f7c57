"""Decide whether a drive is at rest, by the power of its rail during the recording.

After Format and a fill a drive goes on erasing and moving data for seconds to minutes, and its power is not yet its idle power.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..capture.source import RailSource
from ..suites.step import Rest

BIN_S = 1.0
FLOOR_W = 2e-3
"""Means of a bin that differ by this little are one level, however low it is."""
_COVERED = 0.5
"""Least share of a bin that must be received for the bin to count."""


@dataclass(frozen=True)
class Seen:
    """An observation of the rail.

    after_s: time since the watch began
    mean_w: mean over the last whole window; None if a part is missing
    range_w: range of the window's seconds; None likewise
    """

    settled: bool
    after_s: float
    window_s: float
    mean_w: float | None
    range_w: float | None


class RailWatch:
    """Power of the rail by second since :meth:`begin`. The recorder's thread adds to it, another one looks."""

    def __init__(self, tick_s: float) -> None:
        self._tick_s = tick_s
        self._lock = threading.Lock()
        self._bins: dict[int, tuple[float, float]] = {}
        self._began: int | None = None
        self._last = 0

    def begin(self, tick: int) -> None:
        """Watch from ``tick`` on."""
        with self._lock:
            self._bins, self._began, self._last = {}, tick, tick

    def add(self, rail: RailSource) -> None:
        """The samples of some blocks; those before the beginning do not count. A block lies in the second in which it begins."""
        count = rail.count.astype(np.int64)
        if self._began is None or not count.any():
            return
        step = rail.interval_ticks.astype(np.int64)
        first = rail.first_tick
        power = np.concatenate(([0.0], np.cumsum(rail.voltage_v.astype(np.float64) * rail.current_a)))
        ends = np.cumsum(count)
        watts = (power[ends] - power[ends - count]) / np.maximum(count, 1)
        seconds = count * step * self._tick_s
        with self._lock:
            self._last = max(self._last, int((first + count * step).max()))
            places = np.floor((first - self._began) * self._tick_s / BIN_S).astype(np.int64)
            for place, watt, length in zip(places.tolist(), watts.tolist(), seconds.tolist(), strict=True):
                if place >= 0 and length > 0:
                    joules, covered = self._bins.get(place, (0.0, 0.0))
                    self._bins[place] = joules + watt * length, covered + length

    def look(self, rest: Rest, now_tick: int) -> Seen:
        """Return the observation until ``now_tick`` of the rig's clock. Only whole seconds count."""
        window = max(2, round(rest.window_s / BIN_S))
        assert self._began is not None, "begin() comes first"
        with self._lock:
            whole = int((self._last - self._began) * self._tick_s / BIN_S)
            last = [self._bins.get(place) for place in range(whole - window, whole)]
            after_s = max(now_tick - self._began, 0) * self._tick_s
        means = [joules / covered for joules, covered in filter(None, last) if covered >= _COVERED * BIN_S]
        if len(means) < window:
            return Seen(False, after_s, window * BIN_S, None, None)
        mean_w, range_w = sum(means) / window, max(means) - min(means)
        settled = range_w <= max(rest.range_share * mean_w, FLOOR_W)
        return Seen(settled, after_s, window * BIN_S, mean_w, range_w)


def wait(look: Callable[[], Seen], longest_s: float, pause: Callable[[], None]) -> Seen:
    """Wait until the rail is at rest, or ``longest_s`` of the rig's clock are over."""
    while not (seen := look()).settled and seen.after_s < longest_s:
        pause()
    return seen


__all__ = ["RailWatch", "Seen", "wait"]
