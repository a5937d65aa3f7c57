"""The rail: ADC front, calibration, decimation, energy, and RAIL blocks.

One conversion runs down a fixed pipeline (:mod:`.path`). Between conversions nothing here changes, so a simulator may skip those clocks.
Each stage is a component that can be used and tested alone.
"""

from .channels import Channels
from .cic import Decimator, decimation_constants
from .correct import Corrector
from .energy import EnergyAccumulator
from .front import SerialFront, WordFront, serial_front
from .merge import Merge
from .packer import RailPacker
from .path import RailPath
from .timer import ConversionTimer

__all__ = [
    "Channels",
    "ConversionTimer",
    "Corrector",
    "Decimator",
    "EnergyAccumulator",
    "Merge",
    "RailPacker",
    "RailPath",
    "SerialFront",
    "WordFront",
    "decimation_constants",
    "serial_front",
]
