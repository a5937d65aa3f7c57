"""Ends a test that hangs. A test that is slow, because the machine is busy or its caches are empty, goes on.

pytest-timeout calls the two hooks below in place of its own timer. The seconds of its setting and of its marker then mean: without
progress. Progress is processor time of the test and of all processes below it. A test also ends when it has used more processor time than
any test needs, so an endless loop does not last either.
"""

from __future__ import annotations

import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

import psutil
import pytest

STEP_S = 2.0
"""Time between two looks at the processes."""
LEAST_SHARE = 0.005
"""Share of a core below which processes only wait: a loop that polls ten times a second takes less."""
MOST_BUSY_S = 7200.0
"""Limit of a test's processor time. An ended process counts again in its parent, so the sum is up to a few times too large."""

ProcessTimes = Mapping[tuple[int, float], float]
"""Processor time in seconds by process: its number and its start."""


def processor_times() -> ProcessTimes:
    """Processor time of this process and of all below it. Ended children count in their parents."""
    found: dict[tuple[int, float], float] = {}
    this = psutil.Process()
    for process in [this, *this.children(recursive=True)]:
        try:
            times = process.cpu_times()
            key = (process.pid, process.create_time())
        except psutil.Error:
            continue  # it ended meanwhile
        found[key] = times.user + times.system + times.children_user + times.children_system
    return found


class Stillness:
    """Says of a series of looks at processes whether they have stopped making progress."""

    def __init__(self, quiet_s: float) -> None:
        """``quiet_s``: time without progress that is taken for a hang."""
        self._quiet_s = quiet_s
        self._looks: deque[tuple[float, float]] = deque()
        self._last: ProcessTimes | None = None
        self._busy_s = 0.0

    def look(self, now_s: float, times: ProcessTimes) -> str | None:
        """Take a look at ``now_s``; the reason to end the test, or None."""
        if self._last is not None:
            self._busy_s += sum(max(0.0, spent - self._last.get(key, 0.0)) for key, spent in times.items())
        self._last = times
        if self._looks and now_s - self._looks[-1][0] > 10 * STEP_S:
            self._looks.clear()  # this thread was not run for long, so neither was the test
        self._looks.append((now_s, self._busy_s))
        while len(self._looks) > 1 and now_s - self._looks[1][0] >= self._quiet_s:
            self._looks.popleft()
        since_s, before_s = self._looks[0]
        if self._busy_s > MOST_BUSY_S:
            return f"it has used {self._busy_s:.0f} s of processor time"
        if now_s - since_s >= self._quiet_s and self._busy_s - before_s < LEAST_SHARE * (now_s - since_s):
            return f"it and its processes have done next to nothing for {now_s - since_s:.0f} s"
        return None


class Watch:
    """A thread that looks after one test, and fails the test in the main thread."""

    def __init__(self, quiet_s: float, times: Callable[[], ProcessTimes] = processor_times) -> None:
        """``times``: where processor times come from."""
        self._quiet_s = quiet_s
        self._times = times
        self._over = threading.Event()
        self._reason = ""
        self._before = signal.signal(signal.SIGALRM, self._fail)
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; the test is over."""
        self._over.set()
        self._thread.join()
        signal.signal(signal.SIGALRM, self._before)

    def _run(self) -> None:
        stillness = Stillness(self._quiet_s)
        while not self._over.wait(STEP_S):
            reason = stillness.look(time.monotonic(), self._times())
            if reason is not None:
                self._reason = reason
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)
                stillness = Stillness(self._quiet_s)  # what cleans up behind the test may hang too

    def _fail(self, _number: int, _frame: FrameType | None) -> None:
        pytest.fail(f"This test hangs: {self._reason} (tests/progress.py).")


_WATCHES: dict[str, Watch] = {}


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> bool:
    """Start to watch ``item``; pytest-timeout's own timer stays off."""
    _WATCHES[item.nodeid] = Watch(settings.timeout)
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_cancel_timer(item: pytest.Item) -> bool:
    """Stop to watch ``item``."""
    watch = _WATCHES.pop(item.nodeid, None)
    if watch is not None:
        watch.stop()
    return True
