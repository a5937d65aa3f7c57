"""Captures on the page, also one that is being recorded, and the instants at which they are aligned."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from wattbell_spec.wire import EventType

from ..capture.live import LiveReader, being_recorded
from ..errors import UsageError
from ..jsondata import JsonObject
from ..zoom import Zoom, open_zoom

Progress = Callable[[int, int], None]


class Shown:
    """A capture on the page. One that is being recorded is shown by its live summary, and opened when the recorder has completed it."""

    def __init__(self, path: Path, progress: Progress | None = None, making: Progress | None = None) -> None:
        """``progress``, ``making``: as of :func:`~wattbell.zoom.open_zoom`. Raises CaptureError as that does."""
        self.path = path
        self.name = path.absolute().name
        self.align_ticks = 0
        """Its time less the first capture's, at the instant where both are aligned."""
        self.analysis: JsonObject | None = None
        """Result of :mod:`.analysing`, once requested."""
        self._lock = threading.Lock()
        self._live = LiveReader(path) if being_recorded(path) else None
        self._zoom = None if self._live else open_zoom(path, progress, making)

    @property
    def live(self) -> LiveReader | None:
        """Live summary of a capture that is being recorded."""
        with self._lock:
            if self._live is not None and not self._live.recording:
                self._zoom = open_zoom(self.path)
                self._live.close()
                self._live = None
            return self._live

    @property
    def zoom(self) -> Zoom | None:
        """The capture; None while it is being recorded."""
        return None if self.live is not None else self._zoom

    @property
    def state(self) -> str:
        """State as in meta.json."""
        zoom = self.zoom
        return "recording" if zoom is None else zoom.capture.state


def align(shown: list[Shown], at: str) -> None:
    """Lay all captures over the first one at a phase (name or number) or at the first event of a name. Raises UsageError if one has none
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
