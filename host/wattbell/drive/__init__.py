"""A real drive under test: identification, safety checks, settings, and running a plan's steps."""

from __future__ import annotations

from .device import Device, inspect
from .settings import HostSettings, restore_left_over
from .tools import Tools

__all__ = ["Device", "HostSettings", "Tools", "inspect", "restore_left_over"]
