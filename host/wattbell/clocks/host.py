"""Rig ticks, the host's clock and the time of day."""

from __future__ import annotations

import ctypes
import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime

_MORE_NS = 50_000_000
"""Between reading one clock and the other a busy computer may do something else."""


def now_ns() -> int:
    """UTC in nanoseconds since 1970."""
    return time.time_ns()


def host_ns() -> int:
    """CLOCK_MONOTONIC_RAW in ns: runs at the rate of the host's oscillator, whatever NTP does.

    It stands still while the host is suspended.
    """
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)


def asleep_ns() -> int:
    """Time in ns for which the host has been suspended since it was started: CLOCK_MONOTONIC stands still then, CLOCK_BOOTTIME does not."""
    return min(time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.clock_gettime_ns(time.CLOCK_MONOTONIC) for _ in range(3))


_TIMEX_BYTES = 512
"""More than a ``struct timex`` has on any machine (uapi/linux/timex.h)."""
_LEAPS = (1, 2, 3, 4)
"""TIME_INS, TIME_DEL, TIME_OOP, TIME_WAIT."""


def near_leap_second() -> bool:
    """Whether the kernel is to insert or delete a leap second today, is at it, or has just done it. A clock that a time server smears shows
    nothing of that."""
    adjtimex = getattr(ctypes.CDLL(None), "adjtimex", None)
    return adjtimex is not None and adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES)) in _LEAPS


class Wakefulness:
    """Whether the host was suspended since this was made."""

    def __init__(self) -> None:
        self._before_ns = asleep_ns()

    @property
    def slept_s(self) -> float:
        """Return the time of suspension in s; 0 without one."""
        more = asleep_ns() - self._before_ns
        return more * 1e-9 if more > _MORE_NS else 0.0


def iso(utc_ns: int) -> str:
    """ISO 8601 with microseconds, UTC."""
    return datetime.fromtimestamp(utc_ns / 1e9, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


_LEAP = re.compile(r"(?<=:59:)60(?=\D|$)")
"""A leap second, which the time of POSIX does not have: there it is the first second of the next minute."""


def instant_s(text: str) -> float | None:
    """Seconds since 1970, UTC, of a time in ISO 8601; None if it is none. A time without an offset is taken for UTC."""
    leaps = bool(_LEAP.search(text))
    try:
        found = datetime.fromisoformat(_LEAP.sub("59", text))
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() + leaps
    except (ValueError, OverflowError):
        return None


def in_utc(text: str) -> str:
    """Return a time in ISO 8601 for a reader, to the second: ``2026-10-25 00:30:00Z``.

    A time without an offset is marked; text that is no time stays unchanged.
    """
    seconds = instant_s(text)
    if seconds is None:
        return text
    if _LEAP.search(text) and text.endswith(("Z", "+00:00")):
        return f"{text[:19].replace('T', ' ')}Z"
    found = datetime.fromisoformat(_LEAP.sub("59", text))
    shown = datetime.fromtimestamp(seconds // 1, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return f"{shown}Z" if found.tzinfo else f"{shown} (no time zone)"


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
        """Return the form in ``meta.json``."""
        return {"tick": self.tick, "utc_ns": self.utc_ns, "utc": iso(self.utc_ns)}
