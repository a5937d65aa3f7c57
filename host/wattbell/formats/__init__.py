"""Waveforms recorded by other instruments, one file a foreign format: each gives a rail source and what is known of its instrument.

:func:`~.detect.open_files` tells the format by its content. A :class:`~.waveform.Waveform` lies on an exact grid of its instrument's own
clock; what is missing in the file is missing there, never made up. ``docs/import.md`` says what each format was checked against.
"""

from .detect import FORMATS, open_files
from .waveform import About, Accuracy, Options, Volts, Waveform

__all__ = ["FORMATS", "About", "Accuracy", "Options", "Volts", "Waveform", "open_files"]
