"""The rows of a time line: rail, load and latency over one stretch of a capture, for reports and for pictures from Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from wattbell.measure.depth import DepthSteps
from wattbell.measure.table import Commands
from wattbell.present.capture import series
from wattbell.present.chart import Axis, Band, Envelope, LaneAxes
from wattbell.present.colours import CURRENT, DEPTH, IOPS, LATENCY, POWER, READ, VOLTAGE, WRITE

ROWS = ("power", "voltage", "current", "throughput", "iops", "queue-depth", "latency")
"""Keys of all lanes, from the top."""
_RAIL = {"power": ("W", POWER, 1.5), "voltage": ("V", VOLTAGE, 0.8), "current": ("A", CURRENT, 0.8)}


def lanes(
    rail: Mapping[str, Envelope], io: Commands, steps: DepthSteps, bins: series.TimeBins, tick_s: float, t0_s: float, origin: str
) -> list[LaneAxes]:
    """All lanes for which there is something to draw, in the order of :data:`ROWS`.

    ``rail``: envelopes by signal; ``io``: the commands that ended in ``bins``; ``steps``: the queue depth; ``t0_s``: when the first bin
    begins; ``origin``: what latencies are counted from.
    """
    made = []
    for name, (unit, colour, weight) in _RAIL.items():
        if name in rail and not np.isnan(rail[name].mean).all():
            made.append(
                LaneAxes(name, Axis(f"{name}, {unit}", near=name == "voltage"), [Band(name, "mean", unit, colour, rail[name])], weight)
            )
    rates = series.throughput(io, bins)

    def flow(name: str, label: str, unit: str, colour: str) -> Band:
        return Band(name, label, unit, colour, Envelope(t0_s, bins.dt_s, rates[name], rates[name], rates[name]), filled=False)

    flows = [flow(name, name, "MB/s", colour) for name, colour in (("read", READ), ("write", WRITE)) if rates[name].any()]
    if flows:
        made.append(LaneAxes("throughput", Axis("MB/s"), flows))
    if rates["iops"].any():
        made.append(LaneAxes("iops", Axis("IOPS"), [flow("iops", "completed", "1/s", IOPS)], 0.8))
    depth, latency = series.queue_depth(steps, bins, t0_s), series.latency(io, bins, tick_s, t0_s)
    if depth.high.any():
        made.append(LaneAxes("queue-depth", Axis("queue depth"), [Band("depth", "mean", "in flight", DEPTH, depth)], 0.8))
    if not np.isnan(latency.mean).all():
        band = Band("latency", "median", "s", LATENCY, latency, points=True)
        made.append(LaneAxes("latency", Axis(f"latency, {origin} → CQE", log=True, seconds=True), [band]))
    return made


def chosen(made: Sequence[LaneAxes], rows: Sequence[str]) -> list[LaneAxes]:
    """The lanes with these keys, in their order; KeyError for one that is not there."""
    by_key = {lane.key: lane for lane in made}
    return [by_key[row] for row in rows]
