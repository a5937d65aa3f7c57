"""fio's own account of a load: the JSON that it writes, and files that a capture names."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from ..errors import CaptureError
from .fiotext import documents

Count = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Nanoseconds = Annotated[float, Meta(ge=0, le=1e18)]
Rate = Annotated[float, Meta(ge=0, le=1e15)]
Option = str | int | float | None
_ALL_CLIENTS = "All clients"
"""Name of the entry that ``fio --client`` adds behind the others: their sum."""
_ELAPSED_U_MS = 1000
"""fio says in whole seconds for how long it has been running."""


class Latency(msgspec.Struct):
    """``lat_ns``: zeros where there was no I/O."""

    min: Nanoseconds = 0.0
    mean: Nanoseconds = 0.0
    max: Nanoseconds = 0.0


class FioDirection(msgspec.Struct):
    """One data direction of a job in fio's JSON.

    iops, bw_bytes: means over the run time; bytes a second
    runtime: ms, rounded up
    lat_ns, clat_ns: of whole I/Os, and from the end of their submission
    """

    total_ios: Count = 0
    io_bytes: Count = 0
    iops: Rate = 0.0
    bw_bytes: Rate = 0.0
    runtime: Count = 0
    lat_ns: Latency | None = None
    clat_ns: Latency | None = None


class FioJob(msgspec.Struct):
    """One entry of ``jobs`` in fio's JSON, as far as it is used.

    options: the job's own, over the global options
    job_start: ms, rounded down, of the clock ``job_start_clock_id`` (0: UTC); the end of a ramp time; None before fio 3.36
    runtime_ms: whole milliseconds from the first issue of I/O until the last was over; 0 if fio does not say. In an entry of
        ``group_reporting``, the sum over the jobs.
    mixed: the sum of the directions (``unified_rw_reporting``), mostly in place of the separate directions
    error: errno with which the job ended, or the first errno after which the job continued
    hostname: of the server that ran it, with ``fio --client``
    """

    jobname: str = ""
    groupid: int = 0
    job_start: Count | None = None
    runtime_ms: Count = msgspec.field(name="job_runtime", default=0)
    options: dict[str, Option] | None = msgspec.field(name="job options", default=None)
    read: FioDirection | None = None
    write: FioDirection | None = None
    trim: FioDirection | None = None
    sync: FioDirection | None = None
    mixed: FioDirection | None = None
    error: int = 0
    elapsed: int = 0
    hostname: str | None = None

    def option(self, name: str, default: str) -> str:
        """A fio option, as text."""
        return str((self.options or {}).get(name, default))

    def is_set(self, name: str) -> bool:
        """Whether an option that is yes or no is given and yes; without a value fio prints it as empty."""
        return self.option(name, "0").strip() not in ("0", "false", "no", "None")

    @property
    def sides(self) -> list[FioDirection]:
        """Every byte and I/O of data once: the directions, or their sum where fio gives only that."""
        told = [side for side in (self.read, self.write, self.trim) if side is not None]
        return told or ([self.mixed] if self.mixed is not None else [])

    @property
    def is_unified(self) -> bool:
        """Whether fio gives the sum of the directions alone (``unified_rw_reporting=1``)."""
        return self.mixed is not None and not (self.read or self.write or self.trim)

    @property
    def ran_ms(self) -> int:
        """Time in ms that the job did I/O; 0 for a job without. Its directions run together, but verifying reads run behind the writes."""
        each = [side.runtime for side in self.sides]
        longest = max(each, default=0)
        verifies = self.option("verify", "0").strip() not in ("0", "")
        return max(longest, min(self.runtime_ms, sum(each))) if verifies and not self.is_set("group_reporting") else longest

    @property
    def data(self) -> list[FioDirection]:
        """Directions that the job read and wrote; includes trims if fio gives only the sum (:attr:`is_unified`)."""
        told = [side for side in (self.read, self.write) if side is not None]
        return [self.mixed] if self.is_unified and self.mixed is not None else told

    @property
    def failure(self) -> str:
        """Why its figures are void, as a clause; empty if the job ended without an error."""
        if not self.error:
            return ""
        meaning = os.strerror(self.error) if 0 < self.error < 1 << 15 else "no errno"
        return f"fio's job {self.jobname} had error {self.error} ({meaning})"


@dataclass(frozen=True)
class FioProcess:
    """The final report of one process of fio.

    jobs: its entries, in the order of their threads
    interim: earlier reports of the same process in the file (``--status-interval``), which this one includes
    cut: whether a later report breaks off
    """

    jobs: list[FioJob]
    interim: int = 0
    cut: bool = False
    ended_ms: int = field(default=0, compare=False)


class _File(msgspec.Struct):
    jobs: list[FioJob]
    common: dict[str, Option] | None = msgspec.field(name="global options", default=None)
    timestamp_ms: Count = 0


class _ClientFile(msgspec.Struct):
    jobs: list[FioJob] = msgspec.field(name="client_stats")
    common: list[dict[str, Option]] | dict[str, Option] | None = msgspec.field(name="global options", default=None)
    timestamp_ms: Count = 0


def load_processes(path: Path) -> list[FioProcess]:
    """Return the fio processes with JSON in a file, each by its last report. Text around the JSON is passed over.

    Raises CaptureError with the file and the key for any other content.
    """
    there = documents(path)
    found: list[FioProcess] = []
    for document in there.found:
        new = _process(path, document)
        if found and _goes_on(found[-1], new):
            found[-1] = FioProcess(new.jobs, found[-1].interim + 1, ended_ms=new.ended_ms)
        else:
            found.append(new)
    if there.cut:
        last = found[-1]
        found[-1] = FioProcess(last.jobs, last.interim, cut=True, ended_ms=last.ended_ms)
    return found


def load_jobs(path: Path) -> list[FioJob]:
    """The jobs of all processes of fio in a file, as :func:`load_processes` gives them."""
    return [job for process in load_processes(path) for job in process.jobs]


def _process(path: Path, document: dict[str, Any]) -> FioProcess:
    kind: type[_File] | type[_ClientFile] = _File if "jobs" in document else _ClientFile
    try:
        file = msgspec.convert(document, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise CaptureError(f"{path} is not fio JSON ({error}); is it as fio printed it?") from None
    jobs = file.jobs
    if isinstance(file, _ClientFile) and len(jobs) > 1 and jobs[-1].jobname == _ALL_CLIENTS:
        jobs = jobs[:-1]
    for job in jobs:
        job.options = {**_common(file.common, job.hostname), **(job.options or {})}
    return FioProcess(jobs, ended_ms=file.timestamp_ms)


def _common(options: list[dict[str, Option]] | dict[str, Option] | None, host: str | None) -> dict[str, Option]:
    """Return the global options of a job; ``fio --client`` lists them by server."""
    if isinstance(options, list):
        return next((each for each in options if each.get("hostname") == host), {})
    return options or {}


def _goes_on(before: FioProcess, after: FioProcess) -> bool:
    """Return whether ``after`` is a later report of the process that wrote ``before``: the same jobs, and no job began again."""
    named = [[(job.jobname, job.groupid, job.hostname) for job in each.jobs] for each in (before, after)]
    if named[0] != named[1] or not before.jobs:
        return False
    pairs = list(zip(before.jobs, after.jobs, strict=True))
    if any(old.job_start for old in before.jobs) and all(not old.job_start or old.job_start == new.job_start for old, new in pairs):
        return all(_moved(old) <= _moved(new) for old, new in pairs)
    # fio before 3.36, or a ramp time that ended between the two: then fio notes the begin anew
    one, other = _began(before), _began(after)
    return bool(one) and abs(one - other) <= 2 * _ELAPSED_U_MS and other < before.ended_ms - _ELAPSED_U_MS


def _moved(job: FioJob) -> int:
    return sum(side.total_ios for side in job.sides)


def _began(process: FioProcess) -> int:
    """Return the process's own statement of its begin, in ms; 0 without one."""
    elapsed = max((job.elapsed for job in process.jobs), default=0)
    return process.ended_ms - 1000 * elapsed if process.ended_ms and elapsed > 0 else 0


def inside(workload: Path, name: str, key: str) -> Path | None:
    """Return the path of a file that ``meta.json`` names, inside the capture's ``workload`` folder; None if the file is missing.

    Raises CaptureError, with ``key``, for any other path: a capture may come from anybody, and its report shows the named files.
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
