"""The uncertainty that remains after a calibration."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .line import CalibrationLine

__all__ = ["Residual", "residual"]

COVERAGE = 2.0


@dataclass(frozen=True)
class Residual:
    """Expanded uncertainty (k = 2) of a calibrated channel, as in ``rig.error_model`` of a capture: ``gain`` relative, ``offset`` in V or
    A. It covers the calibration alone; later drift is the hardware's (docs/accuracy.md)."""

    gain: float
    offset: float

    def at(self, value: float) -> float:
        """Expanded uncertainty at a value, in V or A."""
        return math.hypot(self.gain * value, self.offset)


def residual(line: CalibrationLine, source_gain: float, source_offset: float, unit: float) -> Residual:
    """Return the residual uncertainty of a line. Terms add in squares; the rounding error is uniformly distributed.

    source_gain: relative standard uncertainty of the applied values
    source_offset: standard uncertainty in V or A. It counts only if the line's offset comes from the points (pass 0 after an autozero)
    unit: the wire's: a value is rounded to it
    """
    gain = COVERAGE * math.hypot(line.scale_sigma, source_gain)
    rounding = unit / math.sqrt(12)
    offset = COVERAGE * math.sqrt((line.offset_sigma * line.scale) ** 2 + source_offset**2 + rounding**2)
    return Residual(gain, offset)
