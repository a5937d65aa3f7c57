"""A suite and its tests: the data that :mod:`.manifest` reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from .. import door
from ..errors import UsageError
from ..nearest import did_you_mean
from .jobs import JobSection, sections
from .units import LARGEST

CONDITIONS = ("test-data", "full", "empty")

Seconds = Annotated[float, Meta(ge=0, le=1e8)]
Positive = Annotated[float, Meta(gt=0, le=1e8)]
Count = Annotated[int, Meta(ge=0, le=100_000)]
AtLeastOne = Annotated[int, Meta(ge=1, le=100_000)]


class Fill(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sequential write of ``span`` (share of the namespace) in blocks of ``bs``, ``times`` times, before a test."""

    span: Annotated[float, Meta(gt=0, le=1)] = 1.0
    bs: str = "128k"
    times: Annotated[int, Meta(ge=1, le=100)] = 1


class Test(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One test of a suite. Times in seconds, sizes in bytes; every key of the manifest, with its default.

    conditions: contents of the drive before the test; each gives a result by itself
    more_conditions: conditions that run only when asked for
    session: tests of one session share a drive, in order
    test_data: bytes written before the test (condition test-data)
    purge, fill: preconditioning that is run, not assumed. In condition full, ``fill`` is the full part of the drive, to which a model is
        set.
    rest_s: rest before a test in condition full; without it, the drive has just been filled
    duty: after each section of the job file the drive rests for busy time x (1 - duty) / duty, at most ``idle_max_s``
    idle_min_s, repeat_min: lower limits for ``--scale``
    load_s: time that all sections of the job file take together, each for an equal share, in each power state; 0: as the job file says
    only_ps0: of the operational power states, PS0 alone
    off_s: time that the rail is off before it comes on again (not scaled); 0: it stays on
    score_over: queue depths of the score
    workload: the specification's, by its number
    track, quantity: sections and quantity in which a steady state must be reached
    default: false runs the test only when it is asked for by name
    """

    __test__ = False  # not a test of ours

    id: str
    name: str
    kind: str
    conditions: tuple[str, ...]
    more_conditions: tuple[str, ...] = ()
    session: str = ""
    test_data: Annotated[int, Meta(ge=0, le=LARGEST)] = 0
    purge: bool = False
    fill: Fill | None = None
    rest_s: Seconds = 0.0
    jobs: str = ""
    trace: str = ""
    trace_idle_cut_s: Seconds = 0.025
    duty: Annotated[float, Meta(gt=0, le=1)] | None = None
    idle_max_s: Seconds = 600.0
    idle_s: Seconds = 0.0
    idle_min_s: Seconds = 0.0
    load_s: Seconds = 0.0
    only_ps0: bool = False
    off_s: Annotated[float, Meta(ge=0, le=100)] = 0.0
    repeat: AtLeastOne = 1
    repeat_min: AtLeastOne = 1
    apst: bool = False
    aspm: str = "off"
    score_over: tuple[AtLeastOne, ...] = ()
    score_last_s: Seconds = 0.0
    steady_from_s: Seconds = 0.0
    series_s: Positive = 1.0
    series_gb: Positive = 1.0
    rounds_max: Count = 0
    rounds_first: Count = 0
    track: tuple[str, ...] = ()
    quantity: str = ""
    workload: Count = 0
    rail_interval_s: Annotated[float, Meta(gt=0, le=1)] = 1e-3
    default: bool = True

    def idle_at(self, scale: float) -> float:
        """The idle time in s at a scale: never below its minimum, nor above the unscaled one."""
        return min(self.idle_s, max(self.idle_min_s, self.idle_s * scale))

    def repeats_at(self, scale: float) -> int:
        """The number of repetitions at a scale."""
        return min(self.repeat, max(self.repeat_min, round(self.repeat * scale)))


@dataclass(frozen=True)
class Suite:
    """A suite.

    folder: holds the manifest and the job files
    digest: ``sha256:...`` of these files
    borrowed: folders of the job files of tests that belong to another suite, by id
    made_for: sets of requirements whose work this is; empty for a suite that stands for itself
    """

    name: str
    title: str
    folder: Path
    tests: tuple[Test, ...]
    digest: str
    borrowed: Mapping[str, Path] = field(default_factory=dict)
    made_for: tuple[str, ...] = ()

    def test(self, test_id: str) -> Test:
        """The test of that id; UsageError with the list of ids when there is none."""
        for test in self.tests:
            if test.id == test_id:
                return test
        known = [t.id for t in self.tests]
        raise UsageError(f"{self.name} has no test {test_id}; its tests: {', '.join(known)}.{did_you_mean(test_id, known)}")

    def job_path(self, test: Test) -> Path:
        """Return the path of the test's job file."""
        return self.borrowed.get(test.id, self.folder) / test.jobs

    def job_text(self, test: Test) -> str:
        """The test's job file. Raises UsageError when it cannot be read."""
        path = self.job_path(test)
        try:
            return door.read_text(path, door.SETTINGS)
        except UnicodeDecodeError as error:
            raise UsageError(f"{path}: not a text file ({error}).") from None
        except OSError as error:
            raise UsageError(f"{path} cannot be read ({error.strerror}).") from None

    def sections(self, test: Test) -> dict[str, JobSection]:
        """The sections of the test's job file by name; empty without one."""
        if not test.jobs:
            return {}
        return {section.name: section for section in sections(self.job_text(test), str(self.job_path(test)))}
