"""Which blocks are missing, late or repeated: the account of sequence numbers."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum

WINDOW = 4096
"""Blocks a late one may be behind the newest and still be told from a duplicate."""
_MODULUS = 1 << 32
_HALF = 1 << 31


class Arrival(Enum):
    """What the sequence number of a block says about it."""

    NEXT = "next"
    AHEAD = "ahead"
    LATE = "late"
    DUPLICATE = "duplicate"


@dataclass
class Missing:
    """Blocks that have not arrived: sequence numbers ``first`` .. ``first + count - 1``.

    ``after_tick`` is the last tick seen before them, ``before_tick`` the first tick seen behind them. ``counted`` is
    false for the blocks before the first one seen, which are not a loss.
    """

    first: int
    count: int
    after_tick: int
    before_tick: int
    counted: bool = True


class SequenceTracker:
    """Follows 32-bit sequence numbers modulo 2**32.

    Policy: a number ahead of the expected one opens a hole; a number in a hole (at most :data:`WINDOW` behind) is a
    late block, is accepted and closes that part of the hole; any other number behind is a duplicate and is refused.
    The blocks just before the first one seen count as a hole that is no loss.
    """

    def __init__(self) -> None:
        self.expected: int | None = None
        self.missing = 0
        self.late = 0
        self.duplicates = 0
        self.holes: deque[Missing] = deque()
        self.closed: list[Missing] = []
        """Holes too old to be filled any more, for the caller to take away."""

    def accept(self, sequence: int, after_tick: int, before_tick: int) -> Arrival:
        """Account for a block that is not the expected one (or the first). `NEXT` is handled here too."""
        if self.expected is None:
            start = (sequence - WINDOW) % _MODULUS
            self.holes.append(Missing(start, WINDOW, before_tick, before_tick, counted=False))
            self.expected = (sequence + 1) % _MODULUS
            return Arrival.NEXT
        ahead = (sequence - self.expected) % _MODULUS
        if ahead < _HALF:
            if ahead:
                self.missing += ahead
                self.holes.append(Missing(self.expected, ahead, after_tick, before_tick))
            self.expected = (sequence + 1) % _MODULUS
            self._retire()
            return Arrival.AHEAD if ahead else Arrival.NEXT
        return self._behind(sequence)

    def _behind(self, sequence: int) -> Arrival:
        for index, hole in enumerate(self.holes):
            offset = (sequence - hole.first) % _MODULUS
            if offset >= hole.count:
                continue
            rest = hole.count - offset - 1
            del self.holes[index]
            if rest:
                first = (sequence + 1) % _MODULUS
                self.holes.insert(index, Missing(first, rest, hole.after_tick, hole.before_tick, hole.counted))
            if offset:
                self.holes.insert(index, Missing(hole.first, offset, hole.after_tick, hole.before_tick, hole.counted))
            self.late += 1
            self.missing -= hole.counted
            return Arrival.LATE
        self.duplicates += 1
        return Arrival.DUPLICATE

    def _retire(self) -> None:
        assert self.expected is not None
        while self.holes:
            hole = self.holes[0]
            age = (self.expected - (hole.first + hole.count)) % _MODULUS
            if age <= WINDOW and len(self.holes) <= WINDOW:
                return
            self.holes.popleft()
            if hole.counted:
                self.closed.append(hole)

    def finish(self) -> None:
        """Close every hole: nothing more will arrive."""
        self.closed.extend(hole for hole in self.holes if hole.counted)
        self.holes.clear()

    def restart(self) -> None:
        """The numbers begin anew: close every hole and take the next number as the first. Counts go on."""
        self.finish()
        self.expected = None

    def take_closed(self) -> list[Missing]:
        """The holes closed since the last call."""
        closed, self.closed = self.closed, []
        return closed
