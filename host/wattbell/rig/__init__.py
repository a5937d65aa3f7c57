"""The rig at the other end of a serial port; the same code for a real and a virtual one."""

from .discovery import RigPort, find, rigs, runtime_dir
from .port import Rig
from .scpi import ScpiConnection

__all__ = ["Rig", "RigPort", "ScpiConnection", "find", "rigs", "runtime_dir"]
