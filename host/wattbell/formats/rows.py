"""A waveform from rows of a text file: the code shared by formats with one line a sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from . import uneven
from .grid import NoGridError, Placer, SampleGrid, Stamps, fit
from .ranges import LeftOut
from .text import F64, Rows, TextColumns
from .waveform import About, Growing, Waveform, WaveformPiece, believable, ticks

Seconds = Callable[[Rows], F64]
"""Time stamps of rows in s."""
Values = Callable[[Rows], tuple[F64, F64]]
"""(V, A) of rows."""


def waveform(
    table: TextColumns,
    seconds: Callable[[], Seconds],
    values: Values,
    about: Callable[[SampleGrid, TextColumns], About],
    *,
    logger: bool = False,
) -> Waveform:
    """Go through the file once to find its grid, and again for each reading. Raises CaptureError with the line.

    seconds: makes the function that returns time stamps, a new one for each pass, since it may remember earlier rows
    about: called with the grid; sets neither ``tick_ps`` nor ``interval_ticks`` nor ``span``
    logger: the times may be a program's, not an instrument clock's, and lie on no grid (:mod:`.uneven`)
    """
    stamps = seconds()
    try:
        grid = fit(table.path, (Stamps(rows.line, stamps(rows), rows.lines) for rows in table.rows()))
    except NoGridError:
        if not logger:
            raise
        return _logged(table, seconds, values, about)

    def read() -> Iterator[WaveformPiece]:
        placer, stamps = Placer(table.path, grid.step_s), seconds()
        for rows in table.rows():
            yield _placed(placer, stamps, values, rows)

    told = about(grid, table)

    def grow(path: Path) -> Growing:
        growing = replace(table, path=path, remarks=[])
        placer, stamps = Placer(path, grid.step_s), seconds()
        left_out = LeftOut(told.range_)

        def pieces() -> Iterator[WaveformPiece | None]:
            for rows in growing.follow():
                if rows is None:
                    yield None
                    continue
                yield believable(_placed(placer, stamps, values, rows), left_out, stated_volts=told.volts is not None)

        def remarks() -> list[str]:
            text = [f"in the file stood: {'; '.join(growing.remarks)[:200]}"] if growing.remarks else []
            return [*text, *growing.skipped_words(), *left_out.notes()]

        return Growing(pieces(), remarks)

    return Waveform(_about(told, grid, table, _off(grid)), read, grow)


def _placed(placer: Placer, stamps: Seconds, values: Values, rows: Rows) -> WaveformPiece:
    voltage, current = values(rows)
    return WaveformPiece(placer.place(Stamps(rows.line, stamps(rows), rows.lines)), _f32(voltage), _f32(current))


def _f32(values: F64) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def _logged(
    table: TextColumns, seconds: Callable[[], Seconds], values: Values, about: Callable[[SampleGrid, TextColumns], About]
) -> Waveform:
    """Return the waveform of rows with times that lie on no grid."""
    path = table.path

    def readings() -> Iterator[uneven.Readings]:
        stamps = seconds()
        for rows in table.rows():
            voltage, current = values(rows)
            lines = rows.line + np.arange(len(rows)) if rows.lines is None else rows.lines
            yield uneven.Readings(stamps(rows), voltage, current, lines)

    def spread() -> Iterator[uneven.Readings]:
        return uneven.spread(uneven.checked(path, readings()))

    same, rows = uneven.shared(uneven.checked(path, readings()))
    notes = []
    if same:
        notes.append(f"{same} of {rows} rows share the time of the row before them: rows of one time are spread evenly up to the next time")
    try:
        if not same:
            raise NoGridError("no packets")
        grid = fit(path, (piece.stamps() for piece in spread()))
    except NoGridError:
        return _resampled(table, spread, about, notes)

    def read() -> Iterator[WaveformPiece]:
        placer = Placer(path, grid.step_s)
        for piece in spread():
            yield WaveformPiece(placer.place(piece.stamps()), _f32(piece.voltage), _f32(piece.current))

    return Waveform(_about(about(grid, table), grid, table, [*notes, *_off(grid)]), read)


def _resampled(table: TextColumns, spread: uneven.Source, about: Callable[[SampleGrid, TextColumns], About], notes: list[str]) -> Waveform:
    found = uneven.fit_uneven(table.path, spread())
    told = about(found.grid, table)
    left_out = LeftOut(told.range_)

    def believed() -> Iterator[uneven.Readings]:
        for piece in spread():
            inside = left_out.add(piece.voltage, piece.current, stated_volts=told.volts is not None)
            yield replace(piece, current=np.where(inside, piece.current, np.nan))

    grid = found.grid
    notes = [
        *notes,
        f"the time stamps lie on no grid: {grid.rows} readings were brought to {grid.span} samples of {grid.step_s:.4g} s by the trapezoid "
        f"rule on their own times; an instant is known to half of their longest step, {found.longest_s:.3g} s",
    ]
    if found.holes:
        notes.append(f"{found.holes} step{'s' if found.holes > 1 else ''} of more than four times the usual one are gaps")
    return Waveform(_about(told, grid, table, notes), lambda: uneven.means(believed(), found), judged=left_out)


def _off(grid: SampleGrid) -> list[str]:
    if grid.off_s <= 1e-4 * grid.interval_s:
        return []
    return [f"time stamps of the file lie up to {grid.off_s:.3g} s off their grid of {grid.interval_s:.9g} s"]


def _about(told: About, grid: SampleGrid, table: TextColumns, more: list[str]) -> About:
    tick_ps, interval_ticks = ticks(grid.interval_s, grid.span, table.path)
    notes = [*told.notes, *more, *table.skipped_words()]
    if table.remarks:
        notes.append("remarks behind the last row of the file: " + "; ".join(table.remarks)[:200])
    if table.unended:
        notes.append("the last line of the file has no end: it is left out, as it may be cut within a number")
    return replace(told, tick_ps=tick_ps, interval_ticks=interval_ticks, span=grid.span, grid_s=min(grid.off_s, 1.0), notes=tuple(notes))
