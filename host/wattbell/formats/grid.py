"""Turn time stamps of rows into places on an exact grid.

The interval is first the median step of the first rows. Each step counts as a whole number of intervals, so that a missing row is a missing
sample and the rows behind it keep their places. Over the whole file the interval is then fitted by least squares. A row may lie up to half
an interval off its place. The largest distance is ``grid_s`` of the waveform, part of the uncertainty of its instants. Rows that go
backwards are an error with the line. So are rows that share a place, which some formats then read in another way (:mod:`.uneven`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..errors import CaptureError

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
_FIRST_ROWS = 1 << 16
_TRUSTED = 1e-4
"""Share of an interval. If all time stamps are that close, the grid is exact: its interval is the step itself, rounded to 9 digits."""
_MOST_INDEX = 1 << 52


class NoGridError(CaptureError):
    """The time stamps go on, and lie on no grid."""


@dataclass(frozen=True)
class Stamps:
    """Time stamps of consecutive rows in s, the line of the first, and each row's line if they are not consecutive."""

    line: int
    seconds: F64
    lines: I64 | None = None

    def line_of(self, place: int) -> int:
        """The line of a row."""
        return self.line + place if self.lines is None else int(self.lines[place])


@dataclass(frozen=True)
class SampleGrid:
    """``first_s``: time stamp of place 0; ``step_s``: the interval with which rows are placed; ``interval_s``: the fitted one.
    ``span``: places from the first to the last row; ``off_s``: largest distance of a row from its place."""

    first_s: float
    step_s: float
    interval_s: float
    span: int
    rows: int
    off_s: float


class Placer:
    """Places rows one piece after the other; a second pass with the same step gives the same places."""

    def __init__(self, path: Path, step_s: float) -> None:
        self._path, self._step = path, step_s
        self._last_s: float | None = None
        self._last_index = 0

    def place(self, stamps: Stamps) -> I64:
        """Places of the rows. Raises CaptureError for times that are missing, go backwards, or share a place."""
        seconds = stamps.seconds
        if not len(seconds):
            return np.empty(0, np.int64)
        bad = ~np.isfinite(seconds)
        if bad.any():
            raise CaptureError(f"{self._path}, line {stamps.line_of(int(np.argmax(bad)))}: no time.")
        before = seconds[0] - self._step if self._last_s is None else self._last_s
        steps = np.diff(np.concatenate(([before], seconds)))
        if self._last_s is None:
            steps[0] = 0.0
        wrong = steps < 0
        if wrong.any():
            at = int(np.argmax(wrong))
            raise CaptureError(
                f"{self._path}, line {stamps.line_of(at)}: the time goes backwards by {-steps[at]:.9g} s (to {seconds[at]:.9g} s)."
            )
        counts = np.rint(steps / self._step)
        first = self._last_s is None
        same = counts[first:] < 1
        if same.any():
            at = int(np.argmax(same)) + first
            raise NoGridError(
                f"{self._path}, line {stamps.line_of(at)}: {steps[at]:.6g} s after the row before it, where rows are {self._step:.6g} s "
                "apart; these are no time stamps of an instrument's own clock, and no grid fits them."
            )
        index = self._last_index + np.cumsum(counts)
        if index[-1] > _MOST_INDEX:
            raise CaptureError(f"{self._path}, line {stamps.line_of(len(seconds) - 1)}: {seconds[-1]:.9g} s is beyond any recording.")
        self._last_s, self._last_index = float(seconds[-1]), int(index[-1])
        places: I64 = index.astype(np.int64)
        return places


def fit(path: Path, pieces: Iterable[Stamps]) -> SampleGrid:
    """The grid of a file. Raises CaptureError if there are fewer than two rows, or no grid fits."""
    step, held, rest = _first_step(path, iter(pieces))
    placer = Placer(path, step)
    first: float | None = None
    rows = 0
    sums = np.zeros(4)  # of index, index^2, deviation, index x deviation
    extremes: list[tuple[int, float]] = []
    last_index, longest_piece = 0, 0
    for stamps in _chain(held, rest):
        index = placer.place(stamps)
        if not len(index):
            continue
        if first is None:
            first = float(stamps.seconds[0])
        deviation = (stamps.seconds - first) - index * step
        x = index.astype(np.float64)
        rows += len(index)
        sums += (x.sum(), np.dot(x, x), deviation.sum(), np.dot(x, deviation))
        low, high = int(np.argmin(deviation)), int(np.argmax(deviation))
        extremes += [(int(index[i]), float(deviation[i])) for i in (low, high)]
        longest_piece = max(longest_piece, int(index[-1] - index[0]))
        last_index = int(index[-1])
    assert first is not None
    exact = max(abs(value) for _, value in extremes) <= _TRUSTED * step
    slope = level = 0.0
    if not exact:
        mean_x, mean_d = sums[0] / rows, sums[2] / rows
        spread = sums[1] / rows - mean_x**2
        slope = float((sums[3] / rows - mean_x * mean_d) / spread) if spread > 0 else 0.0
        level = float(mean_d - slope * mean_x)
    off = max(abs(value - level - slope * index) for index, value in extremes) + abs(slope) * min(longest_piece, _FIRST_ROWS)
    if off > step / 2 and not exact:
        raise NoGridError(
            f"{path}: the time stamps are up to {off:.3g} s off a grid of {step + slope:.6g} s, more than half of it: they are no time "
            "stamps of an instrument's own clock."
        )
    interval = float(f"{step:.9g}") if exact else step + slope
    return SampleGrid(first + level, step, interval, last_index + 1, rows, off)


def _first_step(path: Path, pieces: Iterator[Stamps]) -> tuple[float, list[Stamps], Iterator[Stamps]]:
    held: list[Stamps] = []
    rows = 0
    for stamps in pieces:
        held.append(stamps)
        rows += len(stamps.seconds)
        if rows >= _FIRST_ROWS:
            break
    if rows < 2:
        raise CaptureError(f"{path}: {rows} row{'s' if rows != 1 else ''} of measurements; a waveform needs two at least.")
    seconds = np.concatenate([stamps.seconds for stamps in held])[:_FIRST_ROWS]
    steps = np.diff(seconds)
    steps = steps[np.isfinite(steps) & (steps > 0)]
    if not len(steps):
        raise CaptureError(f"{path}, line {held[0].line + 1}: the time does not go on.")
    step = float(np.median(steps))
    counts = np.rint(steps / step)
    single = steps[counts == 1]
    # time stamps that are rounded to a unit: their mean step is the interval, not one of the two rounded ones
    mean = float(single.mean())
    return (step if abs(mean - step) * len(seconds) <= _TRUSTED * step else mean), held, pieces


def _chain(held: list[Stamps], rest: Iterator[Stamps]) -> Iterator[Stamps]:
    yield from held
    yield from rest
