"""Faults put into bus traces: pauses, moved edges of the rail, other powers, moved and false events. Powers in W, times in ps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from . import admin
from .bustrace import NEVER, RAIL, SUMMARY, TLP_DOWN, TLP_UP, US, BusTrace, Record, rail_of, rail_record

STEP = 20 * US
"""Width of the rail's steps in fast fidelity: the step in front of an edge may have a power between the levels."""


def paused(trace: BusTrace, at: int, by: int) -> BusTrace:
    """Return the trace with a pause at an instant: the rail stays at its level, and all else comes later."""
    out = BusTrace(trace.head)
    for one in trace.records:
        if one.kind == SUMMARY:
            out.records.append(one.with_instants(tuple(t + by if at <= t < NEVER else t for t in one.instants)))
        else:
            out.records.append(replace(one, time=one.time + by) if one.time >= at else one)
    return out.in_order()


def _rail_between(trace: BusTrace, first: int, last: int) -> tuple[Record | None, list[int], Record | None]:
    """Return the step in force at an instant, the places of the steps from there on to another instant, and the step in force then."""
    before = after = None
    inside = []
    for k, one in enumerate(trace.records):
        if one.kind != RAIL:
            continue
        if one.time < first:
            before = one
        elif one.time < last:
            inside.append(k)
        if one.time <= last:
            after = one
    return before, inside, after


def _replaced(trace: BusTrace, first: int, last: int, steps: list[Record]) -> BusTrace:
    """Return the trace with other steps of the rail between two instants. Behind them the rail is as it was."""
    _, inside, after = _rail_between(trace, first, last)
    gone = set(inside)
    kept = [one for k, one in enumerate(trace.records) if k not in gone]
    back = [] if after is None else [Record(RAIL, 0, last, after.body)]
    return BusTrace(trace.head, [*kept, *steps, *back]).in_order()


def drawing(trace: BusTrace, first: int, last: int, watts: float) -> BusTrace:
    """Return the trace of a drive that draws a constant power between two instants."""
    before, _, _ = _rail_between(trace, first, last)
    assert before is not None
    return _replaced(trace, first, last, [rail_record(first, watts, rail_of(before)[1])])


def scaled(trace: BusTrace, first: int, last: int, factor: float) -> BusTrace:
    """Return the trace of a drive that draws so many times its power between two instants."""
    before, inside, _ = _rail_between(trace, first, last)
    sources = [] if before is None else [replace(before, time=first)]
    sources += [trace.records[k] for k in inside]
    steps = []
    for one in sources:
        current, volts = rail_of(one)
        steps.append(rail_record(one.time, current * 1e-9 * volts * 1e-9 * factor, volts))
    return _replaced(trace, first, last, steps)


def held(trace: BusTrace, at: int, until: int) -> BusTrace:
    """Return the trace of a drive that keeps the power of just before an instant until another one, and then is as it was."""
    at -= 2 * STEP
    before, _, _ = _rail_between(trace, at, until)
    assert before is not None
    return _replaced(trace, at, until, [replace(before, time=at)])


def shifted(trace: BusTrace, first: int, last: int, by: int) -> BusTrace:
    """Return the trace with the rail between two instants moved later, or earlier for a negative ``by``.

    The step in front of the first instant is left out: an edge becomes sharp.
    """
    _, inside, _ = _rail_between(trace, first, last)
    steps = [replace(trace.records[k], time=trace.records[k].time + by) for k in inside]
    return _replaced(trace, min(first, first + by) - 2 * STEP, last, [one for one in steps if one.time < last])


def falls(trace: BusTrace, first: int, last: int, below: float) -> list[int]:
    """Return the instants between two others at which the rail falls below a power and stays there for 1 ms at least."""
    times, watts = trace.rail
    edges = np.append(times, trace.end_ps)
    low = watts < below
    out = []
    for k in np.flatnonzero(low[1:] & ~low[:-1]) + 1:
        if first <= times[k] < last:
            over = k + int(np.argmax(~low[k:])) if (~low[k:]).any() else len(times)
            if edges[over] - times[k] >= 10**9:
                out.append(int(times[k]))
    return out


def moved_event(trace: BusTrace, request: admin.Sent, by: int) -> BusTrace:
    """Return the trace of a drive that reports an event later: the request's CQE, its interrupt and the host's answer move.

    No admin command may be sent meanwhile.
    """
    places = [admin.completion_of(trace, request)]
    for kind in (TLP_UP, TLP_DOWN):
        places.append(admin.behind(trace, places[-1], admin.small_write(kind)))
    records = list(trace.records)
    for k in places:
        records[k] = replace(records[k], time=records[k].time + by)
    return BusTrace(trace.head, records).in_order()
