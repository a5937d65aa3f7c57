"""Quarch: CSV as Quarch Power Studio exports it and QIS streams it.

``Time uS,<rail> voltage mV,<rail> current uA[,<rail> power uW][,Tot uW]`` (time may be nS), one row a stripe, empty where a channel had no
value. Older: ``StripeNum, Trig, 3V3_V, 3V3_I, ...`` in mV and uA, whose rows are numbered and carry no time. Lines of text may stand behind
the last row (``Warning: Max file size exceeded``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from ..errors import CaptureError, UsageError
from .grid import Grid
from .rows import waveform
from .text import F64, Head, Rows, Table, header, names
from .units import factor
from .waveform import About, Options, Waveform, choose_rail, no_volts

NAME, TITLE = "quarch", "Quarch CSV"
TAKES = frozenset({"rail", "interval_s"})
_TIME = re.compile(r"^time\s*(?P<unit>[num]?s)$", re.IGNORECASE)
_NEW = re.compile(r"^(?P<rail>.+?)[ _]+(?P<what>voltage|current)[ _]+(?P<unit>\S+)$", re.IGNORECASE)
_OLD = re.compile(r"^(?P<rail>\S+)_(?P<what>[VI])$")


def matches(head: Head) -> bool:
    """Whether the first line is of one of the two kinds."""
    found = names(head)
    return bool(found) and (found[0] == "StripeNum" or (_TIME.match(found[0]) is not None and any(_NEW.match(name) for name in found)))


def open_files(paths: Sequence[Path], options: Options) -> Waveform:
    """Raises CaptureError with the line, UsageError where the interval of numbered rows is not given."""
    (path,) = paths
    _, found = header(path)
    time = _TIME.match(found[0]) if found else None
    numbered = bool(found) and found[0] == "StripeNum"
    if time is None and not numbered:
        raise CaptureError(f"{path}, line 1: the first column is {(found or [''])[0][:40]!r}, not Time uS, Time nS or StripeNum.")
    if numbered and options.interval_s is None:
        raise UsageError(
            f"{path} numbers its rows and gives no times: give the time between two as --interval, in seconds (4e-6 x averaging)."
        )
    if not numbered:
        options.refuse_unused(path, interval_s="has times of its own")
    rails = _old_rails(found) if numbered else rails_of(path, found)
    rail = choose_rail(path, [name for name, parts in rails.items() if "current" in parts], options.rail)
    parts = rails[rail]
    volts = None if "voltage" in parts else options.volts
    if "voltage" not in parts and volts is None:
        raise no_volts(path, f"{rail} has a current")
    unit = options.interval_s if numbered else (factor(time["unit"]) or ("", 0.0))[1] if time else None
    assert unit is not None
    places = [0, parts["current"][0]] + ([parts["voltage"][0]] if volts is None else [])
    table = Table(path, places, len(found), remarks_allowed=True)

    def seconds(rows: Rows) -> F64:
        return rows.columns[0] * unit

    def values(rows: Rows) -> tuple[F64, F64]:
        current = rows.columns[1] * parts["current"][1]
        return (np.full(len(rows), volts.value) if volts else rows.columns[2] * parts["voltage"][1]), current

    def about(_grid: Grid, _table: Table) -> About:
        return About(TITLE, "Quarch power module", 0, 0, 0, volts=volts, conditions={"rail": rail})

    made: Callable[[], Callable[[Rows], F64]] = lambda: seconds  # noqa: E731 - nothing to remember between rows
    return waveform(table, made, values, about)


def rails_of(path: Path | str, found: Sequence[str]) -> dict[str, dict[str, tuple[int, float]]]:
    """By rail: (column, factor to SI) of its voltage and current. Raises CaptureError for a unit that is not known."""
    rails: dict[str, dict[str, tuple[int, float]]] = {}
    for place, name in enumerate(found):
        match = _NEW.match(name)
        if match is None:
            continue
        known, what = factor(match["unit"]), match["what"].lower()
        if known is None or known[0] != what:
            raise CaptureError(f"{path}, line 1: the unit of the column {name[:40]} is unknown.")
        rails.setdefault(match["rail"], {})[what] = (place, known[1])
    return rails


def _old_rails(found: Sequence[str]) -> dict[str, dict[str, tuple[int, float]]]:
    rails: dict[str, dict[str, tuple[int, float]]] = {}
    for place, name in enumerate(found):
        match = _OLD.match(name)
        if match is not None:
            what, scale = ("voltage", 1e-3) if match["what"] == "V" else ("current", 1e-6)
            rails.setdefault(match["rail"], {})[what] = (place, scale)
    return rails
