"""Observations of a run of the suite ``conformance``: of each capture, those that its test was made for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ..capture import Capture
from ..errors import ResultsError
from ..measure.figure import absent
from ..results import Run
from ..suites.listing import CONFORMANCE
from . import of_capture, of_run
from .measurands import Observation, Subject
from .model import Requirement
from .work import NO_TEST, TESTS, tests_for

Opener = Callable[[Path], Capture]


def is_conformance(run: Run) -> bool:
    """Whether a run is of this suite, and lies in a folder with its captures."""
    return run.suite == CONFORMANCE and bool(run.source) and Path(run.source).is_dir()


def subjects(run: Run, open_capture: Opener) -> list[Subject]:
    """Return a run as subjects: each of its captures, and its results.

    A capture gives only the figures that its test was made for. So the depth of another test counts for no latency, and a test of seconds
    makes no power of 15 minutes conditional. Captures that were removed give nothing: then the results alone are asked.
    """
    of_test = _captures(run)
    return [_of_capture(of_capture.subject(open_capture(path)), name, set(of_test), run) for name, path in of_test.items()] + [
        _of_results(of_run.subject(run), set(of_test), run)
    ]


def _captures(run: Run) -> dict[str, Path]:
    """Return the captures of the tests, by the tests' ids. Raises ResultsError for a capture outside the run's folder."""
    folder = Path(run.source).resolve()
    found: dict[str, Path] = {}
    for entry in run.document.get("tests") or ():
        path = (folder / str(entry.get("capture") or "")).resolve()
        if not path.is_relative_to(folder):
            raise ResultsError(f"{folder} names the capture {entry['capture']}, which lies outside it; not read.")
        if (path / "meta.json").is_file():
            found[str(entry.get("test"))] = path
    return found


def _of_capture(inner: Subject, test: str, there: set[str], run: Run) -> Subject:
    def observe(one: Requirement) -> list[Observation]:
        if test not in tests_for(one, there):
            return []
        brief = of_run.SCALED if run.scaled and one.duration_s is None else ""
        return [replace(seen, brief=brief) for seen in inner.observe(one)]

    return _of(run, inner, observe)


def _of_results(inner: Subject, there: set[str], run: Run) -> Subject:
    """Return the results: they have the figures by power state, and the reason where no test gives a figure."""
    tests = {test.test for test in run.tests}

    def observe(one: Requirement) -> list[Observation]:
        if not tests_for(one, tests):
            names = ", ".join(TESTS[one.measurand](one))
            none = absent(NO_TEST.get(one.measurand) or f"this run has no test that gives it ({names})", one.unit)
            return [replace(seen, figure=none, doubt="", remark="") for seen in inner.observe(one)] or [Observation("", none)]
        if one.measurand.startswith("state-") or not tests_for(one, there):
            return inner.observe(one)
        return []

    return _of(run, inner, observe)


def _of(run: Run, inner: Subject, observe: Callable[[Requirement], list[Observation]]) -> Subject:
    """Return a subject of the run's drive: a capture may lack the names that others saw in Identify."""
    model, serial, firmware = (str(run.drive.get(name) or "") for name in ("model", "serial", "firmware"))
    return replace(inner, observe=observe, model=model or run.drive_name, serial=serial, firmware=firmware)
