"""The phases of a workload from fio's JSON.

Jobs of one group ran together and are one phase; so are groups that overlap in time. fio (backend.c, stat.c, time.c) notes the start of a
job just before its first I/O, in whole milliseconds rounded down, and how long each data direction ran, in milliseconds rounded up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import CaptureError
from ..measure.fiojson import Job, load_jobs

EDGE_U_NS = 1_500_000
"""Limit of the error of an edge: both roundings are 1 ms; half a millisecond more for what lies between fio's note and the first I/O."""
_MS = 1_000_000
_CLOCKS = {"0": "utc", "1": "mono", "4": "mono_raw", "7": "boot"}
"""By clockid_t of Linux."""
_LONGEST_MS = 10**10
_MOST_NAME = 120


@dataclass(frozen=True)
class HostPhase:
    """A phase on the host's clock, ns; each edge is within ``edge_u_ns``. ``about``: for its entry of ``workload.phases``."""

    name: str
    first_ns: int
    last_ns: int
    edge_u_ns: int
    about: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class FioRun:
    """What the JSON of one or several runs of fio says. ``clock``: ``utc``, or another of the host's clocks."""

    phases: list[HostPhase]
    clock: str
    notes: tuple[str, ...] = ()


@dataclass
class _Group:
    number: int | None
    file: str
    first_ns: int
    last_ns: int
    names: list[str]


def read_fio(paths: Sequence[Path], names: Sequence[str]) -> FioRun:
    """The phases of fio's JSON files, in order of time. ``names``: what each file is called in the capture. Raises CaptureError for a file
    that is none, or does not say when its jobs ran."""
    groups: list[_Group] = []
    clocks: dict[str, Path] = {}
    notes: list[str] = []
    for path, name in zip(paths, names, strict=True):
        jobs = load_jobs(path)
        for job in jobs:
            clock = _clock(path, job)
            clocks.setdefault(clock, path)
        groups += _groups(path, name if len(paths) > 1 else "", jobs, notes)
    if len(clocks) > 1:
        each = ", ".join(f"{path} by {clock}" for clock, path in clocks.items())
        raise CaptureError(f"the jobs are timed by different clocks ({each}); import them one by one.")
    if not groups:
        raise CaptureError(f"{', '.join(map(str, paths))}: no job in it did any I/O.")
    merged = _apart(groups)
    if len(merged) < len(groups):
        notes.append("groups of jobs that ran at the same time are one phase")
    seen: dict[str, int] = {}
    phases = []
    for group in merged:
        name = " + ".join(dict.fromkeys(group.names))[:_MOST_NAME] or "fio"
        seen[name] = seen.get(name, 0) + 1
        shown = name if seen[name] == 1 else f"{name} #{seen[name]}"
        about: dict[str, object] = {"jobs": list(dict.fromkeys(group.names))}
        if group.number is not None:
            about["fio_group"] = group.number
        if group.file:
            about["fio"] = group.file
        phases.append(HostPhase(shown, group.first_ns, group.last_ns, EDGE_U_NS, about))
    return FioRun(phases, next(iter(clocks)), tuple(notes))


def _clock(path: Path, job: Job) -> str:
    chosen = job.option("job_start_clock_id", "0")
    if chosen not in _CLOCKS:
        raise CaptureError(f"{path}: job_start_clock_id={chosen[:20]} is no clock that is known; leave that option out of the job file.")
    return _CLOCKS[chosen]


def _groups(path: Path, file: str, jobs: Sequence[Job], notes: list[str]) -> list[_Group]:
    found: dict[int, _Group] = {}
    for job in jobs:
        ran = max((part.runtime for part in (job.read, job.write, job.trim) if part is not None), default=0)
        if not ran:
            notes.append(f"job {job.jobname} did no I/O and is in no phase")
            continue
        if job.job_start is None:
            raise CaptureError(
                f"{path} does not say when its jobs began: fio does since 3.36 (job_start). Run that version, or give a log with times of "
                "each I/O as --trace."
            )
        if ran > _LONGEST_MS:
            raise CaptureError(f"{path}: job {job.jobname} ran for {ran} ms, which is beyond any recording.")
        first = job.job_start * _MS + _MS // 2
        last = (job.job_start + ran) * _MS
        group = found.setdefault(job.groupid, _Group(job.groupid, file, first, last, []))
        group.first_ns, group.last_ns = min(group.first_ns, first), max(group.last_ns, last)
        group.names.append(job.jobname)
    return list(found.values())


def _apart(groups: list[_Group]) -> list[_Group]:
    """In order of time, without overlaps: what overlaps by more than the roundings is one, by less is cut in the middle."""
    out: list[_Group] = []
    for group in sorted(groups, key=lambda group: (group.first_ns, group.last_ns)):
        before = out[-1] if out else None
        if before is None or group.first_ns >= before.last_ns:
            out.append(group)
        elif before.last_ns - group.first_ns <= 2 * EDGE_U_NS < group.last_ns - group.first_ns:
            before.last_ns = group.first_ns = (before.last_ns + group.first_ns) // 2
            out.append(group)
        else:
            before.last_ns = max(before.last_ns, group.last_ns)
            before.number = before.number if group.number == before.number and group.file == before.file else None
            before.names += group.names
    return out
