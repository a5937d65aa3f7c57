"""Hold the counter of a real rig to the host's clock during one run."""

from __future__ import annotations

_LATE_NS = 5_000_000_000
"""Largest delay in ns of a block between rig and decoder, on a busy host."""
_WINDOW_NS = 3_000_000_000
"""Time in ns within which at least one block of a healthy rig arrives without delay."""
_DRIFT = 1000
"""The two clocks may drift apart by one part in this many; crystals stay within 1e-4."""

FAST = "the rig's clock ran ahead of the host's: its times are wrong"
SLOW = "the rig's clock fell behind the host's, or its data came later and later: its times are in doubt"


class ClockWatch:
    """Compares arrivals of a run's blocks with the rig's ticks.

    A block cannot arrive before its time, so each early block shows a fast counter. A single late block shows nothing: the host may
    have been busy, or the line full. A counter is slow if every block of a window is late, and the last one later than the first.
    Blocks that had waited come less and less late.
    """

    def __init__(self) -> None:
        self._first: tuple[int, int] | None = None
        """Lag and arrival of the first block, in ns."""
        self._least_ns = 0
        """Smallest lag of the run so far."""
        self._window: tuple[int, int, int] | None = None
        """Begin of the present window, its first lag and its smallest lag, in ns."""
        self.fast = False
        self.slow = False

    def add(self, lag_ns: int, arrival_ns: int) -> None:
        """Take a block that arrived at `arrival_ns`, `lag_ns` behind the rig's own time (both with unknown but fixed origins)."""
        if self._first is None:
            self._first, self._least_ns = (lag_ns, arrival_ns), lag_ns
        first_ns, since_ns = self._first
        allowed_ns = _LATE_NS + (arrival_ns - since_ns) // _DRIFT
        self.fast = self.fast or first_ns - lag_ns > allowed_ns
        self._least_ns = min(self._least_ns, lag_ns)
        begin_ns, early_ns, least_ns = self._window or (arrival_ns, lag_ns, lag_ns)
        least_ns = min(least_ns, lag_ns)
        if arrival_ns - begin_ns >= _WINDOW_NS:
            self.slow = self.slow or (least_ns - self._least_ns > allowed_ns and lag_ns > early_ns)
            self._window = None
        else:
            self._window = begin_ns, early_ns, least_ns
