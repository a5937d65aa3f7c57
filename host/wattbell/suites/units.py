"""Sizes and times as fio writes them (fio HOWTO, "Parameter types"), with its default ``kb_base=1024``."""

from __future__ import annotations

import re

_SIZE = re.compile(r"([0-9]{1,18})(?:([kmgtp])(i)?)?b?", re.IGNORECASE | re.ASCII)
_TIME = re.compile(r"([0-9]{1,15})([a-z]*)", re.IGNORECASE | re.ASCII)
_TIME_UNITS_S = {
    "": 1.0,
    "us": 1e-6,
    "usec": 1e-6,
    "ms": 1e-3,
    "msec": 1e-3,
    "s": 1.0,
    "sec": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}
LARGEST = (1 << 63) - 1
"""Bytes that fio can count."""


def size_bytes(text: str) -> int:
    """Bytes of ``4k`` (4096), ``1g``, ``512``; as in fio ``4ki`` is 4000. Raises ValueError when it is no size, or above ``LARGEST``."""
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise ValueError(f"`{_short(text)}` is not a size (such as 4k, 128m, 16g)")
    power = "kmgtp".index(match[2].lower()) + 1 if match[2] else 0
    size = int(match[1]) * int((1000 if match[3] else 1024) ** power)
    if size > LARGEST:
        raise ValueError(f"`{_short(text)}` is more than 8 EiB")
    return size


def time_s(text: str) -> float:
    """Seconds of ``60``, ``500ms``, ``1h``. Raises ValueError when it is no time."""
    match = _TIME.fullmatch(text.strip())
    if not match or match[2].lower() not in _TIME_UNITS_S:
        raise ValueError(f"`{_short(text)}` is not a time (such as 60, 500ms, 1h)")
    return int(match[1]) * _TIME_UNITS_S[match[2].lower()]


def _short(text: str) -> str:
    shown = "".join(character if character.isprintable() else "�" for character in text)
    return shown if len(shown) <= 40 else shown[:37] + "..."
