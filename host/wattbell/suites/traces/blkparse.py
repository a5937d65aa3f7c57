"""blkparse's text as entries of an iolog. A drive sees the action D (issued to the driver). In a trace without D, Q (queued) is used."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import polars as pl

from ... import door
from ...errors import UsageError
from ...hostlog.blkparse import LINE, what_of
from ...hostlog.block import SECTOR
from ...hostlog.iolog import SCHEMA


def read_blkparse(path: Path, device: str | None = None) -> pl.DataFrame:
    """Entries of a blkparse text, columns of ``iolog.SCHEMA``, in order of time from 0.

    ``device``: ``major,minor``; needed when the text has several. Raises UsageError when it is no such text.
    """
    try:
        content = door.read_bytes(path, door.TRACE)
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}).") from None
    if b"\0" in content[:4096]:
        raise UsageError(f"{path} is binary; make text of it: blkparse -i {path.name.split('.')[0]} > trace.txt")
    return parse_blkparse(content.decode("utf-8", "replace").splitlines(), str(path), device)


def parse_blkparse(lines: Iterable[str], name: str, device: str | None = None) -> pl.DataFrame:
    """The same for lines of text. Lines that are no event (the summary at the end) are left out."""
    rows: dict[str, list[tuple[str, int, str, int, int]]] = {"D": [], "Q": []}
    for line in lines:
        match = LINE.match(line)
        if not match or match["action"] not in rows:
            continue
        action = what_of(match["rwbs"])
        if action is None or (action != "sync" and not match["count"]):
            continue
        t_ns = int(match["s"]) * 1_000_000_000 + int(match["ns"])
        offset, length = int(match["sector"] or 0) * SECTOR, int(match["count"] or 0) * SECTOR
        if action == "sync":
            offset = length = 0
        elif not length:
            continue
        rows[match["action"]].append((match["device"], t_ns, action, offset, length))
    found = rows["D"] or rows["Q"]
    devices = sorted({row[0] for row in found})
    if device is not None:
        found = [row for row in found if row[0] == device]
    elif len(devices) > 1:
        raise UsageError(f"{name}: it has the devices {' and '.join(devices)}; choose one with --device.")
    if not found:
        what = f"of device {device} " if device else ""
        raise UsageError(f"{name}: there is no I/O {what}in it; is it the text that blkparse prints?")
    frame = pl.DataFrame([row[1:] for row in found], schema=SCHEMA, orient="row").sort("t_us", maintain_order=True)
    return frame.with_columns((pl.col("t_us") - pl.col("t_us").min()) // 1000)
