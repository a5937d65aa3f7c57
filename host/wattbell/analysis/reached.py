"""The power states that a drive reached in one idle time of a suite: which, when, how long, and the power in each."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from wattbell_spec.wire import LinkState

from wattbell.analysis.context import load_window
from wattbell.analysis.powerstates import name_of, reason
from wattbell.analysis.statelabels import OPERATIONAL, groups
from wattbell.analysis.stretches import BIN_S, STEADY_BINS, Stretch, find
from wattbell.measure.figure import Figure
from wattbell.measure.source import Source

AWAKE = "operational idle"
UNKNOWN = "unknown"
LEVEL = "level"
"""Name of a level, with its number, if nothing identifies its state."""


@dataclass(frozen=True)
class Reached:
    """One level of the rail in an idle time.

    name: the power state's; ``operational idle (PS0)`` if it keeps the drive awake, ``unknown`` if the evidence is thin (``why``)
    state: its number, if the level is a state
    link: the link's state at the time, None if nobody saw it
    power: over the time that the level was held
    after: time in s from the last command until it was reached
    held_s: time that it was held
    to_end: whether it was held until the idle time ended
    first_tick: when it was reached
    """

    name: str
    state: int | None
    link: str | None
    why: str
    power: Figure
    after: Figure
    held_s: float
    to_end: bool
    first_tick: int


def reached(source: Source, first_tick: int, last_tick: int, edge_u_s: float = 0.0) -> list[Reached]:
    """Return the levels between two ticks while no command was in flight, in order of time; empty without a rail or a lasting level.

    edge_u_s: error of either tick against the rail, in s
    """
    if source.rail is None:
        return []
    context = load_window(source, first_tick, last_tick, STEADY_BINS * BIN_S)
    gaps = context.gaps if context.saw_commands else np.array([[first_tick, last_tick]])
    if not len(gaps):
        return []
    found = find(context, gaps)
    operational = found.declared.operational if found.declared else ()
    near = 2 * found.bin_s
    alike = groups((stretch.mean_w, i) for i, stretch in enumerate(found.stretches))
    number = {i: len(alike) - n for n, members in enumerate(alike) for i in members}  # 1: what draws most
    out: list[Reached] = []
    for i, stretch in enumerate(found.stretches):
        name, state = name_of(stretch.label, stretch.asked, found.watched, operational)
        if found.declared is None:
            name = f"{LEVEL} {number[i]}"
        elif OPERATIONAL in stretch.label.states and len(stretch.label.states) == 1:
            name = AWAKE if state is None else f"{AWAKE} ({name})"
        begin, end = gaps[stretch.gap].tolist()
        loss = context.loss.between(*stretch.settled)
        lost = loss.under_commands + loss.under_rail
        after_s = source.seconds(stretch.first_tick - begin)
        begin_u_s = edge_u_s if begin == first_tick else 0.0  # else a completion tells the begin
        out.append(
            Reached(
                name,
                state,
                LinkState(stretch.link).name.replace("_", ".") if stretch.link is not None else None,
                reason(stretch, found),
                source.energy(*_inside(source, stretch, edge_u_s), lost)[1],
                Figure(after_s, math.hypot(stretch.from_u_s or found.bin_s, begin_u_s), "s", lost),
                source.seconds(stretch.ticks),
                end == int(gaps[-1, 1]) and last_tick - end <= near / source.tick_s and source.seconds(end - stretch.last_tick) <= near,
                stretch.first_tick,
            )
        )
    return out


def _inside(source: Source, stretch: Stretch, edge_u_s: float) -> tuple[int, int]:
    """Return the ticks of a level, far enough from its ends that the error between two clocks does not affect its mean."""
    first, last = stretch.settled
    off_s = max(edge_u_s, source.model.alignment_u_s)
    margin = round(min(2 * (off_s + source.rail.interval_s) / source.tick_s, (last - first) / 4)) if off_s and source.rail else 0
    return first + margin, last - margin
