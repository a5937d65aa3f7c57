"""Sizes and times as fio writes them (fio HOWTO, "Parameter types"), with its default ``kb_base=1024``."""

from __future__ import annotations

import re

_SIZE = re.compile(r"(\d+)(?:([kmgtp])(i)?)?b?", re.IGNORECASE)
_TIME = re.compile(r"(\d+)([a-z]*)", re.IGNORECASE)
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


def size_bytes(text: str) -> int:
    """Bytes of ``4k`` (4096), ``1g``, ``512``; as in fio ``4ki`` is 4000. ValueError when it is no size."""
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise ValueError(f"`{text}` is no size (such as 4k, 128m, 16g)")
    power = "kmgtp".index(match[2].lower()) + 1 if match[2] else 0
    return int(match[1]) * int((1000 if match[3] else 1024) ** power)


def time_s(text: str) -> float:
    """Seconds of ``60``, ``500ms``, ``1h``. ValueError when it is no time."""
    match = _TIME.fullmatch(text.strip())
    if not match or match[2].lower() not in _TIME_UNITS_S:
        raise ValueError(f"`{text}` is no time (such as 60, 500ms, 1h)")
    return int(match[1]) * _TIME_UNITS_S[match[2].lower()]
