"""The analysis of one capture among many: figures, or why there are none. This runs in the workers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from wattbell.analysis import figures_of
from wattbell.capture import open_capture
from wattbell.errors import WattbellError
from wattbell.jsondata import JsonObject
from wattbell.measure.encode import tree_json


@dataclass(frozen=True)
class CaptureOutcome:
    """The outcome for the capture at ``path``: ``figures``, as printed by ``wattbell analyze --json``, or the ``error`` in one line."""

    path: str
    figures: JsonObject | None = None
    error: str = ""


def analyse(path: str) -> CaptureOutcome:
    """The figures of a capture. It raises nothing that concerns this capture alone: the others go on."""
    try:
        return CaptureOutcome(path, tree_json(figures_of(open_capture(Path(path)))))
    except WattbellError as error:
        return CaptureOutcome(path, error=" ".join(str(error).split()))
    except Exception as error:
        return CaptureOutcome(path, error=f"the analysis failed with {type(error).__name__}: {' '.join(str(error).split())}")
