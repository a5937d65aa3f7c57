"""Rows with times that lie on no grid of an instrument's own clock: loggers with times from a program, packets with one time each.

There are two rules, in this order; the notes of the capture say which was used:

1. Rows that share a time form a packet. They are spread evenly up to the next time; rows of the last packet as in the one before. If a grid
   then fits, rows are placed on it as for any instrument.
2. Else the times are used unchanged. Between two readings the power follows a straight line (the trapezoid rule). Each sample of the
   capture is the mean of the line over the median step, so energies follow the trapezoid rule on the true times. A next reading more than
   four median steps away, or a missing reading, makes a gap; a sample that touches the gap is missing. The instant of a change between two
   readings is unknown and adds to the uncertainty of instants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..errors import CaptureError
from .grid import SampleGrid, Stamps
from .waveform import WaveformPiece

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
_HOLE = 4.0
"""Distance in median steps above which the time between two readings is unknown."""
_FIRST_ROWS = 1 << 16
_FULL = 1 - 1e-6
_FLAT_V = 1e-3
"""Below this a voltage does not divide a power."""


@dataclass(frozen=True)
class Readings:
    """Consecutive rows: s, V and A, and the line of each."""

    seconds: F64
    voltage: F64
    current: F64
    lines: I64

    def __len__(self) -> int:
        return len(self.seconds)

    def stamps(self) -> Stamps:
        """When they were."""
        return Stamps(int(self.lines[0]) if len(self) else 0, self.seconds, self.lines)

    def part(self, first: int, last: int) -> Readings:
        """Some of them."""
        return Readings(*(getattr(self, name)[first:last] for name in ("seconds", "voltage", "current", "lines")))


Source = Callable[[], Iterator[Readings]]
"""A new pass over a file."""


def checked(path: Path, pieces: Iterable[Readings]) -> Iterator[Readings]:
    """The same. Raises CaptureError with the line for times that are missing or go backwards."""
    last = -np.inf
    for piece in pieces:
        bad = ~np.isfinite(piece.seconds)
        if bad.any():
            raise CaptureError(f"{path}, line {piece.lines[int(np.argmax(bad))]}: no time.")
        steps = np.diff(piece.seconds, prepend=last)
        if (steps < 0).any():
            at = int(np.argmax(steps < 0))
            raise CaptureError(
                f"{path}, line {piece.lines[at]}: the time goes backwards by {-steps[at]:.9g} s (to {piece.seconds[at]:.9g} s)."
            )
        last = float(piece.seconds[-1]) if len(piece) else last
        yield piece


def spread(pieces: Iterable[Readings]) -> Iterator[Readings]:
    """Rows that share a time, evenly up to the next one. Times must not go backwards."""
    held: Readings | None = None
    every = 0.0
    for piece in pieces:
        if not len(piece):
            continue
        rows = piece if held is None else _joined(held, piece)
        begins = np.flatnonzero(np.append(True, np.diff(rows.seconds) > 0))
        if len(begins) == 1:  # all of one time so far
            held = rows
            continue
        counts, steps = np.diff(begins), np.diff(rows.seconds[begins])
        every = float(steps[-1] / counts[-1])
        within = np.arange(begins[-1]) - np.repeat(begins[:-1], counts)
        whole = rows.part(0, int(begins[-1]))
        yield Readings(whole.seconds + within * np.repeat(steps / counts, counts), whole.voltage, whole.current, whole.lines)
        held = rows.part(int(begins[-1]), len(rows))
    if held is not None:
        yield Readings(held.seconds + every * np.arange(len(held)), held.voltage, held.current, held.lines)


def _joined(one: Readings, other: Readings) -> Readings:
    return Readings(*(np.concatenate((getattr(one, name), getattr(other, name))) for name in ("seconds", "voltage", "current", "lines")))


def shared(pieces: Iterable[Readings]) -> tuple[int, int]:
    """(how many rows have the time of the row before them, all rows)."""
    same = rows = 0
    last: float | None = None
    for piece in pieces:
        if len(piece):
            steps = np.diff(piece.seconds, prepend=np.nan if last is None else last)
            same, rows, last = same + int((steps == 0).sum()), rows + len(piece), float(piece.seconds[-1])
    return same, rows


@dataclass(frozen=True)
class UnevenGrid:
    """The grid onto which readings at uneven times are brought. ``holes``: steps that are gaps; ``longest_s``: of the others."""

    grid: SampleGrid
    holes: int
    longest_s: float


def fit_uneven(path: Path, pieces: Iterable[Readings]) -> UnevenGrid:
    """A grid of the median step. Raises CaptureError for fewer than two times."""
    first = last = None
    rows = holes = 0
    longest = 0.0
    begin: list[F64] = []
    step = 0.0
    waiting: list[F64] = []

    def look(steps: F64) -> None:
        nonlocal holes, longest
        far = steps > _HOLE * step
        holes += int(far.sum())
        longest = max(longest, float(steps[~far].max(initial=0.0)))

    for piece in pieces:
        if not len(piece):
            continue
        steps = np.diff(piece.seconds) if last is None else np.diff(piece.seconds, prepend=last)
        first = float(piece.seconds[0]) if first is None else first
        last, rows = float(piece.seconds[-1]), rows + len(piece)
        if step:
            look(steps)
            continue
        begin.append(steps)
        waiting.append(steps)
        if rows >= _FIRST_ROWS:
            step = _median(begin)
            for early in waiting:
                look(early)
    if not step:
        step = _median(begin)
        for early in waiting:
            look(early)
    if first is None or last is None or not step > 0:
        raise CaptureError(f"{path}: {rows} row{'s' if rows != 1 else ''} of measurements; a waveform needs two at least.")
    span = int((last - first) / step + 1e-9)
    if span < 1:
        raise CaptureError(f"{path}: its rows are all of one time.")
    return UnevenGrid(SampleGrid(first + step / 2, step, step, span, rows, longest / 2), holes, longest)


def _median(steps: list[F64]) -> float:
    each = np.concatenate(steps) if steps else np.empty(0)
    each = each[each > 0]
    return float(f"{np.median(each):.4g}") if len(each) else 0.0


def means(pieces: Iterable[Readings], grid: UnevenGrid) -> Iterator[WaveformPiece]:
    """Means of the power, voltage and current over each place of the grid, by trapezoids between the readings."""
    step = grid.grid.step_s
    origin = grid.grid.first_s - step / 2
    place = 0
    last: Readings | None = None
    part = np.zeros(4)  # of the place that is not whole yet: s covered, and the integrals of W, V and A
    for piece in pieces:
        rows = piece if last is None else _joined(last, piece)
        if len(rows) < 2:
            last = rows
            continue
        at = rows.seconds - origin
        values = np.stack((rows.voltage * rows.current, rows.voltage, rows.current))
        width = np.diff(at)
        known = np.isfinite(values[0][:-1]) & np.isfinite(values[0][1:]) & (width <= _HOLE * step)
        clean = np.where(np.isfinite(values), values, 0.0)
        area = known * width * (clean[:, :-1] + clean[:, 1:]) / 2
        sums = np.concatenate((np.zeros((4, 1)), np.cumsum(np.vstack((known * width, area)), axis=1)), axis=1)
        ends = min(int((at[-1]) / step + 1e-9), grid.grid.span)
        edges = np.arange(place + 1, ends + 1) * step
        below = np.clip(np.searchsorted(at, edges, side="right") - 1, 0, len(width) - 1)
        ahead = np.minimum(edges - at[below], width[below])
        slope = np.divide(clean[:, 1:] - clean[:, :-1], width, out=np.zeros((3, len(width))), where=width > 0)[:, below]
        within = known[below] * ahead * (clean[:, below] + slope * ahead / 2)
        upto = sums[:, below] + np.vstack((known[below] * ahead, within))
        if len(edges):
            each = np.diff(np.concatenate((-part[:, None], upto), axis=1), axis=1)
            yield _piece(place, each, step)
            part = sums[:, -1] - upto[:, -1]
        else:
            part = part + sums[:, -1]
        place, last = max(place, ends), rows.part(len(rows) - 1, len(rows))


def _piece(place: int, each: F64, step: float) -> WaveformPiece:
    covered, power, voltage, current = each
    with np.errstate(divide="ignore", invalid="ignore"):
        power, voltage, current = power / covered, voltage / covered, current / covered
        current = np.where(np.abs(voltage) > _FLAT_V, power / voltage, current)
    current = np.where(covered >= _FULL * step, current, np.nan)
    index = place + np.arange(len(covered), dtype=np.int64)
    return WaveformPiece(index, voltage.astype(np.float32), current.astype(np.float32))
