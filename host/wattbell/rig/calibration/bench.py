"""A person at a bench: the points of a guided calibration, and which readings of a reference meter are plausible."""

from __future__ import annotations

import re

from .plan import COARSE_FROM_A, FINE_UP_TO_A, Applied

__all__ = ["LIMIT", "parse_reading", "standard_points", "why_not"]

LIMIT = Applied(5.0, 4.0)
"""Full scale of the M.2 board, which must not be applied."""
_FROM_TARGET = 0.1
"""Largest relative deviation of a reading from the step's target, so that the points stay apart."""
_FROM_RIG = 0.05
"""Largest relative deviation of a reading from the rig's own; no board's gain is that far off, calibrated or not."""
_FLOOR = Applied(0.02, 5e-3)
"""Deviation allowed at any level, in V and A: zero offsets of meters, and of an uncalibrated rig."""
_PREFIXES = {"n": 1e-9, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3}
_READING = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([nuµμmk]?)\s*([VA]?)")


def standard_points(fine: bool) -> list[Applied]:
    """Return points near both ends of the current's scales and of the voltage range, in an order in which the current only rises.

    The M.2 board passes 2.7 to 4.2 V, since its load switch takes its bias from the same rail.
    """
    currents = [(2.7, 0.0), (3.3, 0.07), (3.3, 0.25), (4.2, 3.5)] if fine else [(2.7, 0.0), (3.3, 1.0), (4.2, 3.5)]
    return [Applied(*point) for point in currents]


def parse_reading(text: str, unit: str) -> float:
    """Parse ``90.003 mA``, ``0.09`` or ``9E-2 A`` as a number of ``unit`` (V or A). Raises ValueError, with the reason, for anything
    else."""
    found = _READING.fullmatch(text.strip())
    if not found:
        raise ValueError(f"{text.strip()!r} is not a reading such as 90.003 m{unit} or 0.090003 ({unit} is optional)")
    number, prefix, given = found.groups()
    if given and given != unit:
        raise ValueError(f"{text.strip()!r} is in {given}; expected {unit}")
    return float(number) * _PREFIXES[prefix]


def why_not(reading: float, target: float, seen: float, unit: str, fine: bool) -> str | None:
    """Return why a reading cannot be the applied value, or None.

    target: the step's target
    seen: measurement of the (possibly uncalibrated) rig
    unit: of all three, V or A
    fine: the rig has two current paths
    """
    limit, floor = (LIMIT.voltage, _FLOOR.voltage) if unit == "V" else (LIMIT.current, _FLOOR.current)
    if abs(reading) > limit:
        return f"{reading:g} {unit} is beyond the rig's scale of {limit:g} {unit}"
    if unit == "A" and fine and FINE_UP_TO_A < abs(reading) < COARSE_FROM_A:
        return f"{reading:g} A is where the rig's two current paths meet: apply at most 75 mA, or 105 mA or more"
    if abs(reading - target) > _FROM_TARGET * abs(target) + floor:
        return f"{reading:g} {unit} is not the {target:g} {unit} of this step"
    if abs(reading - seen) > _FROM_RIG * abs(reading) + floor:
        return f"the rig itself sees {seen:.4g} {unit}: look at the meter's range, its leads, and the prefix"
    return None
