"""Whether the host computer slept: CLOCK_MONOTONIC stands still then, CLOCK_BOOTTIME does not."""

from __future__ import annotations

import time

from ..errors import DriveError

_MORE_NS = 50_000_000
"""Between reading one clock and the other a busy computer may do something else."""


class Awake:
    """Watches from its making on."""

    def __init__(self) -> None:
        self._asleep_ns = _asleep_ns()

    @property
    def slept_s(self) -> float:
        """For how long it slept since."""
        more = _asleep_ns() - self._asleep_ns
        return more * 1e-9 if more > _MORE_NS else 0.0

    def check(self) -> None:
        """DriveError when it slept: then the drive did, too, and no clock of the host is as long as a meter's."""
        slept_s = self.slept_s
        if slept_s:
            raise DriveError(
                f"The computer was suspended for {slept_s:.1f} s while it measured, and with it the drive. What was recorded is kept; "
                "keep it awake (systemd-inhibit wattbell ...) and run it again."
            )


def _asleep_ns() -> int:
    return min(time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.clock_gettime_ns(time.CLOCK_MONOTONIC) for _ in range(3))


__all__ = ["Awake"]
