"""Scrambler registers far from their seeds: both are linear, so long runs of states follow from shorter ones."""

from __future__ import annotations

import numpy as np

from .gen3_scrambler import Scrambler as Gen3Scrambler
from .scrambler import Scrambler


class KeyStream:
    """States and keys of a scrambler, one per symbol, from its seed on. The serial scrambler gives the effect of one symbol."""

    def __init__(self, scrambler: Scrambler | Gen3Scrambler):
        self._states = np.array([scrambler.state], dtype=np.uint32)
        bits = len(scrambler.register)
        self._step, self._key = np.zeros(bits, dtype=np.uint32), np.zeros(bits, dtype=np.uint8)
        for n in range(bits):
            scrambler.register = [int(k == n) for k in range(bits)]
            self._key[n] = scrambler.key()
            self._step[n] = scrambler.state

    @staticmethod
    def _linear(images: np.ndarray, states: np.ndarray) -> np.ndarray:
        out = np.zeros(states.shape, dtype=images.dtype)
        for n, image in enumerate(images):
            out ^= (states >> np.uint32(n) & np.uint32(1)).astype(images.dtype) * image
        return out

    def states(self, count: int) -> np.ndarray:
        """Return the register before symbol 0 .. count - 1 after the seed."""
        while len(self._states) < count:
            self._states = np.concatenate([self._states, self._linear(self._step, self._states)])
            self._step = self._linear(self._step, self._step)
        return self._states[:count]

    def keys(self, count: int) -> np.ndarray:
        """Return the keys of these symbols."""
        return self._linear(self._key, self.states(count))
