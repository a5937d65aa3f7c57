"""Descriptor of the Kintex-7 tap: four lanes at 8 GT/s (docs/target-8gt.md)."""

from wattbell_spec.boards import KINTEX7

from ...instrument import Options
from ..board import Board
from .clocks import Kintex7Clocks
from .platform import Kintex7TapPlatform
from .transceiver import GtxTransceiver

__all__ = ["BOARD"]

BOARD = Board(
    KINTEX7,
    Kintex7TapPlatform,
    Kintex7Clocks,
    GtxTransceiver,
    Options(width=128, ticks_per_clock=KINTEX7.ticks_per_clock, adc="serial", lanes=True),  # four lanes at 8 GT/s are 128 bits at 250 MHz
)
