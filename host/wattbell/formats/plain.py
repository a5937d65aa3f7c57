"""CSV of any scope, supply or logger: rows of numbers, with or without lines before them (:mod:`.layout`).

Examples are ``time_s,voltage_v,current_ma``, ``Zeit [s];Strom [mA];Spannung [V]`` and ``Time (s),Channel 1 (V),Channel 2 (V)``. Columns are
separated by comma, semicolon, tab, bar or spaces. The unit is in brackets, after an underscore, a space or a slash, or in a line of units.
A column's name gives its quantity. Else its unit does, if no other column has a unit of that kind. ``--column current=NAME:mA`` overrides
both, and ``--column current=3:mA`` does so by number if no line has names. Times are numbers, texts (:mod:`.times`), or rows counted at a
stated interval.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from ..errors import CaptureError, UsageError
from ..origin import stated_by
from .cells import Reader, scales, unit_in
from .cells import quantities as quantities_of
from .fileformat import file_format
from .grid import SampleGrid
from .layout import FileLayout, layout_of
from .ranges import INA, MONSOON, PPK2, RAIL, MeasuringRange
from .rows import Seconds, waveform
from .text import F64, Head, Rows, TextColumns, fields, read_head
from .times import TextTimes, form_of
from .units import factor
from .waveform import About, Utc, Waveform, WaveformOptions, no_volts, with_power

NAME, TITLE = "csv", "plain CSV"
TAKES = frozenset({"columns", "interval_s"})
_ROLES = {
    "time": (
        *("t", "time", "timestamp", "time stamp", "elapsed", "elapsed time", "x", "x-axis", "date/time", "datetime", "date time"),
        *("unix time", "zeit", "zeitstempel", "uhrzeit", "temps", "tiempo", "tempo"),
    ),
    "current": ("i", "current", "curr", "amps", "strom", "courant", "corriente", "corrente"),
    "voltage": ("v", "u", "voltage", "volts", "volt", "spannung", "tension", "voltaje", "tensione"),
    "power": ("p", "power", "watts", "leistung", "puissance", "potencia", "potenza"),
}
_COUNTERS = frozenset(
    {
        *("sample", "samples", "index", "idx", "no", "no.", "nr", "nr.", "n", "#", "point", "points", "sequence", "seq", "record", "row"),
        *("count", "reading", "scan", "x", "sample number", "sample index", "sample no", "samplenum", "nummer"),
    }
)
"""Names of columns that number the rows."""
_NOT_THE_RAIL = re.compile(r"shunt|max|min|peak|std|dev|noise|limit|set(?![a-z])|error|offset|temp|bat(?!h)", re.IGNORECASE)
"""Words in the name of a column with the unit of the rail's voltage or current that is not the rail's."""
_NAMED = re.compile(
    r"^(?P<name>.*?)(?:\s*\bin\s+(?P<in>[^_ ()\[\]]+)|\s*[\[(]\s*(?P<bracket>[^\])]*?)\s*[\])]|\s*/\s*(?P<slash>[^/ ()\[\]]+)"
    r"|[_ ](?P<tail>[^_ ()\[\]]+))?$"
)
_BARE_UNIT = re.compile(
    r"[mnuµμ](?:[AaVvWw]|[sS])|(?:milli|micro)?(?:amps?|amperes?|volts?|watts?|seconds?)|[mun]?secs?|vdc", re.IGNORECASE
)
_CAPITALS = re.compile(r"[A-Z]{2}$")
"""A name that is a unit. In capitals it is none: ``PS`` is a power state, ``MV`` and ``PV`` are a controller's values, ``ADC`` is a
converter. ``Min`` is a minimum."""
_CHANNEL = re.compile(r"^(?P<name>(?:CH|CHAN|MATH|C|F)\d)(?P<unit>[VAW])$", re.IGNORECASE)
"""Rigol: ``CH1V``."""
_PROBE = re.compile(r"\b(?:probe|attenuation|tastkopf|tastteiler|sonde)", re.IGNORECASE)
_FACTOR = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e[+-]?\d+)?(?=\s*(?:[x×:,;\t\s\"]|$))", re.IGNORECASE)
_LETTERED = re.compile(r"^(?:channel|chan|ch|kanal|input|probe|trace|math|phase|analog|port|slot|rail|supply)$", re.IGNORECASE)
"""Words that a letter follows as a number: ``Channel A`` is no channel in amperes."""
_EPOCH_S = 1e9
_AS_MUCH = 2.0
"""Factor between a power and its voltage times current from which on they are not of the same thing."""
_DIGITS = 5.0
"""A power of fewer units of its last digit is too rough to be compared."""
_LABEL = re.compile(r"\b(?:channel|chan|ch|quantity|parameter|signal|sensor|rail|measurement|kanal|kanalnummer|variable)\b", re.IGNORECASE)
"""Words in the name of a column of numbers that labels the rows."""
_FRACTION = re.compile(r"fraction|^milli|^msec", re.IGNORECASE)
_TURNS = 1 / 3
"""Share of rows: a column that changes more often labels the rows."""
_KNOWN: tuple[tuple[re.Pattern[str], str, MeasuringRange], ...] = (
    (re.compile(r"\bINA ?-?2\d\d\b", re.IGNORECASE), "INA2xx", INA),
    (re.compile(r"\bMain (?:Avg |Average )?Current|\bMain ?\(mA\)|Monsoon", re.IGNORECASE), "Monsoon", MONSOON),
    (re.compile(r"\bPPK2?\b", re.IGNORECASE), "Nordic PPK2", PPK2),
)
"""Instruments recognized by the lines before the rows, with their measuring ranges."""


def matches(head: Head) -> bool:
    """Whether rows of numbers are found in it, or a line of names with a time and a current or power."""
    try:
        if layout_of(head) is not None:
            return True
    except CaptureError:
        return True
    names = fields(head.lines[0], max(",;\t", key=head.lines[0].count)) if head.lines else []
    roles = {split(name)[0] for name in names}
    return "time" in roles and bool(roles & {"current", "power"})


def split(name: str) -> tuple[str | None, str | None]:
    """Return (role, unit) of a column's name; None for a part that the name does not give."""
    bare, unit = _parts(name)
    role = next((role for role, words in _ROLES.items() if bare.lower() in words), None)
    if role is None and unit is None and _BARE_UNIT.fullmatch(bare) and not _CAPITALS.match(bare) and (known := factor(bare)) is not None:
        return known[0], bare
    if role is not None and unit is None and len(bare) > 1 and (known := factor(bare)) is not None and known[0] == role:
        unit = bare
    return role, unit


def _parts(name: str) -> tuple[str, str | None]:
    """(name without its unit, unit)."""
    channel = _CHANNEL.match(name.strip())
    if channel is not None:
        return channel["name"], channel["unit"]
    match = _NAMED.match(name.strip())
    assert match is not None
    unit = next((match[part] for part in ("bracket", "in", "slash", "tail") if match[part] is not None), None)
    if unit is not None and match["bracket"] is None and (factor(unit) is None or (len(unit) == 1 and _LETTERED.match(match["name"]))):
        return name.strip(), None
    return match["name"].strip(), unit or None


@dataclass(frozen=True)
class _Column:
    """A column of a role: its place from 0, and the factor to SI. ``guessed``: by its unit alone."""

    place: int
    scale: float
    guessed: bool = False


class _Columns:
    """Which column is which."""

    def __init__(self, head: Head, layout: FileLayout, options: WaveformOptions) -> None:
        self._path, self._layout, self._options = head.path, layout, options
        self.sample = [row for line in head.lines[layout.skip : -1] if len(row := fields(line, layout.delimiter)) == layout.width]
        self.names = list(layout.names) if layout.names is not None else [str(n) for n in range(1, layout.width + 1)]
        self._line = f"line {layout.skip}" if layout.names is not None else "line 1"
        self._units = self._all_units()
        self.shown = ", ".join(name for name in self.names if name)[:80]

    def _all_units(self) -> list[str | None]:
        """Return units by place, from the name, the line of units or the lines before them."""
        found: list[str | None] = []
        stated = _stated_units(self._layout.before, self._layout.delimiter, self.names, alone=sum(map(bool, self._layout.first)) == 1)
        for place, name in enumerate(self.names):
            by_line = self._layout.units[place] if place < len(self._layout.units) else None
            in_cells = self._layout.cell_units[place] if place < self._layout.width else None
            if in_cells is None and place in self._layout.units_beside:
                in_cells = self.first_value(self._layout.units_beside[place])
            found.append(in_cells or by_line or split(name)[1] or stated.get(name))
        if (
            self._layout.names is not None
            and self._layout.units
            and all(name == unit for name, unit in zip(self.names, self._layout.units))
        ):
            found = list(self._layout.units)  # the names are units
        return found

    def named(self, role: str) -> int | None:
        """The place of the column that the user says. Raises CaptureError if there is none of that name."""
        column = self._options.columns.get(role)
        if column is None:
            return None
        wanted = column.name.strip()
        for same in (
            [place for place, name in enumerate(self.names) if name == wanted],
            [place for place, name in enumerate(self.names) if name.lower() == wanted.lower()],
            [place for place, name in enumerate(self.names) if _parts(name)[0].lower() == wanted.lower()],
            [place for place, name in enumerate(self._layout.second) if name.lower() == wanted.lower()],
        ):
            if len(same) == 1:
                return same[0]
            if same:
                raise CaptureError(
                    f"{self._path}, {self._line}: {len(same)} columns are named {wanted[:40]}; say which by its number, such as --column "
                    f"{role}={same[0] + 1}:{_UNIT_OF[role]}."
                )
        if wanted.isdigit() and 1 <= int(wanted) <= self._layout.width:
            return int(wanted) - 1
        if self._layout.names is None:
            raise CaptureError(
                f"{self._path}: no line has names of columns, so a column is told by its number, 1 to {self._layout.width}: "
                f"--column {role}=1:{_UNIT_OF[role]}."
            )
        raise CaptureError(f"{self._path}, {self._line}: there is no column {wanted[:40]}; it has {self.shown}.")

    def find(self, role: str, *, others_known: bool = False) -> _Column | None:
        """Return the column of a quantity; None if neither the user, nor a name or unit in the file, gives one.

        Raises CaptureError for an unknown or missing unit, and for several columns.

        others_known: the current is known. Then power counts only if exactly one column's name says so, and the user did not name the
            current's column.
        """
        place = self.named(role)
        guessed = False
        if place is None:
            by_name = [n for n, name in enumerate(self.names) if n < self._layout.width and split(name)[0] == role]
            by_unit = [n for n, unit in enumerate(self._units) if n < self._layout.width and unit and (factor(unit) or ("",))[0] == role]
            others = {self.named(other) for other in self._options.columns if other != role}
            by_unit = [
                n
                for n in by_unit
                if n not in others and split(self.names[n])[0] in (None, role) and not _NOT_THE_RAIL.search(self.names[n])
            ]
            contained = [n for n in range(min(self._layout.width, len(self.names))) if _holds(self.names[n], role)]
            same = by_name or by_unit or contained
            if not same:
                return None
            guessed = not by_name
            if role == "power" and others_known and (guessed or len(same) > 1 or "current" in self._options.columns):
                return None
            if len(same) > 1:
                if role == "voltage" and self._options.volts is not None:
                    return None
                several = ", ".join(self.names[n] for n in same)[:80]
                raise CaptureError(
                    f"{self._path}, {self._line}: {len(same)} columns could be the {role} ({several}); say which with --column {role}="
                    f"{self.names[same[0]][:40]}{'' if self._units[same[0]] else ':UNIT'}."
                )
            place = same[0]
        column = self._options.columns.get(role)
        unit = column.unit if column is not None and column.unit else self._units[place]
        name = self.names[place]
        if unit is None:
            raise CaptureError(f"{self._path}, {self._line}: the column {name[:40]} states no unit; say --column {role}={name[:40]}:UNIT.")
        turned = column is not None and unit.startswith("-") and role in ("current", "power")
        known = factor(unit.removeprefix("-") if turned else unit)
        if known is None or known[0] != role:
            raise CaptureError(f"{self._path}, {self._line}: {unit[:20]} is no unit of a {role}; say --column {role}={name[:40]}:UNIT.")
        own = self.own_unit(place, role)
        return _Column(place, (1.0 if own == role else known[1]) * (-1 if turned else 1), guessed)

    def own_unit(self, place: int, role: str) -> str | None:
        """Return the kind of the units that the rows of a column have: in its cells, or in the column behind it. None without."""
        unit = self._layout.cell_units[place]
        if unit is None and role != "time" and place in self._layout.units_beside:
            unit = self.first_value(self._layout.units_beside[place])
        known = factor(unit) if unit else None
        return known[0] if known is not None else None

    def _sample(self, place: int) -> list[float]:
        """The first numbers of a column."""
        return [float(text) for row in self.sample if _is_plain(text := row[place].replace(",", "."))]

    def first_value(self, place: int) -> str:
        """Return the value of a column in the first row."""
        return self._layout.first[place] if place < len(self._layout.first) else ""

    def time(self) -> tuple[int, float | None] | None:
        """(place, factor to s) of the times, or (place, None) of times as text; None if no column has times."""
        place = self.named("time")
        if place is not None:
            if form_of(self.first_value(place)) is not None:
                return place, None
            column = self._options.columns["time"]
            if self._counts(place, wanted=column.unit is None):
                return None
            found = self.find("time")
            assert found is not None
            return found.place, found.scale
        texts = [n for n in range(self._layout.width) if form_of(self.first_value(n)) is not None]
        numbers = [n for n, name in enumerate(self.names) if n < self._layout.width and self._is_time(n, name) and n not in texts]
        stated = [n for n in numbers if (factor(self._units[n] or "") or ("",))[0] == "time"]
        falls = len(stated) == 1 and texts and any(b <= a for a, b in pairwise(self._sample(stated[0])))
        if len(stated) == 1 and not falls:
            own = self.own_unit(stated[0], "time")
            return stated[0], 1.0 if own else (factor(self._units[stated[0]] or "") or ("", 1.0))[1]
        if (not stated or falls) and texts:
            if len(texts) > 1:
                several = ", ".join(self.names[n] for n in texts)[:80]
                raise CaptureError(
                    f"{self._path}, {self._line}: {len(texts)} columns hold times ({several}); say which with --column time=NAME."
                )
            return texts[0], None
        if not numbers or self._counts(numbers[0]):
            return None
        found = self.find("time")
        return None if found is None else (found.place, found.scale)

    def fraction(self, time: tuple[int, float | None] | None) -> tuple[int, float] | None:
        """(place, factor to s) of a column with the fraction of a second of times as text; None if there is none."""
        if time is None or time[1] is not None or re.search(r"[.,]\d", self.first_value(time[0])[-10:]):
            return None
        for place, name in enumerate(self.names[: self._layout.width]):
            known = factor(self._units[place] or "") or ("", 1.0)
            if known[0] != "time" or place == time[0] or form_of(self.first_value(place)) is not None:
                continue
            values = np.array(self._sample(place)) * known[1]
            within = len(values) > 1 and bool(((values >= 0) & (values < 1)).all())
            if within and (_FRACTION.search(name) or (np.diff(values) <= 0).any()):
                return place, known[1]
        return None

    def _is_time(self, place: int, name: str) -> bool:
        return split(name)[0] == "time" or (factor(self._units[place] or "") or ("",))[0] == "time"

    def _counts(self, place: int, *, wanted: bool = False) -> bool:
        """Whether a column without a unit numbers the rows: there is an interval to multiply its numbers with, or its name says so."""
        if self._units[place] is not None:
            return False
        known = self._options.interval_s is not None or self._layout.interval is not None
        return known and (wanted or self.names[place].strip().lower() in _COUNTERS)

    def counter(self) -> int | None:
        """The place of a column that numbers the rows; None if there is none."""
        place = self.named("time")
        if place is not None:
            return place
        found = [n for n, name in enumerate(self.names) if n < self._layout.width and name.strip().lower() in _COUNTERS]
        return found[0] if found and self._units[found[0]] is None else None


_UNIT_OF = {"time": "s", "current": "A", "voltage": "V", "power": "W"}
_HOLDS = {
    "current": re.compile(r"\b(curr|current)\b", re.IGNORECASE),
    "voltage": re.compile(r"\b(volt|voltage)\b", re.IGNORECASE),
    "power": re.compile(r"\b(power|watt)\b", re.IGNORECASE),
}


def _holds(name: str, role: str) -> bool:
    """Whether a name has a word for a quantity in it."""
    return role in _HOLDS and _HOLDS[role].search(name) is not None and not _NOT_THE_RAIL.search(name)


def _stated_units(before: Sequence[str], delimiter: str, names: Sequence[str], *, alone: bool) -> dict[str, str]:
    """Units by column that lines such as ``Vertical Units,CH1:A,CH2:V`` and ``Horizontal Units,s`` state.

    alone: whether the rows have one column, which then holds no times
    """
    found: dict[str, str] = {}
    for line in before:
        title, *values = [value.strip().strip('"') for value in line.split(delimiter)]
        if not re.match(r"(vertical|horizontal|y|x)[ _-]?units?$", title, re.IGNORECASE):
            continue
        horizontal = title[0] in "hHxX"
        if horizontal and alone:
            continue
        for place, value in enumerate(values):
            name, colon, unit = value.rpartition(":")
            at = place + (0 if alone else 1)
            where = name if colon else names[0] if horizontal else names[at] if at < len(names) else ""
            if where in names and factor(unit) is not None:
                found.setdefault(where, unit)
            if horizontal:
                break
    return found


@file_format(NAME, TITLE, matches, TAKES, general=True)
def open_files(paths: Sequence[Path], options: WaveformOptions) -> Waveform:
    """Raises CaptureError with the line."""
    (path,) = paths
    head = read_head(path)
    layout = layout_of(head)
    if layout is None:
        raise CaptureError(
            f"{path}, line 1: 0 rows of measurements, or no table of numbers; it needs two rows at least. "
            "Export it with one reading a line, in columns, with a time in each."
        )
    columns = _Columns(head, layout, options)
    time = columns.time()
    current = columns.find("current")
    power = columns.find("power", others_known=current is not None)
    quantities = {role: found for role, found in (("current", current), ("power", power)) if found is not None}
    _must_have(path, layout, columns, quantities, timed=time is not None, interval=options.interval_s or layout.interval)
    if (voltage := columns.find("voltage")) is not None:
        quantities["voltage"] = voltage
    guessed = "voltage" in quantities and quantities["voltage"].guessed and "voltage" not in options.columns
    if guessed and options.volts is not None:  # the user's statement goes before a guess
        del quantities["voltage"]
    volts = None if "voltage" in quantities else options.volts
    if "voltage" not in quantities and volts is None:
        other = f", or say which of its columns it is ({columns.shown}), as --column voltage=NAME:V" if len(columns.names) > 2 else ""
        raise no_volts(path, f"there is only {' and '.join(quantities)}", other)
    if time is not None:
        options.refuse_unused(path, interval_s=f"({TITLE}) has times of its own")
    used = {column.place for column in quantities.values()} | ({time[0]} if time is not None else set())
    if (fraction := columns.fraction(time)) is not None:
        used.add(fraction[0])
    used |= {layout.units_beside[place] for place in used if place in layout.units_beside}
    _refuse_labels(path, columns, used)
    _refuse_other_power(path, layout, columns, quantities)
    return _waveform(head, layout, columns, quantities, time, options)


def _refuse_labels(path: Path, columns: _Columns, used: set[int]) -> None:
    """Raise CaptureError if a column labels the rows, since several channels then stand below one another."""
    for place in set(range(len(columns.sample[0]) if columns.sample else 0)) - used:
        values = [row[place].strip() for row in columns.sample]
        name = columns.names[place] if place < len(columns.names) else ""
        words = not any(_is_plain(value) or unit_in(value) is not None for value in values)
        if not (words or _LABEL.search(name)) or any(form_of(value) for value in values):
            continue
        kinds = sorted(set(values))
        turns = sum(one != other for one, other in zip(values, values[1:], strict=False))
        if 1 < len(kinds) <= max(2, len(values) // 4) and turns > _TURNS * len(values):
            shown = ", ".join(repr(kind) for kind in kinds[:4])
            raise CaptureError(
                f"{path}: rows of several quantities stand below one another, as the column {name or place + 1} tells ({shown}). Give each "
                "a column of its own, in rows of one time (a pivot table), or leave only the rows of one."
            )


def _is_plain(value: str) -> bool:
    try:
        float(value.replace(",", "."))
    except ValueError:
        return False
    return True


def _refuse_other_power(path: Path, layout: FileLayout, columns: _Columns, quantities: dict[str, _Column]) -> None:
    """Raise CaptureError if the power differs from voltage times current, summed over the first rows."""
    if not {"power", "current", "voltage"} <= quantities.keys():
        return
    sums = {"power": 0.0, "product": 0.0}
    for row in columns.sample:
        texts = {role: row[column.place].replace(",", ".") for role, column in quantities.items()}
        if not all(_is_plain(text) for text in texts.values()):
            continue
        value = {role: float(text) * quantities[role].scale for role, text in texts.items()}
        product = value["voltage"] * value["current"]
        last_digit = 10.0 ** -len(texts["power"].lower().partition("e")[0].partition(".")[2]) * quantities["power"].scale
        if np.isfinite(product) and np.isfinite(value["power"]) and abs(product) > _DIGITS * last_digit:
            sums = {"power": sums["power"] + value["power"], "product": sums["product"] + product}
    ratio = sums["power"] / sums["product"] if sums["product"] else 1.0
    if 1 / _AS_MUCH <= ratio <= _AS_MUCH:
        return
    name = {role: columns.names[column.place] for role, column in quantities.items()}
    raise CaptureError(
        f"{path}, line {max(1, layout.skip)}: the column {name['power']} is {ratio:.4g} times {name['voltage']} x {name['current']}: a "
        f"unit is wrong, or they are of different rails. State the unit, as --column power={name['power']}:mW, or leave the power out with "
        f"--column current={name['current']}."
    )


def _must_have(path: Path, layout: FileLayout, columns: _Columns, quantities: dict[str, _Column], *, timed: bool, interval: object) -> None:
    """Raise CaptureError for a missing quantity, or UsageError if only the interval is missing."""
    named = layout.names is not None
    without = [] if "current" in quantities or "power" in quantities else ["current or power"]
    if not timed and interval is None:
        without.insert(0, "the time")
    if not without:
        return
    if without == ["the time"]:
        raise UsageError(
            f"{path} has no column of times and no line that says how far its rows are apart; if they are evenly spaced, state the time "
            "between two as --interval, such as --interval 1ms."
        )
    numbers = "" if named else f"no line has names of its {layout.width} column{'s' if layout.width > 1 else ''}; "
    what = f"{numbers}no column for {' and '.join(without)}" + (f" among {columns.shown}" if named else " is known")
    time = "--column time=NAME:s " if "the time" in without and layout.width > 1 else ""
    evenly = " If it has no times and its rows are evenly spaced, add --interval." if "the time" in without else ""
    example = f"{time}--column current=NAME:A" if named else f"{time}--column current=NUMBER:A".replace("time=NAME", "time=1")
    raise CaptureError(f"{path}, line {max(1, layout.skip)}: {what}; say which with {example}.{evenly}")


def _waveform(
    head: Head,
    layout: FileLayout,
    columns: _Columns,
    quantities: dict[str, _Column],
    time: tuple[int, float | None] | None,
    options: WaveformOptions,
) -> Waveform:
    path = head.path
    volts = None if "voltage" in quantities else options.volts
    counter = columns.counter() if time is None else None
    place = time[0] if time is not None else counter
    interval_s, notes = _interval(path, layout, options) if time is None else (0.0, [])
    if layout.decimal_comma:
        notes.append("numbers of the file have decimal commas")
    notes += _probes(layout)
    times = TextTimes(columns.first_value(time[0])) if time is not None and time[1] is None else None
    roles = list(quantities)
    readers: dict[int, Reader] = {}
    beside: dict[str, int] = {}
    for role, at in [*((role, quantities[role].place) for role in roles), *([] if time is None or times else [("time", time[0])])]:
        kind = columns.own_unit(at, role)
        if kind is None:
            continue
        if layout.cell_units[at] is not None:
            readers[at] = quantities_of(kind, decimal_comma=layout.decimal_comma)
        else:
            beside[role] = layout.units_beside[at]
            readers[beside[role]] = scales(kind)
    fraction = columns.fraction(time)
    wanted = [*([] if place is None else [place]), *(quantities[role].place for role in roles), *beside.values()]
    if fraction is not None:
        wanted.append(fraction[0])
    table = TextColumns(
        path,
        wanted,
        layout.width,
        layout.delimiter,
        remarks_allowed=True,
        skip=layout.skip,
        timed=place is not None,
        decimal_comma=layout.decimal_comma,
        times=times,
        readers=readers,
        thousands=layout.thousands,
        foreign=_foreign(layout),
    )
    scale = [quantities[role].scale for role in roles]
    for role in roles:
        column = quantities[role]
        if column.guessed and role not in options.columns:
            notes.append(f"the {role} is the column {columns.names[column.place]}, by its unit")

    def seconds() -> Seconds:
        done = 0

        def stamps(rows: Rows) -> F64:
            nonlocal done
            if place is None:
                done += len(rows)
                return np.asarray((np.arange(len(rows)) + (done - len(rows))) * interval_s, np.float64)
            found = rows.columns[0]
            if fraction is not None:
                return np.asarray(found + rows.columns[-1] * fraction[1], np.float64)
            if times is not None:
                return found
            return np.asarray(found * (interval_s if time is None else time[1] or 1.0), np.float64)

        return stamps

    def values(rows: Rows) -> tuple[F64, F64]:
        first = int(place is not None)
        read = rows.columns[first : first + len(roles)]
        got = {role: column * factor for role, column, factor in zip(roles, read, scale, strict=True)}
        for role, units in zip(beside, rows.columns[first + len(roles) :], strict=False):
            got[role] = got[role] * units
        voltage = got.get("voltage", np.full(len(rows), volts.value if volts else np.nan))
        current = got.get("current", np.zeros(len(rows)))
        return voltage, with_power(voltage, current, got["power"]) if "power" in got else current

    instrument, range_ = next(((who, what) for pattern, who, what in _KNOWN if pattern.search(layout.before_words())), ("unknown", RAIL))
    conditions = _stated(head, layout)

    def about(grid: SampleGrid, _table: TextColumns) -> About:
        utc_s = None
        more = list(notes)
        if times is not None:
            utc_s = None if times.utc_ns is None else times.utc_ns * 1e-9
            if utc_s is None:
                more.append("the times in the file have no zone: what time of day they are is not known")
        elif time is not None and grid.first_s > _EPOCH_S:
            utc_s = 0.0
        begin = None if utc_s is None else round(utc_s * 1e9) + round(grid.first_s * 1e9)
        utc = None if begin is None else Utc(np.zeros(1, np.int64), np.array([begin], np.int64))
        return About(TITLE, instrument, 0, 0, 0, volts=volts, utc=utc, range_=range_, notes=tuple(more), conditions=conditions)

    return waveform(table, seconds, values, about, logger=time is not None)


def _interval(path: Path, layout: FileLayout, options: WaveformOptions) -> tuple[float, list[str]]:
    """(s between two rows, notes). Raises UsageError if the user says another than the file."""
    said = layout.interval
    if options.interval_s is None:
        assert said is not None
        return said[0], [f"rows are {said[0]:g} s apart, as line {said[1]} of the file says"]
    if said is not None and abs(said[0] - options.interval_s) > 1e-6 * said[0]:
        raise UsageError(f"--interval {options.interval_s:g} s: {path}, line {said[1]} says {said[0]:g} s. Leave --interval out.")
    return options.interval_s, [f"rows are {options.interval_s:g} s apart, as the user states"]


def _probes(layout: FileLayout) -> list[str]:
    """Return notes on probes with a factor stated before the rows.

    Scopes put the factor into their values; this file does not show whether its scope did.
    """
    found = []
    for line in layout.before:
        known = _PROBE.search(line)
        factors = [float(number) for number in _FACTOR.findall(line[known.end() :])] if known else []
        if any(factor not in (0, 1) for factor in factors):
            text = " ".join(line.split())[:60]
            found.append(f"the file states a probe's factor ({text}): its values are taken as they are, as scopes put the factor into them")
    return found


def _foreign(layout: FileLayout) -> Callable[[str], bool]:
    """Return a function that says whether a line among the rows is a comment, or repeats the names, as after a logger's restart."""
    again = {line.strip().lower() for line in layout.before}
    names = [name.strip().lower() for name in layout.names or ()]

    def foreign(line: str) -> bool:
        bare = line.strip()
        if bare.startswith(("#", "%", "//")) or bare.lower() in again:
            return True
        return bool(names) and [value.strip().strip('"').lower() for value in bare.lstrip("# ").split(layout.delimiter)] == names

    return foreign


def _stated(head: Head, layout: FileLayout) -> dict[str, object]:
    """Whether the rows were made of a model, where Wattbell wrote them; by the first row."""
    names = list(layout.names or ())
    if "origin" not in names or layout.skip >= len(head.lines):
        return {}
    row = fields(head.lines[layout.skip], layout.delimiter)
    return {"virtual": stated_by(row[names.index("origin")])} if len(row) == len(names) else {}
