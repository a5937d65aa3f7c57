"""Estimate the progress and the remaining time of a run: an estimate made before the run, corrected by the steps measured so far."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from ..suites.outlook import Expected, Outlook
from ..suites.step import Step

_LEAST_SEEN_S = 2.0
"""A shorter time of moving data says nothing of the drive's speed."""


@dataclass
class _Seen:
    """Times of moving data: reckoned and measured."""

    reckoned_s: float = 0.0
    measured_s: float = 0.0

    @property
    def factor(self) -> float:
        return self.measured_s / self.reckoned_s if min(self.reckoned_s, self.measured_s) >= _LEAST_SEEN_S else 1.0


class Eta:
    """Estimates the remaining time from the begins of sessions and steps. ``clock``: seconds, never backwards.

    In real time, idle times take as long as planned. Fills and other loads are scaled by the ratio of measured to estimated time so far. A
    virtual bench runs at its own speed. There only whole sessions are compared, and there is no estimate before the first one is over.
    """

    def __init__(self, outlook: Outlook, real_time: bool = True, clock: Callable[[], float] = time.monotonic) -> None:
        self._real_time, self._clock = real_time, clock
        self._sessions = [part.runs for part in outlook.parts]
        self._fills, self._others = _Seen(), _Seen()
        self._number, self._step, self._running = 0, 0, False
        self._first = self._since = clock()
        self._done_s = self._took_s = self._began = 0.0
        self.words = ""
        """The work in progress, in words."""

    def session(self, number: int, names: str) -> None:
        """Session ``number`` (from 0) begins."""
        self._number, self._step, self._running = number, 0, False
        self._began = self._since = self._clock()
        self.words = names

    def over(self) -> None:
        """The session is over."""
        self._close_step()
        self._running = False
        self._done_s += sum(expected.seconds for _, expected in self._sessions[self._number])
        self._took_s += self._clock() - self._began
        self._sessions[self._number] = []

    def step(self, name: str, left_out: bool = False) -> None:
        """Note that the next step of that name begins, or is not needed. Steps skipped in between count as done."""
        steps = self._sessions[self._number]
        self._close_step()
        place = next((k for k in range(self._step, len(steps)) if steps[k][0].name == name), None)
        if place is None:
            return
        if left_out:
            step, expected = steps[place]
            steps[place] = (step, replace(expected, known_s=0.0, data_s=0.0))
        self._step, self._since, self._running = place, self._clock(), not left_out

    def _close_step(self) -> None:
        """Learn from the step that has ended."""
        steps = self._sessions[self._number]
        if not self._running or self._step >= len(steps):
            return
        step, expected = steps[self._step]
        if expected.data_s:
            seen = self._fills if step.fill is not None else self._others
            seen.reckoned_s += expected.data_s
            seen.measured_s += max(0.0, self._clock() - self._since - expected.known_s)
        self._step += 1

    def _takes_s(self, step: Step, expected: Expected) -> float:
        if expected.optional:
            return 0.0
        return expected.known_s + expected.data_s * (self._fills if step.fill is not None else self._others).factor

    @property
    def left_s(self) -> float | None:
        """Return the seconds that the rest takes; None without an estimate."""
        later = self._sessions[self._number + 1 :]
        if not self._real_time:
            now = self._sessions[self._number : self._number + 1]
            if not self._done_s:
                return None
            reckoned = sum(expected.seconds for steps in (*now, *later) for _, expected in steps)
            return max(0.0, reckoned / self._done_s * self._took_s - (self._clock() - self._began if now and now[0] else 0.0))
        steps = self._sessions[self._number] if self._number < len(self._sessions) else []
        left = sum(self._takes_s(*each) for each in steps[self._step + 1 :]) + sum(self._takes_s(*each) for s in later for each in s)
        if self._step < len(steps):
            left += max(0.0, self._takes_s(*steps[self._step]) - (self._clock() - self._since))
        return left

    @property
    def share(self) -> float:
        """Return the share of the whole time that is over, from 0 to 1; 0 without an estimate."""
        left_s, gone_s = self.left_s, self._clock() - self._first
        return 0.0 if left_s is None or gone_s + left_s <= 0 else gone_s / (gone_s + left_s)


def about(seconds: float) -> str:
    """A time that is reckoned, in words: ``about 40 s``, ``about 3 h 20 min``."""
    if seconds < 90:
        return f"about {max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"about {minutes} min"
    hours, minutes = divmod(round(seconds / 600) * 10, 60)
    return f"about {hours} h" + (f" {minutes} min" if minutes and hours < 10 else "")
