"""SUMP's trigger, evaluated on runs of equal samples."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from .protocol import U32, Stage

I64 = npt.NDArray[np.int64]


class _Watch:
    """A stage that has not fired yet."""

    def __init__(self, stage: Stage, first: int) -> None:
        self.stage = stage
        self.first = first
        """First sample to be looked at."""
        self.fires: int | None = None

    def look(self, starts: I64, words: U32, end: int) -> None:
        """Look for the first matching sample in these runs."""
        if self.fires is not None or self.first >= end:
            return
        stage = self.stage
        run = max(int(np.searchsorted(starts, self.first, side="right")) - 1, 0)
        match = ((words[run:] ^ np.uint32(stage.value)) & np.uint32(stage.mask)) == 0
        hit = int(match.argmax()) if len(match) else 0
        if len(match) and match[hit]:
            self.fires = max(self.first, int(starts[run + hit])) + stage.delay
        else:
            self.first = end


class SumpTrigger:
    """Stages as in SUMP's gateware: each fires once; several may share a level. Without stages the first sample triggers."""

    def __init__(self, stages: Iterable[Stage]) -> None:
        self._sleeping = list(stages)
        self._level = 0
        self._immediate = not self._sleeping
        self._awake: list[_Watch] = []
        self._wake(0)

    def _wake(self, first: int) -> None:
        self._awake += [_Watch(stage, first) for stage in self._sleeping if stage.level <= self._level]
        self._sleeping = [stage for stage in self._sleeping if stage.level > self._level]

    def look(self, starts: I64, words: U32, end: int) -> int | None:
        """The sample that triggers the capture, if it lies in the runs that begin at `starts` and end before `end`."""
        if self._immediate and len(starts):
            return int(starts[0])
        while True:
            for watch in self._awake:
                watch.look(starts, words, end)
            due = [watch for watch in self._awake if watch.fires is not None and watch.fires < end]
            if not due:
                return None
            now = min(watch.fires for watch in due if watch.fires is not None)
            fired = [watch for watch in due if watch.fires == now]
            if any(watch.stage.start for watch in fired):
                return now
            self._awake = [watch for watch in self._awake if watch not in fired]
            self._level += 1
            self._wake(now + 1)
