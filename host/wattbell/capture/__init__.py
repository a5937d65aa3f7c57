"""Capture directories: :func:`open_capture` reads one, :class:`CaptureWriter` writes one."""

from .rail import RailReader, RailWaveform
from .reader import Capture, open_capture
from .writer import CaptureWriter

__all__ = ["Capture", "CaptureWriter", "RailReader", "RailWaveform", "open_capture"]
