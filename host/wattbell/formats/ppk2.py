"""Nordic Power Profiler Kit II: the CSV export of nRF Connect Power Profiler.

``Timestamp(ms),Current(uA)[,D0-D7][,D0,...,D7]``. The program leaves out rows of lost samples, and each of the columns can be left out of
the export (pc-nrfconnect-ppk, ``exportChartAction.ts``). It measures no voltage.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..errors import CaptureError
from .fileformat import file_format
from .grid import SampleGrid
from .ranges import PPK2
from .rows import waveform
from .text import F64, Head, Rows, TextColumns, header, names
from .waveform import About, Waveform, WaveformOptions, no_volts

NAME, TITLE = "ppk2", "PPK2 CSV"
TAKES = frozenset[str]()
_TIME, _CURRENT = "Timestamp(ms)", "Current(uA)"
_OTHERS = re.compile(r"D0-D7|D[0-7]|Bits|", re.IGNORECASE)
"""Its other columns: the digital channels. With any other column, a file is another program's."""


def matches(head: Head) -> bool:
    """Whether the first line is this program's."""
    found = names(head)
    return any(name in (_TIME, _CURRENT) for name in found) and all(name in (_TIME, _CURRENT) or _OTHERS.fullmatch(name) for name in found)


@file_format(NAME, TITLE, matches, TAKES)
def open_files(paths: Sequence[Path], options: WaveformOptions) -> Waveform:
    """Raises CaptureError with the line."""
    (path,) = paths
    _, found = header(path)
    if _TIME not in found or _CURRENT not in found:
        missing = _CURRENT if _TIME in found else _TIME
        raise CaptureError(f"{path}, line 1: there is no column {missing}; export it again with timestamp and current.")
    volts = options.volts
    if volts is None:
        raise no_volts(path, "a PPK2 measures current")

    def seconds(rows: Rows) -> F64:
        return rows.columns[0] * 1e-3

    def values(rows: Rows) -> tuple[F64, F64]:
        return np.full(len(rows), volts.value), rows.columns[1] * 1e-6

    def about(_grid: SampleGrid, _table: TextColumns) -> About:
        return About(TITLE, "Nordic PPK2", 0, 0, 0, volts=volts, range_=PPK2)

    table = TextColumns(path, (found.index(_TIME), found.index(_CURRENT)), len(found))
    return waveform(table, lambda: seconds, values, about)
