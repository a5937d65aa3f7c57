"""Discrete events: processes that are Python generators, and the clock in picoseconds that they share.

A process yields a delay in ps, or a :class:`Signal` that resumes the process with a value.
"""

from __future__ import annotations

import heapq
from collections.abc import Generator
from typing import Any

Process = Generator[Any, Any, Any]
NS, US, MS = 1_000, 1_000_000, 1_000_000_000
"""Picoseconds."""


class Group:
    """Processes that end together, like a controller's at a reset."""

    __slots__ = ("alive",)

    def __init__(self) -> None:
        self.alive = True


class Signal:
    """Something to wait for. :meth:`fire` resumes all that wait at that instant."""

    __slots__ = ("kernel", "waiting")

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.waiting: list[tuple[Process, Group]] = []

    def fire(self, value: Any = None) -> None:
        """Resume the processes that wait, in the order in which they came."""
        waiting, self.waiting = self.waiting, []
        for process, group in waiting:
            self.kernel.resume(process, group, 0, value)


class Kernel:
    """The queue of events. ``now`` is the instant in ps."""

    def __init__(self) -> None:
        self.now = 0
        self._heap: list[tuple[int, int, Process | None, Group, Any]] = []
        self._count = 0

    def resume(self, process: Process, group: Group, delay: int, value: Any = None) -> None:
        """Continue `process` after `delay` ps, unless its group has ended by then."""
        self._count += 1
        heapq.heappush(self._heap, (self.now + delay, self._count, process, group, value))

    def call(self, delay: int, group: Group, function: Any, *arguments: Any) -> None:
        """Call `function` after `delay` ps, unless the group has ended by then."""
        self._count += 1
        heapq.heappush(self._heap, (self.now + delay, self._count, None, group, (function, arguments)))

    def spawn(self, process: Process, group: Group, delay: int = 0) -> None:
        """Begin a process."""
        self.resume(process, group, delay)

    def run(self, last: Process) -> None:
        """Take events until `last` has ended. RuntimeError where every process waits: a deadlock of the model."""
        heap, pop, push = self._heap, heapq.heappop, heapq.heappush
        while heap:
            self.now, _, process, group, value = pop(heap)
            if not group.alive:
                continue
            if process is None:
                value[0](*value[1])
                continue
            try:
                wanted = process.send(value)
            except StopIteration:
                if process is last:
                    return
                continue
            if wanted.__class__ is int:
                self._count += 1
                push(heap, (self.now + wanted, self._count, process, group, None))
            else:
                wanted.waiting.append((process, group))
        raise RuntimeError(f"every process waits at {self.now} ps")
