"""Place samples on a grid by their numbers, and count missing samples. A number has a few bits and wraps around at a modulus."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]
U32 = npt.NDArray[np.uint32]

_TRUSTED = 8
"""Consecutive numbers needed to continue behind an unexpected number. The samples before them are left out."""
_RECENT_NS = 2_000_000_000
_HELD_NS = 200_000_000
"""Time in ns of the samples held back behind a gap. Their arrivals, spread over the same time, show how many turns of the number are
missing.
"""
_SECOND_NS = 1_000_000_000
_SECONDS, _SURELY = 3, 0.8
"""Seconds that samples must arrive later, compared with as many before, and the least delay as a share of a turn.

No crystal drifts so fast, and no host is busy for so long.
"""
_MOST_HELD_NS = 5_000_000_000
_EARLIER = 0.4
"""Share of a turn added before a guess is rounded down, less than half: an arrival is often late and hardly ever early."""


@dataclass(frozen=True)
class SampleRun:
    """Consecutive samples: index of the first, their words, host ns at which the last was there."""

    index: int
    words: U32
    arrival_ns: int

    def __len__(self) -> int:
        return len(self.words)


class Numbered:
    """Places samples that come every `interval_ns` and are numbered modulo `modulus`.

    The numbers give a gap's length modulo `modulus`; the arrivals behind the gap give the number of whole turns. Samples with damaged
    numbers are left out.
    """

    def __init__(self, modulus: int, interval_ns: int) -> None:
        self._modulus, self._interval_ns = modulus, interval_ns
        self.lost = 0
        """Samples that are missing."""
        self._next = 0
        self._number: int | None = None
        """Number that the sample `_next` should have."""
        self._rest = np.empty(0, np.int64), np.empty(0, np.uint32)
        self._late: deque[tuple[int, int]] = deque()
        """Arrivals of the last two seconds: host ns, and the delay in ns behind the place on the grid."""
        self._odd = 0
        """Samples that were left out since the last good one."""
        self._each: list[tuple[int, int]] = []
        """Least delay in ns for each second of arrivals."""
        self._missing = 0
        """Least length, in samples, of a gap that is not placed yet."""
        self._held: list[SampleRun] = []
        """Consecutive samples behind that gap."""

    def feed(self, arrival_ns: int, numbers: I64, words: U32) -> list[SampleRun]:
        """Take samples, and return the runs that can be placed by now."""
        numbers, words = np.concatenate((self._rest[0], numbers)), np.concatenate((self._rest[1], words))
        if self._number is None and len(numbers):
            self._number = int(numbers[0])
        found: list[SampleRun] = []
        at = 0
        while at < len(numbers):
            assert self._number is not None
            expected = (self._number + np.arange(len(numbers) - at)) % self._modulus
            right = numbers[at:] == expected
            whole = len(right) if right.all() else int(np.argmin(right))
            if whole:
                found += self._place(SampleRun(self._next, words[at : at + whole], arrival_ns))
                self._number = (self._number + whole) % self._modulus
                at += whole
                continue
            steps = np.diff(numbers[at:]) % self._modulus == 1
            if len(steps) < _TRUSTED - 1:
                break  # the next samples decide
            good = np.flatnonzero(np.convolve(steps, np.ones(_TRUSTED - 1), "valid") == _TRUSTED - 1)
            odd = int(good[0]) if len(good) else len(right) - _TRUSTED + 1
            self._odd += odd
            at += odd
            if not len(good):
                break
            found += self.release()
            missing = int((numbers[at] - self._number) % self._modulus)
            if missing == self._odd % self._modulus:
                self._next += self._odd
                self.lost += self._odd
            else:
                self._missing = missing
            self._number = int(numbers[at])
            self._odd = 0
        self._rest = numbers[at:], words[at:]
        return found

    def _place(self, run: SampleRun) -> list[SampleRun]:
        if self._missing:
            self._held.append(run)
            held_ns = sum(len(held) for held in self._held) * self._interval_ns
            enough = min(held_ns, run.arrival_ns - self._held[0].arrival_ns) >= _HELD_NS
            return self.release() if enough or held_ns > _MOST_HELD_NS else []
        self._next += len(run)
        self._late.append((run.arrival_ns, run.arrival_ns - (self._next - 1) * self._interval_ns))
        while self._late[-1][0] - self._late[0][0] > _RECENT_NS:
            self._late.popleft()
        second, late = run.arrival_ns // _SECOND_NS, self._late[-1][1]
        if self._each and self._each[-1][0] == second:
            self._each[-1] = (second, min(late, self._each[-1][1]))
        else:
            self._each.append((second, late))
        return [run]

    def unseen(self) -> int:
        """Samples that were probably lost in addition, in whole turns of the number: after some second, all arrived later by that much."""
        late = [least for _, least in self._each]
        turn_ns = self._modulus * self._interval_ns
        whole = range(1, len(late) - _SECONDS + 1)
        steps = [min(late[at : at + _SECONDS]) - min(late[max(0, at - _SECONDS) : at]) for at in whole]
        found = at = 0
        while at < len(steps):
            near = steps[at : at + _SECONDS]
            if steps[at] > _SURELY * turn_ns and steps[at] == max(near):  # the second of the loss may show only a part of the turn
                found += round(steps[at] / turn_ns) * self._modulus
                at += _SECONDS
            else:
                at += 1
        return found

    @property
    def slow_ns(self) -> int:
        """Return in ns how much later samples arrive now than at the beginning, if the delay lasts for some seconds; else 0.

        Samples that only waited arrive in the end. A lasting delay means that samples are missing or were taken at another rate.
        """
        late = [least for _, least in self._each]
        return min(late[-_SECONDS:]) - min(late[:_SECONDS]) if len(late) >= 2 * _SECONDS else 0

    def release(self) -> list[SampleRun]:
        """Place the samples held behind a gap: when enough have come, or at the end."""
        held, missing = self._held, self._missing
        self._held, self._missing = [], 0
        if not missing:
            return []
        turns = 0
        if held and self._late:
            behind = self._next + missing - 1 + np.cumsum([len(run) for run in held])
            late = min(run.arrival_ns - place * self._interval_ns for run, place in zip(held, behind.tolist(), strict=True))
            excess = late - min(usual for _, usual in self._late)
            turns = max(0, math.floor(excess / (self._modulus * self._interval_ns) + _EARLIER))
        lost = missing + turns * self._modulus
        self._next += lost
        self.lost += lost
        found: list[SampleRun] = []
        for run in held:
            found += self._place(SampleRun(self._next, run.words, run.arrival_ns))
        return found
