"""Place RAIL blocks on one grid of samples, and find missing samples between them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from wattbell_spec import wire as spec

from ..origin import Origin
from ..wire.decode import Gap
from .notes import Annotation, Shape
from .rail import F32, RailWriter, grid_index
from .source import RailSource

_FILLED = 1 << 16
"""Longest gap, in samples, that is filled with NaN in the file (12.5 bytes each)."""
_MARK = 1 << 10
"""Number of NaN stored for a longer gap, so that other programs see one."""


class RailTrack:
    """Places blocks on the sample grid of the first block, ``first_tick + i * interval_ticks``.

    A block with another interval, or one that arrived after its place was passed, is left out of the waveform (``sample_id`` -1). Such a
    block counts as a gap. Its energy still counts, since the block stores it.
    """

    def __init__(
        self,
        directory: Path,
        tick_ps: int,
        serial: str,
        missing: str = "blocks lost on the way to the host",
        origin: Origin = Origin.UNKNOWN,
    ) -> None:
        """`missing`: why samples are, where their source says no more."""
        self.first_tick: int | None = None
        self.interval_ticks = 0
        self.samples = 0
        """Samples on the grid so far, gaps included."""
        self.missing = 0
        """Samples of the grid that hold NaN."""
        self.breaks: list[int] = []
        """Samples of the file before which a long gap was omitted."""
        self.flags = 0
        self.on_samples: Callable[[int, int, F32, F32, F32], None] | None = None
        """Called with the samples that come: first tick, interval in ticks, V, A, W."""
        self._left_out = 0
        self._directory, self._tick_ps, self._serial, self._origin = directory, tick_ps, serial, origin
        self._missing = missing
        self._writer: RailWriter | None = None
        self._break_ticks: list[int] = []
        self._pieces = [(0, 0)]
        """(sample of the grid, of the file) at which each piece begins that a long gap does not interrupt."""

    @property
    def stored(self) -> int:
        """Samples in the file."""
        return self._writer.samples if self._writer else 0

    def begin(self, first_tick: int, interval_ticks: int) -> RailWriter:
        """Fix the grid."""
        self.first_tick, self.interval_ticks = first_tick, max(1, interval_ticks)
        self._writer = RailWriter(self._directory, self.interval_ticks, self._tick_ps, self._serial, self._origin)
        return self._writer

    def moved_to(self, directory: Path) -> None:
        """The capture's folder was renamed."""
        self._directory = directory
        if self._writer:
            self._writer.moved_to(directory)

    def add(self, source: RailSource) -> tuple[npt.NDArray[np.int64], list[Gap]]:
        """Write the samples of some blocks; returns the place of each block in the file (-1: not in it), and the gaps found."""
        first = source.first_tick
        interval = source.interval_ticks.astype(np.int64)
        count = source.count.astype(np.int64)
        self.flags |= int(np.bitwise_or.reduce(source.flags))
        usable = (count > 0) & (interval > 0) & (first >= 0) & (first < spec.LAST_TICK)
        if self._writer is None:
            if not usable.any():
                return np.full(len(first), -1, np.int64), [_unusable(int(tick)) for tick in first]
            begin = int(np.argmax(usable))
            self.begin(int(first[begin]), int(interval[begin]))
        assert self.first_tick is not None
        step = self.interval_ticks
        ids = grid_index(first, self.first_tick, step)
        voltage, current = source.voltage_v, source.current_a
        power = voltage * current
        ends = ids + count
        if usable.all() and ids[0] == self.samples and (interval == step).all() and (ids[1:] == ends[:-1]).all():
            self._append(voltage, current, power)
            return ids - self._left_out, []
        return ids, self._one_by_one(source, first, ids, usable, interval, count, (voltage, current, power))

    def _one_by_one(
        self,
        source: RailSource,
        first: npt.NDArray[np.int64],
        ids: npt.NDArray[np.int64],
        usable: npt.NDArray[np.bool_],
        interval: npt.NDArray[np.int64],
        count: npt.NDArray[np.int64],
        data: tuple[F32, F32, F32],
    ) -> list[Gap]:
        """Add blocks singly, as :meth:`add`; converts `ids` from grid indices to places in the file."""
        gaps: list[Gap] = []
        stop = 0
        for index, sample in enumerate(ids.tolist()):
            start, stop = stop, stop + int(count[index])
            ids[index] = -1
            if not usable[index]:
                gaps.append(_unusable(int(first[index])))
                continue
            overlap = self.samples - sample
            same = interval[index] == self.interval_ticks
            if not same or overlap > 0:
                reason = "came too late for the waveform" if same else "sample interval changed during the capture"
                last = int(first[index]) + (stop - start - 1) * int(interval[index])
                gaps.append(Gap(spec.BlockContent.RAIL, int(first[index]), last, stop - start, reason))
                continue
            if overlap < 0:
                flags, dropped = int(source.flags[index]), int(source.dropped[index])
                reason = self._missing
                if dropped:
                    reason = "dropped in the rig"
                elif flags & spec.RailFlag.RESTARTED:
                    reason = "the rig was not capturing"
                gaps.append(self._gap(self.samples, -overlap, reason))
            self._skip_to(sample)
            ids[index] = sample - self._left_out
            self._append(*(column[start:stop] for column in data))
        return gaps

    def _append(self, voltage: F32, current: F32, power: F32) -> None:
        assert self._writer is not None
        self._writer.append(voltage, current, power)
        if self.on_samples is not None:
            assert self.first_tick is not None
            self.on_samples(self.first_tick + self.samples * self.interval_ticks, self.interval_ticks, voltage, current, power)
        self.samples += len(voltage)

    def _skip_to(self, sample: int) -> None:
        """Leave a gap up to a sample of the grid, as NaN in the file; of a long gap only the first few."""
        assert self._writer is not None
        assert self.first_tick is not None
        gap = sample - self.samples
        if gap <= 0:
            return
        filled = gap if gap <= _FILLED else _MARK
        self._writer.append_missing(filled)
        if filled < gap:
            self._left_out += gap - filled
            self.breaks.append(self._writer.samples)
            self._pieces.append((sample, self._writer.samples))
            self._break_ticks += [
                self.first_tick + (self.samples + filled) * self.interval_ticks,
                self.first_tick + sample * self.interval_ticks,
            ]
        self.samples = sample
        self.missing += gap

    def _gap(self, sample: int, count: int, reason: str) -> Gap:
        assert self.first_tick is not None
        first = self.first_tick + sample * self.interval_ticks
        return Gap(spec.BlockContent.RAIL, first, first + (count - 1) * self.interval_ticks, count, reason)

    def write_samples(self, first_tick: int, interval_ticks: int, voltage: F32, current: F32) -> int:
        """Append samples in V and A (synthetic captures); returns the place of the first in the file."""
        if self._writer is None:
            self.begin(first_tick, interval_ticks)
        assert self.first_tick is not None
        sample = int(grid_index(np.array([first_tick], np.int64), self.first_tick, self.interval_ticks)[0])
        self._skip_to(sample)
        self._append(voltage, current, voltage * current)
        return sample - self._left_out

    def close(self, utc_ns_of: Callable[[int], int] | None, notes: Sequence[Annotation] = ()) -> None:
        """Finish ``rail.jls`` (with no samples when none came). With the UTC of a tick, time is mapped in the file.

        notes: annotations in order of time. Those outside the waveform are left out. A span that reaches into the waveform begins or ends
            with it.

        For an origin with a warning (the waveform was not measured, or nobody knows), the first annotation is that warning.
        """
        writer = self._writer or RailWriter(self._directory, 1000, self._tick_ps, self._serial, self._origin)
        points: list[tuple[int, int]] = []
        if utc_ns_of is not None and self.first_tick is not None:
            points.append((0, utc_ns_of(self.first_tick)))
            for number, sample in enumerate(self.breaks):
                before, behind = self._break_ticks[2 * number : 2 * number + 2]
                points += [(sample - 1, utc_ns_of(before - self.interval_ticks)), (sample, utc_ns_of(behind))]
            points.append((self.stored, utc_ns_of(self.first_tick + self.samples * self.interval_ticks)))
        placed = self._placed(notes)
        if self._origin.warning and self.first_tick is not None:
            placed.insert(0, (0, Annotation(self.first_tick, Shape.TEXT, self._origin.warning)))
        writer.close(points, placed)

    def _placed(self, notes: Sequence[Annotation]) -> list[tuple[int, Annotation]]:
        """(sample of the file, annotation) of those within the waveform."""
        if self.first_tick is None:
            return []
        where = [(note.tick - self.first_tick + self.interval_ticks // 2) // self.interval_ticks for note in notes]
        begins = {note.number: at for at, note in zip(where, notes, strict=True) if note.shape is Shape.BEGIN}
        ends = {note.number: at for at, note in zip(where, notes, strict=True) if note.shape is Shape.END}
        inside = {number for number in begins if number in ends and begins[number] < self.samples and ends[number] >= 0}
        placed = []
        for at, note in zip(where, notes, strict=True):
            if note.shape is Shape.TEXT and 0 <= at < self.samples:
                placed.append((self._in_file(at), note))
            elif note.shape is not Shape.TEXT and note.number in inside:
                placed.append((self._in_file(min(max(at, 0), self.samples - 1)), note))
        return sorted(placed, key=lambda one: one[0])

    def _in_file(self, sample: int) -> int:
        """The sample of the file for one of the grid; the last one before a long gap for those that it omits."""
        number = bisect_right(self._pieces, sample, key=lambda piece: piece[0]) - 1
        grid, stored = self._pieces[number]
        limit = self._pieces[number + 1][1] if number + 1 < len(self._pieces) else self.stored
        return min(stored + sample - grid, limit - 1)

    def abandon(self) -> None:
        """Abandon the file as it is."""
        if self._writer:
            self._writer.abandon()


def _unusable(tick: int) -> Gap:
    return Gap(spec.BlockContent.RAIL, tick, tick, -1, "a block of samples that cannot be placed")
