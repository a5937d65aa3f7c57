"""Derive the phases of a workload from fio's JSON.

Jobs that overlap in time ran together and are one phase, whatever their group or process. fio notes the start of a job just before its
first I/O, in whole milliseconds rounded down. It notes how long each data direction ran in milliseconds rounded up. Source: backend.c,
stat.c and time.c of fio.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import CaptureError
from ..measure.fiojson import FioJob, FioProcess, load_processes

EDGE_U_NS = 1_500_000
"""Limit of the error of an edge: 1 ms for both roundings, and 0.5 ms for the time between fio's note and the first I/O."""
MS = 1_000_000
CLOCKS = {"0": "utc", "1": "mono", "4": "mono_raw", "7": "boot"}
"""The host's clocks by Linux's clockid_t."""
_LONGEST_MS = 10**10
_MOST_NAME = 120


@dataclass(frozen=True)
class HostPhase:
    """A phase on the host's clock, ns; each edge is within ``edge_u_ns``. ``about``: for its entry of ``workload.phases``. ``jobs``: of
    fio's JSON."""

    name: str
    first_ns: int
    last_ns: int
    edge_u_ns: int
    about: dict[str, object] = field(default_factory=dict)
    jobs: tuple[FioJob, ...] = ()


@dataclass(frozen=True)
class ProcessFile:
    """A process of fio and the file that its JSON is from."""

    path: Path
    process: FioProcess


@dataclass(frozen=True)
class FioRun:
    """The contents of the JSON of one or several fio processes.

    clock: ``utc``, or another of the host's clocks
    """

    phases: list[HostPhase]
    clock: str
    notes: tuple[str, ...] = ()
    processes: tuple[ProcessFile, ...] = ()


@dataclass
class _Work:
    """Jobs that ran together: (file, place in the file, entry) of each."""

    first_ns: int
    last_ns: int
    jobs: list[tuple[str, int, FioJob]]

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(job.jobname for _, _, job in self.jobs))

    @property
    def groups(self) -> list[tuple[str, int]]:
        return list(dict.fromkeys((file, job.groupid) for file, _, job in self.jobs))


def read_fio(paths: Sequence[Path], names: Sequence[str], *, logs: bool = False) -> FioRun:
    """Return the phases of fio's JSON files, in order of time.

    names: each file's name in the capture
    logs: whether logs of commands are given, too

    Raises CaptureError for another file, or one that does not say when its jobs ran.
    """
    work: list[_Work] = []
    clocks: dict[str, Path] = {}
    notes: list[str] = []
    processes: list[ProcessFile] = []
    seen: dict[tuple[object, ...], Path] = {}
    for path, name in zip(paths, names, strict=True):
        place = 0
        for process in load_processes(path):
            processes.append(ProcessFile(path, process))
            notes += _told(path, process)
            _must_be_new(path, process, seen)
            for job in process.jobs:
                clocks.setdefault(_clock(path, job), path)
                work += _work(path, name, place, job, notes, logs=logs)
                place += 1
    _must_be_of_one_host(processes)
    if len(clocks) > 1:
        each = ", ".join(f"{path} by {clock}" for clock, path in clocks.items())
        raise CaptureError(f"the jobs are timed by different clocks ({each}); import them one by one.")
    if not work:
        failed = [job.failure for each in processes for job in each.process.jobs if job.failure]
        why = f" ({failed[0]})" if failed else ""
        raise CaptureError(f"{', '.join(map(str, paths))}: no job in it did any I/O{why}.")
    merged = _apart(work)
    if any(len(each.groups) > 1 for each in merged):
        notes.append("groups of jobs that ran at the same time are one phase")
    phases = _phases(merged, one_file=len(paths) == 1)
    return FioRun(phases, next(iter(clocks)), tuple(notes), tuple(processes))


def _phases(merged: Sequence[_Work], *, one_file: bool) -> list[HostPhase]:
    seen: dict[str, int] = {}
    phases = []
    for work in merged:
        name = " + ".join(work.names)[:_MOST_NAME] or "fio"
        seen[name] = seen.get(name, 0) + 1
        shown = name if seen[name] == 1 else f"{name} #{seen[name]}"
        about: dict[str, object] = {"jobs": work.names}
        if len(work.groups) == 1:
            ((file, group),) = work.groups
            about["fio_group"] = group
            if not one_file:
                about["fio"] = file
        files = dict.fromkeys(file for file, _, _ in work.jobs)
        about["fio_parts"] = [{"fio": name, "jobs": [place for file, place, _ in work.jobs if file == name]} for name in files]
        jobs = tuple(job for _, _, job in work.jobs)
        phases.append(HostPhase(shown, work.first_ns, work.last_ns, EDGE_U_NS, about, jobs))
    return phases


def _told(path: Path, process: FioProcess) -> list[str]:
    """Return remarks on a process that the user needs in addition to its phases."""
    found = [f"{path.name}: {job.failure}: fio's figures of its phase are void" for job in process.jobs if job.failure]
    if process.interim:
        found.append(f"{path.name}: of {process.interim + 1} reports of one run (--status-interval) the last one counts")
    if process.cut:
        found.append(f"{path.name}: a report of fio breaks off, and the one before it counts: jobs may have gone on after it")
    for job in process.jobs:
        spread = [name for name in ("startdelay", "verify") if job.option(name, "0").strip() not in ("0", "")]
        if job.is_set("group_reporting") and spread:
            found.append(
                f"{path.name}: job {job.jobname}: with group_reporting fio tells the first job's begin and the longest run time alone, and "
                f"there is {' and '.join(spread)}: the end of its phase may be too early"
            )
    return found


def _must_be_new(path: Path, process: FioProcess, seen: dict[tuple[object, ...], Path]) -> None:
    """Raise CaptureError if another file already reported this process."""
    key = tuple(
        (job.jobname, job.groupid, job.hostname, job.job_start, job.ran_ms, tuple((side.total_ios, side.io_bytes) for side in job.sides))
        for job in process.jobs
    )
    if any(job.ran_ms for job in process.jobs) and key in seen:
        raise CaptureError(f"{path} and {seen[key]} tell of the same run of fio. Give one of them.")
    seen[key] = path


def _must_be_of_one_host(processes: Sequence[ProcessFile]) -> None:
    """Each server of ``fio --client`` has a clock of its own, and a drive."""
    hosts = sorted({job.hostname for each in processes for job in each.process.jobs if job.hostname is not None and job.ran_ms})
    if len(hosts) > 1:
        raise CaptureError(
            f"{processes[0].path} is of fio --client with {len(hosts)} servers ({', '.join(hosts)[:200]}), each with a clock and drives of "
            "its own. Give a JSON with the one server that has the measured drive."
        )


def _clock(path: Path, job: FioJob) -> str:
    chosen = job.option("job_start_clock_id", "0")
    if chosen not in CLOCKS:
        raise CaptureError(f"{path}: job_start_clock_id={chosen[:20]} is no clock that is known; leave that option out of the job file.")
    return CLOCKS[chosen]


def _work(path: Path, file: str, place: int, job: FioJob, notes: list[str], *, logs: bool) -> list[_Work]:
    """When a job worked; nothing for one without I/O."""
    ran = job.ran_ms
    if not ran:
        notes.append(f"job {job.jobname} did no I/O and is in no phase")
        return []
    if job.job_start == 0:
        raise CaptureError(
            f"{path}: the begin of job {job.jobname} is 0 (job_start): the report is of a time before the job began, or of several "
            "servers. Give the last report of the run."
        )
    if not job.job_start:
        way = "import the logs without it" if logs else "give a log with times of each I/O as --trace"
        raise CaptureError(f"{path} does not say when its jobs began: fio does since 3.36 (job_start). Run that version, or {way}.")
    if ran > _LONGEST_MS:
        raise CaptureError(f"{path}: job {job.jobname} ran for {ran} ms, which is beyond any recording.")
    first, last = job.job_start * MS + MS // 2, (job.job_start + ran) * MS
    return [_Work(first, last, [(file, place, job)])]


def _apart(all_work: Sequence[_Work]) -> list[_Work]:
    """Return the work in order of time, without overlaps.

    Work that overlaps by more than the roundings becomes one; a smaller overlap is cut in the middle.
    """
    out: list[_Work] = []
    for work in sorted(all_work, key=lambda work: (work.first_ns, work.last_ns)):
        before = out[-1] if out else None
        if before is None or work.first_ns >= before.last_ns:
            out.append(work)
        elif before.last_ns - work.first_ns <= 2 * EDGE_U_NS < work.last_ns - work.first_ns:
            before.last_ns = work.first_ns = (before.last_ns + work.first_ns) // 2
            out.append(work)
        else:
            before.last_ns = max(before.last_ns, work.last_ns)
            before.jobs += work.jobs
    return out
