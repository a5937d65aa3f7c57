"""Idle times of a drive: from a file, or from a capture's own times without commands."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from .. import door
from ..errors import ResultsError

COLUMN = "idle_s"
"""Header of the one column of a file of idle times."""
LEAST_S = 1e-3
"""Shorter times without a command count as work."""
LONGEST_S = 1e9


@dataclass(frozen=True)
class IdleTrace:
    """Idle times, in order. ``idle_s``: each ends with a command; ``span_s``: time from the first to the last, work included; ``notes``:
    remarks that a reader of the figures needs."""

    source: str
    idle_s: npt.NDArray[np.float64]
    span_s: float
    notes: tuple[str, ...] = ()


def read_idle_trace(path: Path) -> IdleTrace:
    """Read idle times. Raises ResultsError or CaptureError where there are none, or where commands may be missing between them.

    path : a CSV file with the one column ``idle_s``, or a capture's directory
    """
    return _of_capture(path) if path.is_dir() else _of_file(path)


def _of_file(path: Path) -> IdleTrace:
    try:
        lines = door.read_text(path, door.TRACE).splitlines()
    except (OSError, ValueError) as error:
        raise ResultsError(f"{path} cannot be read ({getattr(error, 'strerror', None) or error}).") from None
    if not lines or lines[0].strip().strip('"') != COLUMN:
        raise ResultsError(f"{path}: its first line is not {COLUMN}; give a CSV file with this one column of seconds, or a capture.")
    idle_s = []
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            continue
        try:
            value = float(line)
        except ValueError:
            value = math.nan
        if not 0 <= value <= LONGEST_S:
            raise ResultsError(f"{path}: line {number} is no idle time from 0 to {LONGEST_S:g} s.")
        idle_s.append(value)
    if not idle_s or not sum(idle_s):
        raise ResultsError(f"{path} has no idle time above 0.")
    notes = ("a file of idle times has no work between them: a day is all idle times",)
    return IdleTrace(str(path), np.array(idle_s), float(sum(idle_s)), notes)


def _of_capture(path: Path) -> IdleTrace:
    from ..analysis.context import idle_times, load
    from ..capture import open_capture

    context = load(open_capture(path))
    lost = context.loss.between(context.first_tick, context.last_tick).under_commands
    if lost:
        raise ResultsError(f"{path} lost {lost} records of commands or more, so an idle time may hide a command. Take another capture.")
    gaps = idle_times((context.commands, context.markers), context.last_tick, max(1, round(LEAST_S / context.tick_s)))
    gaps = gaps[gaps[:, 1] < context.last_tick]  # no command ended the last one
    if not len(gaps):
        raise ResultsError(f"{path} has no time of {LEAST_S:g} s and more without a command.")
    tables = [table for table in (context.commands, context.markers) if len(table)]
    begin = min(int(table.start_tick.min()) for table in tables)
    span_s = (int(gaps[-1, 1]) - begin) * context.tick_s
    return IdleTrace(
        str(path), ((gaps[:, 1] - gaps[:, 0]) * context.tick_s).astype(np.float64), span_s, (f"times below {LEAST_S:g} s count as work",)
    )
