"""Estimate the writes and the duration of a plan before it runs.

Idle times and run times are known. The time for data is unknown before the drive was seen. The estimate uses the round figures of an NVMe
drive on four lanes, and is called "about" wherever it is shown. The drive's own speed later replaces these figures
(:mod:`wattbell.campaign.eta`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from ..errors import UsageError
from ..hostlog.iolog import read_iolog
from .jobs import JobSection, sections, writes
from .session import Choice, Session
from .step import Step
from .traces.composition import COMPOSITIONS, Composition
from .units import size_bytes, time_s

READ_BYTES_PER_S, WRITE_BYTES_PER_S = 2e9, 1e9
READ_S, WRITE_S = 80e-6, 30e-6
"""Latency of one command on a drive with nothing else to do."""
FORMAT_S, SANITIZE_S, SETTLE_S, START_S, RESTART_S = 20.0, 120.0, 30.0, 0.5, 3.0
IDLE_CUT_S = 0.025
_LONG_PAUSES, _SHORT_PAUSE_S = 0.1, 3e-4
"""Pauses of the traces that we make (docs/methodology-suites.md): share of the pauses that are cut, and mean of the others in s."""


@dataclass(frozen=True)
class Expected:
    """The expectation for a step.

    known_s: time that the plan states
    data_s: estimated time for moving data
    exact: whether ``written_bytes`` is certain, not a result of an estimated speed
    optional: may be left out
    """

    known_s: float = 0.0
    data_s: float = 0.0
    written_bytes: int = 0
    exact: bool = True
    writes: bool = False
    optional: bool = False

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.known_s + self.data_s


@dataclass(frozen=True)
class SessionOutlook:
    """A session with the expectation for each of its steps.

    goes_on: the drive is as the session before left it; else preconditioning is included
    done: it was run before
    """

    session: Session
    expected: tuple[Expected, ...]
    goes_on: bool = False
    done: bool = False

    @property
    def runs(self) -> list[tuple[Step, Expected]]:
        """The steps that are run."""
        if self.done:
            return []
        skipped = len(self.session.precondition) if self.goes_on else 0
        return list(zip(self.session.steps, self.expected, strict=True))[skipped:]


@dataclass(frozen=True)
class Outlook:
    """All sessions planned on a drive of ``capacity_bytes``."""

    capacity_bytes: int
    parts: tuple[SessionOutlook, ...]

    def _sum(self, of: Callable[[Expected], float], most: bool) -> float:
        return sum(of(expected) for part in self.parts for _, expected in part.runs if most or not expected.optional)

    def written_bytes(self, most: bool = False) -> int:
        """Return the bytes that the host writes; ``most``: including optional steps."""
        return round(self._sum(lambda expected: expected.written_bytes, most))

    def seconds(self, most: bool = False) -> float:
        """Time of the steps."""
        return self._sum(lambda expected: expected.seconds, most)

    @property
    def exact(self) -> bool:
        """Whether the bytes written are certain, not estimated."""
        return all(expected.exact for part in self.parts for _, expected in part.runs)

    @property
    def writes(self) -> bool:
        """Whether anything on the drive is lost."""
        return any(expected.writes for part in self.parts for _, expected in part.runs)

    @property
    def erasures(self) -> int:
        """Number of Format NVM and Sanitize commands."""
        return sum(step.format is not None or step.sanitize is not None for part in self.parts for step, _ in part.runs)


def look_ahead(sessions: Sequence[Session], capacity_bytes: int, choice: Choice, done: Set[tuple[str, str]] = frozenset()) -> Outlook:
    """Return the outlook of the sessions, in their order. Each continues with the drive of the one before if :mod:`.order` allows it.

    done: (test, condition) that ran before
    """
    parts = []
    before: str | None = None
    for session in sessions:
        spare = {
            f"{test.id}#{k}"
            for test in session.members
            if test.rounds_max and choice.rounds is None and choice.real
            for k in range(max(1, test.rounds_first) + 1, test.rounds_max + 1)
        }
        found = [expect(step, session.files, capacity_bytes, choice.scale, step.name in spare) for step in session.steps]
        goes_on = session.goes_on_after is not None and session.goes_on_after == before
        over = bool(session.members) and all((test.id, session.condition) in done for test in session.members)
        parts.append(SessionOutlook(session, tuple(found), goes_on, over))
        before = None if over else session.title
    return Outlook(capacity_bytes, tuple(parts))


def expect(step: Step, files: Mapping[str, str], capacity_bytes: int, scale: float = 1.0, optional: bool = False) -> Expected:
    """Return the expectation for one step. ``files``: contents of job files by name. A trace is a generated one, or a file by its whole
    path.
    """
    if step.fio is not None:
        return _of_jobs(step, files.get(step.fio, ""), capacity_bytes, optional)
    if step.fill is not None:
        amount = round(capacity_bytes * step.fill.span)
        return Expected(START_S, amount / WRITE_BYTES_PER_S, amount, writes=True, optional=optional)
    if step.trace is not None:
        return _of_trace(step.trace, step.trace_idle_cut_s, scale)
    if step.format is not None:
        return Expected(FORMAT_S, writes=True)
    if step.sanitize is not None:
        return Expected(SANITIZE_S, writes=True)
    if step.restart is not None:
        return Expected((step.restart.off_s or 0.0) + RESTART_S)
    if step.settle is not None:
        return Expected(min(max(step.settle.window_s, SETTLE_S), step.settle.longest_s))
    return Expected((step.idle_s or (step.wake.idle_s if step.wake else 0.0)) + (step.rest_s or 0.0))


def writes_data(step: Step, files: Mapping[str, str]) -> bool:
    """Return whether a step may change or cost data on a drive, or take the drive away from its user.

    A restart takes the drive away from its user. A write cache that the kernel does not know of may lose data at a loss of power.
    """
    if any(given is not None for given in (step.format, step.fill, step.sanitize, step.write_cache, step.restart)):
        return True
    if step.fio is not None:
        return any(writes(section) for section in sections(files[step.fio], step.fio))
    if step.trace is not None:
        return _made(step.trace) is not None or bool(read_iolog(Path(step.trace))["action"].is_in(["write", "trim"]).any())
    return False


def _of_jobs(step: Step, text: str, capacity_bytes: int, optional: bool) -> Expected:
    known = data = written = 0.0
    exact, changes = True, False
    try:
        jobs = sections(text)
    except UsageError:  # the drive model reads more options than a suite may set: nothing is known of such a file
        return Expected(exact=False)
    for group in groups(jobs):
        found = [_of_job(section, capacity_bytes) for section in group]
        fixed, moved = max(load.known_s for load in found), max(load.data_s for load in found)
        fixed, moved = (fixed, 0.0) if fixed >= moved else (0.0, moved)
        longest = step.duty_idle_max_s
        if step.duty is not None:
            stretch = (1 - step.duty) / step.duty
            fixed, moved = (fixed + _rest(fixed, stretch, longest), moved + _rest(moved, stretch, longest))
        known, data = known + fixed + START_S, data + moved
        written += sum(load.written_bytes for load in found)
        exact = exact and all(load.exact for load in found)
        changes = changes or any(load.writes for load in found)
    return Expected(known, data, round(written), exact, changes, optional)


def _rest(busy_s: float, stretch: float, longest_s: float | None) -> float:
    return busy_s * stretch if longest_s is None else min(busy_s * stretch, longest_s)


def groups(jobs: Sequence[JobSection]) -> list[list[JobSection]]:
    """The jobs of a file that run together: one with ``stonewall`` waits for those before it."""
    out: list[list[JobSection]] = []
    for section in jobs:
        if not out or "1" in (section.options.get("stonewall"), section.options.get("wait_for_previous")):
            out.append([])
        out[-1].append(section)
    return out


def _of_job(section: JobSection, capacity_bytes: int) -> Expected:
    options = section.options
    block = size_bytes(options.get("bs", options.get("blocksize", "4k")).split(",")[0])
    size = _bytes(options["size"], capacity_bytes) if "size" in options else capacity_bytes
    amount = _bytes(options["io_size"], capacity_bytes) if "io_size" in options else size
    amount *= int(options.get("loops", "1"))
    if "number_ios" in options:
        amount = min(amount, int(options["number_ios"]) * block)
    share, depth = section.write_share, section.depth
    one_s = share * max(block / WRITE_BYTES_PER_S, WRITE_S / depth) + (1 - share) * max(block / READ_BYTES_PER_S, READ_S / depth)
    if "rate_iops" in options and (iops := int(options["rate_iops"].split(",")[0])):
        one_s = max(one_s, 1 / iops)
    if "rate" in options and (rate := size_bytes(options["rate"].split(",")[0])):
        one_s = max(one_s, block / rate)
    if "thinktime" in options:
        one_s += time_s(options["thinktime"] if options["thinktime"][-1].isalpha() else f"{options['thinktime']}us") / int(
            options.get("thinktime_blocks", "1")
        )
    numjobs, data_s = int(options.get("numjobs", "1")), amount / block * one_s
    waits_s = sum(time_s(options[name]) for name in ("ramp_time", "startdelay") if name in options)
    changes = writes(section)
    if "runtime" in options:
        runtime_s = time_s(options["runtime"])
        if options.get("time_based") == "1" or data_s > runtime_s:
            moved = runtime_s / one_s * block * numjobs
            return Expected(waits_s + runtime_s, 0.0, round(moved * share), not changes, changes)
        return Expected(waits_s, data_s, round(amount * numjobs * share), not changes or share == 1, changes)
    return Expected(waits_s, data_s * (numjobs if share == 1 else 1), round(amount * numjobs * share), share in (0, 1), changes)


def _bytes(text: str, capacity_bytes: int) -> int:
    return capacity_bytes * int(text[:-1]) // 100 if text.endswith("%") else size_bytes(text)


def _made(trace: str) -> Composition | None:
    return COMPOSITIONS.get(trace.removesuffix("-like.iolog"))


def _of_trace(trace: str, idle_cut_s: float | None, scale: float) -> Expected:
    cut_s = IDLE_CUT_S if idle_cut_s is None else idle_cut_s
    made = _made(trace)
    if made is not None:
        return _of_composition(made, cut_s, scale)
    entries = read_iolog(Path(trace))
    pauses_s = float(entries.select((pl.col("t_us").diff().fill_null(0).clip(0, round(cut_s * 1e6)) / 1e6).sum()).item())
    by = dict(entries.group_by("action").agg(pl.col("length").sum()).iter_rows())
    written = int(by.get("write", 0))
    data_s = written / WRITE_BYTES_PER_S + int(by.get("read", 0)) / READ_BYTES_PER_S
    return Expected(START_S + pauses_s, data_s, written, writes="write" in by or "trim" in by)


def _of_composition(made: Composition, cut_s: float, scale: float) -> Expected:
    pause_s = _LONG_PAUSES * cut_s + (1 - _LONG_PAUSES) * _SHORT_PAUSE_S
    batches = made.ios / max(1.0, made.mean_depth)
    data_s = made.write_bytes / WRITE_BYTES_PER_S + made.read_bytes / READ_BYTES_PER_S
    return Expected(scale * batches * pause_s, scale * data_s, round(scale * made.write_bytes), writes=True)
