"""Times, sizes and other quantities on the command line: with their unit (``60s``, ``10us``, ``1MiB``, ``500mA``), or a bare number in the
option's own."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_NUMBER = re.compile(r"(0x[0-9a-fA-F]+|[-+]?(?:[0-9][0-9_]*\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)\s*(\S*)")


def _si(unit: str, prefixes: str = "nµumkMG") -> dict[str, float]:
    scale = {"n": 1e-9, "µ": 1e-6, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9}
    return {unit: 1.0} | {prefix + unit: scale[prefix] for prefix in prefixes}


_TIME = {**_si("s", "nµum"), "min": 60.0, "h": 3600.0, "d": 86400.0}
_BINARY = {prefix: 1024.0**power for power, prefix in enumerate("kMGT", start=1)}
_SIZE = {
    "B": 1.0,
    **{f"{prefix}B": 1000.0**power for power, prefix in enumerate("kMGT", start=1)},
    **{f"{'K' if prefix == 'k' else prefix}iB": factor for prefix, factor in _BINARY.items()},
    **_BINARY,
    "K": 1024.0,
}


@dataclass(frozen=True)
class Unread:
    """The user's text, which is no such quantity, and an example of one."""

    text: str
    example: str


class QuantityParser:
    """Reads a number with a unit of ``units`` (each in terms of the value's own), or without one.

    It is the ``parser`` of an option of Typer's that has a callback of :mod:`.numbers`. ``example``: shown in an error.
    """

    def __init__(self, name: str, units: Mapping[str, float], example: str, *, integer: bool = False) -> None:
        self.__name__ = name  # shown in the help
        self.units, self.example, self.integer = units, example, integer

    def read(self, text: str) -> float | None:
        """Return the value in the option's unit; None if the text is no value."""
        match = _NUMBER.fullmatch(text.strip())
        if match is None:
            return None
        number, unit = match.groups()
        if unit and unit not in self.units:
            return None
        value = float(int(number, 16)) if number.startswith("0x") else float(number)
        # 10us is 1e-5, as if it had been typed so
        return float(f"{value * self.units[unit]:.15g}") if unit else value

    def __call__(self, value: str | float) -> Any:
        """Return the value; :class:`Unread` if the text is no value, which the option's callback (:mod:`.numbers`) refuses by the option's
        name.
        """
        if not isinstance(value, str):
            return value
        found = self.read(value)
        if found is None or not math.isfinite(found) or (self.integer and found != round(found)):
            return Unread(value, self.example)
        return round(found) if self.integer else found


TIME = QuantityParser("TIME", _TIME, "a time, such as 60s, 10us, 1.5h, or a number of seconds")
HOURS = QuantityParser("HOURS", {u: f / 3600 for u, f in _TIME.items()}, "a time, such as 30min, 24h, or a number of hours")
SIZE = QuantityParser("SIZE", _SIZE, "a size, such as 4096, 4KiB or 1MB (4k is 4 KiB, as fio has it)", integer=True)
CURRENT = QuantityParser("CURRENT", _si("A"), "a current, such as 500mA, 10uA, or a number of amperes")
VOLTAGE = QuantityParser("VOLTAGE", _si("V"), "a voltage, such as 3.3V, 500mV, or a number of volts")
POWER = QuantityParser("POWER", _si("W"), "a power, such as 2W, 500mW, or a number of watts")
RATE = QuantityParser(
    "RATE", {**_si("Hz", "kMG"), "k": 1e3, "M": 1e6, "G": 1e9}, "a rate, such as 1MHz, 100kHz, or a number a second", integer=True
)
PERCENT = QuantityParser("PERCENT", {"%": 1.0}, "a share in percent, such as 1% or 0.5%")
