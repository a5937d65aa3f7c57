"""Descriptor of the ECP5 tap: two lanes at 5 GT/s, built with open tools."""

from wattbell_spec.boards import ECP5

from ...instrument import Options
from ...nvme import MapSizes
from ..board import Board
from .clocks import Ecp5Clocks
from .platform import Ecp5TapPlatform
from .transceiver import DcuTransceiver

__all__ = ["BOARD"]

BOARD = Board(
    ECP5,
    Ecp5TapPlatform,
    Ecp5Clocks,
    DcuTransceiver,
    # Two lanes at 5 GT/s are 128 bits at 62.5 MHz. Commands in flight, queues, ways of the page map and kept payload are half of the
    # larger target's: this part has 208 block RAMs, and each costs 60 long wires. Its speeds have no tags of 10 bits. Addresses are
    # below 2**54 (x86 and ARM: 2**52).
    Options(
        width=128,
        ticks_per_clock=ECP5.ticks_per_clock,
        adc="serial",
        slots=512,
        queues=32,
        beats=1024,
        beats_of_drive=512,
        slow=True,
        lanes=True,
        sizes=MapSizes(pages=4, pieces=2, key_bits=42),
        tags=256,
    ),
)
