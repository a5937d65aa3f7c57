"""A log of commands that somebody else made: which format it is, by its content, and its commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from wattbell.capture.hostcommands import HostCommands

from .. import door
from ..errors import CaptureError
from . import blkparse, fiolog, iolog, tracetext
from .lines import numbered, shown

_HEAD_LINES = 400


@dataclass(frozen=True)
class LogFormat:
    """A format.

    name: for options
    title: for people
    matches: whether the first lines of a file look like it
    read: reads a file (path, bytes of a logical block)
    """

    name: str
    title: str
    matches: Callable[[Iterable[str]], bool]
    read: Callable[[Path, int], HostCommands]


LOG_FORMATS = (
    LogFormat("iolog", "fio's iolog", iolog.matches, iolog.read_iolog_commands),
    LogFormat("fio-log", "fio's log of latencies", fiolog.matches, fiolog.read_fio_log),
    LogFormat("trace", "text of a kernel trace", tracetext.matches, lambda path, lba: tracetext.read_trace_text(path, lba_bytes=lba)),
    LogFormat("blkparse", "blkparse text", blkparse.matches, lambda path, lba: blkparse.read_blkparse_log(path, lba_bytes=lba)),
)


def detect(path: Path) -> LogFormat:
    """Return the format of a file. Raises CaptureError for an unknown one, with its first line."""
    with_numbers = list(islice(numbered(_text(path), damaged=True), _HEAD_LINES))
    lines = [line for _, line in with_numbers]
    found = next((known for known in LOG_FORMATS if known.matches(lines)), None)
    if found is None:
        for _ in islice(numbered(path), _HEAD_LINES):
            pass  # raises where the file is no text
        first = next((line for line in lines if line.strip()), "")
        known = ", ".join(known.title for known in LOG_FORMATS)
        raise CaptureError(
            f"{path}, line 1: no log of commands that is known ({known}); it begins with: {shown(first) or 'nothing'}. "
            "To record one: trace-cmd record -e nvme:nvme_setup_cmd -e nvme:nvme_complete_rq, then trace-cmd report > trace.txt."
        )
    return found


def read_log(path: Path, lba_bytes: int = 512) -> HostCommands:
    """The commands of a log, whatever its format (:data:`LOG_FORMATS`). ``lba_bytes``: of a logical block of the drive; logs of bytes and
    sectors need it. Ticks are ns of the log's own clock (``clock`` says which), which none of a capture is. Raises CaptureError with the
    line.
    """
    return detect(path).read(path, lba_bytes)


def _text(path: Path) -> Path:
    """CaptureError for a file that is known, but binary."""
    try:
        with door.open_file(path, door.LOG) as file:
            head = file.read(16)
    except OSError as error:
        raise CaptureError(f"{path} cannot be read ({error.strerror}).") from None
    if not head:
        raise CaptureError(f"{path} is empty.")
    if head.startswith(b"\x17\x08Dtracing"):
        raise CaptureError(f"{path} is trace-cmd's own file; make text of it: trace-cmd report -t {path} > trace.txt")
    if head.startswith((b"PERFILE2", b"2ELIFREP")):
        raise CaptureError(f"{path} is perf's own file; make text of it: perf script --ns -i {path} > trace.txt")
    if head[1:4] == b"tae" or head[:3] == b"eat":
        raise CaptureError(f"{path} is blktrace's own file; make text of it: blkparse -i {path} > trace.txt")
    if head[:2] == b"\x1f\x8b":
        raise CaptureError(f"{path} is compressed; unpack it first (gunzip).")
    if head[:2] in (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda"):
        raise CaptureError(f"{path} is compressed by fio (log_store_compressed); unpack it: fio --inflate-log={path} > {path.stem}.")
    if head.lstrip()[:1] == b"{":
        raise CaptureError(f"{path} is JSON, not a log of commands. If fio printed it, give it as --fio.")
    return path


__all__ = ["LOG_FORMATS", "LogFormat", "detect", "read_log"]
