#!/usr/bin/env python3
"""Copies a bus trace (docs/bus-trace.md) from standard input to standard output without the tap's records, for a rig without a tap."""

from __future__ import annotations

import struct
import sys
from typing import BinaryIO

HEADER, RECORD = struct.Struct("<4sII"), struct.Struct("<BBHQ")
RAIL, SIDEBAND, END = 4, 5, 6
_KEPT = (RAIL, SIDEBAND, END)
_MOST = 1 << 20


def copy(source: BinaryIO, sink: BinaryIO) -> None:
    """Copy until the trace or the source ends. Raises ValueError if the source is no bus trace."""
    head = source.read(HEADER.size)
    magic, version, length = HEADER.unpack(head)
    if magic != b"WBBT" or version != 1:
        raise ValueError("standard input is not a bus trace")
    sink.write(head + source.read(length))
    sink.flush()
    held = b""
    while data := source.read1(_MOST):  # type: ignore[attr-defined]
        held += data
        at, kept, ended = 0, [], False
        while at + RECORD.size <= len(held) and not ended:
            kind, _, body, _ = RECORD.unpack_from(held, at)
            end = at + RECORD.size + body
            if end > len(held):
                break
            if kind in _KEPT:
                kept.append(held[at:end])
            at, ended = end, kind == END
        held = held[at:]
        if kept:
            sink.write(b"".join(kept))
            sink.flush()
        if ended:
            return


if __name__ == "__main__":
    copy(sys.stdin.buffer, sys.stdout.buffer)
