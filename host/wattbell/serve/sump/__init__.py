"""Presents a rig as a SUMP logic analyser (sigrok's ``ols``), built on the host from the rig's stream: :class:`Server`."""

from .acquisition import CaptureOptions
from .port import Port, open_pty, open_tty
from .server import Server
from .timeline import QUANTITIES, Threshold

__all__ = ["QUANTITIES", "CaptureOptions", "Port", "Server", "Threshold", "open_pty", "open_tty"]
