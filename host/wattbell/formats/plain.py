"""Plain CSV: one line of names with units, then one row a sample.

``time_s,voltage_v,current_ma``, ``Time [ms];I (uA);U (V)``: comma, semicolon or tab; the unit in brackets, after an underscore or after a
space. Or ``--column current=NAME:mA`` says it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..errors import CaptureError
from ..origin import stated_by
from .grid import Grid
from .rows import waveform
from .text import F64, Head, Rows, Table, fields, header
from .units import factor
from .waveform import About, Options, Utc, Waveform, no_volts, with_power

NAME, TITLE = "csv", "plain CSV"
TAKES = frozenset({"columns"})
_ROLES = {
    "time": ("t", "time", "timestamp", "elapsed", "x"),
    "current": ("i", "current", "amps"),
    "voltage": ("v", "u", "voltage", "volts"),
    "power": ("p", "power", "watts"),
}
_NAMED = re.compile(r"^(?P<name>.*?)(?:\s*[\[(]\s*(?P<bracket>[^\])]*?)\s*[\])]|[_ ](?P<tail>[^_ ]+))?$")
_EPOCH_S = 1e9


def matches(head: Head) -> bool:
    """Whether the first line has a time and a current or power by name."""
    if not head.lines:
        return False
    roles = {role for name in fields(head.lines[0], delimiter(head.lines[0])) if (role := split(name)[0])}
    return "time" in roles and bool(roles & {"current", "power"})


def delimiter(line: str) -> str:
    """Of a line of names."""
    return max(",;\t", key=line.count)


def split(name: str) -> tuple[str | None, str | None]:
    """(role, unit) that a column's name tells; None for what it does not."""
    match = _NAMED.match(name.strip())
    assert match is not None
    bare, unit = match["name"], match["bracket"] if match["bracket"] is not None else match["tail"]
    if unit is not None and match["bracket"] is None and factor(unit) is None:
        bare, unit = name.strip(), None
    role = next((role for role, words in _ROLES.items() if bare.strip().lower() in words), None)
    return role, unit or None


def open_files(paths: Sequence[Path], options: Options) -> Waveform:
    """Raises CaptureError with the line."""
    (path,) = paths
    line, _ = header(path)
    between = delimiter(line)
    found = fields(line, between)
    places = {role: place for role in _ROLES if (place := _place(path, found, role, options)) is not None}
    if "time" not in places or not {"current", "power"} & set(places):
        raise CaptureError(
            f"{path}, line 1: no column for {'the time' if 'time' not in places else 'current or power'} among {', '.join(found)[:80]}; "
            "say which with --column time=NAME:s --column current=NAME:A."
        )
    volts = None if "voltage" in places else options.volts
    if "voltage" not in places and volts is None:
        raise no_volts(path, f"there is only {' and '.join(role for role in places if role != 'time')}")
    roles = list(places)
    scale = [places[role][1] for role in roles]
    table = Table(path, [places[role][0] for role in roles], len(found), between)
    first: list[float] = []

    def seconds(rows: Rows) -> F64:
        found: F64 = rows.columns[0] * scale[0]
        if not first:
            first.append(float(found[0]))
        return found

    def values(rows: Rows) -> tuple[F64, F64]:
        got = {role: column * factor for role, column, factor in zip(roles, rows.columns, scale, strict=True)}
        voltage = got.get("voltage", np.full(len(rows), volts.value if volts else np.nan))
        current = got.get("current", np.zeros(len(rows)))
        return voltage, with_power(voltage, current, got["power"]) if "power" in got else current

    conditions = _stated(path, found, between)

    def about(_grid: Grid, _table: Table) -> About:
        utc = Utc(np.zeros(1, np.int64), np.array([round(first[0] * 1e9)], np.int64)) if first[0] > _EPOCH_S else None
        return About(TITLE, "unknown", 0, 0, 0, volts=volts, utc=utc, conditions=conditions)

    return waveform(table, lambda: seconds, values, about)


def _stated(path: Path, found: Sequence[str], between: str) -> dict[str, object]:
    """Whether the rows were made of a model, where Wattbell wrote them; by the first row."""
    if "origin" not in found:
        return {}
    with open(path, encoding="utf-8", errors="replace") as file:
        file.readline()
        row = fields(file.readline(1 << 16).rstrip("\r\n"), between)
    return {"virtual": stated_by(row[found.index("origin")])} if len(row) == len(found) else {}


def _place(path: Path, found: Sequence[str], role: str, options: Options) -> tuple[int, float] | None:
    """(column, factor to SI) of a role; None where no column is named so. Raises CaptureError for a unit that is unknown or missing."""
    column = options.columns.get(role)
    if column is not None:
        if column.name not in found:
            raise CaptureError(f"{path}, line 1: there is no column {column.name}; it has {', '.join(found)[:80]}.")
        place, unit = found.index(column.name), column.unit or split(column.name)[1]
    else:
        same = [place for place, name in enumerate(found) if split(name)[0] == role]
        if not same:
            return None
        if len(same) > 1:
            raise CaptureError(f"{path}, line 1: {len(same)} columns could be the {role}; say which with --column {role}=NAME:UNIT.")
        place, unit = same[0], split(found[same[0]])[1]
    name = found[place]
    if unit is None:
        raise CaptureError(f"{path}, line 1: the column {name[:40]} states no unit; say --column {role}={name[:40]}:UNIT.")
    known = factor(unit)
    if known is None or known[0] != role:
        raise CaptureError(f"{path}, line 1: {unit[:20]} is no unit of a {role}; say --column {role}={name[:40]}:UNIT.")
    return place, known[1]
