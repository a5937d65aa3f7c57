"""Cut words of four bytes, which carry a number of a few bits, from a stream that may have lost or gained bytes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from .numbered import I64, U32

WORD = 4
_LOOK = 32
"""Words checked behind an unexpected number, to see whether words still begin at the same byte."""
_STILL = 0.5
"""Share of these words that must have the next number. Words then still begin there, and samples were lost or a word was damaged."""
_SURE = 16
"""Else words begin where so many numbers follow each other, which hardly ever happens by chance."""
_BESIDE = 2
"""Words left out where words begin again.

A word that lost its first bytes still has the right number; the word before may have the right number by chance.
"""


class Words:
    """Finds the begins of words at any byte of the stream, whatever pieces it comes in."""

    def __init__(self, numbers: Callable[[U32], I64], modulus: int) -> None:
        """``numbers``: of words."""
        self._numbers = numbers
        self._modulus = modulus
        self._data = b""
        self._searching = False
        self.left_out = 0
        """Bytes that were no words, or stood beside such."""
        self.in_vain = 0
        """Bytes cut out since the last word."""

    def feed(self, piece: bytes) -> U32:
        """Take bytes, and return the words now known to be whole. Only their numbers show whether bytes were cut out between them."""
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
        """Return for each word but the last whether the next word's number follows."""
        return np.asarray(np.diff(self._numbers(words)) % self._modulus == 1)

    def _drop(self, count: int) -> None:
        self.left_out += count
        self.in_vain += count

    def _go_on(self, found: list[U32]) -> bool:
        """Take the next words, and hold the last one until its successor confirms it. Return True when a search is needed."""
        words = self._cut(self._data, 0)
        follow = self._follow(words)
        whole = max(0, len(words) - 1)
        for place in np.flatnonzero(~follow).tolist():
            behind = follow[place + 1 : place + 1 + _LOOK]
            if len(behind) < _LOOK:
                whole = place  # the next words decide
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
        """Drop the bytes before the next words. Return True when words were found."""
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
