"""The host's clock on that of a capture, once its session is over.

With a tap, markers that both it and the host's log saw. With a meter, round trips to it where it can be asked for its counter; else a
pattern of load (:mod:`.pattern`), found again in its waveform.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..clocks.map import ClockMap
from ..clocks.markers import SentMarker, by_markers
from ..clocks.roundtrip import by_round_trips
from ..clocks.ticks import ns_of
from ..meters.meter import Meter


def by_tap(sent: Sequence[SentMarker], seen: Sequence[tuple[int, int]], tick_ps: int, last_tick: int) -> ClockMap:
    """The host's clock on the rig's. ``seen``: (tick, value). ClockError when nothing can be said."""
    return by_markers(sent, seen, tick_ps, span=(0, _ns(last_tick, tick_ps))).inverse()


def by_meter(meter: Meter, last_tick: int) -> ClockMap:
    """The host's clock on that of a meter that can be asked. ClockError when its clock and the host's do not run along a line."""
    pairs, tick_ps = meter.clock_pairs(), meter.about.tick_ps
    before, after, tick = [p.before_ns for p in pairs], [p.after_ns for p in pairs], [p.tick for p in pairs]
    return by_round_trips(before, after, tick, tick_ps, span=(0, _ns(last_tick, tick_ps))).inverse()


def _ns(tick: int, tick_ps: int) -> int:
    return int(ns_of([tick], tick_ps)[0])


__all__ = ["by_meter", "by_tap"]
