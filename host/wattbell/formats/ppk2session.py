"""Nordic Power Profiler Kit II: ``.ppk2``, the recording that nRF Connect Power Profiler saves.

A ZIP of ``session.raw``, ``metadata.json`` and ``minimap.raw``. ``session.raw`` has 6 bytes a sample: the current in uA as float32,
little-endian, and 16 bits of digital channels. ``metadata.json`` is ``{"metadata": {"samplesPerSecond": 100000, "startSystemTime": ms since
1970}, "formatVersion": 2}``. ``minimap.raw`` is a picture for the program (pc-nrfconnect-ppk: ``globals.ts``, ``saveFileHandler.ts``). Lost
samples are NaN, or were never written: the program does not number its samples.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import CaptureError
from . import zipped
from .fileformat import file_format
from .ranges import PPK2
from .text import Head
from .waveform import About, Utc, Waveform, WaveformOptions, WaveformPiece, no_volts, ticks

NAME, TITLE = "ppk2-session", "PPK2 recording (.ppk2)"
TAKES = frozenset[str]()
_SAMPLES, _METADATA = "session.raw", "metadata.json"
_FRAME = np.dtype([("microamperes", "<f4"), ("bits", "<u2")])
_PIECE_FRAMES = 1 << 19
_MOST_BYTES = 1 << 38
_VERSION = 2


def matches(head: Head) -> bool:
    """Whether it is a ZIP with this program's samples in it."""
    return _SAMPLES in (zipped.inside(head) or ())


@file_format(NAME, TITLE, matches, TAKES)
def open_files(paths: Sequence[Path], options: WaveformOptions) -> Waveform:
    """Raises CaptureError."""
    (path,) = paths
    with zipped.opened(path) as (archive, entries):
        for name in (_SAMPLES, _METADATA):
            if name not in entries:
                raise CaptureError(f"{path} has no {name}; save it again in nRF Connect Power Profiler, or export it there as CSV.")
        if entries[_METADATA].file_size > zipped.MOST_METADATA:
            raise CaptureError(f"{path}: its {_METADATA} is larger than 1 MiB; it is no PPK2 recording.")
        told = archive.read(_METADATA)
    rate, started_ms = _metadata(path, told)
    volts = options.volts
    if volts is None:
        raise no_volts(path, "a PPK2 measures current")
    size = entries[_SAMPLES].file_size
    span, rest = divmod(size, _FRAME.itemsize)
    if span < 2 or size > _MOST_BYTES:
        raise CaptureError(f"{path} states {span} samples; a waveform has 2 to {_MOST_BYTES // _FRAME.itemsize}.")
    tick_ps, interval_ticks = ticks(1.0 / rate, span, path)

    def read() -> Iterator[WaveformPiece]:
        first = 0
        with zipped.opened(path) as (archive, _), archive.open(_SAMPLES) as file:
            while first < span:
                data = file.read(min(_PIECE_FRAMES, span - first) * _FRAME.itemsize)
                frames = np.frombuffer(data, _FRAME, len(data) // _FRAME.itemsize)
                if not len(frames):
                    raise CaptureError(f"{path} has {first} of its {span} samples; it seems to be cut.")
                amperes = (frames["microamperes"].astype(np.float64) * 1e-6).astype(np.float32)
                yield WaveformPiece(first + np.arange(len(frames), dtype=np.int64), np.full(len(frames), volts.value, np.float32), amperes)
                first += len(frames)

    notes = ["PPK2: samples that its program lost are not numbered; those that it did not write are missing without a trace"]
    if rest:
        notes.append(f"the last {rest} bytes of {_SAMPLES} are no whole sample, and left out")
    if started_ms is None:
        notes.append(f"{_METADATA} does not say when the recording began")
    utc = None if started_ms is None else Utc(np.zeros(1, np.int64), np.array([round(started_ms * 1e6)], np.int64))
    about = About(TITLE, "Nordic PPK2", tick_ps, interval_ticks, span, volts=volts, utc=utc, range_=PPK2, notes=tuple(notes))
    return Waveform(about, read)


def _metadata(path: Path, told: bytes) -> tuple[float, float | None]:
    """(samples a second, begin in ms since 1970 or None). Raises CaptureError."""
    try:
        tree: Any = json.loads(told)
        version, rest = tree.get("formatVersion", _VERSION), tree["metadata"]
        rate = float(rest["samplesPerSecond"])
    except (ValueError, KeyError, TypeError, AttributeError):
        raise CaptureError(
            f"{path}: its {_METADATA} does not state samplesPerSecond; open it in nRF Connect Power Profiler and export it as CSV."
        ) from None
    if version != _VERSION:
        raise CaptureError(
            f"{path}: it is version {str(version)[:20]} of the format, and {_VERSION} is known; export it in its program as CSV."
        )
    if not 0 < rate <= 1e9:
        raise CaptureError(f"{path}: it states {rate:g} samples a second.")
    began = rest.get("startSystemTime")
    known = isinstance(began, int | float) and not isinstance(began, bool) and math.isfinite(began) and 0 < began < 1e13
    return rate, float(began) if known else None
