"""Joulescope UI: its statistics CSV.

``#time,current,voltage,power,charge,energy``: one row for each interval of averaging, in SI units; ``time`` is its end, counted from the
end of the first one, or UTC as ``20240131T235959.5Z`` (pyjoulescope_ui, ``statistics_record.py``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ..errors import CaptureError
from .grid import Grid
from .ranges import JOULESCOPE
from .rows import waveform
from .text import F64, Head, Rows, Table, fields, header, read_head
from .waveform import About, Options, Waveform, with_power

NAME, TITLE = "joulescope-csv", "Joulescope statistics CSV"
TAKES = frozenset[str]()
_COLUMNS = ("current", "voltage", "power")
_UTC = re.compile(r"^\d{8}T\d{6}")


def matches(head: Head) -> bool:
    """Whether the first line is this program's."""
    found = fields(head.lines[0], ",") if head.lines else []
    return bool(found) and found[0].startswith("#") and [name.lstrip("#") for name in found][-5:-2] == list(_COLUMNS)


def open_files(paths: Sequence[Path], options: Options) -> Waveform:
    """Raises CaptureError with the line."""
    (path,) = paths
    _, found = header(path)
    found = [name.lstrip("#") for name in found]
    if "time" not in found:
        raise CaptureError(f"{path}, line 1: there is no column of times; record it again with the time format relative.")
    table = Table(path, [found.index(name) for name in ("time", *_COLUMNS)], len(found))
    if len(lines := read_head(path).lines) > 1 and _UTC.match(fields(lines[1], ",")[0]):
        raise CaptureError(
            f"{path}, line 2: the times are UTC texts; record it again with the time format relative (--start sets the UTC)."
        )

    def seconds(rows: Rows) -> F64:
        return rows.columns[0]

    def values(rows: Rows) -> tuple[F64, F64]:
        _, current, voltage, power = rows.columns
        return voltage, with_power(voltage, current, power)

    def about(_grid: Grid, _table: Table) -> About:
        note = "voltage and current of each sample are means over its interval; the current is the mean power by the mean voltage"
        return About(TITLE, "Joulescope", 0, 0, 0, range_=JOULESCOPE, notes=(note,))

    return waveform(table, lambda: seconds, values, about)
