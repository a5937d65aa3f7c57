"""From known inputs and the codes they produced to the rig's calibration registers and the remaining uncertainty.

Pure functions: nothing here talks to a rig. A channel's line is ``value = (code - offset) * scale``; the register file takes
the offset in 1/256 code and the scale in wire units per code times 2^24 (docs/registers.md).
"""

from ...errors import CalibrationError
from .delay import Delay, Edge, edge_delay
from .line import CalibrationLine, CalibrationPoint, autozero, fit
from .registers import ChannelRegisters, registers
from .residual import Residual, residual

__all__ = [
    "CalibrationError",
    "CalibrationLine",
    "CalibrationPoint",
    "ChannelRegisters",
    "Delay",
    "Edge",
    "Residual",
    "autozero",
    "edge_delay",
    "fit",
    "registers",
    "residual",
]
