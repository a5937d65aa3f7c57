"""What the page shows: captures, and where they are laid over one another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from wattbell_spec.wire import EventType

from ..errors import UsageError
from ..jsondata import JsonObject
from ..zoom import Zoom

Progress = Callable[[int, int], None]


@dataclass
class Shown:
    """A capture on the page. ``align_ticks``: its time less that of the first capture, where both have what they are aligned at."""

    name: str
    path: Path
    zoom: Zoom | None = None
    align_ticks: int = 0
    figures: list[JsonObject] = field(default_factory=list)
    """What `analyze` says, once it was asked."""

    @property
    def state(self) -> str:
        """As in meta.json."""
        return "recording" if self.zoom is None else self.zoom.capture.state


def align(shown: list[Shown], at: str) -> None:
    """Lay all captures over the first one at a phase (name or number) or at the first event of a name. Raises UsageError where one has none
    such."""
    places = [_place(one, at) for one in shown]
    for one, (place_s, tick_s) in zip(shown, places, strict=True):
        one.align_ticks = round((place_s - places[0][0]) / tick_s)


def _place(one: Shown, at: str) -> tuple[float, float]:
    """(seconds from the capture's first tick, seconds a tick)."""
    zoom = one.zoom
    if zoom is None:
        raise UsageError(f"{one.path} is being recorded; captures can be aligned when they are complete.")
    ticks = [phase.first_tick for phase in zoom.phases if at in (phase.name, str(phase.number))]
    kinds = [kind for kind in EventType if kind.name.lower() == at.lower()]
    if not ticks and kinds:
        ticks = zoom.events_of(*kinds)["tick"].head(1).to_list()
    if not ticks:
        phases = ", ".join(phase.name for phase in zoom.phases[:8]) or "none"
        raise UsageError(f"{one.path} has no phase and no event {at!r}; its phases: {phases}.")
    return (ticks[0] - zoom.bounds[0]) * zoom.tick_s, zoom.tick_s
