"""Descriptor of a board. A board is a folder of `boards/` with a descriptor (`board.py`), pins, clocks, transceivers and a build."""

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
    """Drives the clock domains, and gives the tools their frequencies. :meth:`.Transceiver.receive` connects recovered clocks.

    Attributes
    ----------
    board : in: clock of the board.
    ulpi : in: clock of the USB PHY.
    phy_reset : out: resets the USB PHY, which gives no clock meanwhile.
    """

    board: Signal
    ulpi: Signal
    phy_reset: Signal

    @staticmethod
    def domains() -> list[ClockDomain]:
        """Return the clock domains; the module that instantiates this one adds them."""


@dataclass(frozen=True)
class Board:
    """A board, as :class:`.tap.Tap` and the build take it.

    - ``facts``: facts that the host knows too.
    - ``platform``: part and pins.
    - ``clocks``: clocks and resets.
    - ``transceiver``: transceivers of both directions.
    - ``instrument``: options of the instrument without the soft core.
    """

    facts: boards.BoardFigures
    platform: type[Platform]
    clocks: type[Elaboratable]
    transceiver: type[Transceiver]
    instrument: Options
