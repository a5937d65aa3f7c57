"""A task a capture on the workers of a dask scheduler: :func:`outcomes`.

dask is imported only here, and only when it is used: it is the extra ``cluster``. Anybody who reaches a scheduler or a worker without TLS
can run code on it, because dask sends pickled Python. So an address without TLS has to be asked for.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from wattbell.capture.meta import software
from wattbell.errors import UsageError
from wattbell.extras import install_command

from .outcome import CaptureOutcome
from .processes import Task

if TYPE_CHECKING:
    from distributed import Client

ENCRYPTED = "tls://"
_WAIT_S = 30
_SAME = ("wattbell", "numpy", "polars")
"""Packages with versions that must be the same everywhere: figures are compared to the last digit."""


def check_address(scheduler: str, insecure: bool) -> None:
    """Raises UsageError for an address without TLS that nobody asked for, and for ``insecure`` with an address with TLS."""
    encrypted = scheduler.lower().startswith(ENCRYPTED)
    if insecure and encrypted:
        raise UsageError(f"--insecure is for a scheduler without TLS, and {scheduler} has TLS. Leave --insecure out.")
    if not insecure and not encrypted:
        raise UsageError(
            f"{scheduler} has no TLS: whoever reaches that scheduler or its workers runs code on them and on this machine. "
            "Give --scheduler tls://HOST:PORT (docs/users-guide.md, Many captures), or --insecure in a network where you trust everybody."
        )


def outcomes(names: Sequence[str], scheduler: str, task: Task) -> Iterator[CaptureOutcome]:
    """Yield the outcome of each capture, as it is done. The task of a dead worker is given to another worker; dask gives it up."""
    with _connected(scheduler) as client:
        from distributed import KilledWorker, as_completed

        # keys of one prefix: the scheduler then hands out waiting tasks singly
        tasks = client.map(task, names, pure=False, key=[f"analyse-{number}" for number in range(len(names))])
        name_of = {future.key: name for future, name in zip(tasks, names, strict=True)}
        suspects = []
        waiting = as_completed(tasks)
        tasks.clear()  # the cluster drops tasks that are done and read
        for future in waiting:
            try:
                yield future.result()
            except KilledWorker:
                suspects.append(name_of[future.key])
            except Exception as error:
                yield _lost(name_of[future.key], error)
        # each alone: a worker's death is counted against every task that waited at that worker, too
        for name in suspects:
            try:
                yield client.submit(task, name, pure=False).result()
            except Exception as error:
                yield _lost(name, error)


def _lost(name: str, error: Exception) -> CaptureOutcome:
    """Return the outcome of a task lost to the connection, to an error of a worker's Python around the task, or to its workers' deaths."""
    return CaptureOutcome(name, error=f"lost on the cluster ({type(error).__name__}: {' '.join(str(error).split())})")


@contextmanager
def _connected(scheduler: str) -> Iterator[Client]:
    """A client of the cluster."""
    try:
        from distributed import Client
        from distributed.security import Security
    except ImportError:
        raise UsageError(
            f"--scheduler needs dask, which is not installed: {install_command('cluster')}; "
            "or leave --scheduler out to analyse on this machine."
        ) from None
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    encrypted = scheduler.lower().startswith(ENCRYPTED)
    try:
        # certificates: distributed.comm.tls of dask's own configuration
        client = Client(scheduler, timeout=_WAIT_S, security=Security(require_encryption=encrypted))
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        certificates = "; the certificates are those of DASK_DISTRIBUTED__COMM__TLS__..." if encrypted else ""
        raise UsageError(
            f"No dask scheduler answers at {scheduler} ({' '.join(str(error).split())}); start one, or check the address{certificates}."
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
    """Which worker (by its address) has another version of a package that figures are computed with; empty if all are the same."""
    for address, there in everywhere.items():
        for name in _SAME:
            if there.get(name) != here[name]:
                return f"The worker {address} has {name} {there.get(name)}, this machine {here[name]}"
    return ""
