"""Figures as text: as many digits as the uncertainty allows, SI prefixes, one minus sign, an en dash for nothing.

Every command imports this module before it knows what to do. The module therefore imports nothing but the standard library.
"""

from __future__ import annotations

import math
import re
from typing import Any, Protocol

NOTHING = "–"
_PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))


class Uncertain(Protocol):
    """Has a value and its expanded uncertainty, both in one unit: a :class:`wattbell.measure.figure.Figure`."""

    @property
    def value(self) -> float | None:
        """The value; None if there is none."""

    @property
    def u(self) -> float | None:
        """The expanded uncertainty; None if none can be given."""


_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)


def printable(text: str) -> str:
    """Return ``text`` with a replacement character for everything that is not text.

    That is control characters (and so terminal escape sequences), lone surrogates, and characters that are invisible or turn the direction
    of writing. Tabs and line ends stay.
    """
    return _UNPRINTABLE.sub("\ufffd", text)


def one_line(text: str) -> str:
    """:func:`printable` text on one line: a name with a line end in it could forge a line of its own."""
    return printable(text).replace("\r\n", " ").replace("\n", " ").replace("\t", " ")


def in_lines(value: Any) -> Any:
    """JSON-able data with every string in it, keys too, as :func:`one_line` gives it."""
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, dict):
        return {in_lines(key): in_lines(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [in_lines(item) for item in value]
    return value


def decimals(value: float, places: int) -> str:
    """``value`` with a fixed number of decimals and a space between thousands."""
    return f"{value:z,.{places}f}".replace(",", "\u202f").replace("-", "−")  # narrow no-break space, true minus; no minus before zero


def percent(share: float, places: int, sign: bool = False) -> str:
    """Return a share as a percentage with a fixed number of decimals. ``sign``: a plus before positive values; zero has no sign."""
    text = decimals(100 * share, places)
    above = sign and not text.startswith("−") and any(digit in text for digit in "123456789")
    return f"{'+' if above else ''}{text} %"


def digits(value: float, significant: int) -> str:
    """``value`` with this many significant digits, never in exponent form, with a space between thousands."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else NOTHING
    exponent = int(f"{value:.{significant - 1}e}".rpartition("e")[2])  # of the rounded value: to three digits 0.9996 is 1.00
    return decimals(value, max(0, significant - 1 - exponent))


def count(value: int | None) -> str:
    """An integer with a space between thousands."""
    return NOTHING if value is None else f"{value:,}".replace(",", "\u202f")


def si(value: float | None, unit: str, significant: int = 4) -> str:
    """``value`` (in ``unit``) with the SI prefix that leaves one to three digits before the point."""
    if value is None:
        return NOTHING
    if value == 0:
        return f"0 {unit}"
    if value < 0:
        return "−" + si(-value, unit, significant)
    for scale, prefix in _PREFIXES:
        if value >= scale * (1 - 0.5 * 10**-significant):
            return f"{digits(value / scale, significant)} {prefix}{unit}"
    scale, prefix = _PREFIXES[-1]
    return f"{digits(value / scale, significant)} {prefix}{unit}"


def signed(value: float, unit: str, significant: int = 3) -> str:
    """An error with its sign (a true minus sign) and an SI prefix."""
    text = si(abs(value), unit, significant)
    return text if not any(digit in text for digit in "123456789") else ("+" if value > 0 else "−") + text


def duration(seconds: float | None, significant: int = 4) -> str:
    """A time in ns, µs, ms or s."""
    return si(seconds, "s", significant)


def places_for(u: float) -> int:
    """Decimals that show two digits of an uncertainty."""
    return 0 if u <= 0 or not math.isfinite(u) else min(9, max(0, 1 - math.floor(math.log10(u))))


def concise(fig: Uncertain | None, scale: float = 1.0) -> str:
    """``1.4496(14)``: the uncertainty in units of the last digits, as the GUM (7.2.2) has it."""
    if fig is None or fig.value is None:
        return NOTHING
    value, u = fig.value * scale, (fig.u or 0.0) * scale
    if u <= 0 or (value and u < abs(value) * 1e-7):
        return digits(value, 5)
    places = places_for(u)
    last = round(u * 10**places)
    return f"{decimals(value, places)}({last})" if places else f"{decimals(value, 0)}({decimals(u, 0)})"


def size_bytes(value: int | None) -> str:
    """An amount of data with a decimal prefix."""
    return si(float(value), "B", 4) if value else (NOTHING if value is None else "0 B")


def clip(text: str, width: int) -> str:
    """``text`` cut to ``width`` with an ellipsis."""
    return text if len(text) <= width else text[: width - 1] + "…"
