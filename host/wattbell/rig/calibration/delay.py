"""Delay of a front-end path relative to the rig's counter, from edges at known instants."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...errors import CalibrationError

__all__ = ["Delay", "Edge", "edge_delay"]

GROUPS = 10
"""Number of groups the edges are divided into, to see how far their delays scatter."""


@dataclass(frozen=True)
class Edge:
    """A step of the input at ``at_s``, and its samples: ``samples[k]`` was converted at ``first_s + k * interval_s``.

    Times are by the rig's counter, from any origin; the unit of the samples does not matter.
    """

    at_s: float
    first_s: float
    interval_s: float
    samples: Sequence[float]


@dataclass(frozen=True)
class Delay:
    """A delay and its standard deviation (k = 1), in s."""

    delay_s: float
    sigma_s: float
    edges: int


def edge_delay(edges: Sequence[Edge], settle_s: float, finest_gap_s: float = 100e-9) -> Delay:
    """Return the centroid of a path's step response, by integrating the distance to the final value over ``settle_s``.

    For poles in series, this is the sum of their time constants. All edges are overlaid by their instants, which resolves the path more
    finely than its samples do. After ``settle_s`` the step counts as settled.

    Raises CalibrationError in these cases:

    - there are fewer than ten edges in each of ten groups
    - samples do not reach ``settle_s`` to either side of an edge and as much again after it
    - the step is not seen
    - the edges' phases leave a gap wider than ``finest_gap_s`` (edges in step with the conversions)
    """
    if len(edges) < GROUPS * GROUPS:
        raise CalibrationError(f"The delay needs at least {GROUPS * GROUPS} edges; there are {len(edges)}.")
    whole = _integral(edges, settle_s, finest_gap_s)
    groups = [_integral(edges[n::GROUPS], settle_s, math.inf) for n in range(GROUPS)]
    sigma = float(np.std(groups, ddof=1)) / math.sqrt(GROUPS)
    return Delay(whole, sigma, len(edges))


def _integral(edges: Sequence[Edge], settle_s: float, finest_gap_s: float) -> float:
    times, values = [], []
    for edge in edges:
        samples = np.asarray(edge.samples, dtype=float)
        time = edge.first_s - edge.at_s + edge.interval_s * np.arange(len(samples))
        if not (time[0] <= -settle_s and time[-1] >= 2 * settle_s):
            raise CalibrationError(f"Samples around the edge at {edge.at_s:g} s do not reach far enough to either side.")
        times.append(time)
        values.append(samples)
    time, value = np.concatenate(times), np.concatenate(values)
    before, after = value[time < 0], value[time > settle_s]
    step = after.mean() - before.mean()
    if abs(step) < 10 * math.hypot(before.std() / math.sqrt(len(before)), after.std() / math.sqrt(len(after))):
        raise CalibrationError("No step is seen: is the load connected, and the right one switched?")
    inside = (time >= 0) & (time <= settle_s)
    order = np.argsort(time[inside])
    at = np.concatenate([[0.0], time[inside][order], [settle_s]])
    missing = np.concatenate([[1.0], (after.mean() - value[inside][order]) / step, [0.0]])
    gap = float(np.diff(at).max())
    if gap > finest_gap_s:
        raise CalibrationError(
            f"Edges are in step with the conversions: {gap * 1e9:.0f} ns of the step response are not sampled. Vary their intervals."
        )
    return float(np.trapezoid(missing, at))
