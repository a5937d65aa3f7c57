"""Shutdowns on the wire: from the host's notification to the drive's answer that the shutdown is complete."""

from __future__ import annotations

import math

import polars as pl
from wattbell_spec.wire import EventType

from ..analysis.context import Context
from ..measure.figure import Figure, absent
from .measurands import Observation

__all__ = ["NO_SHUTDOWN", "shutdown_time"]

NO_SHUTDOWN = "the host notified the drive of no normal shutdown (CC.SHN = 1) in this capture"
_NORMAL = 1
_COMPLETE = 2
"""NVMe: CC, SHN; CSTS, SHST."""
_UNKNOWN = 0xFFFFFFFF
_ENDS = (EventType.SHUTDOWN, EventType.CC_EN, EventType.TRACKER_RESET, EventType.PERST, EventType.RUN)
"""Events behind which an answer belongs to no earlier shutdown."""


def shutdown_time(context: Context, lost: int) -> Observation:
    """Return the longest time from CC.SHN = 1 to CSTS.SHST = 2. ``lost``: records missing in the capture.

    The host reads CSTS now and then. A shutdown ends between two answers: the last one before SHST = 2, and the first one with it. If the
    first answer of all has SHST = 2, the shutdown ends anywhere between the notification and this answer. So each shutdown has a shortest
    and a longest possible time. The figure is the middle between the largest of each, and half their distance is a part of the uncertainty.

    A reset, or the end of the capture, may come before an answer with SHST = 2. Such shutdowns have no time, and make the verdict
    conditional.
    """
    events = context.events.filter(pl.col("type").is_in([int(one) for one in (EventType.SHUTDOWN_STATUS, *_ENDS)]))
    rows = events.select("tick", "type", "arg8", "arg32").rows()
    begun = [k for k, (_, kind, status, _) in enumerate(rows) if kind == EventType.SHUTDOWN and status == _NORMAL]
    if not begun:
        return Observation("", absent(NO_SHUTDOWN, "s"))
    spans: list[tuple[float, float]] = []
    for k in begun:
        notified = int(rows[k][0])
        for tick, kind, status, age in rows[k + 1 :]:
            if kind in _ENDS:
                break
            if status == _COMPLETE:
                before = notified if age == _UNKNOWN else max(notified, int(tick) - int(age))
                spans.append((context.seconds(before - notified), context.seconds(int(tick) - notified)))
                break
    unseen = len(begun) - len(spans)
    if not spans:
        return Observation("", absent("the host read no complete shutdown (CSTS.SHST = 2)", "s"))
    least, most = (max(ends) for ends in zip(*spans))
    middle, half = (least + most) / 2, (most - least) / 2
    several = f"; the longest of {len(spans)}" if len(spans) > 1 else ""
    figure = Figure(middle, math.hypot(half, context.model.interval_u(most)), "s", lost)
    return Observation(
        "",
        figure,
        doubt=f"{unseen} of {len(begun)} shutdowns were not read as complete" if unseen else "",
        remark=f"between {least:.3g} and {most:.3g} s, as the host read CSTS{several}",
    )
