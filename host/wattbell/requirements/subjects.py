"""The subjects of a judgement from where they lie, and the numbers that limits use."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from ..capture import open_capture
from ..errors import UsageError
from ..nearest import did_you_mean
from ..results import Run, Store
from ..results.load import resolve_all
from . import healthlog, latencylog, of_capture, of_conformance, of_run, powerlog
from .expression import names_in
from .measurands import Subject
from .model import RequirementFile

Rebuilding = Callable[[], AbstractContextManager[Callable[[int, int], None]]]
"""Shows the rebuilding of a capture from its journal for the duration of a block: bytes done, and bytes in total."""


@dataclass(frozen=True)
class DriveLogFiles:
    """Files with a drive's own accounts of itself, read during the only capture; None: not given.

    power : raw log page 25h, the last ``--power-log``.
    power_before : the others, in the order of the readings.
    latency : raw log page C3h, ``--latency-log``.
    health : raw log pages 02h, ``--health-log``, in the order of the readings.
    """

    power: Path | None = None
    latency: Path | None = None
    health: Sequence[Path] = ()
    power_before: Sequence[Path] = ()

    def read(self, captures: int) -> of_capture.DriveLogs:
        """Return the pages. Raises UsageError for a file that is no such page, or that has not exactly one capture."""
        given = [("--power-log", path) for path in (*self.power_before, self.power)]
        given += [("--latency-log", self.latency), *(("--health-log", path) for path in self.health)]
        for option, path in given:
            if path is not None and captures != 1:
                raise UsageError(f"{option} {path} belongs to one capture, and {captures} are given.")
        return of_capture.DriveLogs(
            power=None if self.power is None else powerlog.read(self.power),
            power_before=[powerlog.read(path) for path in self.power_before],
            latency=None if self.latency is None else latencylog.read(self.latency),
            health=[healthlog.read(path) for path in self.health],
        )


def load_subjects(
    references: Iterable[str], open_store: Callable[[], Store], rebuilding: Rebuilding, logs: DriveLogFiles = DriveLogFiles()
) -> list[Subject]:
    """Return the subjects of captures, results directories of a suite, and ids in the store; each reference once.

    open_store : called at most once, and only for a reference that is no path.

    Raises CaptureError or ResultsError for a reference that is none of the three, UsageError for a log that belongs to no one capture.
    """
    opened: list[Store] = []

    def get() -> Store:
        if not opened:
            opened.append(open_store())
        return opened[0]

    given = list(dict.fromkeys(references))
    captures = [one for one in given if (Path(one) / "meta.json").is_file()]
    runs = {one: resolve_all(one, get) for one in given if one not in captures}
    pages = logs.read(len(captures))
    found: list[Subject] = []
    for one in given:
        if one in captures:
            with rebuilding() as progress:
                found.append(of_capture.subject(open_capture(Path(one), progress), pages))
        else:
            for run in runs[one]:
                found += _of_conformance(run, rebuilding) if of_conformance.is_conformance(run) else [of_run.subject(run)]
    return found


def _of_conformance(run: Run, rebuilding: Rebuilding) -> list[Subject]:
    """Return a run of the suite ``conformance`` as subjects, with its captures."""
    with rebuilding() as progress:
        return of_conformance.subjects(run, lambda path: open_capture(path, progress))


def read_parameters(texts: Iterable[str], files: Iterable[RequirementFile]) -> dict[str, float]:
    """Return the numbers of ``NAME=VALUE`` by name. Raises UsageError for a text that is none, and for a name that no limit uses."""
    chosen, out = list(files), dict[str, float]()
    for text in texts:
        name, equals, value = text.partition("=")
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not equals or not math.isfinite(number):
            raise UsageError(f"--set {text}: give a name and a number, such as slot_power_limit_w=11.5.")
        out[name] = number
    check_parameters(out, chosen)
    return out


def check_parameters(numbers: Mapping[str, float], files: Iterable[RequirementFile]) -> None:
    """Raise UsageError for a name that no limit of the files uses."""
    used = {
        found.partition(".")[2]
        for file in files
        for one in file.requirement
        for limit in (one.limit, one.applies)
        if isinstance(limit, str) and limit
        for found in names_in(limit)
        if found.startswith("parameter.")
    }
    for name in numbers:
        if name not in used:
            raise UsageError(f"{name} is set, but no limit of these requirements uses parameter.{name}.{did_you_mean(name, used)}")
