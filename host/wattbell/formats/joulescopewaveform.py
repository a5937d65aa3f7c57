"""Joulescope UI 1.2 and later: "Export visible data as CSV" of the waveform widget.

``# time,JS220-000001.i,JS220-000001.v,JS220-000001.p``: seconds and SI units, one column a signal that was shown, as NumPy's ``savetxt``
writes them (pyjoulescope_ui, ``waveform_widget.py``). A gap of the instrument is ``nan``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..errors import CaptureError
from .fileformat import file_format
from .grid import SampleGrid
from .ranges import JOULESCOPE
from .rows import Seconds, waveform
from .text import F64, Head, Rows, TextColumns, fields, header
from .waveform import About, Utc, Waveform, WaveformOptions, choose_rail, no_volts, with_power

NAME, TITLE = "joulescope-waveform", "Joulescope waveform CSV"
TAKES = frozenset({"rail"})
_SIGNAL = re.compile(r"^(?P<source>.+)\.(?P<what>[ivp])$")
_ROLES = {"i": "current", "v": "voltage", "p": "power"}
_EPOCH_S = 1e9


def _names(line: str) -> list[str]:
    return fields(line.lstrip("# "), ",")


def matches(head: Head) -> bool:
    """Whether the first line is this program's."""
    if not head.lines or not head.lines[0].startswith("#"):
        return False
    found = _names(head.lines[0])
    return len(found) > 1 and found[0] == "time" and any(_SIGNAL.match(name) for name in found[1:])


@file_format(NAME, TITLE, matches, TAKES)
def open_files(paths: Sequence[Path], options: WaveformOptions) -> Waveform:
    """Raises CaptureError with the line."""
    (path,) = paths
    found = _names(header(path)[0])
    rails: dict[str, dict[str, int]] = {}
    for place, name in enumerate(found):
        match = _SIGNAL.match(name)
        if match is not None:
            rails.setdefault(match["source"], {})[_ROLES[match["what"]]] = place
    if found[:1] != ["time"] or not rails:
        raise CaptureError(f"{path}, line 1: the columns are {', '.join(found)[:80]}, not time and signals such as JS220-000001.i.")
    rail = choose_rail(path, [source for source, parts in rails.items() if parts.keys() & {"current", "power"}], options.rail)
    roles = rails[rail]
    volts = None if "voltage" in roles else options.volts
    if "voltage" not in roles and volts is None:
        raise no_volts(path, f"there is only {' and '.join(roles)}")
    table = TextColumns(path, [0, *roles.values()], len(found))

    def seconds(rows: Rows) -> F64:
        return rows.columns[0]

    def values(rows: Rows) -> tuple[F64, F64]:
        got = dict(zip(roles, rows.columns[1:], strict=True))
        voltage = got.get("voltage", np.full(len(rows), volts.value if volts else np.nan))
        current = got.get("current", np.zeros(len(rows)))
        return voltage, with_power(voltage, current, got["power"]) if "power" in got else current

    def about(grid: SampleGrid, _table: TextColumns) -> About:
        utc = Utc(np.zeros(1, np.int64), np.array([round(grid.first_s * 1e9)], np.int64)) if grid.first_s > _EPOCH_S else None
        return About(TITLE, f"Joulescope {rail}", 0, 0, 0, volts=volts, utc=utc, range_=JOULESCOPE, conditions={"rail": rail})

    made: Seconds = seconds
    return waveform(table, lambda: made, values, about)
