"""Means of the rail over short steps, from which means over any drive's seconds are sums."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..measure.rail import Rail

STEP_S = 0.01
"""Length of a step."""
Float = npt.NDArray[np.float64]


def step_means(rail: Rail, first: int, last: int) -> Float:
    """Return the mean power of each `STEP_S` between two ticks, in W; NaN where a sample is missing. Reads ten seconds at a time."""
    step = STEP_S / rail.tick_s
    count = int((last - first) // step)
    out = np.full(count, np.nan)
    late = rail.model.front_end_delay_s / rail.tick_s
    for low in range(0, count, 1000):
        high = min(low + 1000, count)
        begin = first + late + low * step
        begun, power = rail.power_between(round(begin), round(first + late + high * step))
        if rail.interval_s > STEP_S:
            at = first + late + (np.arange(low, high) + 0.5) * step
            index = np.clip(np.round((at - begun) / rail.interval_ticks).astype(np.int64), 0, max(len(power) - 1, 0))
            out[low:high] = power[index] if len(power) else np.nan
            continue
        slot = ((begun + np.arange(len(power)) * rail.interval_ticks - begin) // step).astype(np.int64).clip(0, high - low - 1)
        number = np.bincount(slot, minlength=high - low)
        sums = np.bincount(slot, weights=power, minlength=high - low)  # NaN stays NaN
        out[low:high] = np.where(number > 0, sums / np.maximum(number, 1), np.nan)
    return out
