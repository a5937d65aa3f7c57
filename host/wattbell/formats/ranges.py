"""Measuring ranges of instruments: a sample beyond the range is no measurement, and becomes a gap with a count.

Only this file has the limits; readers of files and live meters take them from here. Beyond a limit, a sample is not believable. The limit
is not the end of a guaranteed range: a reading a little above full scale is still a reading.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..errors import CaptureError

F64 = npt.NDArray[np.float64]
Values = npt.NDArray[np.floating]
_ROUNDING = 1e-6
"""A limit in float32 is off by less than this."""
_BACKWARDS_W = -0.01
"""A mean power below this means a current measured the wrong way round: it exceeds the offset at a sleeping drive."""
_MOSTLY = 0.5
"""Share of impossible samples above which the file is misunderstood."""

SCPI_NONE = 9.9e37
"""SCPI-99, 7.2.1.4: +-9.9E37 means infinity and 9.91E37 means no value. Instruments write them to files, too."""
NO_NUMBER = frozenset(
    {
        *("", "-", "--", "---", "----", "nan", "-nan", "+nan", "null", "none", "n/a", "#n/a", "na", "nil", "invalid", "error", "err"),
        *("ol", "+ol", "-ol", "0l", "o.l", "o.l.", ".ol", "ovld", "ovl", "ovrld", "over", "over range", "overrange", "overload"),
        *("overflow", "ovrflw", "ovf", "oflow", "under", "underflow", "undrflw", "clip", "clipped", "clipping", "unf", "*", "****", "?"),
        *("inf", "+inf", "-inf", "infinity", "+infinity", "-infinity", "∞", "-∞", "1.#inf", "-1.#inf", "1.#qnan", "-1.#ind"),
        *("1.#ind", "#num!", "#div/0!", "#value!", "--.--", "-.---", "-----"),
    }
)
"""Words, in small letters, for a reading that was not taken or was beyond the range."""


def without_sentinels(values: F64) -> F64:
    """Float values with NaN where SCPI's numbers for infinity and for none stand, or an infinity. Before any unit is applied."""
    with np.errstate(invalid="ignore"):
        wrong = ~(np.abs(values) < SCPI_NONE * (1 - _ROUNDING))
    return np.where(wrong, np.nan, values)


@dataclass
class LeftOut:
    """Numbers of samples that were no measurements, in one pass over a source.

    range_: of the instrument
    taken: samples that came
    without: samples without a number
    outside: samples beyond the range
    worst: the farthest of these, in words
    power_sum_w: sum of the power of the others, in W
    """

    range_: MeasuringRange
    taken: int = 0
    without: int = 0
    outside: int = 0
    worst: str = ""
    power_sum_w: float = 0.0
    _farthest: float = 0.0

    def clear(self) -> None:
        """Begin another pass."""
        self.taken = self.without = self.outside = 0
        self.worst, self._farthest, self.power_sum_w = "", 0.0, 0.0

    def add(self, voltage: Values, current: Values, *, stated_volts: bool = False) -> npt.NDArray[np.bool_]:
        """Count samples of V and A; returns which are measurements. ``stated_volts``: the voltage is the user's, and is not judged."""
        there = np.isfinite(voltage) & np.isfinite(current)
        inside = there.copy()
        for values, limits, unit in ((current, self.range_.amperes, "A"), (voltage, self.range_.volts, "V")):
            if unit == "V" and stated_volts:
                continue
            low, high = (limit + _ROUNDING * abs(limit) * (1 if limit > 0 else -1) for limit in limits)
            with np.errstate(invalid="ignore"):
                beyond = there & ~((values >= low) & (values <= high))
            if beyond.any():
                inside &= ~beyond
                self._note(values[beyond], limits, unit)
        self.power_sum_w += float(np.dot(*(values[inside].astype(np.float64) for values in (voltage, current))))
        self.taken += len(there)
        self.without += int(len(there) - there.sum())
        self.outside += int(there.sum() - inside.sum())
        return inside

    def _note(self, values: Values, limits: tuple[float, float], unit: str) -> None:
        widest = max(abs(limit) for limit in limits)
        at = int(np.argmax(np.abs(values)))
        if abs(float(values[at])) / widest > self._farthest:
            self._farthest = abs(float(values[at])) / widest
            self.worst = f"{float(values[at]):.4g} {unit}"

    def notes(self) -> list[str]:
        """Sentences for the notes of a capture; none where all were measurements."""
        found = []
        if self.without:
            one = self.without == 1
            found.append(
                f"{self.without} sample{'' if one else 's'} had no number (empty, NaN, infinite, overload or SCPI's 9.9E37): "
                f"{'it is' if one else 'they are'} missing"
            )
        if self.outside:
            are = "it is" if self.outside == 1 else "they are"
            found.append(f"{self.outside} sample{'s' * (self.outside > 1)} ({self.worst}) beyond {self.range_}: {are} missing")
        inside = self.taken - self.without - self.outside
        if inside and self.power_sum_w < _BACKWARDS_W * inside:
            found.append(
                f"the mean power is {self.power_sum_w / inside:.3g} W: the current was measured the wrong way round, and every power and "
                "energy has the wrong sign. Turn the meter round, or for a CSV turn the sign: --column current=NAME:-A"
            )
        return found

    def refuse_mostly(self, what: str, advice: str) -> None:
        """Raise CaptureError if most samples with a number are impossible, since the file is then misunderstood.

        what: the file
        advice: likely cause
        """
        if self.outside > _MOSTLY * (self.taken - self.without):
            raise CaptureError(
                f"{what}: {self.outside} of {self.taken - self.without} samples, such as {self.worst}, are beyond {self.range_}. {advice}"
            )


@dataclass(frozen=True)
class MeasuringRange:
    """Lowest and highest believable V and A of an instrument. ``words``: its name, in words that follow "beyond"."""

    volts: tuple[float, float]
    amperes: tuple[float, float]
    words: str

    def __str__(self) -> str:
        """The limits in words."""
        (low_v, high_v), (low_a, high_a) = self.volts, self.amperes
        return f"{self.words} ({low_a:g} to {high_a:g} A, {low_v:g} to {high_v:g} V)"


RAIL = MeasuringRange((-1.0, 25.0), (-20.0, 20.0), "what the rail of an SSD can have")
"""Range of an unknown instrument, assumed from the rail.

The contacts of an M.2 slot carry 4.5 A at 3.3 V (nine of 0.5 A; PCI Express M.2 Specification). Other slots supply 5 or 12 V, and an inrush
is a few times the current.
"""
PPK2 = MeasuringRange((0.0, 5.5), (-0.01, 1.0), "what a PPK2 can measure")
"""Nordic, PPK2 user guide: 0.2 uA to 1 A, 0.8 to 5 V. Below zero: noise and offset of its highest range, with a resolution of 1 mA."""
JOULESCOPE = MeasuringRange((-16.0, 17.0), (-12.0, 12.0), "what a Joulescope can measure")
"""JS110: designed for -1.8 to 10.4 A and -1.16 to 16.8 V (its maker at forum.joulescope.com/t/175); JS220: +-10 A and +-15 V."""
POWERSENSOR3 = MeasuringRange((-1.0, 30.0), (-55.0, 55.0), "what a PowerSensor3 can measure")
"""Its current modules have 10, 20 and 50 A, its voltage modules up to 26 V (its repository, docs)."""
OTII = MeasuringRange((-1.0, 26.0), (-5.5, 5.5), "what an Otii can measure")
"""Arc: 5 A at most, 5 V; Ace: 5 A, 25 V (Qoitech)."""
MONSOON = MeasuringRange((0.0, 14.0), (-7.0, 7.0), "what a Monsoon power monitor can measure")
"""High voltage monitor: 0.8 to 13.5 V, 6 A (Monsoon Solutions); the low voltage one has less."""
INA = MeasuringRange((-0.5, 36.5), (-20.0, 20.0), "what an INA2xx at the rail of an SSD can measure")
"""Bus voltage up to 26 V (INA219) or 36 V (INA226; Texas Instruments). Its current depends on the shunt; :data:`RAIL` gives the limit."""
QUARCH = MeasuringRange((-1.0, 25.0), (-20.0, 20.0), "what a Quarch module at an SSD can measure")
"""Its fixtures differ, and one table of all is not published: the limits of :data:`RAIL`."""
