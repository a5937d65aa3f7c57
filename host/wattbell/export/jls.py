"""JLS: the rail of a window, with phases and events as annotations, for the Joulescope UI and pyjls."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from wattbell.capture import Capture
from wattbell.capture.notes import annotations_of
from wattbell.capture.railtrack import RailTrack
from wattbell.clock import Anchor
from wattbell.errors import CaptureError, UsageError

from .window import Selection, Window, resolve

_CHUNK = 1 << 20


def export_jls(capture: Capture, out: str | Path, *, start_s: float | None = None, stop_s: float | None = None) -> Path:
    """Write voltage, current and power of the window to ``out``, as ``rail.jls`` of a capture has them (docs/capture.md): f32, NaN where
    samples are missing, phases as pairs of vertical markers, events as texts. Raises UsageError where the window has no samples."""
    return jls_file(capture, resolve(capture, start_s, stop_s), Path(out))


def jls_file(capture: Capture, window: Window, path: Path) -> Path:
    """As :func:`export_jls`, of a window."""
    selection = Selection(capture, window)
    rail, (low, high) = selection.rail, selection.samples()
    if rail is None or not any(first < last for first, last in rail.stored(low, high)):
        raise UsageError("The window has no rail samples, and a JLS file holds nothing else: export another format, or a longer window.")
    about = capture.meta["clock"].get("utc_anchor")
    anchor = Anchor(about["tick"], about["utc_ns"], capture.tick_ps) if about else None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
            track = RailTrack(Path(folder), capture.tick_ps, str(capture.meta["rig"].get("serial") or ""))
            for first, last, stored in rail.chunks(low, high, _CHUNK):
                if stored:
                    part = rail.read(first, last)
                    track.write_samples(rail.tick_of(first), rail.interval_ticks, part.voltage, part.current)
            events = selection.events.select("tick", "type", "arg8", "arg16", "arg32").iter_rows()
            names = {phase.number: phase.name for phase in selection.phases}
            spans = [(phase.number, phase.first_tick, phase.last_tick) for phase in selection.phases]
            track.close(anchor.utc_ns_of if anchor else None, annotations_of(spans, names, events))
            os.replace(Path(folder) / "rail.jls", path)
    except OSError as error:
        raise CaptureError(f"{path} cannot be written ({error.strerror or error}); choose another place.") from None
    return path
