"""Samples of a live meter without those that it cannot have measured (:mod:`..formats.ranges`): these are missing, and counted."""

from __future__ import annotations

import numpy as np

from ..capture.rail import F32
from ..capture.source import Ranges, Samples, blocks
from ..formats.ranges import LeftOut


def believed(
    first_tick: int,
    interval_ticks: int,
    voltage_v: F32,
    current_a: F32,
    left_out: LeftOut,
    *,
    stated_volts: bool = False,
    flags: int = 0,
    ranges: Ranges | None = None,
) -> list[Samples]:
    """Blocks of consecutive samples from `first_tick` on, one for each run of believable ones; none where there are none. Arguments as of
    :func:`~..capture.source.blocks`; ``stated_volts``: the voltage is the user's, and is not judged. ``ranges`` go with the first block."""
    inside = left_out.add(voltage_v, current_a, stated_volts=stated_volts)
    edges = np.flatnonzero(np.diff(np.concatenate(([False], inside, [False]))))
    made: list[Samples] = []
    for begin, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        changes = None if made else ranges
        tick = first_tick + begin * interval_ticks
        made.append(blocks(tick, interval_ticks, voltage_v[begin:end], current_a[begin:end], flags=flags, ranges=changes))
    return made
