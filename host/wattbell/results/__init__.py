"""Results of suite runs: :func:`read_run` reads a results directory, :class:`Store` keeps runs with their provenance."""

from ..measure.figure import Known
from ..measure.point import Point, Score
from .load import read_run
from .model import Run, TestResult
from .store import Store, default_path

__all__ = ["Known", "Point", "Run", "Score", "Store", "TestResult", "default_path", "read_run"]
