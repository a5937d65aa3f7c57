"""Units as instruments write them, and their factor to SI."""

from __future__ import annotations

import re

_PREFIX = {"": 1.0, "p": 1e-12, "n": 1e-9, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "m": 1e-3, "k": 1e3}
_BASE = {"a": "current", "v": "voltage", "w": "power", "s": "time"}
_WORDS = {"sec": "s", "second": "s", "seconds": "s", "amps": "a", "ampere": "a", "volts": "v", "volt": "v", "watts": "w", "watt": "w"}
_UNIT = re.compile(r"^(?P<prefix>[pnuµμmk]?)(?P<base>[avws])$")


def factor(unit: str) -> tuple[str, float] | None:
    """(``current``, ``voltage``, ``power`` or ``time``; factor to A, V, W or s) of a unit such as ``uA`` or ``mS``; None if unknown.

    Case means nothing: Quarch writes ``uS`` for microseconds, and none of these instruments counts in mega.
    """
    text = unit.strip().lower()
    match = _UNIT.match(_WORDS.get(text, text))
    return None if match is None else (_BASE[match["base"]], _PREFIX[match["prefix"]])
