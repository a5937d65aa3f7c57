"""The analysis of many captures in processes of this machine: :func:`outcomes`. The processes talk over pipes; nothing listens."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection

from .outcome import CaptureOutcome

_LIBRARIES = ("POLARS_MAX", "OMP_NUM", "OPENBLAS_NUM", "MKL_NUM", "NUMEXPR_NUM", "ARROW_NUM")
ONE_THREAD = {f"{library}_THREADS": "1" for library in _LIBRARIES}
"""Environment of a worker: as many workers as processors, each of one thread, and no library with threads of its own beside them."""
TRIES = 4
"""Workers that a capture may end while it is analysed alone. Then it is given up."""

Task = Callable[[str], CaptureOutcome]
"""Analyses the capture at a path. A worker imports it by its name."""


def outcomes(names: Sequence[str], workers: int, task: Task) -> Iterator[CaptureOutcome]:
    """Yield the outcome of each capture, as it is done.

    A worker that dies takes along the captures that were under way. Each such capture is then analysed alone, at most :data:`TRIES` times:
    a capture is never given up because of another one.
    """
    waiting, suspects = deque(names), list[str]()
    while waiting:
        yield from _until_broken(waiting, workers, task, suspects)
    for name in suspects:
        yield _alone(name, task)


def _until_broken(waiting: deque[str], workers: int, task: Task, suspects: list[str]) -> Iterator[CaptureOutcome]:
    """Take from ``waiting`` until it is empty or a worker dies. Captures under way at that time are added to ``suspects``."""
    running: dict[Future[CaptureOutcome], str] = {}
    broken = False
    with _pool(min(workers, len(waiting))) as pool:
        while running or (waiting and not broken):
            # no more tasks under way than workers: the tasks lost with a worker then include the cause of its death
            while waiting and not broken and len(running) < workers:
                try:
                    running[pool.submit(task, waiting[0])] = waiting[0]
                    waiting.popleft()
                except BrokenProcessPool:
                    broken = True
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                name = running.pop(future)
                try:
                    yield future.result()
                except BrokenProcessPool:
                    broken = True
                    suspects.append(name)


def _alone(name: str, task: Task) -> CaptureOutcome:
    for _ in range(TRIES):
        with contextlib.suppress(BrokenProcessPool), _pool(1) as pool:
            return pool.submit(task, name).result()
    return CaptureOutcome(name, error=f"its analysis ended {TRIES} processes, one after the other (for want of memory?)")


@contextlib.contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that end with the block, and with this process, however it ends."""
    # Not "forkserver": its server listens on a Unix socket. Not "fork": Polars has threads.
    context = multiprocessing.get_context("spawn")
    theirs, ours = context.Pipe(duplex=False)
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(ONE_THREAD)
    try:
        with ProcessPoolExecutor(workers, context, _begin, (theirs,)) as pool:
            try:
                yield pool
            except BaseException:
                ours.close()  # the workers end at once, in the middle of a capture
                raise
    finally:
        ours.close()
        theirs.close()
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _begin(parent: Connection) -> None:
    """Begin a worker: Ctrl-C is for the parent. The worker ends once the parent has closed its end of the pipe, or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        with contextlib.suppress(EOFError, OSError):
            parent.recv_bytes()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
