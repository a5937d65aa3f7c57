"""Captures in Python: :func:`open` gives an :class:`OpenCapture` (docs/python.md)."""

from .opened import OpenCapture, open
from .plot import Plot

__all__ = ["OpenCapture", "Plot", "open"]
