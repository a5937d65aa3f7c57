"""When a steady-state test on a real drive has run enough rounds.

The recording goes on meanwhile, so this goes by fio's own figures; the figures of the results are the rig's.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..measure.fiojson import FioDirection, FioJob, load_jobs
from ..suites.kinds import KINDS
from ..suites.step import Step
from ..suites.suite import Test
from .phase import PhaseEntry


class Rounds:
    """Decides which rounds of a plan are no longer needed. ``results``: folder of fio's JSON."""

    def __init__(self, tests: Sequence[Test], results: Path) -> None:
        self._tests = {test.id: test for test in tests}
        self._results = results

    def over(self, step: Step, phases: Sequence[PhaseEntry]) -> bool:
        """Return whether a step is no longer needed. ``phases``: the phases so far. Raises CaptureError for unreadable JSON of fio."""
        test = self._tests.get(step.name.rpartition("#")[0])
        return test is not None and KINDS[test.kind].enough(test, self._tracked(test, phases))

    def _tracked(self, test: Test, phases: Sequence[PhaseEntry]) -> list[list[float]]:
        """Values by round of each of the test's ``track``."""
        found: dict[str, list[float]] = {name: [] for name in test.track}
        for phase in phases:
            if phase.name.partition("/")[0].rpartition("#")[0] != test.id or phase.fio is None:
                continue
            jobs = load_jobs(self._results / phase.fio)
            for name, values in found.items():
                mine = [job for job in jobs if job.jobname == name]
                if mine:
                    values.append(value(mine, test.quantity))
        return list(found.values())


def value(jobs: Sequence[FioJob], quantity: str) -> float:
    """``iops``, ``mb_per_s`` or ``mean_latency_s`` of jobs that ran together; 0 if they moved nothing."""
    sides: list[FioDirection] = [side for job in jobs for side in job.data]
    if quantity == "iops":
        return sum(side.iops for side in sides)
    if quantity == "mb_per_s":
        return sum(side.bw_bytes for side in sides) / 1e6
    timed = [(side.total_ios, side.lat_ns.mean) for side in sides if side.lat_ns is not None]
    count = sum(n for n, _ in timed)
    return sum(n * mean_ns for n, mean_ns in timed) * 1e-9 / count if count else 0.0
