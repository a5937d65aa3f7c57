"""Bus traces (docs/bus-trace.md) for these tests: written by hand, or compressed from a drive model's trace."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

TLP_DOWN, TLP_UP, BURST, RAIL, SIDEBAND, END = range(1, 7)
MISSED = 8
PERST_N, CLKREQ_N, LINK_STATE = 1, 2, 3
US = 1_000_000
"""Picoseconds of a microsecond."""

Record = tuple[int, int, int, bytes]
"""Type, flags, time in picoseconds, body."""


def records(path: Path) -> Iterator[Record]:
    """Yield the records of a trace file."""
    blob = path.read_bytes()
    magic, version, length = struct.unpack_from("<4sII", blob)
    assert (magic, version) == (b"WBBT", 1)
    at = 12 + length
    while at < len(blob):
        kind, flags, size, time_ps = struct.unpack_from("<BBHQ", blob, at)
        yield kind, flags, time_ps, blob[at + 12 : at + 12 + size]
        at += 12 + size


def encode(rows: Iterable[Record]) -> bytes:
    """Return a trace file's bytes."""
    note = json.dumps({"source": "tests/sim/rig", "profile": "none", "timing": "model", "notes": []}).encode()
    out = [struct.pack("<4sII", b"WBBT", 1, len(note)), note]
    out += [struct.pack("<BBHQ", kind, flags, len(body), time_ps) + body for kind, flags, time_ps, body in rows]
    return b"".join(out)


def squeeze(rows: Iterable[Record], longest_gap_us: float = 30.0) -> Iterator[Record]:
    """Yield the same records with every pause cut to `longest_gap_us`, so that every cycle of a trace can be simulated."""
    cut = last = 0
    for kind, flags, time_ps, body in rows:
        cut += max(0, time_ps - last - int(longest_gap_us * US))
        last = time_ps
        yield kind, flags, time_ps - cut, body


def rail(time_us: float, volts: float, amps: float) -> Record:
    """Return a record that sets the rail from some time on."""
    return RAIL, 0, round(time_us * US), struct.pack("<qq", round(amps * 1e9), round(volts * 1e9))


def sideband(time_us: float, signal: int, value: int) -> Record:
    """Return a record with a change of a sideband."""
    return SIDEBAND, 0, round(time_us * US), bytes((signal, value))


def missed(time_ps: int, kind: int) -> Record:
    """Return a record of a tap that knows it missed TLPs before the next one of this `kind` (TLP_DOWN, TLP_UP)."""
    return MISSED, 0, time_ps, bytes((kind,))


def end(time_us: float) -> Record:
    """Return the end record."""
    return END, 0, round(time_us * US), b""
