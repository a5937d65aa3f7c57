"""The composite temperatures that a drive declares in Identify Controller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..measure.figure import Figure, absent
from .measurands import Observation
from .model import Requirement

TEMPERATURES = ("warning-temperature", "critical-temperature")
"""Measurands that are declared temperatures."""


def declared_temperature(drive: Mapping[str, Any], wanted: Requirement) -> list[Observation]:
    """Return a declared temperature in C, from ``drive`` of a capture or a run. The field has whole kelvins, so it is exact."""
    if not drive.get("power_states"):
        return [Observation("", absent("nobody saw Identify", "C"))]
    value = drive.get(wanted.measurand.replace("-", "_") + "_c")
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return [Observation("", absent("the drive declares none: the field is 0", "C"))]
    return [Observation("", Figure(float(value), 0.0, "C"))]
