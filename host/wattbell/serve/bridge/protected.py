"""Which messages need ``--allow-power``: :func:`is_protected`. Headers and paths are read as the firmware does (docs/scpi.md)."""

from __future__ import annotations

import re

from .headers import FREE, MOVING

_HEADER = re.compile(r"[ \t\r]*([*:]?)([A-Za-z0-9_:]*)(\??)")


def _expression(pattern: str) -> str:
    """Regular expression for all forms of a header such as ``OUTPut[:STATe]?``: short or long words, optional parts there or not."""
    escaped = re.sub(r"[*?#]", lambda found: {"#": r"\d*"}.get(found[0], rf"\{found[0]}"), pattern)
    words = re.sub(r"([A-Z]+)([a-z]+)", lambda found: f"{found[1]}(?:{found[2].upper()})?", escaped)
    return words.replace("[", "(?:").replace("]", ")?")


_MOVING = re.compile("|".join(map(_expression, MOVING)))
_FREE = re.compile("|".join(map(_expression, FREE)))
_ROOTS = {root for root in (one.partition(":")[0].partition("[")[0] for one in MOVING) if root and root[0] != "*"}
_ALL_MOVE = re.compile(
    "|".join(_expression(root) for root in sorted(_ROOTS) if not any(one.startswith(root) and not one.endswith("?") for one in FREE))
)
"""Subsystems in which all commands but queries move something. An unknown command of a newer rig there counts as such a command."""


def is_protected(message: bytes) -> bool:
    """Return whether a message without its newline moves the drive's power or protection, the calibration, or the EEPROM's contents."""
    path = ""
    for unit in _units(message.decode("latin-1")):
        match = _HEADER.match(unit)
        assert match
        sign, header, query = match[1], match[2].upper(), match[3]
        if sign == "*":
            if _moves(sign + header + query):
                return True
            continue
        full = header if sign else path + header
        if any(_moves(name + query) for name in (full, header)):
            return True
        path = full[: full.rfind(":") + 1]
    return False


def _moves(header: str) -> bool:
    if _MOVING.fullmatch(header):
        return True
    known_or_query = _FREE.fullmatch(header) or header.endswith("?")
    return not known_or_query and _ALL_MOVE.fullmatch(header.partition(":")[0]) is not None


def _units(message: str) -> list[str]:
    """Split at semicolons outside quotes."""
    units, quote = [""], ""
    for character in message:
        if character == ";" and not quote:
            units.append("")
            continue
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        units[-1] += character
    return units
