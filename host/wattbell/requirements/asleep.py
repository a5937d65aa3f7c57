"""Power of a drive that the host has put to sleep and left alone, so that all work is the drive's own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import polars as pl
from wattbell_spec.nvme import feature
from wattbell_spec.wire import EventType, LinkState

from ..analysis.context import Context
from ..analysis.link import states as link_states
from ..analysis.stretches import FoundStretches
from ..measure.figure import Figure, absent
from ..results.declared import PowerStateDescriptor
from .logcommands import log_commands
from .measurands import Observation

WAY_IN = 2.0
"""Rests count from so many declared entry latencies behind the last command on."""
WAKING_S = 10e-3
"""Longest time before a command in which its link may already wake the drive."""
LINK = (EventType.LINK, EventType.CLKREQ, EventType.LINK_STATE)
NO_REST = "the host asked for it, but left the drive alone for less than the window"
PERMITTED = "the host permits work above the bound (NOPPME)"
UNKNOWN = "nobody saw whether the host permits work above the bound (NOPPME)"
AWAKE = "the link was not seen in L1.2 all the time, and its power may be in the figure"


def own_work(
    context: Context, found: FoundStretches | None, states: Sequence[PowerStateDescriptor], window_s: float, permissive: bool | None
) -> list[Observation]:
    """Return the largest mean power over a window in each sleeping state, while the drive has no command.

    permissive : whether the drive has the permissive mode (CTRATT); None: nobody saw Identify.
    """
    rail = context.rail
    if rail is None:
        return [Observation("", absent(context.no_rail or "no rail", "W"))]
    if found is None or found.requested is None:
        return [Observation(f"PS{one.number}", absent("the host never asked for it", "W"), one) for one in states]
    out = []
    for one in states:
        spans = list(_rests(context, found, one))
        allowed = [_noppme(context, first) for first, _ in spans] if permissive is not False else [False] * len(spans)
        kept = [span for span, may in zip(spans, allowed, strict=True) if may is not True]
        out.append(_largest(context, one, kept, window_s, unknown=None in allowed, permitted=True in allowed))
    return out


def _rests(context: Context, found: FoundStretches, state: PowerStateDescriptor) -> Iterator[tuple[int, int]]:
    """Yield the rests in a state, from when the drive must be there until its link may wake."""
    assert found.requested is not None
    woken = context.events.filter(pl.col("type").is_in([int(one) for one in LINK]))["tick"].to_numpy()
    late, near = (round(seconds / context.tick_s) for seconds in (WAY_IN * (state.entry_s or 0.0) + 1e-3, WAKING_S))
    for end, start in context.gaps.tolist():
        if {number for number, ticks in found.requested.pieces(end, start) if ticks} != {state.number}:
            continue
        waking = woken[(woken > start - near) & (woken <= start)]
        over = int(waking.min()) if len(waking) else start - round(1e-3 / context.tick_s)
        if over > end + late:
            yield end + late, over


def _largest(
    context: Context, state: PowerStateDescriptor, spans: Sequence[tuple[int, int]], window_s: float, *, unknown: bool, permitted: bool
) -> Observation:
    scope, rail = f"PS{state.number}", context.rail
    assert rail is not None
    best: tuple[Figure, tuple[int, int]] | None = None
    for span in spans:
        figure = rail.largest_mean(*span, window_s)
        if figure.value is not None and (best is None or figure.known > best[0].known):
            best = (figure, span)
    seconds = sum(context.seconds(last - first) for first, last in spans)
    if best is None:
        why = PERMITTED if permitted and not spans else NO_REST if spans else "the host never asked for it"
        return Observation(scope, absent(why, "W"), state, seconds, rail.interval_s)
    figure, span = best
    lost = sum(context.loss.between(*one).under_rail + context.loss.between(*one).under_commands for one in spans)
    figure = replace(figure, lost=max(figure.lost, lost))
    doubt, over = UNKNOWN if unknown else "", "" if _asleep(context, span) else AWAKE
    return Observation(scope, figure, state, seconds, rail.interval_s, doubt=doubt, over=over)


def _asleep(context: Context, span: tuple[int, int]) -> bool:
    """Whether the link was in L1.2 for a whole rest."""
    ticks, values = link_states(context.events)
    if not len(ticks):
        return False
    at = int(np.searchsorted(ticks, span[0], side="right"))
    inside = values[at : int(np.searchsorted(ticks, span[1]))]
    before = values[at - 1] if at else LinkState.UNKNOWN
    return bool(before == LinkState.L1_2 and (inside == LinkState.L1_2).all())


def _noppme(context: Context, tick: int) -> bool | None:
    """Return whether the permissive mode was on at a tick, by the latest Set Features 11h; None without one."""
    seen = [one for one in log_commands(context, None, feature("non_operational")) if one.cqe_tick <= tick]
    return bool(seen[-1].cdw11 & 1) if seen else None
