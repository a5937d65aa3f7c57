"""Joulescope UI: its statistics CSV.

``#time,current,voltage,power,charge,energy``: one row for each interval of averaging, in SI units; ``time`` is its end, counted from the
end of the first one, or UTC as ``20240131T235959.5Z`` (pyjoulescope_ui, ``statistics_record.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..errors import CaptureError
from .fileformat import file_format
from .grid import SampleGrid
from .ranges import JOULESCOPE
from .rows import waveform
from .text import F64, Head, Rows, TextColumns, fields, header, read_head
from .times import TextTimes, form_of
from .waveform import About, Utc, Waveform, WaveformOptions, with_power

NAME, TITLE = "joulescope-csv", "Joulescope statistics CSV"
TAKES = frozenset[str]()
_COLUMNS = ("current", "voltage", "power")


def matches(head: Head) -> bool:
    """Whether the first line is this program's."""
    found = fields(head.lines[0], ",") if head.lines else []
    return bool(found) and found[0].startswith("#") and [name.lstrip("#") for name in found][-5:-2] == list(_COLUMNS)


@file_format(NAME, TITLE, matches, TAKES)
def open_files(paths: Sequence[Path], options: WaveformOptions) -> Waveform:
    """Raises CaptureError with the line."""
    (path,) = paths
    _, found = header(path)
    found = [name.lstrip("#") for name in found]
    if "time" not in found:
        raise CaptureError(f"{path}, line 1: there is no column of times; record it again with the time format relative.")
    first = fields(lines[1], ",")[found.index("time")] if len(lines := read_head(path).lines) > 1 else ""
    times = TextTimes(first) if form_of(first) is not None else None
    table = TextColumns(path, [found.index(name) for name in ("time", *_COLUMNS)], len(found), times=times)

    def seconds(rows: Rows) -> F64:
        return rows.columns[0]

    def values(rows: Rows) -> tuple[F64, F64]:
        _, current, voltage, power = rows.columns
        return voltage, with_power(voltage, current, power)

    def about(_grid: SampleGrid, _table: TextColumns) -> About:
        known = None if times is None else times.utc_ns
        utc = None if known is None else Utc(np.zeros(1, np.int64), np.array([known], np.int64))
        note = "voltage and current of each sample are means over its interval; the current is the mean power by the mean voltage"
        return About(TITLE, "Joulescope", 0, 0, 0, utc=utc, range_=JOULESCOPE, notes=(note,))

    return waveform(table, lambda: seconds, values, about)
