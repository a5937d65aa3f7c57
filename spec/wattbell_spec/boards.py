"""Boards that tap the lanes of a link. A capture does not say which board made it."""

from __future__ import annotations

from dataclasses import dataclass

from .wire import TICK_PS


@dataclass(frozen=True)
class BoardFigures:
    """A board.

    - ``lanes``: lanes of each direction.
    - ``rates_gt_s``: rates of the lanes in GT/s.
    - ``ticks_per_clock``: ticks of a clock of the instrument.
    - ``instant_s``: largest error of a TLP's instant in s, either way, relative to the rail, the sidebands and the other direction
      (docs/accuracy.md; verified by tests/gateware/boards/test_direction.py).
    """

    name: str
    lanes: int
    rates_gt_s: tuple[float, ...]
    ticks_per_clock: int
    instant_s: float

    @property
    def clock_hz(self) -> int:
        """Clock frequency of the instrument."""
        return 10**12 // (TICK_PS * self.ticks_per_clock)


ECP5 = BoardFigures("ecp5", lanes=2, rates_gt_s=(2.5, 5.0), ticks_per_clock=16, instant_s=6e-9)
KINTEX7 = BoardFigures("kintex7", lanes=4, rates_gt_s=(2.5, 5.0, 8.0), ticks_per_clock=4, instant_s=4e-9)
BOARDS = (ECP5, KINTEX7)


def board_of(serial: str) -> BoardFigures | None:
    """Return the board with the name at the start of a rig's USB serial number (``ECP5-0001``); None for other rigs."""
    name = serial.partition("-")[0].lower()
    return next((board for board in BOARDS if board.name == name), None)
