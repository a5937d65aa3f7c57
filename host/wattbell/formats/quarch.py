"""Quarch: CSV as Quarch Power Studio exports it and QIS streams it.

``Time uS,<rail> voltage mV,<rail> current uA[,<rail> power uW][,Tot uW]`` (time may be nS), one row a stripe, empty if a channel had no
value. There are two older forms:

- ``Time,5V mV,5V uA,...,Tot uW,`` without a unit of the time and with an empty line behind the names (AN-022)
- ``StripeNum, Trig, 3V3_V, 3V3_I, ...`` in mV and uA, with numbered rows and no time

Lines of text may follow the last row (``Warning: Max file size exceeded``). A drive on two rails draws from both: the rail ``total`` is
their sum.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from ..errors import CaptureError, UsageError
from .fileformat import file_format
from .grid import SampleGrid
from .ranges import QUARCH
from .rows import waveform
from .text import F64, Head, Rows, TextColumns, fields, header, names, read_head
from .units import factor
from .waveform import About, Waveform, WaveformOptions, choose_rail, no_volts, with_power

NAME, TITLE = "quarch", "Quarch CSV"
TAKES = frozenset({"rail", "interval_s", "columns"})
_TIME = re.compile(r"^time(?:\s*(?P<unit>[num]?s))?$", re.IGNORECASE)
_NEW = re.compile(r"^(?P<rail>.+?)[ _]+(?P<what>voltage|current|power)[ _]+(?P<unit>\S+)$", re.IGNORECASE)
_OLD = re.compile(r"^(?P<rail>\S+)_(?P<what>[VI])$")
_BARE = re.compile(r"^(?P<rail>\d+(?:\.\d+)?V\w*) (?P<unit>[mun]?[VAW])$", re.IGNORECASE)
"""Names of AN-022: ``5V mV``. A name that does not begin with a voltage is no rail."""
_TOTAL = "total"
_TOTALS = ("tot", "total")


def matches(head: Head) -> bool:
    """Whether the first line is of one of the kinds."""
    found = [name for name in names(head) if name]
    if not found:
        return False
    bare = sum(_BARE.match(name) is not None for name in found) >= 2
    return found[0] == "StripeNum" or (_TIME.match(found[0]) is not None and (bare or any(_NEW.match(name) for name in found)))


@file_format(NAME, TITLE, matches, TAKES)
def open_files(paths: Sequence[Path], options: WaveformOptions) -> Waveform:
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
    unit = options.interval_s if numbered else _unit_of_time(path, time["unit"] if time else None, options)
    assert unit is not None
    rails = _old_rails(found) if numbered else rails_of(path, found)
    taken = _chosen(path, rails, options.rail)
    main = rails[taken[0]]
    volts = None if "voltage" in main else options.volts
    if "voltage" not in main and volts is None:
        raise no_volts(path, f"{taken[0]} has a current")
    wanted = {(rail, what): rails[rail][what] for rail in taken for what in ("current", "voltage") if what in rails[rail]}
    row = next((line for line in read_head(path).lines[1:] if line.strip()), "")
    width = len(fields(row, ",")) if not found[-1] and _filled_by(row, wanted.values()) else len(found)
    table = TextColumns(path, [0, *(place for place, _ in wanted.values())], width, remarks_allowed=True)

    def seconds(rows: Rows) -> F64:
        return rows.columns[0] * unit

    def values(rows: Rows) -> tuple[F64, F64]:
        got = {key: column * scale for (key, (_, scale)), column in zip(wanted.items(), rows.columns[1:], strict=True)}
        voltage = np.full(len(rows), volts.value) if volts else got[taken[0], "voltage"]
        if len(taken) == 1:
            return voltage, got[taken[0], "current"]
        power = np.sum([got[one, "voltage"] * got[one, "current"] for one in taken], axis=0)
        return voltage, with_power(voltage, got[taken[0], "current"], power)

    rail = taken[0] if len(taken) == 1 else _TOTAL
    notes = []
    if len(taken) > 1:
        each = ", ".join(taken)
        notes.append(f"the power is the sum of the rails {each}; the voltage is that of {taken[0]}, and the current goes with that power")

    def about(_grid: SampleGrid, _table: TextColumns) -> About:
        return About(TITLE, "Quarch power module", 0, 0, 0, volts=volts, range_=QUARCH, notes=tuple(notes), conditions={"rail": rail})

    made: Callable[[], Callable[[Rows], F64]] = lambda: seconds  # noqa: E731 - nothing to remember between rows
    return waveform(table, made, values, about)


def _filled_by(row: str, wanted: Iterable[tuple[int, float]]) -> bool:
    """Whether a row has the wanted columns: names may end in a comma that rows do not have (AN-022)."""
    return len(fields(row, ",")) > max(place for place, _ in wanted)


def _unit_of_time(path: Path, stated: str | None, options: WaveformOptions) -> float:
    """s of the file's unit. Raises CaptureError if neither the file nor the user says it."""
    column = options.columns.get("time")
    others = [role for role in options.columns if role != "time"]
    if others or (column is not None and stated is not None):
        options.refuse_unused(path, columns=f"({TITLE}) says itself which column is which")
    if stated is not None:
        return (factor(stated) or ("", 0.0))[1]
    known = factor(column.unit) if column is not None and column.unit else None
    if known is None or known[0] != "time":
        raise CaptureError(
            f"{path}, line 1: the column Time states no unit; say --column time=Time:us, the unit of Quarch's older programs."
        )
    return known[1]


def _chosen(path: Path, rails: Mapping[str, Mapping[str, tuple[int, float]]], wanted: str | None) -> list[str]:
    """One rail; or those that have a voltage and a current, with the rail ``total``. Raises CaptureError."""
    measured = [name for name, parts in rails.items() if "current" in parts and name.lower() not in _TOTALS]
    both = [name for name in measured if "voltage" in rails[name]]
    if wanted is not None and wanted.strip().lower() in _TOTALS:
        if not both:
            raise CaptureError(f"{path}: no rail in it has a voltage and a current, of which a total could be made.")
        return both
    try:
        return [choose_rail(path, measured, wanted)]
    except CaptureError as error:
        if wanted is not None or len(both) < 2:
            raise
        raise CaptureError(
            f"{str(error).removesuffix('choose one with --rail.')}a drive may draw from more than one: take their sum with "
            f"--rail {_TOTAL}, or one of them, as --rail {both[0]}."
        ) from None


def rails_of(path: Path | str, found: Sequence[str]) -> dict[str, dict[str, tuple[int, float]]]:
    """Return by rail the (column, factor to SI) of its voltage and current. Raises CaptureError for an unknown unit."""
    rails: dict[str, dict[str, tuple[int, float]]] = {}
    for place, name in enumerate(found):
        match = _NEW.match(name)
        bare = _BARE.match(name) if match is None else None
        if match is not None:
            what = match["what"].lower()
        elif bare is not None and (told := factor(bare["unit"])) is not None:
            match, what = bare, told[0]
        else:
            continue
        known = factor(match["unit"])
        if what == "power":  # of the voltage and current beside it
            continue
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
