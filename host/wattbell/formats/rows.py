"""A waveform from rows of a text file: what the formats of one line a sample have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from .grid import Grid, Placer, Stamps, fit
from .text import F64, Rows, Table
from .waveform import About, Growing, Piece, Waveform, ticks

Seconds = Callable[[Rows], F64]
"""Time stamps of rows in s."""
Values = Callable[[Rows], tuple[F64, F64]]
"""(V, A) of rows."""


def waveform(table: Table, seconds: Callable[[], Seconds], values: Values, about: Callable[[Grid, Table], About]) -> Waveform:
    """Goes through the file once to find its grid, and again for each reading.

    ``seconds`` makes the function that gives time stamps: a new one for each pass, since it may remember what came before. ``about`` is
    given the grid, and sets neither ``tick_ps`` nor ``interval_ticks`` nor ``span``. Raises CaptureError with the line.
    """
    stamps = seconds()
    grid = fit(table.path, (Stamps(rows.line, stamps(rows)) for rows in table.rows()))
    tick_ps, interval_ticks = ticks(grid.interval_s, grid.span, table.path)

    def read() -> Iterator[Piece]:
        placer, stamps = Placer(table.path, grid.step_s), seconds()
        for rows in table.rows():
            voltage, current = values(rows)
            yield Piece(placer.place(Stamps(rows.line, stamps(rows))), voltage.astype(np.float32), current.astype(np.float32))

    def grow(path: Path) -> Growing:
        growing = replace(table, path=path, remarks=[])
        placer, stamps = Placer(path, grid.step_s), seconds()

        def pieces() -> Iterator[Piece | None]:
            for rows in growing.follow():
                if rows is None:
                    yield None
                    continue
                voltage, current = values(rows)
                yield Piece(placer.place(Stamps(rows.line, stamps(rows))), voltage.astype(np.float32), current.astype(np.float32))

        return Growing(pieces(), growing.remarks)

    told = about(grid, table)
    notes = list(told.notes)
    if grid.off_s > 1e-4 * grid.interval_s:
        notes.append(f"time stamps of the file lie up to {grid.off_s:.3g} s off their grid of {grid.interval_s:.9g} s")
    if table.remarks:
        notes.append("remarks behind the last row of the file: " + "; ".join(table.remarks)[:200])
    if table.unended:
        notes.append("the last line of the file has no end: it may have been cut there")
    made = replace(told, tick_ps=tick_ps, interval_ticks=interval_ticks, span=grid.span, grid_s=min(grid.off_s, 1.0), notes=tuple(notes))
    return Waveform(made, read, grow)
