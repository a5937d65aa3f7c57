"""Straight lines through calibration points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...errors import CalibrationError

__all__ = ["CalibrationLine", "CalibrationPoint", "autozero", "fit"]

CHI_SQUARE_LIMIT = 5.0
"""Number of standard deviations (of the points' own noise) a point may lie off the line through three or more."""


@dataclass(frozen=True)
class CalibrationPoint:
    """A known input and the converter's reading.

    ``applied`` in V or A; ``code`` the mean of the conversions; ``code_sigma`` the standard deviation of that mean; ``clipped``
    whether any conversion was at an end of the scale.
    """

    applied: float
    code: float
    code_sigma: float
    clipped: bool = False


@dataclass(frozen=True)
class CalibrationLine:
    """``value = (code - offset) * scale``, in V or A, with the standard deviations due to the points' noise.

    offset_sigma: in codes, of the offset as used
    pivot: code of the offset if :func:`autozero` measured it; offset and scale are then independent. Else the offset comes from the points,
        and is known best at this code.
    """

    offset: float
    scale: float
    pivot: float
    pivot_sigma: float
    scale_sigma: float
    """Relative."""
    offset_sigma: float

    def value(self, code: float) -> float:
        """Value of a code."""
        return (code - self.offset) * self.scale

    def code(self, value: float) -> float:
        """Code of a value."""
        return value / self.scale + self.offset

    def noise_sigma(self, value: float) -> float:
        """Standard deviation of :meth:`value` due to the points' noise, in V or A."""
        return math.hypot(self.pivot_sigma, (self.code(value) - self.pivot) * self.scale_sigma) * abs(self.scale)


def fit(points: Sequence[CalibrationPoint]) -> CalibrationLine:
    """Fit the line through two or more points, each weighted by its noise: least squares of code over applied.

    Raises CalibrationError in these cases:

    - there are fewer than two different inputs
    - a point is clipped or has no noise figure
    - the scale is not positive
    - a point lies further off the line than its noise explains (with three or more: the path is not straight)
    """
    if len({point.applied for point in points}) < 2:
        raise CalibrationError("Calibration needs at least two different inputs.")
    for point in points:
        if point.clipped:
            raise CalibrationError(f"At {point.applied:g} the converter is at the end of its scale. Apply less.")
        if not point.code_sigma > 0:
            raise CalibrationError(f"At {point.applied:g} the noise of the mean is not known: {point.code_sigma!r}.")
    weights = [point.code_sigma**-2 for point in points]
    total = math.fsum(weights)
    mean_applied = math.fsum(w * p.applied for w, p in zip(weights, points)) / total
    mean_code = math.fsum(w * p.code for w, p in zip(weights, points)) / total
    spread = math.fsum(w * (p.applied - mean_applied) ** 2 for w, p in zip(weights, points))
    slope = math.fsum(w * (p.applied - mean_applied) * (p.code - mean_code) for w, p in zip(weights, points)) / spread
    if not slope > 0:
        raise CalibrationError("The codes do not rise with the input: are the leads the right way round, and the source on?")
    for point in points:
        away = point.code - mean_code - slope * (point.applied - mean_applied)
        if len(points) > 2 and abs(away) > CHI_SQUARE_LIMIT * point.code_sigma:
            raise CalibrationError(
                f"The point at {point.applied:g} is {away:.3g} codes off the fitted line; its noise is {point.code_sigma:.3g}."
            )
    slope_sigma = spread**-0.5
    offset = mean_code - slope * mean_applied
    return CalibrationLine(
        offset=offset,
        scale=1 / slope,
        pivot=mean_code,
        pivot_sigma=total**-0.5,
        scale_sigma=slope_sigma / slope,
        offset_sigma=math.hypot(total**-0.5, mean_applied * slope_sigma),
    )


def autozero(line: CalibrationLine, code: float, code_sigma: float) -> CalibrationLine:
    """The line with a newly measured offset: ``code`` is the mean at zero input (autozero switch closed). The scale stays."""
    return replace(line, offset=code, pivot=code, pivot_sigma=code_sigma, offset_sigma=code_sigma)
