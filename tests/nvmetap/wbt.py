"""Reader of bus traces (docs/bus-trace.md) for the monitor's tests, which share no code with the rest of the repository."""

from __future__ import annotations

import json
import lzma
import struct
import tarfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cocotbext.nvmetap import Command, Direction, LinkObserver

TRACES = Path(__file__).parents[3] / "shared/cases/traffic/traces.tar.xz"
"""Not part of the repository; tests that need it are left out without it."""


@cache
def shared_traces() -> dict[str, tuple[bytes, list[dict[str, Any]]]]:
    """Return content and truth of each shared trace by name. Skips the test where they are not there."""
    if not TRACES.is_file():
        pytest.skip(f"{TRACES} is not there: this is no work place of the project")
    contents: dict[str, bytes] = {}
    with tarfile.open(fileobj=lzma.open(TRACES)) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isfile() else None
            if file is not None:
                contents[Path(member.name).name] = file.read()
    return {
        name.removesuffix(".wbt"): (content, json.loads(contents[name.removesuffix(".wbt") + ".truth.json"]))
        for name, content in contents.items()
        if name.endswith(".wbt")
    }


def records(content: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield type, time in ps and body of each record; payloads that the trace omits are zeros."""
    assert content[:8] == b"WBBT\x01\0\0\0"
    at = 12 + struct.unpack_from("<L", content, 8)[0]
    while at < len(content):
        kind, flags, size, time_ps = struct.unpack_from("<BBHQ", content, at)
        body = content[at + 12 : at + 12 + size]
        if kind in (1, 2) and flags & 1:
            head = next(k for k in range(0, size, 4) if body[k] >> 5 != 4)  # behind the prefixes
            words = (body[head + 2] & 3) << 8 | body[head + 3]
            body += bytes(4 * (words or 1024))
        yield kind, time_ps, body
        at += 12 + size


def watch(content: bytes, observer: LinkObserver) -> list[Command]:
    """Play a trace into ``observer``; return all commands, open ones last."""
    commands: list[Command] = []
    for kind, time_ps, body in records(content):
        if kind in (1, 2):
            observer.feed(time_ps, Direction(kind), body)
        elif kind == 5 and body[0] == 1:
            observer.perst(time_ps, asserted=not body[1])
        elif kind == 5 and body[0] == 3:  # link state; 7 is Detect
            observer.link(time_ps, up=body[1] != 7)
        elif kind == 8:
            observer.missed(time_ps)
        elif kind == 6:
            observer.close(time_ps)
    commands.extend(observer.commands())
    return commands
