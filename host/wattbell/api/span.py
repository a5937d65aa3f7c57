"""A part of a capture: seconds from its begin, or a phase."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import UsageError
from ..measure.phases import Phase


@dataclass(frozen=True)
class Bounds:
    """``[first_tick, last_tick)`` of everything recorded, and the length of a tick."""

    first_tick: int
    last_tick: int
    tick_s: float

    def seconds(self, tick: int) -> float:
        """Seconds from the begin to a tick."""
        return (tick - self.first_tick) * self.tick_s

    @property
    def duration_s(self) -> float:
        """Length of the capture."""
        return self.seconds(self.last_tick)

    def tick(self, t_s: float) -> int:
        """The tick nearest to ``t_s`` seconds from the begin."""
        return self.first_tick + round(t_s / self.tick_s)


def window(bounds: Bounds, phases: Sequence[Phase], t0: float | None, t1: float | None, phase: str | int | None) -> tuple[int, int]:
    """``[first, last)`` in ticks. Raises UsageError if that is not a part of the capture."""
    if phase is not None:
        if t0 is not None or t1 is not None:
            raise UsageError("Give either t0 and t1 or a phase, not both.")
        found = _phase(phases, phase)
        return found.first_tick, found.last_tick
    for name, value in (("t0", t0), ("t1", t1)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value)):
            raise UsageError(f"{name} is {value!r}: give seconds from the capture's begin, or phase=NAME.")
    first = bounds.first_tick if t0 is None else bounds.tick(t0)
    last = bounds.last_tick if t1 is None else bounds.tick(t1)
    if last < first or last < bounds.first_tick or first > bounds.last_tick:
        raise UsageError(f"There is nothing from {t0} s to {t1} s: the capture lasts from 0 to {bounds.duration_s:g} s.")
    return max(first, bounds.first_tick), min(last, bounds.last_tick)


def _phase(phases: Sequence[Phase], wanted: str | int) -> Phase:
    found = [p for p in phases if (p.number == wanted if isinstance(wanted, int) else p.name == wanted)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{len(found)} phases are called {wanted!r}: give t0 and t1 of the one you mean (`phases` has them).")
    names = ", ".join(f"{p.number} {p.name!r}" for p in phases) or "none"
    raise UsageError(f"The capture has no phase {wanted!r}. Its phases: {names}.")
