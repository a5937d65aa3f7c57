"""fio's iologs: version 3 is read and written, version 2 is read (fio HOWTO, "Trace file format"; fio's iolog.c).

Version 3: ``timestamp filename action [offset length]``, time stamps in microseconds. Version 2 has no time stamps; its
``wait`` says for how many microseconds to wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import IO

import numpy as np
import polars as pl
from wattbell_spec.nvme import io

from wattbell.capture.hostcommands import HostCommands, command_table
from wattbell.capture.schema import SeenBy

from .. import door
from ..errors import CaptureError, UsageError

NAME = "wattbell-drive"
"""File name in the iologs that we write; fio's ``replay_redirect`` replaces it by the real device."""
SCHEMA = {"t_us": pl.Int64, "action": pl.String, "offset": pl.Int64, "length": pl.Int64}
IO_ACTIONS = ("read", "write", "trim", "sync", "datasync")
_FILE_ACTIONS = ("add", "open", "close")
_LIMIT = 1 << 62
OWN_ZERO = "iolog"
"""``clock`` of an iolog: its times count from its own first entry."""
NOT_KNOWN_NS = (1 << 32) - 1
"""``instant_u_ns`` of a completion that is unknown, except for its start."""


@contextmanager
def start_iolog(path: Path) -> Iterator[IO[bytes]]:
    """A new iolog: header and file actions written, ready for entries; ends with ``close``."""
    with path.open("wb") as stream:
        stream.write(f"fio version 3 iolog\n0 {NAME} add\n0 {NAME} open\n".encode())
        yield stream


def append_entries(stream: IO[bytes], entries: pl.DataFrame) -> None:
    """Entries (columns of ``SCHEMA``) as lines."""
    columns = entries.select("t_us", pl.lit(NAME).alias("name"), "action", "offset", "length")
    columns.write_csv(stream, separator=" ", include_header=False, quote_style="never")


def write_iolog(path: Path, entries: pl.DataFrame) -> None:
    """Write entries (columns of ``SCHEMA``, in order of time) as an iolog of version 3."""
    with start_iolog(path) as stream:
        append_entries(stream, entries)


def read_iolog(path: Path) -> pl.DataFrame:
    """Entries of an iolog, columns of ``SCHEMA``; time in microseconds from its first entry.

    Raises UsageError with file and line when a line makes no sense, as a file with no I/O in it.
    """
    try:
        with TextIOWrapper(door.open_file(path, door.LOG), encoding="utf-8", errors="replace") as stream:
            return parse_iolog(stream, str(path))
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}).") from None


def parse_iolog(lines: Iterator[str] | IO[str], name: str) -> pl.DataFrame:
    """The same for lines of text; ``name`` is for error messages."""
    numbered = enumerate(lines, start=1)
    _, header = next(numbered, (0, ""))
    words = header.split()
    if words[:2] != ["fio", "version"] or words[3:] != ["iolog"] or words[2] not in ("2", "3"):
        raise UsageError(f"{name}: the first line is not `fio version 3 iolog` (version 2 is read, too).")
    version = int(words[2])
    rows: list[tuple[int, str, int, int]] = []
    devices: dict[str, int] = {}
    waited = 0
    for number, line in numbered:
        fields = line.split()
        if not fields:
            continue
        where = f"{name}:{number}"
        if not line.endswith("\n"):
            raise UsageError(f"{where}: the last line has no end, so it may be cut within a number. End it if it is whole, else delete it.")
        if version == 3:
            stamp = _whole(fields.pop(0), where)
        else:
            stamp = waited
        if len(fields) == 2 and fields[1] in _FILE_ACTIONS:
            continue
        if len(fields) != 4:
            raise UsageError(f"{where}: `{line.strip()}` is not an entry of an iolog of version {version}.")
        action, offset, length = fields[1], _whole(fields[2], where), _whole(fields[3], where)
        if action == "wait" and version == 2:
            waited += offset
            if waited >= _LIMIT:
                raise UsageError(f"{where}: the waits up to here add up to more than a hundred thousand years.")
        elif action in IO_ACTIONS:
            if fields[0].startswith("/dev/"):
                devices.setdefault(fields[0], number)
            if len(devices) > 1:
                first, other = devices
                raise UsageError(f"{where}: I/Os of {other} among those of {first}. Keep one device: grep -v '{other} ' {name}.")
            rows.append((stamp, action, offset, length))
        else:
            raise UsageError(f"{where}: action `{action}` is none of {', '.join(IO_ACTIONS)}.")
    if not rows:
        raise UsageError(f"{name}: there is no I/O in it.")
    frame = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    return frame.with_columns(pl.col("t_us") - pl.col("t_us").min())


def read_iolog_commands(path: Path, lba_bytes: int = 512) -> HostCommands:
    """Return the I/Os of an iolog as commands. Raises CaptureError with the line.

    An iolog has the start of each I/O but not its completion. So there is no start tick, and the one tick is the start's. The delay of the
    completion is unknown.
    """
    try:
        entries = read_iolog(path)
    except UsageError as error:
        raise CaptureError(str(error)) from None
    names = {"read": "read", "write": "write", "trim": "dsm", "sync": "flush", "datasync": "flush"}
    opcodes = [io(names[action]) for action in entries["action"].to_list()]
    blocks = np.minimum(entries["length"].to_numpy() // lba_bytes, (1 << 32) - 1)
    columns = {
        "cqe_tick": np.minimum(entries["t_us"].to_numpy(), _LIMIT // 1000) * 1000,
        "opcode": np.array(opcodes, np.uint8),
        "qid": np.full(len(opcodes), 1, np.uint8),
        "slba": (entries["offset"].to_numpy() // lba_bytes).astype(np.uint64),
        "blocks": blocks.astype(np.uint32),
    }
    notes = [
        "fio's iolog says when an I/O was started, not when it was completed: there are counts and bytes, and no latency or queue depth."
    ]
    return HostCommands(command_table(columns, SeenBy.FIO_LOG, NOT_KNOWN_NS), source=SeenBy.FIO_LOG, notes=notes, clock=OWN_ZERO)


def matches(lines: Iterable[str]) -> bool:
    """Whether a text begins like an iolog."""
    return next(iter(lines), "").split()[:2] == ["fio", "version"]


def _whole(text: str, where: str) -> int:
    if text.isascii() and text.isdigit() and int(text[:20]) < _LIMIT and len(text) < 20:
        return int(text)
    raise UsageError(f"{where}: `{text}` is not a whole number.")
