"""Cells of a table that are more than a plain number: with a unit, with marks between thousands, or a word for a missing reading.

Examples are ``150 mA``, ``1.5V``, ``1,234.5``, ``1.234,5``, ``1 234``, ``1'234.5``, and a column of units beside the numbers. ``1,234``
alone may be 1234 or 1.234; the rest of the file decides (:mod:`.layout`).
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from .ranges import NO_NUMBER
from .units import factor

F64 = npt.NDArray[np.float64]
Reader = Callable[[pa.Array], F64]
"""SI values of texts; NaN where there is none. Raises ValueError with the text that cannot be read."""
_PLAIN = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_WITH_UNIT = rf"^(?P<n>{_PLAIN})\s*(?P<u>[^\d\s+.-][^\d]*)$"
_WITH_UNIT_RE = re.compile(_WITH_UNIT)
ENGLISH, GERMAN = r"^[+-]?(?:\d{1,3}(?:,\d{3})+\.\d*|\d{1,3}(?:,\d{3}){2,})$", r"^[+-]?(?:\d{1,3}(?:\.\d{3})+,\d*|\d{1,3}(?:\.\d{3}){2,})$"
"""Numbers with marks between thousands that cannot be decimal marks."""
ONE_GROUP = r"^[+-]?[1-9]\d{0,2}[,.]\d{3}$"
"""A number with one mark, of thousands or of decimals."""
SPACED = r"^[+-]?\d{1,3}(?:[ '’\x{00a0}\x{202f}]\d{3})+(?:[.,]\d*)?$"
SPACED_RE = re.compile(SPACED.replace(r"\x{00a0}", "\u00a0").replace(r"\x{202f}", "\u202f"))
_LETTERS = re.compile(r"[^a-z]")
_MORE_WORDS = "olma olua ola olv olmv olw ov ovfl ofl ofll blank nodata missing outofrange noreading"
_WORDS = {_LETTERS.sub("", word) for word in NO_NUMBER if not re.search(r"\d", word)} | {*_MORE_WORDS.split()}
"""Words for no reading, in letters alone."""


def is_no_reading(text: str) -> bool:
    """Whether a cell says that there is no reading: empty, dashes, an overload in any spelling."""
    bare = text.strip().lower()
    return bare in NO_NUMBER or (not any(c.isdigit() for c in bare) and _LETTERS.sub("", bare) in _WORDS)


def unit_in(text: str) -> str | None:
    """The unit behind a number in a cell; None if there is no known one."""
    found = _WITH_UNIT_RE.match(tidy_text(text))
    unit = found["u"].strip() if found is not None else ""
    return unit if unit and factor(unit) is not None else None


def tidy_text(text: str) -> str:
    """A cell with the hyphen as its minus sign, without outer space."""
    return text.strip().replace("\u2212", "-").strip('"')


def tidy(texts: pa.Array) -> pa.Array:
    """The same for an array, with null where a cell says that there is no reading."""
    trimmed = pc.replace_substring(pc.utf8_trim_whitespace(texts), "\u2212", "-")
    lower = pc.utf8_lower(trimmed)
    known = pc.is_in(lower, pa.array(sorted(NO_NUMBER)))
    letters = pc.is_in(pc.replace_substring_regex(lower, "[^a-z]", ""), pa.array(sorted(_WORDS)))
    word = pc.or_(known, pc.and_(letters, pc.invert(pc.match_substring_regex(lower, r"\d"))))
    return pc.if_else(word, pa.scalar(None, pa.string()), trimmed)


def ungrouped(texts: pa.Array, mark: str, *, decimal_comma: bool) -> pa.Array:
    """Numbers without marks between thousands, with decimal points.

    mark: which mark is one wherever it may be; empty if none is

    Raises ValueError for a decimal point among decimal commas.
    """
    spaced = pc.fill_null(pc.match_substring_regex(texts, SPACED), False)
    texts = pc.if_else(spaced, pc.replace_substring_regex(texts, r"[ '’\x{00a0}\x{202f}]", ""), texts)
    own, pattern = (".", GERMAN) if decimal_comma else (",", ENGLISH)
    if mark:
        pattern = f"(?:{pattern})|(?:{ONE_GROUP})"
    grouped = pc.fill_null(pc.match_substring_regex(texts, pattern), False)
    grouped = pc.and_(grouped, pc.fill_null(pc.match_substring(texts, own), False))
    texts = pc.if_else(grouped, pc.replace_substring(texts, own, ""), texts)
    if not decimal_comma:
        return texts
    points = pc.fill_null(pc.match_substring(texts, "."), False)
    if pc.any(points).as_py():
        raise ValueError(f"{texts.filter(points)[0].as_py()} has a decimal point")
    return pc.replace_substring(texts, ",", ".")


def quantities(kind: str, *, decimal_comma: bool = False) -> Reader:
    """Read ``150 mA`` as 0.15. ``kind``: current, voltage, power or time; a unit of another kind is an error."""

    def read(texts: pa.Array) -> F64:
        cells = tidy(texts)
        if decimal_comma:
            cells = pc.replace_substring(cells, ",", ".")
        parts = pc.extract_regex(cells, pattern=_WITH_UNIT)
        strange = pc.and_(pc.is_valid(cells), pc.is_null(parts))
        if pc.any(strange).as_py():
            raise ValueError(f"{texts.filter(strange)[0].as_py()} is no number with a unit")
        numbers = np.asarray(pc.cast(pc.struct_field(parts, "n"), pa.float64()).to_numpy(zero_copy_only=False), np.float64)
        return numbers * _scales(pc.struct_field(parts, "u"), kind)

    return read


def scales(kind: str) -> Reader:
    """Read a column of units, as factors to SI. ``kind``: as above; no unit gives NaN."""

    def read(texts: pa.Array) -> F64:
        return _scales(tidy(texts), kind)

    return read


def _scales(units: pa.Array, kind: str) -> F64:
    coded = units.dictionary_encode()
    found = []
    for unit in coded.dictionary.to_pylist():
        known = factor(unit.strip())
        if known is None or known[0] != kind:
            raise ValueError(f"{unit.strip()[:20] or 'an empty cell'} is no unit of a {kind}")
        found.append(known[1])
    codes = np.asarray(pc.fill_null(coded.indices, len(found)).to_numpy(zero_copy_only=False))
    each: F64 = np.array([*found, np.nan])[codes]
    return each
