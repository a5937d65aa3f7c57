"""What is to be applied to a rig to calibrate it, and how well that is known."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["COARSE_FROM_A", "FINE_UP_TO_A", "Applied", "Plan", "Source"]

FINE_UP_TO_A, COARSE_FROM_A = 0.075, 0.105
"""Of a rig with two current paths: up to which current a point is one of the fine path, and from which on one of the coarse one. In between
the rig mixes them (82 to 98 mA, by the level that its coarse path shows, which need not be right yet)."""


@dataclass(frozen=True)
class Applied:
    """A known input at the connector, in V and A."""

    voltage: float
    current: float


@dataclass(frozen=True)
class Source:
    """Standard uncertainties (k = 1) of what was applied: relative of both, and in A of the current's zero."""

    voltage_gain: float = 1e-5
    current_gain: float = 3.33e-5
    current_offset: float = 3.3e-7


@dataclass(frozen=True)
class Plan:
    """Points (none: the standard ones of the rig), and when they are read. With ``dwell_s`` the source goes from point to point by itself,
    one each ``dwell_s`` from the beginning of the capture; without, whoever is at the bench is asked for each."""

    points: list[Applied]
    seconds: float = 1.0
    settle_s: float = 0.01
    dwell_s: float | None = None
    source: Source = field(default_factory=Source)
    zero: bool = False
    """Afterwards the rig shorts its current inputs and measures their zero again (CALibration:ZERO)."""
