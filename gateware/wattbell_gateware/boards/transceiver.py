"""What `Tap` needs of a board's transceivers."""

from __future__ import annotations

from typing import Protocol

from amaranth import Module, Signal, Value

from .direction import Direction

__all__ = ["Transceiver"]


class Transceiver(Protocol):
    """The transceivers of both directions, and what brings their words to the receivers.

    Attributes
    ----------
    lanes : of each direction.
    rates : those it has, of 0, 1, 2 (2.5, 5, 8 GT/s); the first is the one after reset.
    domain, clock_hz : the clock on which the transceivers are brought up and the rate is set.
    """

    lanes: int
    rates: tuple[int, ...]
    domain: str
    clock_hz: int

    def receive(self, m: Module, platform, clocks, n: int, rate: Signal) -> tuple[Direction, Value]:
        """Add to `m` the transceiver and the :class:`~.direction.Direction` number `n` (0: the host sends, 1: the drive), both clocked.

        `rate` is in :attr:`domain`. Returns the direction, and the lanes that have good words, in that domain.
        """
