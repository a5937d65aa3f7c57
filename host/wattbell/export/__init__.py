"""Export of a window of a capture to other programs' formats.

There is one function a format by seconds (``export_...``), and all are in :data:`FORMATS` by ticks and name.
"""

from .csvs import export_csv
from .formats import FORMATS, ExportFormat, export_format
from .jls import export_jls
from .parquet import export_parquet
from .perfetto import export_perfetto
from .sigrok import SigrokFile, export_sigrok
from .vcd import export_vcd

__all__ = [
    "FORMATS",
    "ExportFormat",
    "SigrokFile",
    "export_csv",
    "export_format",
    "export_jls",
    "export_parquet",
    "export_perfetto",
    "export_sigrok",
    "export_vcd",
]
