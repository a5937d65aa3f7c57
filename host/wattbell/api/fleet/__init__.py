"""Many captures: the same analysis of each, side by side on the processors of this machine or of a cluster."""

from .find import captures_below
from .outcome import CaptureOutcome, analyse
from .run import analyse_all
from .tables import figures_table, write_figures

__all__ = ["CaptureOutcome", "analyse", "analyse_all", "captures_below", "figures_table", "write_figures"]
