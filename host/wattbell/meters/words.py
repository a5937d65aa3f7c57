"""Words of four bytes that carry a number of a few bits, cut from a stream of bytes in which some may be missing or too many."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from .numbered import I64, U32

WORD = 4
_LOOK = 32
"""Where a number does not follow the one before, so many words behind it tell whether words still begin where they did."""
_STILL = 0.5
"""They do if of so many of these the number follows: samples were lost, or a word was spoilt."""
_SURE = 16
"""Else words begin where so many numbers follow each other: by chance they do not in an age."""
_BESIDE = 2
"""Of those, words at the beginning that are left out: one that lost its first bytes has the right number, and so, by chance, may what
stands before it."""


class Words:
    """Finds where words begin, at any byte of the stream and not at those of the pieces in which it comes."""

    def __init__(self, numbers: Callable[[U32], I64], modulus: int) -> None:
        """``numbers``: of words."""
        self._numbers = numbers
        self._modulus = modulus
        self._data = b""
        self._searching = False
        self.left_out = 0
        """Bytes that were no words, or stood beside such."""
        self.in_vain = 0
        """Of these, since the last word."""

    def feed(self, piece: bytes) -> U32:
        """Words that are known to be whole by now. What was cut out shows in their numbers only."""
        self._data += piece
        found: list[U32] = []
        while self._search() if self._searching else self._go_on(found):
            pass
        words = np.concatenate(found) if found else np.empty(0, np.uint32)
        if len(words):
            self.in_vain = 0
        return words

    def rest(self) -> U32:
        """Nothing follows any more: the words that were held back."""
        data, self._data = self._data, b""
        if self._searching:
            self._drop(len(data))
            return np.empty(0, np.uint32)
        self._drop(len(data) % WORD)
        return self._cut(data, 0)

    @staticmethod
    def _cut(data: bytes, first: int) -> U32:
        """The words of `data` that begin with its byte `first`."""
        return np.frombuffer(data, "<u4", (len(data) - first) // WORD, first)

    def _follow(self, words: U32) -> npt.NDArray[np.bool_]:
        """Of each word but the last whether its number is followed by the next."""
        return np.asarray(np.diff(self._numbers(words)) % self._modulus == 1)

    def _drop(self, count: int) -> None:
        self.left_out += count
        self.in_vain += count

    def _go_on(self, found: list[U32]) -> bool:
        """Take what follows; the last word is held, since only the next tells whether it is one. True when a search has to follow."""
        words = self._cut(self._data, 0)
        follow = self._follow(words)
        whole = max(0, len(words) - 1)
        for place in np.flatnonzero(~follow).tolist():
            behind = follow[place + 1 : place + 1 + _LOOK]
            if len(behind) < _LOOK:
                whole = place  # what follows will tell
                break
            if behind.mean() < _STILL:
                found.append(words[:place])  # the one at `place` may have its number by chance
                self._data = self._data[place * WORD :]
                self._searching = True
                return True
        found.append(words[:whole])
        self._data = self._data[whole * WORD :]
        return False

    def _search(self) -> bool:
        """Leave out what stands before the next words. True when they were found."""
        first = self._begin()
        if first is None:
            keep = (_SURE + 1) * WORD + WORD - 1
            self._drop(max(0, len(self._data) - keep))
            self._data = self._data[-keep:]
            return False
        first += _BESIDE * WORD
        self._drop(first)
        self._data = self._data[first:]
        self._searching = False
        return True

    def _begin(self) -> int | None:
        """The first byte from which on words follow each other."""
        found = []
        for first in range(WORD):
            if len(self._data) < first + (_SURE + 1) * WORD:
                continue
            follow = self._follow(self._cut(self._data, first))
            runs = np.flatnonzero(np.convolve(follow, np.ones(_SURE), "valid") == _SURE)
            if len(runs):
                found.append(first + int(runs[0]) * WORD)
        return min(found, default=None)
