"""What a board is: a folder of `boards/` with a descriptor (`board.py`), its pins, its clocks, its transceivers and its build."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from amaranth import ClockDomain, Elaboratable, Signal
from amaranth.build import Platform
from wattbell_spec import boards

from ..instrument import Options
from .transceiver import Transceiver

__all__ = ["Board", "Clocks"]


class Clocks(Protocol):
    """Drives the clock domains, and tells the tools their frequencies. What a transceiver recovers, :meth:`.Transceiver.receive` connects.

    Attributes
    ----------
    board, ulpi : in: the clocks of the board and of the USB PHY.
    phy_reset : out: resets the USB PHY, which gives no clock meanwhile.
    """

    board: Signal
    ulpi: Signal
    phy_reset: Signal

    @staticmethod
    def domains() -> list[ClockDomain]:
        """The domains, for the module above to add."""


@dataclass(frozen=True)
class Board:
    """A board, as :class:`.tap.Tap` and the build take it.

    ``facts``: what the host may know of it, too. ``platform``: part and pins. ``instrument``: its options without the soft core.
    """

    facts: boards.Board
    platform: type[Platform]
    clocks: type[Elaboratable]
    transceiver: type[Transceiver]
    instrument: Options
