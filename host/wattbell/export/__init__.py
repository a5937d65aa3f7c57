"""Export to other programs' formats: :func:`export_csv` and :func:`export_sigrok`."""

from .csvs import export_csv
from .sigrok import SigrokFile, export_sigrok

__all__ = ["SigrokFile", "export_csv", "export_sigrok"]
