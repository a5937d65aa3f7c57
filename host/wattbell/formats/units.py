"""Units as instruments write them, and their factor to SI."""

from __future__ import annotations

import re

_PREFIX = {"": 1.0, "p": 1e-12, "n": 1e-9, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "m": 1e-3, "k": 1e3}
_BASE = {"a": "current", "v": "voltage", "w": "power", "s": "time"}
_WORDS = {
    **dict.fromkeys(("sec", "secs", "second", "seconds", "sekunden", "sekunde"), "s"),
    **dict.fromkeys(("amp", "amps", "ampere", "amperes", "adc"), "a"),
    **dict.fromkeys(("volt", "volts", "vdc"), "v"),
    **dict.fromkeys(("watt", "watts"), "w"),
    **dict.fromkeys(("msec", "msecs", "millisecond", "milliseconds", "millis"), "ms"),
    **dict.fromkeys(("usec", "usecs", "µsec", "μsec", "microsecond", "microseconds", "micros"), "us"),
    **dict.fromkeys(("nsec", "nanosecond", "nanoseconds"), "ns"),
    **dict.fromkeys(("mamp", "mamps", "milliamp", "milliamps", "milliampere"), "ma"),
    **dict.fromkeys(("uamp", "uamps", "µamp", "µamps", "microamp", "microamps", "microampere"), "ua"),
    **dict.fromkeys(("millivolt", "millivolts"), "mv"),
    **dict.fromkeys(("milliwatt", "milliwatts"), "mw"),
    **dict.fromkeys(("h", "hour", "hours"), "h"),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), "min"),
}
_LONG_TIMES = {"h": 3600.0, "min": 60.0}
_UNIT = re.compile(r"^(?P<prefix>[pnuµμmk]?)(?P<base>[avws])$")


def factor(unit: str) -> tuple[str, float] | None:
    """(``current``, ``voltage``, ``power`` or ``time``; factor to A, V, W or s) of a unit such as ``uA`` or ``mS``; None if unknown.

    Case means nothing: Quarch writes ``uS`` for microseconds, and none of these instruments counts in mega.
    """
    text = re.sub(r"\s*\b(?:dc|rms)$", "", unit.strip().lower())
    text = _WORDS.get(text, text)
    if text in _LONG_TIMES:
        return "time", _LONG_TIMES[text]
    match = _UNIT.match(text)
    return None if match is None else (_BASE[match["base"]], _PREFIX[match["prefix"]])
