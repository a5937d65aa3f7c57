"""Reference of the rail path, from the definitions, in Python integers."""

from __future__ import annotations

from fractions import Fraction
from math import floor

import numpy as np


def clip(value: int) -> int:
    """Clip to 24 bits, signed."""
    return max(-(1 << 23), min((1 << 23) - 1, value))


def corrected(code: int, offset: int, gain: int) -> int:
    """Return the code minus offset/256, times gain/2**24, rounded half up, unclipped."""
    return floor((code - Fraction(offset, 256)) * Fraction(gain, 1 << 24) + Fraction(1, 2))


def decimated(values: list[int], ratio: int) -> list[Fraction]:
    """Return the exact output of three cascaded moving averages of `ratio`, from the first full window, every `ratio`-th."""
    box = np.ones(ratio, dtype=object)
    taps = np.convolve(np.convolve(box, box), box)
    full = np.convolve(np.array(values, dtype=object), taps, mode="valid") if len(values) >= len(taps) else []
    return [Fraction(int(y), ratio**3) for y in full[::ratio]]
