"""Interface of `Tap` to a board's transceivers."""

from __future__ import annotations

from typing import Protocol

from amaranth import Module, Signal, Value

from .direction import Direction

__all__ = ["Transceiver"]


class Transceiver(Protocol):
    """Transceivers of both directions, with the parts that bring their words to the receivers.

    Attributes
    ----------
    lanes : number of lanes of each direction.
    rates : rates of the transceivers, of 0, 1, 2 (2.5, 5, 8 GT/s); the first is the rate after reset.
    domain : clock domain that brings the transceivers up and sets the rate.
    clock_hz : frequency of this domain.
    """

    lanes: int
    rates: tuple[int, ...]
    domain: str
    clock_hz: int

    def receive(self, m: Module, platform, clocks, n: int, rate: Signal) -> tuple[Direction, Value]:
        """Add to `m` the transceiver and the :class:`~.direction.Direction` number `n` (0: the host sends, 1: the drive), both clocked.

        `rate` is in :attr:`domain`. Returns the direction, and the lanes that have good words, in that domain.
        """
