"""A real drive under test: what it is, whether it may be touched, its settings, and the steps of a plan run on it."""

from __future__ import annotations

from .device import Device, inspect
from .settings import Settings, restore_left_over
from .tools import Tools

__all__ = ["Device", "Settings", "Tools", "inspect", "restore_left_over"]
