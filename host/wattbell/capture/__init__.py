"""Capture directories: :func:`open_capture` reads one, :class:`CaptureWriter` writes one."""

from .opening import open_capture
from .rail import RailReader, RailWaveform
from .reader import Capture
from .source import Accumulator, CommandSource, RailSource, Samples, blocks, together
from .writer import CaptureWriter

__all__ = [
    "Accumulator",
    "Capture",
    "CaptureWriter",
    "CommandSource",
    "RailReader",
    "RailSource",
    "RailWaveform",
    "Samples",
    "blocks",
    "open_capture",
    "together",
]
