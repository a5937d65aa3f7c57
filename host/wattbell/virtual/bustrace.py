"""The header of a bus trace (docs/bus-trace.md), the only part that the host reads."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import msgspec

from .. import door
from ..errors import SimError
from ..jsondata import JsonObject

_LIMIT = 64 << 20


class _Header(msgspec.Struct):
    """The part of a header that the host uses."""

    profile: str | None = None
    timing: str | None = None
    source: str | None = None
    notes: list[str] = []
    phases: list[JsonObject] | None = None


def read_header(path: Path) -> JsonObject:
    """The header's JSON. Raises SimError when `path` is not a bus trace."""
    try:
        with door.open_file(path, door.RECORDING) as file:
            head = file.read(12)
            if len(head) < 12 or head[:4] != b"WBBT":
                raise SimError(f"{path} is not a bus trace (it does not begin with WBBT).")
            version, length = struct.unpack("<II", head[4:])
            if version != 1:
                raise SimError(f"{path} is a bus trace of version {version}; this wattbell plays version 1.")
            header: Any = msgspec.json.decode(file.read(min(length, _LIMIT)))
            msgspec.convert(header, _Header)
    except OSError as error:
        raise SimError(f"{path} cannot be read ({error.strerror}).") from None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise SimError(f"{path} has a damaged header; make the trace again.") from None
    return dict(header)
