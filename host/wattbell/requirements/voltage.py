"""The rail's voltage while a drive works: the lowest and the highest mean over a window."""

from __future__ import annotations

import math

import numpy as np

from ..analysis.context import Context
from ..analysis.signals import in_reset
from ..measure.figure import Figure, absent
from ..measure.rail import CHUNK

LEAST_SAMPLES = 1
COARSE = 1.01
"""A window that the samples make longer by this factor is another one."""


def extreme_voltage(context: Context, window_s: float, *, lowest: bool) -> tuple[Figure, float]:
    """Return the extreme mean in V over windows side by side, and the time in s that was looked at.

    The drive works from its first command to its last, except in resets: there its supply may be off.
    """
    rail = context.rail
    if rail is None:
        return absent(context.no_rail or "no rail", "V"), 0.0
    if rail.interval_s > COARSE * window_s:
        return absent(f"samples are {rail.interval_s * 1e6:g} us apart: a window of {window_s * 1e6:g} us needs them closer", "V"), 0.0
    width = max(LEAST_SAMPLES, round(window_s / rail.interval_s))
    best, ticks, lost = math.nan, 0, 0
    for first, last in _at_work(context):
        low, high = rail.indices(first, last)
        lost += context.loss.between(first, last).under_rail
        for start, stop, stored in rail.reader.chunks(low, high, max(1, CHUNK // width) * width):
            n = (stop - start) // width * width
            if not stored or not n:
                continue
            volts = rail.reader.read(start, start + n).voltage.astype(np.float64).reshape(-1, width).mean(axis=1)
            ticks += n * rail.interval_ticks
            best = float(np.fmin(best, np.nanmin(volts)) if lowest else np.fmax(best, np.nanmax(volts)))
    if math.isnan(best):
        return absent("no window of the rail lies between two commands", "V"), 0.0
    return Figure(best, context.model.gain * abs(best), "V", lost, {"window_s": width * rail.interval_s}), context.seconds(ticks)


def _at_work(context: Context) -> list[tuple[int, int]]:
    """Return the spans from the first command to the last, without resets."""
    tables = [table for table in (context.commands, context.markers) if len(table)]
    if not tables:
        return []
    spans = [(min(int(table.start_tick[0]) for table in tables), max(int(table.cqe_tick.max()) for table in tables))]
    for low, high in in_reset(context.events):
        cut = [piece for first, last in spans for piece in ((first, min(last, low)), (max(first, high), last))]
        spans = [(first, last) for first, last in cut if last > first]
    return spans
