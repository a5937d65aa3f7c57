"""Lanes for commands side by side: commands that overlap are in different lanes, commands that follow each other share one."""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]


def lanes(start: Int64, end: Int64) -> Int64:
    """The lane (from 0) of each interval ``[start[i], end[i])``, in order of ``start``: the lowest that is free."""
    found = np.zeros(len(start), np.int64)
    busy: list[tuple[int, int]] = []  # (end, lane)
    free: list[int] = []
    made = 0
    for at, (begin, stop) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        while busy and busy[0][0] <= begin:
            heappush(free, heappop(busy)[1])
        if free:
            lane = heappop(free)
        else:
            lane, made = made, made + 1
        found[at] = lane
        heappush(busy, (max(stop, begin), lane))
    return found
