"""SCPI over a raw TCP socket to the control port of a rig: :class:`Bridge`."""

from .server import DEFAULT_PORT, Bridge

__all__ = ["DEFAULT_PORT", "Bridge"]
