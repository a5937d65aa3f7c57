"""fio's logs of every I/O (``write_lat_log``): when it was completed, how long it took, direction, size, offset.

``6537, 54142520, 0, 4096, 34648064, 0``: ms, ns, direction (0 read, 1 write, 2 trim), bytes, offset with ``log_offset=1``, priority (fio
HOWTO, "Log file formats"). The ms count from the start of the job; with ``log_alternate_epoch`` they are those of a clock, and a log that
fio writes for us has CLOCK_MONOTONIC_RAW. They are whole ms, so that an instant is good to 1 ms; the time an I/O took is good to ns, but
it is the program's: from before its submission to after it was reaped.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from wattbell_spec.nvme import io

from wattbell.capture.hostcommands import HostCommands, command_table, joined
from wattbell.capture.schema import SeenBy

from ..errors import CaptureError, DriveError
from .block import SECTOR
from .lines import numbered, shown, whole
from .target import Target

INSTANT_U_NS = 1_000_000
_DIRECTIONS = ("read", "write", "dsm")
_QUEUE = 1
_LOGS = "commands"
_OTHER = re.compile(r"_(bw|iops|slat)(\.\d+)?\.log$")
_ROW = re.compile(r"\s*\d+\s*,\s*\d+\s*,\s*[0-3]\s*,\s*\d+\s*(,[\s0-9a-fx/]+)*$")
_MOST_NS = 1 << 55
_MOST = (1 << 63) - 1


def matches(lines: Iterable[str]) -> bool:
    """Whether a text begins like a log of fio's."""
    first = next((line for line in lines if line.strip()), "")
    return bool(_ROW.match(first))


def read_fio_log(path: Path, lba_bytes: int = SECTOR) -> HostCommands:
    """The I/Os of a ``_lat`` or ``_clat`` log, in ns since the job began, or of the clock that fio was told. CaptureError with the line."""
    if other := _OTHER.search(path.name):
        raise CaptureError(f"{path} is fio's log of {other[1]}, which has no I/O of its own: give the one with _lat.")
    rows: list[tuple[int, int, int, int, int]] = []
    width, hexadecimal = 0, False
    for number, line in numbered(path):
        where = f"{path}, line {number}"
        if not line.strip():
            continue
        fields = [field.strip() for field in line.split(",")]
        width = width or len(fields)
        if len(fields) != width or not 4 <= len(fields) <= 7:
            raise CaptureError(
                f"{where}: {len(fields)} fields of {width if width > 3 else '4 to 7'}; is it fio's log, is it cut? {shown(line)}"
            )
        ms, value, direction, size = (
            whole(field, where, most) for field, most in zip(fields, (_MOST_NS // 1_000_000, _MOST_NS, 3, 1 << 40))
        )
        if size == 0 and direction < len(_DIRECTIONS):
            raise CaptureError(f"{where}: a size of 0: fio averaged this log (log_avg_msec); without it there is a line an I/O.")
        hexadecimal |= width == 5 and not fields[4].isdigit()
        offset = whole(fields[4], where, _MOST) if width >= 6 or (width == 5 and not hexadecimal) else 0
        if direction < len(_DIRECTIONS):
            rows.append((ms * 1_000_000, value, direction, size, offset))
    if not rows:
        raise CaptureError(f"{path}: there is no I/O in it.")
    values = np.array(rows, np.int64)
    notes = [
        "fio's logs have no CID, queue or status, and its instants are whole milliseconds; flushes and admin commands are not in them."
    ]
    if hexadecimal or width == 4 or not values[:, 4].any():
        notes.append("the log has no offsets (log_offset=1): every address is 0")
    if path.name.endswith(".log") and "_clat" in path.name:
        notes.append("a _clat log: the time of each I/O begins after its submission (a _lat log has all of it)")
    # fio adds whole milliseconds since the start of the job to the start in whole milliseconds: 0 to 2 ms early
    done = values[:, 0] + INSTANT_U_NS
    columns = {
        "cqe_tick": done,
        "doorbell_tick": done - values[:, 1],
        "opcode": np.array([io(name) for name in _DIRECTIONS], np.uint8)[values[:, 2]],
        "qid": np.full(len(values), _QUEUE, np.uint8),
        "slba": (values[:, 4] // lba_bytes).astype(np.uint64),
        "blocks": (values[:, 3] // lba_bytes).astype(np.uint32),
    }
    return HostCommands(command_table(columns, SeenBy.FIO_LOG, INSTANT_U_NS), source=SeenBy.FIO_LOG, notes=notes, clock="fio")


class FioLog:
    """A :class:`~.log.CommandLog` of the logs that fio leaves in ``folder``. fio writes them when a job ends, one a process."""

    source = SeenBy.FIO_LOG

    def __init__(self, target: Target, folder: Path) -> None:
        self._target, self._folder = target, folder
        self._done: set[Path] = set()
        self._notes: list[str] = []
        self._runs = 0

    def fio_options(self) -> tuple[str, ...]:
        self._runs += 1
        return (
            f"write_lat_log={self._folder / _LOGS}-{self._runs}",
            "log_offset=1",
            "log_alternate_epoch=1",
            f"log_alternate_epoch_clock_id={time.CLOCK_MONOTONIC_RAW}",
        )

    @property
    def about(self) -> Mapping[str, object]:
        return {
            "source": "fio",
            "clock": "mono_raw",
            "start": "fio, before it submits the I/O",
            "end": "fio, after it has reaped the I/O; whole milliseconds",
            "notes": self._notes,
        }

    def start(self) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DriveError(f"{self._folder} for fio's logs cannot be made ({error.strerror}).") from None
        self._done = set(self._logs())

    def take(self) -> HostCommands:
        return self._new(settled=True)

    def stop(self) -> HostCommands:
        return self._new(settled=False)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        return None

    def _logs(self) -> list[Path]:
        return sorted(self._folder.glob(f"{_LOGS}-*_lat*.log"))

    def _new(self, *, settled: bool) -> HostCommands:
        """``settled``: only logs that nobody has written to for a second."""
        parts = []
        for path in self._logs():
            found = path.stat()
            if path in self._done or not found.st_size or (settled and time.time() - found.st_mtime < 1):
                continue
            self._done.add(path)
            parts.append(read_fio_log(path, self._target.lba_bytes))
        if not parts:
            nothing = {"cqe_tick": np.zeros(0, np.int64)}
            return HostCommands(command_table(nothing, SeenBy.FIO_LOG, INSTANT_U_NS), source=SeenBy.FIO_LOG)
        whole = joined(parts)
        self._notes += [note for note in whole.notes if note not in self._notes]
        return HostCommands(whole.table, source=whole.source, notes=whole.notes)
