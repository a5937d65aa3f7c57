"""fio's logs of every I/O (``write_lat_log``): the instant of completion, the latency, direction, size, offset.

``6537, 54142520, 0, 4096, 34648064, 0``: ms, ns, direction (0 read, 1 write, 2 trim), bytes, offset with ``log_offset=1``, priority, time
of issue with ``log_issue_time=1`` (fio HOWTO, "Log file formats"). The ms count from the start of the job. With ``log_alternate_epoch``
(``log_unix_epoch``) they are a clock's. A log that fio writes for us has CLOCK_MONOTONIC_RAW. They are whole ms, so an instant is good to
1 ms. The latency is good to ns, but it is the program's: from before the submission until the program reaped the I/O. Up to fio 2.99 it
is in us (axboe/fio#566).

A log of bandwidth or of IOPS has the same lines, and differs only in its name. The name is ``NAME_lat.N.log``, with N the number of the
job. The host of a server follows (``fio --client``; fio's client.c).
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt
from wattbell_spec.nvme import io

from wattbell.capture.hostcommands import HostCommands, command_table, joined
from wattbell.capture.schema import SeenBy

from ..errors import CaptureError, DriveError
from .block import SECTOR
from .lines import numbered, shown, whole
from .target import Target

INSTANT_U_NS = 1_000_000
OWN_BEGIN = "fio"
"""``clock`` of a log: its ms count from the start of its own job."""
_DIRECTIONS = ("read", "write", "dsm")
_QUEUE = 1
_LOGS = "commands"
_NAME = re.compile(
    r"(?P<prefix>.+?)_(?P<what>bw|iops|slat|clat_hist|hist|clat|lat)(?:\.(?P<number>\d{1,9}))?\.log(?:\.(?P<host>.+))?", re.S
)
_WORD = re.compile(r"(?:^|[^a-z])(bw|bandwidth|iops|slat|hist|clat|latency|latencies|lat)(?=[^a-z]|$)", re.IGNORECASE)
_SHORT = {"bandwidth": "bw", "latency": "lat", "latencies": "lat"}
_MEANING = {"bw": "bw (KiB/s)", "iops": "iops", "slat": "slat (submissions)", "hist": "hist (histograms)"}
_NUMBER = re.compile(r"\d+|0x[0-9a-f]+")
_MOST_MS = 1 << 43
_MOST_NS = 1 << 55
_MOST = (1 << 63) - 1
_UNIX_MS = 10**12
"""ms since 1970 in September 2001; a job of fio that runs for 30 years there is none."""
_LEAST_NS = 1000
"""No NVMe drive answers sooner: half of a log's latencies below this are in us, as fio before 3.0 wrote them."""
_BRIEF_NS = 50_000
"""Latencies in ns below this may be those of a slow drive in us."""
_IDLE = 0.05
"""Mean number of I/Os in flight below which latencies may be too short by their unit."""
_EARLY_MS = 2
"""How much earlier an I/O may be logged than it ended: two roundings to whole ms."""
_NARROW = 5
"""Most fields of a log of fio before 3.0. Since 3.18 a log with offsets has more."""
_BACK_MS = 2
"""Largest step back in ms of the times within a job's log, which two threads may write."""


@dataclass(frozen=True)
class FioLogName:
    """The parts of a log's name.

    what: lat, clat, slat, bw, iops, hist, or empty if the name does not say
    number: of the job, from 1
    host: of the server that ran it
    """

    prefix: str
    what: str
    number: int | None = None
    host: str | None = None


def name_of(path: Path) -> FioLogName:
    """Return the name of a log, in parts. A changed name still gives the kind of log, if one of its words does."""
    if found := _NAME.fullmatch(path.name):
        what = found["what"].replace("clat_hist", "hist")
        return FioLogName(found["prefix"], what, int(found["number"]) if found["number"] else None, found["host"])
    words = [_SHORT.get(word.lower(), word.lower()) for word in _WORD.findall(path.name)]
    # a word other than latency decides: two such words in a name say nothing more
    other = next((word for word in words if word in _MEANING), "")
    return FioLogName(path.name, other or (words[-1] if words else ""))


def matches(lines: Iterable[str]) -> bool:
    """Whether a text begins like a log of fio's, of any kind."""
    first = next((line for line in lines if line.strip()), "")
    fields = [field.strip() for field in first.split(",")]
    if len(fields) < 4 or not all(map(_NUMBER.fullmatch, fields)):
        return False
    return (len(fields) <= 7 and fields[2] in "0123" and len(fields[2]) == 1) or _is_of_maxima(fields) or _is_of_bins(fields)


def _is_of_maxima(fields: list[str]) -> bool:
    """ms, mean, maximum, direction, 0: ``log_window_value=both``."""
    return 6 <= len(fields) <= 8 and fields[3] in ("0", "1", "2") and fields[4] == "0"


def _is_of_bins(fields: list[str]) -> bool:
    """ms, direction, bytes, count of each bin."""
    return len(fields) > 16 and fields[1] in ("0", "1", "2")


def _must_be_latencies(path: Path, first: list[str]) -> FioLogName:
    name = name_of(path)
    what = "hist" if _is_of_bins(first) else name.what
    if what in _MEANING:
        raise CaptureError(
            f"{path} is fio's log of {_MEANING[what]}, which has no latency of an I/O. Leave it out; the log with _lat has them."
        )
    if _is_of_maxima(first):
        raise CaptureError(f"{path}: fio averaged this log (log_avg_msec, log_window_value=both); without them there is a line an I/O.")
    if not what:
        raise CaptureError(
            f"{path}: its name does not say which of fio's logs it is, and those of latency and of bandwidth look alike. Give it the name "
            "that fio gave it, such as run_lat.1.log."
        )
    return name


def read_fio_log(path: Path, lba_bytes: int = SECTOR) -> HostCommands:
    """Return the I/Os of a ``_lat`` or ``_clat`` log, in ns. Raises CaptureError with the line.

    The ns are the time of day (``clock`` utc) if the log has it. Else they count since the job began, or are the clock that fio was set to
    (:data:`OWN_BEGIN`).
    """
    rows: list[tuple[int, int, int, int, int]] = []
    width, hexadecimal, name = 0, False, FioLogName("", "")
    latest_ms = 0
    cut: list[str] = []
    for number, line in numbered(path, cut=cut):
        where = f"{path}, line {number}"
        if not line.strip():
            continue
        fields = [field.strip() for field in line.split(",")]
        if not width:
            name = _must_be_latencies(path, fields)
        width = width or len(fields)
        if len(fields) != width or not 4 <= len(fields) <= 7:
            raise CaptureError(
                f"{where}: {len(fields)} fields of {width if width > 3 else '4 to 7'}; is it fio's log, is it cut? {shown(line)}"
            )
        ms, value, direction, size = (whole(field, where, most) for field, most in zip(fields, (_MOST_MS, _MOST_NS, 3, 1 << 40)))
        if rows and not (ms or value or direction or size):
            raise CaptureError(
                f"{where}: a line of zeros: fio lost entries of this log, as versions before 3.0 did (axboe/fio#152). Delete these "
                "lines to import the others, or log again with a newer fio."
            )
        if size == 0 and direction < len(_DIRECTIONS):
            raise CaptureError(f"{where}: a size of 0: fio averaged this log (log_avg_msec); without it there is a line an I/O.")
        if rows and (ms < _UNIX_MS) != (latest_ms < _UNIX_MS):
            raise CaptureError(f"{where}: from here on the times are of another clock; give a log of one run of fio.")
        if ms + _BACK_MS < latest_ms < _UNIX_MS:
            raise CaptureError(
                f"{where}: the times begin again, so the logs of several jobs stand behind one another (per_job_logs=0, or fio ran again), "
                "each from its own begin. Let fio write the time of day: log_unix_epoch=1."
            )
        latest_ms = max(latest_ms, ms)
        hexadecimal |= width == 5 and not fields[4].isdigit()
        offset = whole(fields[4], where, _MOST) if width >= 6 or (width == 5 and not hexadecimal) else 0
        if direction < len(_DIRECTIONS):
            rows.append((ms * 1_000_000, value, direction, size, offset))
    if not rows:
        raise CaptureError(f"{path}: there is no I/O in it{f'; {cut[0]}' if cut else ''}.")
    values = np.array(rows, np.int64)
    if len(values) > 1 and (values[:, 1] == 1).all():
        raise CaptureError(f"{path}: every I/O took 1 ns, so this is fio's log of iops. Leave it out; the log with _lat has latencies.")
    notes_of_unit = []
    if width <= _NARROW and _is_in_us(path, values, own_begin=latest_ms < _UNIX_MS):
        values[:, 1] *= 1000
        notes_of_unit = ["the latencies are read as us, as fio before 3.0 wrote them: in ns they would be shorter than any drive's."]
    # without log_offset the fifth field is the priority: 1 for the highest class, else 0
    no_offsets = hexadecimal or width == 4 or not (values[:, 4] > 1).any()
    notes = [
        "fio's logs have no CID, queue or status, and its instants are whole milliseconds; flushes and admin commands are not in them.",
        *notes_of_unit,
        *cut,
    ]
    if no_offsets:
        values[:, 4] = 0
        notes.append("the log has no offsets (log_offset=1): every address is 0")
    if name.what == "clat":
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
    clock = "utc" if latest_ms >= _UNIX_MS else OWN_BEGIN
    return HostCommands(command_table(columns, SeenBy.FIO_LOG, INSTANT_U_NS), source=SeenBy.FIO_LOG, notes=notes, clock=clock)


def _is_in_us(path: Path, values: npt.NDArray[np.int64], *, own_begin: bool) -> bool:
    """Whether latencies are in us. No I/O ends before its latency has passed since the job's begin, so most logs fit one unit only.

    values: ns of completion, latency, ...
    own_begin: whether the instants count from the job's begin

    Raises CaptureError for a log that fits both units.
    """
    done_ns, took = values[:, 0], values[:, 1]
    if own_begin and (took * 1000 > done_ns + _EARLY_MS * 1_000_000).any():
        return False
    typical = float(np.median(took))
    if typical < _LEAST_NS:
        return True
    in_flight = float(took.sum()) / max(float(np.ptp(done_ns)), 1e6)
    if own_begin and typical < _BRIEF_NS and in_flight < _IDLE:
        raise CaptureError(
            f"{path}: its latencies, {typical:.0f} in the middle, may be ns, or us as fio before 3.0 wrote them. Log again with fio "
            "3.18 or newer and log_offset=1."
        )
    return False


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
