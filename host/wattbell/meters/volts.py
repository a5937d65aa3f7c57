"""The voltage of the rail as the user states it, for a meter that measures only current."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from ..errors import UsageError

TOLERANCE = 0.05
"""Relative uncertainty of the 3.3 V of an M.2 slot if the user states none. Source: PCI Express M.2 Specification, table of power ratings.
"""


def _volts(text: str) -> float:
    value = float(text)
    if not 0.1 <= value <= 60:
        raise ValueError
    return value


def _u(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 10:
        raise ValueError
    return value


VOLTS: dict[str, Callable[[str], object]] = {"volts": _volts, "volts_u": _u}
"""Options of such a meter."""


def gain_with(gain: float, given: Mapping[str, object]) -> tuple[float, float, str]:
    """(voltage in V, gain of the power with the voltage's share in it, how that was stated in words) of options read by :data:`VOLTS`.
    Raises UsageError when no voltage is given."""
    value, u = given.get("volts"), given.get("volts_u")
    if not isinstance(value, float):
        raise UsageError("it measures no voltage: state that of the rail, as volts=3.3 or volts=3.3,volts_u=0.02 (with its uncertainty).")
    stated = isinstance(u, float)
    limit = float(u) if isinstance(u, float) else TOLERANCE * value
    told = f"{value:g} V stated, +-{limit:.3g} V" + ("" if stated else " (a slot's tolerance; volts_u= says it better)")
    return value, math.hypot(gain, limit / value), told
