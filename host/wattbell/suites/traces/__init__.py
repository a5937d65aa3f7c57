"""I/O traces: generated stand-ins for the ATSB traces, fio iologs, blkparse text."""

from ...hostlog.iolog import read_iolog, write_iolog
from .blkparse import read_blkparse
from .composition import COMPOSITIONS, Composition
from .generate import footprint_bytes, make_trace
from .statistics import statistics

__all__ = [
    "COMPOSITIONS",
    "Composition",
    "footprint_bytes",
    "make_trace",
    "read_blkparse",
    "read_iolog",
    "statistics",
    "write_iolog",
]
