"""The rail waveform in ``rail.jls``: f32 voltage, current and power on one sample grid.

The grid is ``first_tick + i * interval_ticks`` throughout. A long gap is stored as a short run of NaN, and the next samples follow. The
table ``rail_blocks.parquet`` has each block's place on the grid. A reader returns NaN for all of the gap.
"""

from __future__ import annotations

import math
import re
import time
import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyjls

from .. import door
from ..errors import CaptureError
from ..origin import Origin
from . import jlsfaults
from .notes import Annotation, Shape
from .reserve import Reserve
from .room import refused_growth, write_error, writing

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
VOLTAGE, CURRENT, POWER = 1, 2, 3
SIGNALS = ((VOLTAGE, "voltage", "V"), (CURRENT, "current", "A"), (POWER, "power", "W"))
NAME = "rail.jls"
SLOWEST_S = 600.0
"""A disk that takes nothing for so long has failed."""
_LATE = re.compile(r"\b(?:BUSY|TIMED_OUT)\b")
"""Codes of the library for work that its own thread has not come to."""
_SAMPLE_BYTES, _FIXED_BYTES = 13, 256 << 10
"""File growth in bytes: 12.43 per sample, summaries included."""
_NOTE_BYTES = 256
"""Bytes of an annotation without its text."""
_FIRST_ENTRY, _ENTRIES_AN_ENTRY, _ENTRIES = 128, 20, 640
"""Summaries of f32 signals: samples per level-1 entry, entries of one level per entry of the next, entries per chunk."""
_MOST_AT_ONCE = 1 << 16
"""Padding samples per call; the queue to the library's thread then takes 100 MB at most."""
_UTC_EPOCH_NS = 1_514_764_800 * 1_000_000_000
"""JLS counts time from 2018-01-01 UTC in units of 2**-30 s."""


def jls_time(utc_ns: int) -> int:
    """JLS timestamp of a UTC in nanoseconds since 1970."""
    return ((utc_ns - _UTC_EPOCH_NS) << 30) // 1_000_000_000


def padded(samples: int) -> int:
    """Return the number of samples to write so that JLS returns all `samples`: rarely more, then padded with NaN.

    JLS (0.17.0) loses the end of a signal under two conditions. The end is shorter than one entry of a summary level, and the rest fills
    whole chunks of that level. This affects 1 to 127 samples after each 81 920, 1 to 2 559 after each 1 638 400, and so on.
    """
    entry = _FIRST_ENTRY
    while samples >= entry * _ENTRIES:
        rest = samples % (entry * _ENTRIES)
        if 0 < rest < entry:
            samples += entry - rest
        entry *= _ENTRIES_AN_ENTRY
    return samples


def grid_index(first_tick: npt.NDArray[np.int64], origin: int, interval_ticks: int) -> npt.NDArray[np.int64]:
    """Grid index of samples taken at `first_tick`."""
    index: npt.NDArray[np.int64] = (first_tick - origin + interval_ticks // 2) // interval_ticks
    return index


SOURCE_VENDOR = "Wattbell"
SOURCE_MODELS = {Origin.VIRTUAL: "virtual rig", Origin.MEASURED: "rig", Origin.UNKNOWN: "rig, origin unknown"}
"""Model of the source in the file. It shows the file's origin to a reader without the capture. (Version 1 of the source always had "rig".)
"""


@dataclass
class RailWaveform:
    """Samples ``start`` .. ``start + len - 1``: f32 arrays in V, A and W; NaN where nothing was received."""

    start: int
    voltage: F32
    current: F32
    power: F32

    def __len__(self) -> int:
        return len(self.voltage)


class RailWriter:
    """Appends samples to ``rail.jls``. Raises CaptureError as soon as a failed write is noticed."""

    def __init__(self, directory: Path, interval_ticks: int, tick_ps: int, serial: str, origin: Origin = Origin.UNKNOWN) -> None:
        self.samples = 0
        """Samples in the file."""
        self.path = directory / NAME
        self._faults = jlsfaults.Watch()
        self._closed = False
        self._note_bytes = 0
        rate = max(1, round(1e12 / (interval_ticks * tick_ps)))
        with writing(self.path):
            self.path.touch()
            self._reserve = Reserve(self.path)
            self._reserve.require(_FIXED_BYTES)
        try:
            self._jls = pyjls.Writer(str(self.path))
            self._jls.source_def(1, "wattbell", vendor=SOURCE_VENDOR, model=SOURCE_MODELS[origin], version="2", serial_number=serial)
            for signal, name, units in SIGNALS:
                self._jls.signal_def(
                    signal,
                    1,
                    signal_type=pyjls.SignalType.FSR,
                    data_type=pyjls.DataType.F32,
                    sample_rate=rate,
                    name=name,
                    units=units,
                )
        except (RuntimeError, OSError):
            raise self._error() from None

    def append(self, voltage: F32, current: F32, power: F32) -> None:
        """Append samples of the three signals."""
        with writing(self.path):
            self._reserve.require(_FIXED_BYTES + (self.samples + len(voltage)) * _SAMPLE_BYTES)
        try:
            for signal, data in ((VOLTAGE, voltage), (CURRENT, current), (POWER, power)):
                self._patient(self._jls.fsr_f32, signal, self.samples, np.ascontiguousarray(data))
        except (RuntimeError, OSError):
            raise self._error() from None
        self.samples += len(voltage)
        if self._faults.seen():
            raise self._error()

    def _patient(self, call: Callable[..., None], *arguments: Any) -> None:
        """Make a call of the library, again where a slow disk or a busy machine kept its own thread from the work.

        The library waits 5 s for room in its queue and 20 s for a flush. Raises RuntimeError as the library does, for a delay after
        ``SLOWEST_S``.
        """
        until = time.monotonic() + SLOWEST_S
        while True:
            try:
                return call(*arguments)
            except RuntimeError as error:
                if not _LATE.search(str(error)) or time.monotonic() > until or self._faults.seen_in_threads():
                    raise
                self._faults.excuse()

    def append_missing(self, count: int) -> None:
        """Append NaN."""
        nan = np.full(count, np.nan, np.float32)
        self.append(nan, nan, nan)

    def moved_to(self, directory: Path) -> None:
        """The capture's folder was renamed."""
        self.path = directory / NAME

    def close(self, utc_ns: list[tuple[int, int]], notes: Sequence[tuple[int, Annotation]] = ()) -> None:
        """Finish the file, and verify by reading back that it is complete.

        utc_ns: samples in order and their UTC; time is interpolated between them
        notes: samples in order and their annotations
        """
        try:
            self._pad()
            for signal, _, _ in SIGNALS:
                for sample, at_ns in utc_ns:
                    self._patient(self._jls.utc, signal, sample, jls_time(at_ns))
            for sample, note in notes:
                self._annotate(sample, note)
            self._patient(self._jls.flush)
            self._release()
            self._reserve.close()
            with_all = not self._faults.seen() and self._is_whole()
        except (RuntimeError, OSError, ValueError, CaptureError):
            with_all = False
        if not with_all:
            raise self._error()

    def _annotate(self, sample: int, note: Annotation) -> None:
        """Write an annotation as the Joulescope UI reads it: the two lines of a span share a name, which ends in a or b."""
        line = note.shape is not Shape.TEXT
        kind = pyjls.AnnotationType.VMARKER if line else pyjls.AnnotationType.TEXT
        text = f"{note.number}{note.shape.value}" if line else note.text
        with writing(self.path):
            self._reserve.require(_FIXED_BYTES + self.samples * _SAMPLE_BYTES + self._note_bytes)
        self._note_bytes += _NOTE_BYTES + len(text)
        self._patient(self._jls.annotation, POWER, sample, math.nan, kind, 0, text)

    def _pad(self) -> None:
        samples = self.samples
        while self.samples < padded(samples):
            self.append_missing(min(padded(samples) - self.samples, _MOST_AT_ONCE))
        self.samples = samples

    def abandon(self) -> None:
        """Abandon the file as it is."""
        with suppress(RuntimeError, OSError):
            self._reserve.close()
            if not self._faults.seen():  # else its buffers may be overrun
                self._release()

    def _release(self) -> None:
        """Close the file, only once: a second call would kill the process."""
        if not self._closed:
            self._closed = True
            self._jls.close()

    def _is_whole(self) -> bool:
        with pyjls.Reader(str(self.path)) as reader:
            lengths = {s.name: int(s.length) for s in reader.signals.values()}
            return all(
                lengths.get(name) == padded(self.samples) and (not self.samples or len(reader.fsr(signal, self.samples - 1, 1)) == 1)
                for signal, name, _ in SIGNALS
            )

    def _error(self) -> CaptureError:
        return write_error(self.path, refused_growth(self.path))


@dataclass(frozen=True)
class _Piece:
    """Samples ``start`` .. ``stop - 1`` of the grid are in the file, starting at its sample ``stored``."""

    start: int
    stop: int
    stored: int


class RailReader:
    """Random access to ``rail.jls`` by grid index."""

    def __init__(self, directory: Path, first_tick: int, interval_ticks: int, tick_ps: int, samples: int, breaks: int = 0) -> None:
        """`samples`: number in the file (``rail.stored_samples`` of ``meta.json``); `breaks`: long gaps it omits (``rail.breaks``). Raises
        CaptureError when the file holds fewer, or more than JLS needs."""
        self.first_tick = first_tick
        """Tick of sample 0."""
        self.interval_ticks = interval_ticks
        self.interval_s = interval_ticks * tick_ps * 1e-12
        try:
            self._jls = pyjls.Reader(str(door.check(directory / NAME, door.RECORDING)))
        except (RuntimeError, OSError, ValueError) as error:
            raise CaptureError(f"{directory / NAME} cannot be read ({error}).") from None
        self._closing = weakref.finalize(self, self._jls.close)  # nothing else does: pyjls would keep the file open, and its memory
        lengths = {s.name: int(s.length) for s in self._jls.signals.values()}
        stored = {lengths.get(name, 0) for _, name, _ in SIGNALS}
        if stored != {padded(samples)}:
            found = min(stored, default=0)
            raise CaptureError(
                f"{directory / NAME} is damaged: it has {found} samples where {padded(samples)} hold the {samples} samples that were "
                f"recorded. `wattbell check {directory}` tells what is whole."
            )
        self._pieces = _pieces(directory, first_tick, interval_ticks, samples) if breaks else [_Piece(0, samples, 0)]
        self._starts = [piece.start for piece in self._pieces]
        self.samples = self._pieces[-1].stop
        """Number of samples of the grid, gaps included."""

    def __len__(self) -> int:
        return self.samples

    def tick_of(self, sample: int) -> int:
        """Tick of a sample."""
        return self.first_tick + sample * self.interval_ticks

    def sample_at(self, tick: int) -> int:
        """Index of the first sample at or after `tick`, clipped to 0 .. samples."""
        return min(max(-((self.first_tick - tick) // self.interval_ticks), 0), self.samples)

    def stored(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """The intervals of ``start`` .. `stop` that the file holds; everything between them is missing."""
        for piece in self._within(start, stop):
            yield max(start, piece.start), min(stop, piece.stop)

    def chunks(self, start: int, stop: int, size: int) -> Iterator[tuple[int, int, bool]]:
        """``start`` .. `stop` as consecutive (first, last, stored): at most `size` samples that the file holds, or all of a long gap."""
        at = start
        for low, high in self.stored(start, stop):
            if low > at:
                yield at, low, False
            for first in range(low, high, size):
                yield first, min(first + size, high), True
            at = high
        if at < stop:
            yield at, stop, False

    def _within(self, start: int, stop: int) -> Iterator[_Piece]:
        for piece in self._pieces[max(bisect_right(self._starts, start) - 1, 0) :]:
            if piece.start >= stop:
                return
            if piece.stop > start:
                yield piece

    def _read(self, signal: int, start: int, stop: int) -> F32:
        if stop <= start:
            return np.empty(0, np.float32)
        within = list(self._within(start, stop))
        if len(within) == 1 and within[0].start <= start and stop <= within[0].stop:
            return self._fsr(signal, start - within[0].start + within[0].stored, stop - start)
        out = np.full(stop - start, np.nan, np.float32)
        for piece in within:
            low, high = max(start, piece.start), min(stop, piece.stop)
            out[low - start : high - start] = self._fsr(signal, low - piece.start + piece.stored, high - low)
        return out

    def _fsr(self, signal: int, stored: int, count: int) -> F32:
        try:
            return np.asarray(self._jls.fsr(signal, stored, count), dtype=np.float32)
        except (RuntimeError, ValueError) as error:
            raise CaptureError(f"{NAME} is damaged at its sample {stored} ({error}).") from None

    def read(self, start: int = 0, stop: int | None = None) -> RailWaveform:
        """Return samples ``start`` .. ``stop - 1`` (all by default), clipped to the stored samples."""
        start = min(max(start, 0), self.samples)
        stop = self.samples if stop is None else min(max(stop, start), self.samples)
        parts = [self._read(signal, start, stop) for signal, _, _ in SIGNALS]
        return RailWaveform(start, *parts)

    def power(self, start: int = 0, stop: int | None = None) -> F32:
        """Power in W of samples ``start`` .. ``stop - 1``."""
        start = min(max(start, 0), self.samples)
        stop = self.samples if stop is None else min(max(stop, start), self.samples)
        return self._read(POWER, start, stop)

    def overview(self, signal: str, start: int, stop: int, points: int) -> F64:
        """Statistics over `points` equal intervals: array (points, 4) of mean, std, min, max in SI units; NaN where all is missing."""
        increment = max(1, (stop - start) // points)
        count = max(1, (stop - start) // increment)
        return self.statistics(signal, start, start + count * increment, increment)

    def statistics(self, signal: str, start: int, stop: int, increment: int) -> F64:
        """Return statistics of every `increment` samples of ``start`` .. ``stop - 1``; the last row covers the rest.

        Shape (rows, 4): mean, std, min, max in SI units; NaN where all is missing. JLS's summaries make the first and last row exact. Rows
        between are exact if ``start`` and `increment` are multiples of an entry that is small beside the increment (128 samples, 2560, 51
        200, ...). Else an entry on an edge counts on one side of that edge.
        """
        number = next(s for s, name, _ in SIGNALS if name == signal)
        rows = -(-(stop - start) // increment)
        out = np.full((rows, 4), np.nan)
        row = 0
        while row < rows:
            low = start + row * increment
            high = min(low + increment, stop)
            piece = next(self._within(low, high), None)
            if piece is None:
                later = bisect_right(self._starts, low)  # nothing is stored before the next piece
                ahead = self._starts[later] if later < len(self._starts) else stop
                row = max(row + 1, (min(ahead, stop) - start) // increment)
                continue
            whole = (min(piece.stop, stop) - low) // increment if low >= piece.start else 0
            if whole:
                out[row : row + whole] = self._jls_statistics(number, low - piece.start + piece.stored, increment, whole)
                row += whole
            else:
                out[row] = self._statistics(number, low, high)
                row += 1
        return out

    def _jls_statistics(self, number: int, stored: int, increment: int, count: int) -> F64:
        try:
            return np.asarray(self._jls.fsr_statistics(number, stored, increment, count), dtype=np.float64)
        except (RuntimeError, ValueError) as error:
            raise CaptureError(f"{NAME} is damaged near its sample {stored} ({error}).") from None

    def _statistics(self, number: int, start: int, stop: int) -> F64:
        parts, weights = [], []
        for piece in self._within(start, stop):
            low, high = max(start, piece.start), min(stop, piece.stop)
            part = self._jls_statistics(number, low - piece.start + piece.stored, high - low, 1)[0]
            if np.isfinite(part[0]):
                parts.append(part)
                weights.append(high - low)
        if not parts:
            return np.full(4, np.nan)
        mean, std, low_value, high_value = np.array(parts).T
        whole = np.average(mean, weights=weights)
        spread = np.average(std**2 + (mean - whole) ** 2, weights=weights) ** 0.5
        return np.array([whole, spread, low_value.min(), high_value.max()])

    def close(self) -> None:
        """Release the file, once: the library ends the program when it is asked twice."""
        self._closing()


def _pieces(directory: Path, first_tick: int, interval_ticks: int, stored: int) -> list[_Piece]:
    """The intervals of the grid that a file with long gaps holds, from the blocks' ticks and their places in the file."""
    path = directory / "rail_blocks.parquet"
    starts: list[tuple[int, int]] = [(0, 0)]  # (in the file, on the grid)
    ends: list[int] = []  # in the file; a gap lies between an end and the next start
    shift = end = 0
    try:
        with door.parquet_file(path) as file:
            for batch in file.iter_batches(1 << 18, columns=["first_tick", "count", "sample_id"]):
                columns = {name: batch.column(name).to_numpy(zero_copy_only=False) for name in batch.schema.names}
                tick, count, place = (columns[name][columns["sample_id"] >= 0] for name in ("first_tick", "count", "sample_id"))
                if not len(place):
                    continue
                shifts = grid_index(tick, first_tick, interval_ticks) - place
                behind = np.concatenate(([end], place + count))
                for i in np.flatnonzero(shifts != np.concatenate(([shift], shifts[:-1]))).tolist():
                    starts.append((int(place[i]), int(place[i] + shifts[i])))
                    ends.append(int(behind[i]))
                shift, end = int(shifts[-1]), int(behind[-1])
    except (OSError, KeyError, IndexError, pa.ArrowException) as error:
        raise CaptureError(f"{path} is missing or damaged ({str(error).splitlines()[0]}); without it the waveform has no time.") from None
    ends.append(stored)
    fits = starts[-1][0] <= stored
    for (at, grid), (next_at, next_grid), end in zip(starts, starts[1:], ends, strict=False):
        fits = fits and at < end <= next_at and end - at <= next_grid - grid
    if not fits:
        raise CaptureError(f"{path} does not fit {NAME}: one of them is damaged or cut.")
    return [_Piece(grid, grid + end - at, at) for (at, grid), end in zip(starts, ends, strict=True)]
