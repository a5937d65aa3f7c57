"""Answers about a capture over any span, from the whole down to one sample and one command, each within a frame or two.

The rail comes from the summaries of its JLS, commands from a pyramid beside the Parquet file.
"""

from .table import CommandFilter
from .zoom import Zoom, open_zoom

__all__ = ["CommandFilter", "Zoom", "open_zoom"]
