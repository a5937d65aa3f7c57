"""Map the host's clock onto a capture's clock, once the session is over or was killed.

With a tap, the map uses markers that both the tap and the host's log saw. With a meter that can be asked for its counter, the map uses
round trips to it. Other meters need a pattern of load (:mod:`.loadpattern`), which is found again in the waveform.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..clocks.map import ClockMap
from ..clocks.markers import SentMarker, by_markers
from ..clocks.roundtrip import by_round_trips
from ..clocks.ticks import ns_of


def by_tap(sent: Sequence[SentMarker], seen: Sequence[tuple[int, int]], tick_ps: int, last_tick: int) -> ClockMap:
    """The host's clock on the rig's. ``seen``: (tick, value). Raises ClockError when nothing can be said."""
    return by_markers(sent, seen, tick_ps, span=(0, _ns(last_tick, tick_ps))).inverse()


def by_asking(pairs: Sequence[tuple[int | None, int, int]], tick_ps: int, last_tick: int) -> ClockMap:
    """Map the host's clock onto the clock of a meter from its answers. Raises ClockError when the two clocks do not run along a line.

    pairs: (before, after, tick); the tick lay between the two instants of the host
    """
    before, after, tick = zip(*pairs, strict=True) if pairs else ((), (), ())
    return by_round_trips(before, after, tick, tick_ps, span=(0, _ns(last_tick, tick_ps))).inverse()


def _ns(tick: int, tick_ps: int) -> int:
    return int(ns_of([tick], tick_ps)[0])


__all__ = ["by_asking", "by_tap"]
