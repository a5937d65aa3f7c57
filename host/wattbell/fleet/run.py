"""A task a capture on dask.distributed: processes of this machine, or the workers of a scheduler.

dask is imported only here, and only when it is used: it is the extra ``cluster``.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wattbell.capture.meta import software
from wattbell.errors import UsageError
from wattbell.extras import install_command

from .outcome import Outcome, analyse

if TYPE_CHECKING:
    from distributed import Client

Progress = Callable[[int, int], None]
"""Called with captures done and in total."""
_LIBRARIES = ("POLARS_MAX", "OMP_NUM", "OPENBLAS_NUM", "MKL_NUM", "NUMEXPR_NUM", "ARROW_NUM")
ONE_THREAD = {f"{library}_THREADS": "1" for library in _LIBRARIES}
"""Environment of a worker: as many workers as processors, each of one thread, and no library with threads of its own beside them."""
_QUIET = {"DASK_LOGGING__DISTRIBUTED": "critical"}
_TRIES = 3
"""Workers that a capture may take with it before it is given up."""
_WAIT_S = 30
_SAME = ("wattbell", "numpy", "polars")
"""Packages whose versions must be the same everywhere: figures are compared to the last digit."""


def processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def analyse_all(
    paths: Sequence[Path], *, workers: int | None = None, scheduler: str | None = None, progress: Progress | None = None
) -> list[Outcome]:
    """The outcome of each capture, in the order of ``paths``.

    ``workers``: processes on this machine (None: as many as it has processors); 0: one after the other in this process, without dask.
    ``scheduler``: the address of a dask scheduler, whose workers see the captures by the same paths. Whatever becomes of one capture, the
    others go on; a task whose worker dies is given to another. Raises UsageError without dask, for a scheduler that does not answer, has
    no workers, or has workers with other versions of the software.
    """
    if scheduler is not None and workers is not None:
        raise UsageError("A cluster has the workers it has: give --scheduler or --workers, not both.")
    found: dict[str, Outcome] = {}
    names = [str(path) for path in paths]
    for outcome in _outcomes(names, workers, scheduler):
        found[outcome.path] = outcome
        if progress:
            progress(len(found), len(names))
    return [found[name] for name in names]


def _outcomes(names: list[str], workers: int | None, scheduler: str | None) -> Iterator[Outcome]:
    """As they are done."""
    if workers == 0:
        yield from map(analyse, names)
        return
    with _connected(min(workers or processors(), len(names)), scheduler) as client:
        from distributed import KilledWorker, as_completed

        # keys of one prefix: the scheduler then hands out what is waiting one by one
        tasks = client.map(analyse, names, pure=False, key=[f"analyse-{number}" for number in range(len(names))])
        name_of = {task.key: name for task, name in zip(tasks, names, strict=True)}
        suspects = []
        waiting = as_completed(tasks)
        tasks.clear()  # what is done and read is dropped by the cluster
        for task in waiting:
            try:
                yield task.result()
            except KilledWorker:
                suspects.append(name_of[task.key])
            except Exception as error:
                yield _lost(name_of[task.key], error)
        # each alone: a worker's death is counted against every task that waited at that worker, too
        for name in suspects:
            try:
                yield client.submit(analyse, name, pure=False).result()
            except KilledWorker:
                yield Outcome(name, error=f"its analysis ended {_TRIES + 1} workers, one after the other (for want of memory?)")
            except Exception as error:
                yield _lost(name, error)


def _lost(name: str, error: Exception) -> Outcome:
    """The connection, or what a worker's Python raises around the task."""
    return Outcome(name, error=f"lost on the cluster ({type(error).__name__}: {' '.join(str(error).split())})")


@contextmanager
def _connected(workers: int, scheduler: str | None) -> Iterator[Client]:
    """A client of the cluster, which ends with it if it is our own."""
    try:
        import dask
        from distributed import Client, LocalCluster
    except ImportError:
        raise UsageError(
            f"Many captures are analysed with dask, which is not installed: {install_command('cluster')}; "
            "or give --workers 0 to analyse them one after the other."
        ) from None
    settings = {
        "distributed.nanny.pre-spawn-environ": {**ONE_THREAD, **_QUIET},
        "distributed.scheduler.allowed-failures": _TRIES,
        "distributed.scheduler.worker-saturation": 1.0,
    }
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with dask.config.set(settings):
        if scheduler is None:
            cluster: Any = LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                memory_limit=0,
                dashboard_address=None,
                silence_logs=logging.CRITICAL,
            )
            with cluster, Client(cluster) as client:
                yield client
            return
        try:
            client = Client(scheduler, timeout=_WAIT_S)
        except (OSError, ValueError) as error:
            raise UsageError(
                f"No dask scheduler answers at {scheduler} ({' '.join(str(error).split())}); start one, or check the address."
            ) from None
        with client:
            _check(client, scheduler)
            yield client


def _check(client: Client, scheduler: str) -> None:
    """Whether the cluster has workers, and they would give the same figures."""
    try:
        client.wait_for_workers(1, timeout=_WAIT_S)
    except TimeoutError:
        raise UsageError(f"The scheduler at {scheduler} has no workers; start some with: dask worker {scheduler} --nthreads 1") from None
    try:
        everywhere: dict[str, dict[str, str]] = client.run(software)
    except Exception as error:
        raise UsageError(f"A worker of {scheduler} cannot run wattbell ({type(error).__name__}: {error}); install it there.") from None
    odd = different(software(), everywhere)
    if odd:
        raise UsageError(f"{odd}: figures could differ. Install the same version.")


def different(here: Mapping[str, str], everywhere: Mapping[str, Mapping[str, str]]) -> str:
    """Which worker (by its address) has another version of a package that figures are computed with; empty where all are the same."""
    for address, there in everywhere.items():
        for name in _SAME:
            if there.get(name) != here[name]:
                return f"The worker {address} has {name} {there.get(name)}, this machine {here[name]}"
    return ""
