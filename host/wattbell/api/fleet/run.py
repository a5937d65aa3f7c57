"""The analysis of many captures: one after the other, in processes of this machine, or on the workers of a scheduler."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from wattbell.errors import UsageError

from . import cluster, processes
from .outcome import CaptureOutcome, analyse

Progress = Callable[[int, int], None]
"""Called with captures done and in total."""


def processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def analyse_all(
    paths: Sequence[Path],
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    insecure: bool = False,
    progress: Progress | None = None,
) -> list[CaptureOutcome]:
    """Return the outcome of each capture, in the order of ``paths``.

    workers: processes on this machine (None: as many as it has processors); 0: one after the other in this process
    scheduler: the address of a dask scheduler; its workers must see the captures by the same paths
    insecure: the scheduler may have no TLS

    The failure of a capture does not stop the others, and the task of a dead worker is done again. Raises UsageError without dask. Raises
    it also for a scheduler that has no TLS unasked, does not answer, has no workers, or has workers with other versions of the software.
    """
    if scheduler is not None and workers is not None:
        raise UsageError("A cluster has the workers it has: give --scheduler or --workers, not both.")
    if scheduler is not None:
        cluster.check_address(scheduler, insecure)
    elif insecure:
        raise UsageError("--insecure is of a scheduler, and there is none. Leave --insecure out.")
    found: dict[str, CaptureOutcome] = {}
    names = [str(path) for path in paths]
    for outcome in _outcomes(names, workers, scheduler):
        found[outcome.path] = outcome
        if progress:
            progress(len(found), len(names))
    return [found[name] for name in names]


def _outcomes(names: list[str], workers: int | None, scheduler: str | None) -> Iterator[CaptureOutcome]:
    """Yield the outcomes, as they are done."""
    if scheduler is not None:
        yield from cluster.outcomes(names, scheduler, analyse)
    elif workers == 0:
        yield from map(analyse, names)
    else:
        yield from processes.outcomes(names, workers or processors(), analyse)
