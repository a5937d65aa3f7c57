"""Results of suite runs: :func:`read_run` reads a results directory, :class:`Store` keeps runs with their provenance."""

from .load import read_run
from .model import Point, Quantity, Run, Score, TestResult
from .store import Store, default_path

__all__ = ["Point", "Quantity", "Run", "Score", "Store", "TestResult", "default_path", "read_run"]
