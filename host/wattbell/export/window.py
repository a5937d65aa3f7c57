"""A time window of a capture: seconds from its first tick, as on the report's time axis."""

from __future__ import annotations

from dataclasses import dataclass

from wattbell.analysis.context import Context
from wattbell.errors import UsageError


@dataclass(frozen=True)
class Window:
    """Ticks ``[first_tick, last_tick)``; ``zero_tick`` is time 0."""

    first_tick: int
    last_tick: int
    zero_tick: int
    tick_s: float

    @property
    def seconds(self) -> float:
        return (self.last_tick - self.first_tick) * self.tick_s


def resolve(context: Context, start_s: float | None, stop_s: float | None) -> Window:
    """The window from ``start_s`` to ``stop_s`` (None: the capture's own end), clipped to the capture.

    Raises UsageError where it does not overlap the capture.
    """
    zero, end = context.first_tick, context.last_tick
    first = zero if start_s is None else max(zero, zero + round(start_s / context.tick_s))
    last = end if stop_s is None else min(end, zero + round(stop_s / context.tick_s))
    if last <= first:
        length = (end - zero) * context.tick_s
        raise UsageError(
            f"Nothing lies between {start_s or 0:g} s and {length if stop_s is None else stop_s:g} s: "
            f"the capture is {length:.6g} s long, counted from its first tick."
        )
    return Window(first, last, zero, context.tick_s)
