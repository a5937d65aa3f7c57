"""Which messages need ``--allow-power``: :func:`is_protected`. Headers and paths are read as the firmware does (docs/scpi.md)."""

from __future__ import annotations

import re

_SUBSYSTEMS = ("OUTPUT", "OUTP", "CALIBRATION", "CAL", "DIAGNOSTIC", "DIAG")
"""Long and short forms. Their commands switch the drive's power and sidebands, set its protection, calibrate, and write registers."""
_COMMON = ("*RCL", "*CAL")
"""``*RCL`` brings back settings of the protection."""
_HEADER = re.compile(r"[ \t\r]*([*:]?)([A-Za-z0-9_:]*)(\??)")


def is_protected(message: bytes) -> bool:
    """Whether a message without its newline moves the drive's power or the calibration. Queries of these subsystems do not, but ``*CAL?``
    does."""
    path = ""
    for unit in _units(message.decode("latin-1")):
        match = _HEADER.match(unit)
        assert match
        sign, header, query = match[1], match[2].upper(), match[3]
        if sign == "*":
            if sign + header in _COMMON:
                return True
            continue
        full = header if sign else path + header
        if not query and any(name.partition(":")[0] in _SUBSYSTEMS for name in (full, header)):
            return True
        path = full[: full.rfind(":") + 1]
    return False


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
