"""JLS: the rail of a window, with phases and events as annotations, for the Joulescope UI and pyjls."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wattbell import durable
from wattbell.capture import Capture
from wattbell.capture.notes import annotations_of
from wattbell.capture.rail import RailReader
from wattbell.capture.railtrack import RailTrack
from wattbell.clocks.host import Anchor
from wattbell.errors import CaptureError, UsageError
from wattbell.origin import origin_of_capture

from .formats import export_format
from .window import ExportWindow, Selection, of_ticks, resolve

_CHUNK = 1 << 20


def export_jls(capture: Capture, out: str | Path, *, start_s: float | None = None, stop_s: float | None = None) -> Path:
    """Write voltage, current and power of the window to ``out``. Raises UsageError if the window has no samples.

    The form is ``rail.jls`` of a capture (docs/capture.md): f32, NaN for missing samples, phases as pairs of vertical markers, events as
    texts.
    """
    return jls_file(capture, resolve(capture, start_s, stop_s), Path(out))


@export_format("jls", "JLS", ".jls")
def write_jls(capture: Capture, begin_tick: int, end_tick: int, path: Path) -> Path:
    """The rail as JLS, with annotations."""
    return jls_file(capture, of_ticks(capture, begin_tick, end_tick), path)


def jls_file(capture: Capture, window: ExportWindow, path: Path) -> Path:
    """Write the JLS file of a window, as :func:`export_jls`."""
    selection = Selection(capture, window)
    rail, (low, high) = selection.rail, selection.samples()
    if rail is None or not any(first < last for first, last in rail.stored(low, high)):
        raise UsageError("The window has no rail samples, and a JLS file holds nothing else: export another format, or a longer window.")
    about = capture.meta["clock"].get("utc_anchor")
    anchor = Anchor(about["tick"], about["utc_ns"], capture.tick_ps) if about else None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
            _write(selection, rail, anchor, Path(folder))
            durable.replace(Path(folder) / "rail.jls", path)
    except OSError as error:
        raise CaptureError(f"{path} cannot be written ({error.strerror or error}); choose another place.") from None
    return path


def _write(selection: Selection, rail: RailReader, anchor: Anchor | None, folder: Path) -> None:
    """Write ``rail.jls`` to a folder. Raises OSError if it cannot be written."""
    capture = selection.capture
    serial = str(capture.meta["rig"].get("serial") or "")
    track = RailTrack(folder, capture.tick_ps, serial, origin=origin_of_capture(capture.meta))
    events = selection.events.select("tick", "type", "arg8", "arg16", "arg32").iter_rows()
    names = {phase.number: phase.name for phase in selection.phases}
    spans = [(phase.number, phase.first_tick, phase.last_tick) for phase in selection.phases]
    notes = annotations_of(spans, names, events)
    for first, last, stored in rail.chunks(*selection.samples(), _CHUNK):
        if stored:
            part = rail.read(first, last)
            with _as_os_error(track):
                track.write_samples(rail.tick_of(first), rail.interval_ticks, part.voltage, part.current)
    with _as_os_error(track):
        track.close(anchor.utc_ns_of if anchor else None, notes)


@contextmanager
def _as_os_error(track: RailTrack) -> Iterator[None]:
    """The writer's own error speaks of a recording that can be rebuilt."""
    try:
        yield
    except CaptureError as error:
        track.abandon()
        raise OSError(str(error).partition("(")[2].partition(")")[0] or str(error)) from None
