"""Tracks sequence numbers: which blocks are missing, late or repeated."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum

from wattbell_spec.wire import SEQUENCE_WINDOW

MODULUS = 1 << 32
_HALF = 1 << 31


class Arrival(Enum):
    """Meaning of a block's sequence number."""

    NEXT = "next"
    AHEAD = "ahead"
    LATE = "late"
    DUPLICATE = "duplicate"
    FAR = "far"


@dataclass
class MissingBlocks:
    """Blocks that have not arrived: sequence numbers ``first`` .. ``first + count - 1``.

    ``after_tick`` is the last tick seen before them, ``before_tick`` the first tick seen after them. ``counted`` is
    false for the blocks before the first one seen, which are not a loss.
    """

    first: int
    count: int
    after_tick: int
    before_tick: int
    counted: bool = True


def near(sequence: int, other: int) -> bool:
    """True when two sequence numbers are within `SEQUENCE_WINDOW` of each other."""
    return (sequence - other + SEQUENCE_WINDOW) % MODULUS <= 2 * SEQUENCE_WINDOW


class SequenceTracker:
    """Follows 32-bit sequence numbers modulo 2**32.

    - A number ahead of the expected one opens a hole.
    - A number in a hole is a late block; it is accepted and closes that part of the hole.
    - Any other number behind is a duplicate and is rejected.
    - A number more than `SEQUENCE_WINDOW` away is FAR: the caller decides, and calls :meth:`begin` or :meth:`jump`.

    The blocks just before the first one seen count as a hole that is not a loss.
    """

    def __init__(self) -> None:
        self.expected: int | None = None
        self.missing = 0
        self.late = 0
        self.duplicates = 0
        self._holes: deque[MissingBlocks] = deque()
        self._closed: list[MissingBlocks] = []

    def begin(self, sequence: int, tick: int) -> None:
        """Take `sequence` as the first number and close all earlier holes. Counts continue."""
        self.finish()
        self._holes.append(MissingBlocks((sequence - SEQUENCE_WINDOW) % MODULUS, SEQUENCE_WINDOW, tick, tick, counted=False))
        self.expected = (sequence + 1) % MODULUS

    def arrive(self, sequence: int, after_tick: int, before_tick: int) -> Arrival:
        """Account for a block; FAR changes nothing. Valid only after :meth:`begin`."""
        assert self.expected is not None
        if not near(sequence, self.expected):
            return Arrival.FAR
        if (sequence - self.expected) % MODULUS < _HALF:
            return Arrival.AHEAD if self.jump(sequence, after_tick, before_tick) else Arrival.NEXT
        return self._behind(sequence)

    def is_ahead(self, sequence: int) -> bool:
        """True for the expected number and those after it, up to half the range."""
        assert self.expected is not None
        return (sequence - self.expected) % MODULUS < _HALF

    def hole_of(self, sequence: int) -> tuple[int, int] | None:
        """(last tick before, first tick after) of the hole that contains a number; None if there is none."""
        for hole in self._holes:
            if (sequence - hole.first) % MODULUS < hole.count:
                return hole.after_tick, hole.before_tick
        return None

    def jump(self, sequence: int, after_tick: int, before_tick: int) -> int:
        """Accept a number ahead, however far; returns the number of missing blocks before it."""
        assert self.expected is not None
        ahead = (sequence - self.expected) % MODULUS
        if ahead:
            self.missing += ahead
            self._holes.append(MissingBlocks(self.expected, ahead, after_tick, before_tick))
        self.expected = (sequence + 1) % MODULUS
        self._retire()
        return ahead

    def _behind(self, sequence: int) -> Arrival:
        for index, hole in enumerate(self._holes):
            offset = (sequence - hole.first) % MODULUS
            if offset >= hole.count:
                continue
            rest = hole.count - offset - 1
            del self._holes[index]
            if rest:  # also where no loss was known: whatever lies between two blocks that arrived is missing
                first = (sequence + 1) % MODULUS
                self._holes.insert(index, MissingBlocks(first, rest, hole.after_tick, hole.before_tick))
            if offset:
                self._holes.insert(index, MissingBlocks(hole.first, offset, hole.after_tick, hole.before_tick, hole.counted))
            self.late += 1
            self.missing += -1 if hole.counted else rest
            return Arrival.LATE
        self.duplicates += 1
        return Arrival.DUPLICATE

    def _retire(self) -> None:
        """Close the holes that no plausible block can fill any more."""
        assert self.expected is not None
        while self._holes:
            hole = self._holes[0]
            if (self.expected - (hole.first + hole.count)) % MODULUS <= SEQUENCE_WINDOW:
                return
            self._close(self._holes.popleft())

    def _close(self, hole: MissingBlocks) -> None:
        if hole.counted:
            self._closed.append(hole)

    def finish(self) -> None:
        """Close every hole: nothing more will arrive."""
        while self._holes:
            self._close(self._holes.popleft())

    def take_closed(self) -> list[MissingBlocks]:
        """Holes closed unfilled since the last call."""
        closed, self._closed = self._closed, []
        return closed
