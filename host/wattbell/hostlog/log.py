"""A log of commands that runs while a drive works.

Three kinds, best first: ``trace`` (the NVMe driver's tracepoints, :mod:`.tracefs`), ``blktrace`` (the block layer, :mod:`.blktrace`),
``fio`` (fio's logs of every I/O, :mod:`.fiolog`). docs/host-commands.md says which commands each sees, and how good its instants are.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from wattbell.capture.hostcommands import HostCommands
from wattbell.capture.marking import BY_FEATURE, Marking
from wattbell.capture.schema import SeenBy

from ..errors import UsageError
from .blktrace import BlktraceLog
from .fiolog import FioLog
from .target import target_of
from .tracefs import TraceLog

KINDS = ("trace", "blktrace", "fio")


class CommandLog(Protocol):
    """Logs from :meth:`start` to :meth:`stop`; as a context manager it starts, and at its end, also after errors, puts the system back as
    it was. Each command is given once. Times are ns of CLOCK_MONOTONIC_RAW (:func:`wattbell.clocks.host.host_ns`)."""

    @property
    def source(self) -> SeenBy:
        """Recorder of the commands."""

    @property
    def about(self) -> Mapping[str, object]:
        """Return ``conditions.commands`` of the capture: the logger, its clock, and the meaning of its instants.

        Notes are complete after the end.
        """

    def fio_options(self) -> tuple[str, ...]:
        """Return options that the next run of fio needs in each of its jobs, ``name=value`` each, new for each run. Mostly none."""

    def start(self) -> None:
        """Start the log. Raises DriveError with advice if it cannot log here; nothing is changed then."""

    def take(self) -> HostCommands:
        """Return the commands completed since the last call. Call it every few seconds, since the rest is held in memory.

        Raises DriveError if logging failed; :meth:`stop` still returns the commands logged until then.
        """

    def stop(self) -> HostCommands:
        """The rest. A second call gives nothing."""

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /) -> None: ...


def open_log(kind: str, device: str | Path, folder: Path | None = None, marking: Marking = BY_FEATURE) -> CommandLog:
    """Open a log of ``kind`` (:data:`KINDS`) of a namespace (``/dev/nvme0n1``) or of a whole drive (``/dev/nvme0``).

    folder: destination of fio's logs; only ``fio`` needs it
    marking: the commands that are markers; only ``trace`` sees them

    Raises UsageError for an unknown kind, DriveError for a path that is no NVMe drive.
    """
    if kind not in KINDS:
        raise UsageError(f"There is no log of commands of kind {kind}; give one of {', '.join(KINDS)}.")
    target = target_of(device)
    if kind == "trace":
        return TraceLog(target, marking)
    if kind == "blktrace":
        return BlktraceLog(target)
    if folder is None:
        raise UsageError("fio's logs need a folder to lie in.")
    return FioLog(target, folder)


__all__ = ["KINDS", "CommandLog", "open_log"]
