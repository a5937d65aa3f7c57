"""Rig ticks, the host's clock and the time of day."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime


def now_ns() -> int:
    """UTC in nanoseconds since 1970."""
    return time.time_ns()


def host_ns() -> int:
    """CLOCK_MONOTONIC_RAW in ns: runs at the rate of the host's oscillator, no matter what NTP does; it stands still while the host is
    suspended."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)


def iso(utc_ns: int) -> str:
    """ISO 8601 with microseconds, UTC."""
    return datetime.fromtimestamp(utc_ns / 1e9, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


@dataclass(frozen=True)
class Anchor:
    """Time of day of one tick, as the host saw it when the block arrived (so late by the transport latency)."""

    tick: int
    utc_ns: int
    tick_ps: int = 1000

    def utc_ns_of(self, tick: int) -> int:
        """UTC of `tick` in nanoseconds, at the rig's nominal clock."""
        return self.utc_ns + (tick - self.tick) * self.tick_ps // 1000

    def to_json(self) -> dict[str, int | str]:
        """Its form in ``meta.json``."""
        return {"tick": self.tick, "utc_ns": self.utc_ns, "utc": iso(self.utc_ns)}
