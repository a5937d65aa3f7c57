"""The controller: a soft core with its memory, the bus to the registers, and its own peripherals. See docs/controller.md."""

from .controller import RAM_BYTES, ROM_BYTES, Controller
from .core import verilog_path
from .peripherals import Peripherals

__all__ = ["RAM_BYTES", "ROM_BYTES", "Controller", "Peripherals", "verilog_path"]
