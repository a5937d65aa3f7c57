"""fio's own account of a load: the JSON that it writes, and files that a capture names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from ..errors import CaptureError

Count = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Nanoseconds = Annotated[float, Meta(ge=0, le=1e18)]
Rate = Annotated[float, Meta(ge=0, le=1e15)]
Option = str | int | float | None


class Latency(msgspec.Struct):
    """``lat_ns``: zeros where there was no I/O."""

    min: Nanoseconds = 0.0
    mean: Nanoseconds = 0.0
    max: Nanoseconds = 0.0


class Direction(msgspec.Struct):
    """What fio says of one data direction of a job. ``iops`` and ``bw_bytes`` (bytes a second) are means over its run time. ``runtime``:
    ms, rounded up."""

    total_ios: Count = 0
    io_bytes: Count = 0
    iops: Rate = 0.0
    bw_bytes: Rate = 0.0
    runtime: Count = 0
    lat_ns: Latency | None = None


class Job(msgspec.Struct):
    """One entry of ``jobs`` in fio's JSON, as far as it is used. ``options``: the global options are put under its own. ``job_start``: ms,
    rounded down, of the clock ``job_start_clock_id`` (0: UTC); the end of a ramp time; None before fio 3.36. ``runtime_ms``: whole
    milliseconds since it began to issue I/O until the last was over; 0 where fio does not say."""

    jobname: str = ""
    groupid: int = 0
    job_start: Count | None = None
    runtime_ms: Count = msgspec.field(name="job_runtime", default=0)
    options: dict[str, Option] | None = msgspec.field(name="job options", default=None)
    read: Direction | None = None
    write: Direction | None = None
    trim: Direction | None = None
    sync: Direction | None = None

    def option(self, name: str, default: str) -> str:
        """A fio option, as text."""
        return str((self.options or {}).get(name, default))


class _File(msgspec.Struct):
    jobs: list[Job]
    common: dict[str, Option] | None = msgspec.field(name="global options", default=None)


def load_jobs(path: Path) -> list[Job]:
    """Jobs of a fio JSON file, text before the first brace (warnings of fio) skipped.

    CaptureError, with the file and the key, when it is something else.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CaptureError(f"{path} cannot be read ({error.strerror}).") from None
    start = max(content.find(b"{"), 0)
    try:
        file = msgspec.json.decode(content[start:].decode("utf-8", "replace"), type=_File)
    except (msgspec.DecodeError, RecursionError) as error:
        raise CaptureError(f"{path} is not fio JSON ({error}); run fio with --output-format=json.") from None
    for job in file.jobs:
        job.options = {**(file.common or {}), **(job.options or {})}
    return file.jobs


def inside(workload: Path, name: str, key: str) -> Path | None:
    """The path of a file that ``meta.json`` names, which must lie in the capture's ``workload`` folder; None where there is none.

    CaptureError, with ``key``, for any other: a capture may come from anybody, and what it names is shown in its report.
    """
    path = Path(name)
    try:
        there = (workload / path).is_file()
        safe = not path.is_absolute() and ".." not in path.parts and (workload / path).resolve().is_relative_to(workload.resolve())
    except (OSError, ValueError, RuntimeError):  # a name too long, with a NUL, links in a circle
        there = safe = False
    if not safe:
        shown = "".join(c if c.isprintable() else "�" for c in name[:80])
        raise CaptureError(f"{workload.parent / 'meta.json'}: {key} = {shown}: only a file inside {workload.name}/ can be read.")
    return workload / path if there else None
