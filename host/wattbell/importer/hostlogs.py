"""Combine several logs of one run: find each log's job and begin, and drop commands that two logs have in common.

fio writes ``_lat`` and ``_clat`` of the same I/Os, and counts the log of each job from the job's own begin. The kernel's log has the I/Os
of fio too. A log is therefore put on the clock of fio's JSON by the begin of its job. Commands that two logs have are taken from the better
log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
from wattbell_spec.nvme import io
from wattbell_spec.wire import BlockContent

from ..capture.hostcommands import HostCommands
from ..capture.schema import SeenBy
from ..errors import CaptureError
from ..hostlog import blkparse, iolog
from ..hostlog.fiolog import OWN_BEGIN, FioLogName, name_of
from ..measure.fiojson import FioJob
from ..wire.decode import Gap
from .align import Aligned
from .fiophases import CLOCKS, MS, FioRun, ProcessFile

_WAY_OUT = "Let fio log the time of day: log_unix_epoch=1."
_LATER_NS = 20 * MS
"""Time in ns by which a log may outlast its job: commands in flight, and fio's roundings."""
_TOGETHER_MS = 2
"""Jobs that begin within this began together."""
_ALONE = {blkparse.OWN_ZERO: "blkparse text", iolog.OWN_ZERO: "iolog"}
"""Kinds of log that count from their own first entry."""
_KERNEL = "trace"
_RANK = {SeenBy.TRACEPOINT: 0, SeenBy.BLKTRACE: 1, SeenBy.FIO_LOG: 2}
_IDENTITY = ["cqe_tick", "doorbell_tick", "opcode", "qid", "cid", "slba", "blocks"]
_MOST_ALIKE = 0.9
"""From this share of equal lines on, two logs of fio's are the same."""
_ALIKE = 0.01
"""Relative difference allowed between a log's latencies and those in fio's JSON; also the share of latencies that may differ more."""
_AS_BANDWIDTH = 0.1
"""Relative difference allowed for latencies worked out from a log of bandwidth, which has whole KiB/s."""
_EDGE_NS = 10 * MS
"""Difference in ns allowed between the spans of two logs of the same work, besides the uncertainty of their clocks."""


@dataclass(frozen=True)
class HostLog:
    """A log that was read. ``name``: of one of fio's logs of each I/O, else None."""

    path: Path
    commands: HostCommands
    name: FioLogName | None = None

    @property
    def rank(self) -> int:
        """Rank of the log as a source of commands. The kernel's logs are best, then fio's; an iolog, without ends of I/Os, is last."""
        return _RANK.get(self.commands.source, 0) + (self.commands.clock == iolog.OWN_ZERO)


def host_log(path: Path, commands: HostCommands) -> HostLog:
    """A log with its name in parts. A text of the kernel's does not name its clock, so that it is taken for one of its own."""
    if commands.source == SeenBy.TRACEPOINT:
        return HostLog(path, replace(commands, clock=_KERNEL))
    of_fio = commands.source == SeenBy.FIO_LOG and commands.clock != iolog.OWN_ZERO
    return HostLog(path, commands, name_of(path) if of_fio else None)


def settled(logs: Sequence[HostLog], run: FioRun | None) -> tuple[list[HostLog], list[str]]:
    """Place each log once on a clock that is shared only with comparable logs. Also return remarks for the user.

    Raises CaptureError with advice for logs that cannot be kept apart.
    """
    _must_have_own_zero(logs)
    _must_be_different(logs)
    fio = [log for log in logs if log.name is not None]
    kept, notes = _without_parts(fio)
    placed = [_placed(log, run) for log in kept]
    counting = [log for log, job in placed if job is None and log.commands.clock == OWN_BEGIN]
    if len(counting) > 1:
        raise CaptureError(
            f"{_listed(counting)} count from the begin of their own jobs, and nothing says when these began. Give fio's JSON of the run as "
            f"--fio (of fio 3.36 or newer). Or: {_WAY_OUT[:1].lower()}{_WAY_OUT[1:]}"
        )
    _must_have_own_job(placed)
    for log, job in placed:
        if job is not None:
            _must_be_latencies_of(log, job.job)
    of_fio = [log for log, _ in placed]
    if run is not None and len(fio) == len(logs):  # else another log may have the commands that these lack
        of_fio = _with_losses(of_fio, run)
    found = {log.path: log for log in of_fio}
    return [found.get(log.path, log) for log in logs if log.name is None or log.path in found], notes


def _must_have_own_zero(logs: Sequence[HostLog]) -> None:
    for clock, what in _ALONE.items():
        several = [log for log in logs if log.commands.clock == clock]
        if len(several) > 1:
            way = "put the traces together (blkparse -i A -i B)" if clock == blkparse.OWN_ZERO else "import them one by one"
            raise CaptureError(f"{_listed(several)}: each {what} counts from its own first entry, so how they lie is not known; {way}.")


def _must_be_different(logs: Sequence[HostLog]) -> None:
    """Refuse the same log twice, and logs of one clock that share commands."""
    for at, one in enumerate(logs):
        for other in logs[:at]:
            if one.commands.source != other.commands.source or one.commands.clock != other.commands.clock:
                continue
            if one.path.resolve() == other.path.resolve():
                raise CaptureError(f"{one.path} is given twice. Give it once.")
            shared = _shared(one.commands.table, other.commands.table) if _may_repeat(one, other) else 0
            # fio's logs of an I/O can agree by chance; the kernel's cannot
            enough = 1 if one.name is None else _MOST_ALIKE * min(len(one.commands), len(other.commands))
            if shared >= enough:
                raise CaptureError(f"{other.path} and {one.path} have {shared} commands in common. Give one of the two.")


def _may_repeat(one: HostLog, other: HostLog) -> bool:
    """Return whether equal commands in two logs are the same commands.

    Not so if a log counts from its own job's begin, or if the two logs are of different jobs.
    """
    if one.commands.clock == OWN_BEGIN:
        return False
    return one.name is None or other.name is None or one.name.number == other.name.number


def _shared(one: pa.Table, other: pa.Table) -> int:
    """Rows that are in both, to the microsecond."""
    frames = []
    for table in (one, other):
        frame = pl.DataFrame(pl.from_arrow(table.select(_IDENTITY)))
        frames.append(frame.with_columns(pl.col("cqe_tick", "doorbell_tick") // 1000).unique())
    return len(frames[0].join(frames[1], on=_IDENTITY, how="semi", nulls_equal=True))


def _without_parts(logs: Sequence[HostLog]) -> tuple[list[HostLog], list[str]]:
    """Drop each ``_clat`` log that has its ``_lat`` log beside it: both have the same I/Os, and ``_lat`` covers all of their time."""
    notes: list[str] = []
    kept = list(logs)
    for part in [log for log in logs if log.name is not None and log.name.what == "clat"]:
        for whole in [log for log in kept if log.name is not None and log.name.what == "lat"]:
            named = _job_of(part) is not None and _job_of(whole) == _job_of(part)
            if not named and (whole.commands.clock == OWN_BEGIN or not _same_ios(whole, part)):
                continue
            if not _same_ios(whole, part):
                both = f"{whole.path} and {part.path}"
                raise CaptureError(
                    f"{both} have the names of one job and hold different I/Os: they are of different runs. Give one of them."
                )
            notes.append(f"{part.path.name} was left out: it has the I/Os of {whole.path.name}, without the time of their submission")
            kept.remove(part)
            break
    return kept, notes


def _job_of(log: HostLog) -> tuple[Path, str, int | None, str | None] | None:
    """Return the parts of a log's name that all logs of one job of one process share; None if the name is not fio's."""
    name = log.name
    if name is None or (name.number is None and name.prefix == log.path.name):  # a name that is not fio's
        return None
    return log.path.parent.resolve(), name.prefix, name.number, name.host


def _same_ios(one: HostLog, other: HostLog) -> bool:
    """Whether two logs list the same I/Os: as many, each of the same kind and size at the same millisecond or the next."""
    tables = (one.commands.table, other.commands.table)
    if tables[0].num_rows != tables[1].num_rows:
        return False
    first, second = ({name: table[name].to_numpy() for name in ("opcode", "blocks", "cqe_tick")} for table in tables)
    near = bool((np.abs(first["cqe_tick"] - second["cqe_tick"]) <= 2 * MS).all())
    return near and all(bool((np.sort(first[name]) == np.sort(second[name])).all()) for name in ("opcode", "blocks"))


@dataclass(frozen=True)
class _FioJob:
    """A job of fio's JSON: its process, its place in the JSON, and the JSON's text on it."""

    of: ProcessFile
    place: int
    job: FioJob


def _placed(log: HostLog, run: FioRun | None) -> tuple[HostLog, _FioJob | None]:
    """Return a log on the clock of fio's JSON, and its job. Without a JSON the log stays as it is.

    Raises CaptureError if the job cannot be identified.
    """
    if run is None:
        return log, None
    jobs = _candidates(log, run)
    if log.commands.clock != OWN_BEGIN:
        return log, _only(jobs)
    starts = [each.job.job_start or 0 for each in jobs]
    if not jobs:
        names = ", ".join(dict.fromkeys(str(each.path) for each in run.processes))
        raise CaptureError(f"{log.path} fits no job in {names}: by its name, number, length or count of I/Os it is of another run.")
    if max(starts) - min(starts) > _TOGETHER_MS or any(_is_of_several(each.job) for each in jobs):
        names = ", ".join(dict.fromkeys(each.job.jobname for each in jobs))
        raise CaptureError(
            f"{log.path} may be of several jobs ({names[:200]}), which did not begin together as far as fio's JSON says. {_WAY_OUT}"
        )
    job = jobs[0].job
    epoch = _epoch(job)
    if epoch is not None:
        return replace(log, commands=replace(log.commands, clock=epoch)), _only(jobs)
    moved = _later(log.commands, starts[0] * MS, run.clock, (max(starts) - min(starts)) * MS)
    return replace(log, commands=moved), _only(jobs)


def _only(jobs: Sequence[_FioJob]) -> _FioJob | None:
    return jobs[0] if len(jobs) == 1 else None


def _with_losses(logs: Sequence[HostLog], run: FioRun) -> list[HostLog]:
    """Return fio's logs with gaps for the I/Os that fio counts and the logs lack, phase by phase.

    I/Os are missing if a job has no log, and ``fio --client`` drops the last lines of a log with offsets. If a log has another clock than
    the JSON, one gap covers the whole time of the logs.
    """
    mine = [log for log in logs if log.commands.clock == run.clock]
    if len(mine) < len(logs) or not mine:
        return _with_losses_in_all(logs, run)
    done = np.sort(np.concatenate([log.commands.table["cqe_tick"].to_numpy() for log in mine]))
    # I/Os in flight at the end of a phase end a little behind it
    edges = [phase.first_ns - _TOGETHER_MS * MS for phase in run.phases[1:]]
    counts = np.diff(np.concatenate(([0], np.searchsorted(done, edges), [len(done)])))
    gaps: list[Gap] = []
    notes: list[str] = []
    for phase, seen in zip(run.phases, counts.tolist(), strict=True):
        told = sum(side.total_ios for job in phase.jobs for side in job.sides)
        if told <= seen or any(job.failure for job in phase.jobs):
            continue
        gaps.append(Gap(BlockContent.COMMANDS, phase.first_ns, phase.last_ns, told - seen, "not in fio's logs"))
        notes.append(f"{told - seen} of the {told} I/Os that fio counts in {phase.name} are not in its logs")
    marked = replace(mine[0].commands, lost=[*mine[0].commands.lost, *gaps], notes=[*mine[0].commands.notes, *notes])
    return [replace(log, commands=marked) if log is mine[0] else log for log in logs]


def _with_losses_in_all(logs: Sequence[HostLog], run: FioRun) -> list[HostLog]:
    """Return logs with one gap for all I/Os that they lack; some or all of the logs are on another clock than fio's JSON.

    The number of missing I/Os is known, but not their phase.
    """
    jobs = [job for each in run.processes for job in each.process.jobs]
    told = sum(side.total_ios for job in jobs for side in job.sides)
    missing = told - sum(len(log.commands) for log in logs)
    with_any = [log for log in logs if len(log.commands)]
    if missing <= 0 or not with_any or any(job.failure for job in jobs):
        return list(logs)
    longest = max(with_any, key=lambda log: len(log.commands))
    gap = Gap(BlockContent.COMMANDS, *_ticks(longest.commands), missing, "not in fio's logs")
    note = f"{missing} of the {told} I/Os that fio counts are not in its logs; of which phase is not known, for the logs have another clock"
    marked = replace(longest.commands, lost=[*longest.commands.lost, gap], notes=[*longest.commands.notes, note])
    return [replace(log, commands=marked) if log is longest else log for log in logs]


def _must_be_latencies_of(log: HostLog, job: FioJob) -> None:
    """Raise CaptureError if a log's values are not the latencies that fio's JSON sums up.

    fio's logs of bandwidth look like logs of latency and differ only in their name, which can be changed. Nearly all values must lie
    between the least and the largest value that fio states. If the log has every I/O, the means must agree too.
    """
    if job.failure or job.is_unified or any(job.option(name, "0").strip() not in ("0", "") for name in ("ramp_time", "verify")):
        return  # fio's figures are of other I/Os than the log
    of = "clat" if log.name is not None and log.name.what == "clat" else "lat"
    table = log.commands.table
    code = table["opcode"].to_numpy()
    took = table["cqe_tick"].to_numpy() - table["doorbell_tick"].to_numpy()
    for name, side in (("read", job.read), ("write", job.write), ("dsm", job.trim)):
        stated = (side.clat_ns if of == "clat" else side.lat_ns) if side is not None else None
        here = took[code == io(name)]
        if side is None or stated is None or not stated.max or not stated.mean or not len(here):
            continue
        low, high = stated.min * (1 - _ALIKE), stated.max * (1 + _ALIKE)
        outside = int(((here < low) | (here > high)).sum())
        mean_off = abs(float(here.mean()) - stated.mean) if len(here) == side.total_ios and not job.is_set("group_reporting") else 0.0
        if outside <= _ALIKE * len(here) and mean_off <= _ALIKE * stated.mean:
            continue
        what = f"{log.path} is no log of the latencies of job {job.jobname}: of its {len(here)} values for {name}"
        range_ = f"{stated.min:.0f} to {stated.max:.0f} ns, {stated.mean:.0f} ns on average"
        text = f"{what}, {outside} lie outside what fio's JSON states ({range_}), and their mean is {here.mean():.0f}"
        by_rate = side.io_bytes / 1024 / max(side.total_ios, 1) * float(np.mean(1e9 / np.maximum(here, 1)))
        if abs(by_rate - stated.mean) <= _AS_BANDWIDTH * stated.mean:
            raise CaptureError(
                f"{text}. Read as KiB/s they fit: this is fio's log of bandwidth. Leave it out; the log with _lat has latencies."
            )
        raise CaptureError(f"{text}. Give the latency log of this run, or the JSON of the run that wrote this log.")


def _is_of_several(job: FioJob) -> bool:
    """Return whether one entry combines jobs that may have begun at different times."""
    return job.is_set("group_reporting") and job.option("startdelay", "0").strip() not in ("0", "")


def _epoch(job: FioJob) -> str | None:
    """Return the clock of a job's log, other than the job's own begin and the time of day; None without one."""
    if not (job.is_set("log_alternate_epoch") or job.is_set("log_unix_epoch")):
        return None
    return CLOCKS.get(job.option("log_alternate_epoch_clock_id", "0"))


def _candidates(log: HostLog, run: FioRun) -> list[_FioJob]:
    """Return the jobs that may have written a log, judged by its name and contents."""
    name = log.name or FioLogName(log.path.name, "")
    found: list[tuple[_FioJob, bool]] = []
    for each in run.processes:
        jobs = [job for job in each.process.jobs if name.host is None or job.hostname in (None, name.host)]
        grouped = any(job.is_set("group_reporting") for job in jobs)
        places = list(enumerate(jobs))
        if name.number is not None and not grouped:
            places = places[name.number - 1 : name.number]
        for place, job in places:
            named = _log_name(job)
            if (named is None or name.number is None or named == name.prefix) and _may_hold(job, log.commands):
                found.append((_FioJob(each, place, job), named == name.prefix))
    jobs_ = [job for job, named in found if named] or [job for job, _ in found]
    beside = [job for job in jobs_ if job.of.path.parent.resolve() == log.path.parent.resolve()]
    return beside if len({job.of.path.parent.resolve() for job in jobs_}) > 1 and beside else jobs_


def _log_name(job: FioJob) -> str | None:
    """Return the prefix of the names of a job's logs; None if the JSON does not state it."""
    given = job.option("write_lat_log", "\0")
    return None if given == "\0" else Path(given or job.jobname).name


def _may_hold(job: FioJob, commands: HostCommands) -> bool:
    """Whether a job ran long enough for a log, and moved as much."""
    if not job.ran_ms or (commands.clock == OWN_BEGIN and _epoch(job) == "utc"):
        return False
    done = commands.table["cqe_tick"].to_numpy()
    if commands.clock == OWN_BEGIN and _epoch(job) is None and done.max() > max(job.ran_ms, job.runtime_ms) * MS + _LATER_NS:
        return False
    counts = {code: int((commands.table["opcode"].to_numpy() == code).sum()) for code in (io("read"), io("write"), io("dsm"))}
    if job.is_unified or job.failure:
        return True
    sides = {io("read"): job.read, io("write"): job.write, io("dsm"): job.trim}
    return all(count <= (side.total_ios if (side := sides[code]) else 0) for code, count in counts.items())


def _later(commands: HostCommands, by_ns: int, clock: str, spread_ns: int) -> HostCommands:
    """Commands of a log that counts from ``by_ns`` of a clock, on that clock."""
    table = commands.table
    for name in ("cqe_tick", "doorbell_tick"):
        at = table.schema.get_field_index(name)
        table = table.set_column(at, table.schema.field(name), pa.array(table[name].to_numpy() + by_ns, pa.int64()))
    at = table.schema.get_field_index("instant_u_ns")
    u_ns = table["instant_u_ns"].to_numpy() + np.uint32(spread_ns)
    table = table.set_column(at, table.schema.field("instant_u_ns"), pa.array(u_ns, pa.uint32()))
    return replace(commands, table=table, clock=clock)


def _must_have_own_job(placed: Sequence[tuple[HostLog, _FioJob | None]]) -> None:
    """Refuse two logs of one job."""
    seen: dict[tuple[int, int], HostLog] = {}
    for log, job in placed:
        # a log without a number may be of several jobs that wrote into one file
        shared = log.name is not None and log.name.number is None and log.commands.clock == "utc"
        if job is None or job.job.is_set("group_reporting") or shared:
            continue
        key = (id(job.of), job.place)
        if key in seen:
            raise CaptureError(
                f"{seen[key].path} and {log.path} are of one job ({job.job.jobname}), so they are of different runs. Give one of the two."
            )
        seen[key] = log


def without_repeats(logs: Sequence[HostLog], maps: Mapping[str, Aligned]) -> tuple[list[HostLog], list[str]]:
    """Drop every log that covers the same time as a better log.

    maps: the map of each clock onto the waveform's clock

    Raises CaptureError if two logs overlap in a part of their time only.
    """
    kept: list[HostLog] = []
    notes: list[str] = []
    for log in sorted((log for log in logs if len(log.commands)), key=lambda log: log.rank):
        better = [other for other in kept if other.rank < log.rank]
        covering = _covering(log, better, maps)
        if covering is None:
            kept.append(log)
            continue
        notes.append(
            f"{log.path.name} was left out, with {len(log.commands)} commands: {covering.path.name} is of the same time, has "
            f"{len(covering.commands)}, and tells more of each"
        )
    return [log for log in logs if log in kept or not len(log.commands)], notes


def _covering(log: HostLog, better: Sequence[HostLog], maps: Mapping[str, Aligned]) -> HostLog | None:
    first, last = _span(log, maps)
    for other in better:
        begin, end = _span(other, maps)
        slack = _EDGE_NS + round((maps[log.commands.clock].clock.bound_s + maps[other.commands.clock].clock.bound_s) * 1e9)
        if last < begin - slack or first > end + slack:
            continue
        if begin - slack <= first and last <= end + slack:
            return other
        raise CaptureError(
            f"{other.path} and {log.path} are of the same time in a part only ({begin * 1e-9:.3f} to {end * 1e-9:.3f} s and "
            f"{first * 1e-9:.3f} to {last * 1e-9:.3f} s of the waveform), so the commands in both would count twice. Give one of the two."
        )
    return None


def _span(log: HostLog, maps: Mapping[str, Aligned]) -> tuple[int, int]:
    """First begin and last end of a command, ns of the waveform."""
    at = maps[log.commands.clock].clock.to_reference(np.array(_ticks(log.commands))).tolist()
    return int(at[0]), int(at[1])


def _ticks(commands: HostCommands) -> tuple[int, int]:
    """First begin and last end of a command, by the log's clock."""
    done = commands.table["cqe_tick"].to_numpy()
    begun = commands.table["doorbell_tick"].combine_chunks().drop_null().to_numpy()
    return int(min(done.min(), begun.min(initial=done.min()))), int(done.max())


def _listed(logs: Sequence[HostLog]) -> str:
    *first, last = (str(log.path) for log in logs[:5])
    more = f" and {len(logs) - 4} more" if len(logs) > 5 else f" and {last}"
    return ", ".join(first) + more
