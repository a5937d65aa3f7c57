"""Values of resistors and capacitors as the schematic writes them (``1k24``, ``390``, ``2n2``), and the E series."""

from __future__ import annotations

import re
from bisect import bisect_left

from .netlist import DesignError

__all__ = ["E24", "E96", "number", "parallel", "standard", "written"]

E24 = (1.0, 1.1, 1.2, 1.3, 1.5, 1.6, 1.8, 2.0, 2.2, 2.4, 2.7, 3.0, 3.3, 3.6, 3.9, 4.3, 4.7, 5.1, 5.6, 6.2, 6.8, 7.5, 8.2, 9.1)
"""IEC 60063."""
E96 = tuple(round(10 ** (n / 96), 2) for n in range(96))
_SCALE = {"p": 1e-12, "n": 1e-9, "u": 1e-6, "m": 1e-3, "R": 1.0, "": 1.0, "k": 1e3, "M": 1e6}
_VALUE = re.compile(r"(\d+)(?:\.(\d+))?([pnumRkM]?)(\d*)")


def number(text: str) -> float:
    """Parse a value: ``4k75`` is 4750, ``2n2`` 2.2e-9, ``10m`` 0.01. Raises DesignError for other texts."""
    found = _VALUE.fullmatch(text)
    if found is None or (found[2] and found[4]):
        raise DesignError(f"'{text}' is no value of a resistor or capacitor: write 4k75, 390, 2n2, 10m")
    whole, fraction, letter, behind = found.groups()
    return float(f"{whole}.{fraction or behind or 0}") * _SCALE[letter]


def written(value: float) -> str:
    """Write a value with at most three digits. Raises DesignError if that would change the value."""
    for letter in ("p", "n", "u", "m", "", "k", "M"):
        if value < 1000 * _SCALE[letter] * (1 - 1e-9):
            break
    digits = f"{value / _SCALE[letter]:.4g}"
    text = digits.replace(".", letter or "R") if "." in digits else digits + letter
    if abs(number(text) - value) > 1e-9 * value:
        raise DesignError(f"{value!r} needs more digits than '{text}' has")
    return text


def standard(value: float, series: tuple[float, ...], within: float) -> float:
    """Return the nearest value of a series. Raises DesignError if it is off by more than ``within`` (a share)."""
    near = min(_near(value, series), key=lambda other: abs(other - value))
    if abs(near - value) > within * value:
        raise DesignError(f"{value:.6g}: the nearest standard value, {near:.6g}, is off by {near / value - 1:+.2%} (limit {within:.2%})")
    return near


def parallel(value: float, within: float) -> tuple[float, float]:
    """Return the two E24 capacitors with the sum nearest to a value, the larger first.

    Raises DesignError if the sum is off by more than ``within`` (a share).
    """
    pairs = []
    first, _ = _near(value, E24)
    while first >= value / 2:
        if first < value:
            pairs += [(first, second) for second in _near(value - first, E24)]
        first, _ = _near(first * 0.999, E24)
    best = min(pairs, key=lambda pair: abs(sum(pair) - value))
    if abs(sum(best) - value) > within * value:
        raise DesignError(f"{value:.6g} F: the nearest two capacitors are off by {sum(best) / value - 1:+.2%} (limit {within:.2%})")
    return best


def _near(value: float, series: tuple[float, ...]) -> tuple[float, float]:
    """Return the values of a series below (or at) and above."""
    exponent = 0
    while value >= 10.0 ** (exponent + 1) * (1 - 1e-12):
        exponent += 1
    while value < 10.0**exponent * (1 - 1e-12):
        exponent -= 1
    scale = 10.0**exponent
    index = bisect_left(series, value / scale * (1 - 1e-9))
    above = series[index] if index < len(series) else 10.0
    below = series[index - 1] if index else series[-1] / 10
    return round(below * scale, 18), round(above * scale, 18)
