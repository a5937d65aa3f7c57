"""Times of day as text in a column: ISO 8601 and its variants.

``2023-11-14T22:13:20.123456Z``, ``2023/11/14 22:13:20,123``, ``14.11.2023 22:13:20``, ``20231114T221320.5Z``, ``11/14/2023 10:13:20 PM``,
or the time alone, ``22:13:20.123``. ``13:20.5`` are minutes and seconds, as spreadsheets show them. A date of another form, such as
``14-Nov-23`` or ``Tue Nov 14 22:13:20 2023``, is read as long as it stays the same. Only differences between rows count. The time of day
itself is known only with a stated zone.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import CaptureError

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
_DAY_NS, _HOUR_NS = 86_400_000_000_000, 3_600_000_000_000
_CLOCK = (
    r"(?P<h>\d{1,2}):(?P<mi>\d{2}):(?P<s>\d{2})(?:[.,:](?P<f>\d{1,9})\d*)?\s*(?P<half>[AaPp]\.?[Mm]\.?)?\s*"
    r"(?P<zone>Z|z|UTC|GMT|[+-]\d{2}:?\d{2})?"
)
_OTHER_DATE = r"\d{1,4}[-/. ](?:\d{1,2}|[A-Za-zäéû]{3,9}\.?)[-/. ]\d{1,4}|[A-Za-zäéû]{3,9}\.?\s+\d{1,2}(?:,?\s+\d{4})?"
"""Dates with an uncertain order of day, month and year, or with months by name."""
_FORMS = {
    "year first": rf"^(?P<y>\d{{4}})[-/.](?P<m>\d{{1,2}})[-/.](?P<d>\d{{1,2}})(?:T|t|\s+|,\s*){_CLOCK}$",
    "day first": rf"^(?P<d>\d{{1,2}})\.(?P<m>\d{{1,2}})\.(?P<y>\d{{4}})(?:T|\s+|,\s*){_CLOCK}$",
    "slashes": rf"^(?P<m>\d{{1,2}})/(?P<d>\d{{1,2}})/(?P<y>\d{{4}})(?:\s+|,\s*){_CLOCK}$",
    "compact": r"^(?P<y>\d{4})(?P<m>\d{2})(?P<d>\d{2})[T ](?P<h>\d{2})(?P<mi>\d{2})(?P<s>\d{2})(?:[.,](?P<f>\d{1,9})\d*)?"
    r"(?P<half>X)?(?P<zone>Z|[+-]\d{2}:?\d{2})?$",
    "time alone": rf"^{_CLOCK}$",
    "minutes": r"^(?P<mi>\d{1,2}):(?P<s>\d{2})[.,](?P<f>\d{1,9})\d*$",
    "other date": rf"^(?P<date>(?:[A-Za-z]{{2,9}}\.?,?\s+)?(?:{_OTHER_DATE}))(?:T|_|\s+|,\s*|:){_CLOCK}(?P<tail>\s+\d{{4}})?$",
}
"""Forms with (year, month, day,) hour, minute, second, fraction, AM or PM, zone."""


def form_of(text: str) -> str | None:
    """Return the form of a text; None if it is no time."""
    return next((form for form, pattern in _FORMS.items() if re.match(pattern, text.strip())), None)


class TextTimes:
    """Reads a column of times in the form of its first one, as s since that. A pass over a file needs one of its own."""

    def __init__(self, first: str) -> None:
        form = form_of(first)
        assert form is not None, "form_of() comes first"
        self.first, self._form = first.strip(), form
        self._base: int | None = None
        self._last = 0
        self._days = 0
        self._date: set[int] = set()
        self._day_first: bool | None = None
        """Order of dates with slashes; None while the first date fits both orders."""
        self._other_date: str | None = None
        base, zoned = self._ns(pa.array([self.first]))
        self._base = int(base[0])
        self.utc_ns: int | None = self._base if zoned and self._form not in ("time alone", "minutes", "other date") else None
        """UTC of the first one in ns since 1970, where a zone is stated."""

    def again(self) -> TextTimes:
        """The same for another pass."""
        return TextTimes(self.first)

    def seconds(self, texts: pa.Array) -> F64:
        """Return seconds since the first time; NaN where there is none.

        Raises ValueError with the text that is no time of this form, and CaptureError for dates that can be read in two ways.
        """
        ns, _ = self._ns(texts)
        assert self._base is not None
        found: F64 = np.where(ns == _NO_TIME, np.nan, (ns - self._base) * 1e-9)
        return found

    def _ns(self, texts: pa.Array) -> tuple[I64, bool]:
        trimmed = pc.utf8_trim_whitespace(texts)
        parts = pc.extract_regex(trimmed, pattern=_FORMS[self._form])
        strange = pc.and_(pc.is_null(parts), pc.and_(pc.is_valid(trimmed), pc.not_equal(trimmed, "")))
        if pc.any(strange).as_py():
            raise ValueError(str(trimmed.filter(strange)[0].as_py()))
        there = np.asarray(pc.is_valid(parts).to_numpy(zero_copy_only=False))

        def number(name: str) -> I64:
            field = pc.struct_field(parts, name)
            filled = pc.if_else(pc.equal(pc.fill_null(field, ""), ""), "0", field)
            return np.asarray(pc.cast(pc.fill_null(filled, "0"), pa.int64()).to_numpy(), np.int64)

        if self._form == "minutes":
            fraction = pc.utf8_rpad(pc.fill_null(pc.struct_field(parts, "f"), ""), width=9, padding="0")
            ns = (number("mi") * 60 + number("s")) * 1_000_000_000 + np.asarray(pc.cast(fraction, pa.int64()).to_numpy(), np.int64)
            return np.where(there, self._over_midnight(ns, there, _HOUR_NS), _NO_TIME), False
        hour = number("h")
        half = pc.utf8_lower(pc.fill_null(pc.struct_field(parts, "half"), ""))
        afternoon = np.asarray(pc.starts_with(half, "p").to_numpy(zero_copy_only=False))
        morning = np.asarray(pc.starts_with(half, "a").to_numpy(zero_copy_only=False))
        hour = np.where(afternoon & (hour < 12), hour + 12, np.where(morning & (hour == 12), 0, hour))
        fraction = pc.utf8_rpad(pc.fill_null(pc.struct_field(parts, "f"), ""), width=9, padding="0")
        ns = (hour * 3600 + number("mi") * 60 + number("s")) * 1_000_000_000
        ns += np.asarray(pc.cast(fraction, pa.int64()).to_numpy(), np.int64)
        zone = pc.fill_null(pc.struct_field(parts, "zone"), "")
        zoned = bool(pc.any(pc.not_equal(zone, "")).as_py())
        if pc.any(pc.match_substring_regex(zone, "^[+-]")).as_py():
            offset = pc.extract_regex(zone, pattern=r"^(?P<sign>[+-])(?P<hh>\d{2}):?(?P<mm>\d{2})$")
            size = [
                np.asarray(pc.cast(pc.fill_null(pc.struct_field(offset, name), "0"), pa.int64()).to_numpy(), np.int64)
                for name in ("hh", "mm")
            ]
            east = np.asarray(pc.equal(pc.fill_null(pc.struct_field(offset, "sign"), "+"), "+").to_numpy(zero_copy_only=False))
            ns -= np.where(east, 1, -1) * (size[0] * 3600 + size[1] * 60) * 1_000_000_000
        if self._form == "time alone":
            ns = self._over_midnight(ns, there)
        elif self._form == "other date":
            self._must_stay(parts.filter(pc.is_valid(parts)))
        else:
            ns += self._dates(number("y"), number("m"), number("d"), there)
        return np.where(there, ns, _NO_TIME), zoned

    def _dates(self, year: I64, month: I64, day: I64, there: npt.NDArray[np.bool_]) -> I64:
        """Ns since 1970 of the dates. Raises ValueError for a month or day that there is not."""
        if self._form == "slashes" and there.any():
            if (month[there] > 12).any():
                now: bool | None = True
            elif (day[there] > 12).any():
                now = False
            else:
                now = None
            pairs = set((month[there] * 100 + day[there]).tolist())
            if self._base is None:
                self._day_first, self._date = now, pairs
            elif self._day_first is None and pairs != self._date:
                raise CaptureError("dates such as 11/12/2023 can be read in two ways, and the date changes; write them as 2023-12-11")
            if self._day_first:
                month, day = day, month
        if (there & ~((month >= 1) & (month <= 12) & (day >= 1) & (day <= 31))).any():
            raise ValueError("a date that there is not")
        months = (np.where(there, year, 1970) - 1970) * 12 + np.where(there, month, 1) - 1
        days = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64) + np.where(there, day, 1) - 1
        found: I64 = days * _DAY_NS
        return found

    def _must_stay(self, parts: pa.Array) -> None:
        """Raise CaptureError if the date changes."""
        for part in pc.unique(pc.binary_join_element_wise(*(pc.fill_null(pc.struct_field(parts, n), "") for n in ("date", "tail")), "")):
            if self._other_date not in (None, part.as_py()):
                raise CaptureError(f"the date changes from {self._other_date} to {part.as_py()}; write dates as 2023-12-11")
            self._other_date = part.as_py()

    def _over_midnight(self, ns: I64, there: npt.NDArray[np.bool_], turn_ns: int = _DAY_NS) -> I64:
        """Times that begin again every ``turn_ns``, in one count."""
        if self._base is None or not there.any():
            return ns
        known = ns[there]
        before = self._last if self._last else self._base
        steps = np.diff(known, prepend=before % turn_ns)
        days = self._days + np.cumsum(steps < -turn_ns // 2)
        self._last, self._days = int(known[-1]), int(days[-1])
        out = ns.copy()
        out[there] = known + days * turn_ns
        return out


_NO_TIME = np.iinfo(np.int64).min
