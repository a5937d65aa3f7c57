"""Find the layout of a table of numbers in a text file by its beginning: the first row, the lines before it, the form of numbers.

Programs and instruments may put lines before the names (a title, ``Model: N6705C``, ``Sample Interval,1e-06``). They may put a line of
units behind the names (``Sequence,Volt,Volt``, ``(ms),(V),(A)``), give no names at all, or write ``sep=;`` for a spreadsheet. The rows are
found first, as the lines of numbers. The names are the last line before them that has as many fields.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import CaptureError
from .cells import ENGLISH, GERMAN, ONE_GROUP, SPACED_RE, is_no_reading, tidy_text, unit_in
from .text import Head, fields
from .times import form_of
from .units import factor

_UNIT_COLUMN = re.compile(r"unit|einheit|unidad", re.IGNORECASE)
_LOOKED_AT = 6
"""Lines that decide on rows: the first two must be rows, and most of the others. A damaged line is reported when the rows are read."""
_SETTINGS = 2
"""How many times longer than an earlier table of numbers the rows are, if the earlier one has settings."""
_DELIMITERS = (",", ";", "\t", "|", " ")
_NUMBER = re.compile(r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$")
_COMMA_NUMBER = re.compile(r"^[+-]?\d*,\d+([eE][+-]?\d+)?$")
_MARK = re.compile(r"^\s*[#%!]+\s*(?=\S)")
_INTERVAL = re.compile(
    r"(?:sampl\w*[ _]?(?:interval|period|time)|abtast(?:intervall|periode|zeit)|(?:time)?[ _]?intervall?|x?[ _]?increment|t[ _]?inc"
    r"|x[ _]?incr?|delta[ _]?t(?:ime)?|time[ _]?step|\bdt)\s*(?:[\[(](?P<unit>[^\])]{1,12})[\])])?\s*[:=,;\t ]\s*",
    re.IGNORECASE,
)
_RATE = re.compile(
    r"(?:sampl\w*[ _]?(?:rate|freq\w*)|abtast(?:rate|frequenz))\s*(?:[\[(](?P<unit>[^\])]{1,12})[\])])?\s*[:=,;\t ]\s*", re.IGNORECASE
)
"""Titles of facts on the distance of rows. A frequency alone is a signal's."""
_FACT = re.compile(r"(?:analog\s*:)?\s*(?P<value>\d+(?:[.,]\d+)?(?:e[+-]?\d+)?)\s*(?P<unit>[a-zµμ][a-zµμ/ ]*)?\.?\s*", re.IGNORECASE)
_PER_SECOND = re.compile(r"(?P<prefix>[kMG]?)(?:Hz|(?:Sa?|samples?) ?(?:/|per) ?s(?:ec(?:ond)?)?|SPS)", re.IGNORECASE)
_TIMES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}
_UNITLESS_S = 1.0
"""An interval without a unit is in s below this; from here on it may as well be in ms."""
_NO_UNIT = frozenset({"sequence", "value", "values", "", "#", "-", "n/a", "none", "number", "samples", "counts"})


@dataclass(frozen=True)
class FileLayout:
    """The layout of one file.

    skip: lines before the first row
    names: of the columns, None if no line has them
    units: of the columns, from a line of units; None for a column without a unit there
    second: the fields of the line of units, unchanged
    before: other lines before the rows, without marks of comments
    first: the fields of the first row
    cell_units: unit in the first row's cell of each column; None for a cell without one
    units_beside: by the place of a column of numbers, the column with the unit of each
    thousands: mark between thousands, wherever it may be one; empty if there is none
    interval: (s between two rows, the line that says so), None if no line does
    """

    delimiter: str
    decimal_comma: bool
    skip: int
    width: int
    names: tuple[str, ...] | None
    units: tuple[str | None, ...]
    second: tuple[str, ...]
    before: tuple[str, ...]
    first: tuple[str, ...]
    cell_units: tuple[str | None, ...]
    units_beside: Mapping[int, int]
    thousands: str
    interval: tuple[float, int] | None

    def before_words(self) -> str:
        """The text before the rows, names included, in one line."""
        return " ".join((*self.before, *(self.names or ())))


def layout_of(head: Head) -> FileLayout | None:
    """Return the layout of a text; None if its first 64 KiB have no rows of numbers.

    Raises CaptureError for decimal commas that look the same as commas between columns.
    """
    lines = list(head.lines)
    if len(head.raw) >= 1 << 16 and len(lines) > 1:
        lines.pop()  # it may be cut
    stated = re.fullmatch(r"\s*\"?sep=(.)\"?\s*", lines[0]) if lines else None
    if stated is not None:
        lines[0] = ""
    delimiters = (stated[1],) if stated is not None and stated[1] in _DELIMITERS else _DELIMITERS
    found = _rows_of(lines, delimiters, mostly_words=False) or _rows_of(lines, delimiters, mostly_words=True)
    if found is None:
        return None
    _, begin, delimiter, row = found
    rows = [fields(line, delimiter) for line in lines[begin:]]
    decimal_comma, thousands = _marks(head.path, rows, delimiter)
    names, second, used = _names(lines[:begin], delimiter, row)
    if names is None and _counts(rows):  # as R and spreadsheets number rows, in a column without a name
        names, second, used = _names(lines[:begin], delimiter, row[1:])
        if names is not None and (max(used) != begin - 1 or any(_NUMBER.match(name) for name in names)):
            names, second, used = None, (), frozenset()
        names, second = None if names is None else ("", *names), ("", *second) if second else ()
    units = tuple(_bare_unit(value) for value in second)
    before = tuple(_MARK.sub("", line) for n, line in enumerate(lines[:begin]) if n not in used and line.strip())
    if names is None and delimiter == ",":
        _refuse_commas(head.path, lines[:begin], row)
    interval = _interval(lines[:begin], delimiter, names, second)
    cell_units = tuple(unit_in(value.replace(",", ".", 1) if decimal_comma else value) for value in row)
    beside = _units_beside(rows, len(row), names)
    return FileLayout(
        delimiter, decimal_comma, begin, len(row), names, units, second, before, tuple(row), cell_units, beside, thousands, interval
    )


def _rows_of(lines: Sequence[str], delimiters: Sequence[str], *, mostly_words: bool) -> tuple[float, int, str, list[str]] | None:
    """(share of numbers, first row, delimiter, its fields) with the delimiter that gives the most; None if there are no rows."""
    found: tuple[float, int, str, list[str]] | None = None
    for delimiter in delimiters:
        begin = _first_row(lines, delimiter, mostly_words=mostly_words)
        if begin is None:
            continue
        row = fields(lines[begin], delimiter)
        there = [value for value in row if value]
        score = sum(_is_number(value) or form_of(value) is not None for value in there) / len(there)
        better = found is None or score > found[0] + 1e-9 or (score > found[0] - 1e-9 and _filled(row) > _filled(found[3]))
        if better:
            found = score, begin, delimiter, row
    return found


def _marks(path: Path, rows: Sequence[Sequence[str]], delimiter: str) -> tuple[bool, str]:
    """(whether numbers have decimal commas, mark between thousands). Raises CaptureError if ``1,234`` may be either.

    A comma in a cell between commas was in quotes.
    """
    cells = [tidy_text(value) for one in rows for value in one]
    points = any(_NUMBER.match(cell) and "." in cell for cell in cells)
    commas = [cell for cell in cells if _COMMA_NUMBER.match(cell)]
    commas += [cell for cell in cells if "," in cell and unit_in(cell.replace(",", ".", 1)) is not None]
    german, english = (any(re.match(pattern, cell) for cell in cells) for pattern in (GERMAN, ENGLISH))
    groups = bool(commas) and all(re.match(ONE_GROUP, cell) for cell in commas)
    if english or (groups and points and not german):
        return False, ","
    if german:
        return True, "."
    if delimiter == "," and groups:
        raise CaptureError(
            f"{path}: {commas[0]} may be {commas[0].replace(',', '')} or {commas[0].replace(',', '.')}, and nothing in the file tells. "
            "Export it without marks between thousands, and with decimal points."
        )
    return bool(commas) and not points, ""


def _units_beside(rows: Sequence[Sequence[str]], width: int, names: Sequence[str] | None) -> dict[int, int]:
    """Return the columns that hold the unit of the number before them, in each row."""
    found = {}
    whole = [one for one in rows if len(one) == width]
    for place in range(1, width):
        cells = [one[place].strip() for one in whole if one[place].strip()]
        called = names is not None and place < len(names) and _UNIT_COLUMN.search(names[place]) is not None
        if cells and all(factor(cell) is not None for cell in cells) and (called or any(len(cell) > 1 for cell in cells)):
            found[place - 1] = place
    return found


def _counts(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first column numbers the rows from 0 or 1."""
    first = [one[0] for one in rows[:_LOOKED_AT] if one]
    return len(first) > 2 and first in ([str(n) for n in range(len(first))], [str(n) for n in range(1, len(first) + 1)])


def _filled(row: Sequence[str]) -> int:
    return sum(bool(value) for value in row)


def _is_number(value: str) -> bool:
    return bool(value) and (_is_real(value) or is_no_reading(value))


def _is_real(value: str) -> bool:
    """Whether a cell has a number. Between commas, one with a comma in it was in quotes."""
    bare = tidy_text(value)
    if _NUMBER.match(bare) or _COMMA_NUMBER.match(bare) or SPACED_RE.match(bare) or any(re.match(p, bare) for p in (ENGLISH, GERMAN)):
        return True
    return unit_in(bare.replace(",", ".", 1)) is not None


def _first_row(lines: Sequence[str], delimiter: str, *, mostly_words: bool = False) -> int | None:
    """Return the first line of rows: lines with equal numbers of fields, each column either numbers (or times) or words.

    Settings of channels may stand in lines of their own before the rows (``Vertical Scale,0.2,1``). Of two such tables the longer one has
    the rows.

    mostly_words: whether half of a row's fields may be words, as of meters that write their settings with each reading
    """
    like = [_kinds(fields(line, delimiter) if line.strip() else [], mostly_words=mostly_words) for line in lines]
    found: int | None = None
    longest = 0
    begin = 0
    while begin < len(like):
        row = like[begin]
        length = _length(like, begin, mostly_words=mostly_words) if row else 0
        if length > (_SETTINGS * longest if found is not None else 0):
            found, longest = begin, length
        begin += max(1, length)
    return found


def _length(like: Sequence[str | None], begin: int, *, mostly_words: bool) -> int:
    """Return how many lines from ``begin`` on are rows of its form; 0 if too few of the next ones are."""
    row = like[begin]
    assert row is not None
    following = [one for one in like[begin : begin + 3 * _LOOKED_AT] if one != ""][:_LOOKED_AT]
    same = [_agree(row, one) for one in following]
    if not all(same[:2]) or 2 * sum(same) <= len(same) or (mostly_words and not (len(same) > 1 and all(same))):
        return 0
    last = begin
    for place in range(begin, len(like)):
        if _agree(row, like[place]):
            last = place
        elif place - last > _LOOKED_AT:
            break
    return last - begin + 1


def _kinds(row: Sequence[str], *, mostly_words: bool) -> str | None:
    """Return a letter for each field: n(umber or time), u(nit), w(ord), or a blank; empty without any; None for other lines."""
    if not any(row):
        return ""
    kinds = "".join(
        " " if not value or is_no_reading(value) else "n" if _is_number(value) or form_of(value) is not None else "w" for value in row
    )
    there = [value for value in row if value]
    units = sum(factor(value) is not None for value in there)
    numbers = kinds.count("n") + sum(is_no_reading(value) for value in there)
    if not any(map(_is_real, there)):
        return None
    if 2 * numbers > len(there):
        return kinds
    enough = numbers > 1 and len(row) > 2 if mostly_words else units and 2 * numbers >= len(there)
    return kinds if enough and (mostly_words or units + numbers == len(there)) else None


def _agree(one: str, other: str | None) -> bool:
    """Whether two lines are rows of one table: as many fields, and no column with a number in one and a word in the other."""
    return other is not None and len(one) == len(other) and not any({a, b} == {"n", "w"} for a, b in zip(one, other, strict=True))


def _names(lines: Sequence[str], delimiter: str, row: Sequence[str]) -> tuple[tuple[str, ...] | None, tuple[str, ...], frozenset[int]]:
    """(names, the line of units behind them, which lines they were) among the lines before the rows."""
    needed = _filled(row)
    found: list[tuple[int, list[str]]] = []
    for number in range(len(lines) - 1, -1, -1):
        text = _MARK.sub("", lines[number])
        if not text.strip():
            continue
        one = fields(text, delimiter)
        words = [value for value in one if value and not _NUMBER.match(value)]
        nameless = len(one) == len(row) and not one[0] and _filled(one) == needed - 1
        each_named = all(place < len(one) and one[place] for place, value in enumerate(row) if value) or delimiter == " "
        if ((_filled(one) >= needed and each_named) or nameless) and (2 * len(words) > _filled(one) or found):
            found.append((number, one))
            if len(found) == 2 or not _is_units(one, needed):
                break
        elif found:
            break
    if not found:
        return None, (), frozenset()
    (number, last), *above = found
    if above and _is_units(last, needed):
        return tuple(above[0][1]), tuple(last), frozenset({number, above[0][0]})
    if _is_units(last, needed):
        return tuple(last), tuple(last), frozenset({number})
    return tuple(last), (), frozenset({number})


def _bare_unit(text: str) -> str | None:
    bare = text.strip().strip("()[]{} ")
    if bare == "ADC":  # of a converter's counts, rather than amperes of DC
        return None
    return bare if factor(bare) is not None else None


def _is_units(one: Sequence[str], needed: int) -> bool:
    """Whether a line holds units and no names."""
    known = [_bare_unit(value) is not None for value in one[:needed]]
    rest = [known_ or value.lower() in _NO_UNIT or bool(_NUMBER.match(value)) for value, known_ in zip(one[:needed], known, strict=True)]
    return any(known) and all(rest)


def _refuse_commas(path: Path, lines: Sequence[str], row: Sequence[str]) -> None:
    width = _filled(row)
    for line in reversed(lines):
        one = _filled(fields(line, ","))
        if one > 1 and one < width <= 2 * one and all(value.lstrip("+-").isdigit() for value in row if value):
            raise CaptureError(
                f"{path}: {width} fields under {one} names: the decimal commas of its numbers cannot be told from the commas between "
                "columns; export it with semicolons between columns, or with decimal points."
            )


def _interval(lines: Sequence[str], delimiter: str, names: tuple[str, ...] | None, second: tuple[str, ...]) -> tuple[float, int] | None:
    """Return (s, line) of the time between two rows, if a line before the rows states it."""
    if names is not None and lines:
        for place, name in enumerate(names):
            says = name.strip().lower() in ("increment", "interval", "xincr", "tinc", "delta") and place < len(second)
            if says and _NUMBER.match(second[place]) and float(second[place]) > 0:
                return float(second[place]), max(n for n, line in enumerate(lines, 1) if line.strip())
    for number, line in enumerate(lines, 1):
        told = _told(_INTERVAL, line, delimiter)
        if told is not None:
            known = factor(told[1]) if told[1] else ("time", 1.0)
            if known is not None and known[0] == "time" and told[0] > 0 and (told[1] or told[0] < _UNITLESS_S):
                return told[0] * known[1], number
        told = _told(_RATE, line, delimiter)
        per_second = _PER_SECOND.fullmatch(told[1]) if told is not None else None
        if told is not None and per_second is not None and told[0] > 0:
            return 1 / (told[0] * _TIMES[per_second["prefix"].lower()]), number
    return None


def _told(title: re.Pattern[str], line: str, delimiter: str) -> tuple[float, str] | None:
    """(number, unit) of the fact behind a title; None for a text that is more than that, such as a date. The unit may be empty."""
    found = title.search(line)
    if found is None:
        return None
    first, *rest = [value.strip().strip('"').strip() for value in line[found.end() :].split(delimiter)]
    if not first and rest:  # the title ends with a separator of its own, as in "Interval :,1 ms"
        first, *rest = rest
    said = _FACT.fullmatch(first)
    if said is None or (delimiter == "," and "," in said["value"]):
        return None
    behind = rest[0] if rest else ""
    if delimiter == "," and said["value"].isdigit() and behind[:1].isdigit():
        return None  # it may be a decimal comma
    unit = found["unit"] or said["unit"] or (behind if behind.replace("/", "").replace(" ", "").isalpha() else "")
    return float(said["value"].replace(",", ".")), unit.strip()
