"""The inputs for a rig's calibration, and their uncertainty."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["COARSE_FROM_A", "FINE_UP_TO_A", "Applied", "CalibrationPlan", "SourceUncertainty"]

FINE_UP_TO_A, COARSE_FROM_A = 0.075, 0.105
"""Rigs with two current paths: points up to the first current belong to the fine path, from the second on to the coarse one. In between the
rig blends them (82 to 98 mA, by the reading of its coarse path, which need not be right yet)."""


@dataclass(frozen=True)
class Applied:
    """A known input at the connector, in V and A."""

    voltage: float
    current: float


@dataclass(frozen=True)
class SourceUncertainty:
    """Standard uncertainties (k = 1) of the applied values: relative gains of both, and the current's zero in A."""

    voltage_gain: float = 1e-5
    current_gain: float = 3.33e-5
    current_offset: float = 3.3e-7


@dataclass(frozen=True)
class CalibrationPlan:
    """Points (none: the rig's standard ones) and when to read them.

    dwell_s: the source steps by itself, one point each ``dwell_s`` from the start of the capture. None: a person at the bench is asked for
        each.
    """

    points: list[Applied]
    seconds: float = 1.0
    settle_s: float = 0.01
    dwell_s: float | None = None
    source: SourceUncertainty = field(default_factory=SourceUncertainty)
    zero: bool = False
    """Afterwards the rig shorts its current inputs and measures their zero again (CALibration:ZERO)."""
