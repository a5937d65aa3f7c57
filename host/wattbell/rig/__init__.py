"""The rig at the other end of a serial port, real or virtual: the same code for both."""

from .discovery import RigPort, find, rigs, runtime_dir
from .port import Rig
from .scpi import Scpi

__all__ = ["Rig", "RigPort", "Scpi", "find", "rigs", "runtime_dir"]
