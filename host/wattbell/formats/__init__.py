"""Waveforms recorded by other instruments, one file a format: each gives a rail source and a description of its instrument.

:func:`~.detect.open_files` recognizes the format by its content. A :class:`~.waveform.Waveform` lies on an exact grid of its instrument's
own clock. Samples missing in the file are missing there, never made up. ``docs/import.md`` lists the checks of each format.
"""

from .detect import open_files
from .fileformat import FORMATS
from .waveform import About, Accuracy, Volts, Waveform, WaveformOptions

__all__ = ["FORMATS", "About", "Accuracy", "Volts", "Waveform", "WaveformOptions", "open_files"]
