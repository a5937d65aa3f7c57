"""Looks up the figures that a statement needs in the results of suite runs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from wattbell.measure.figure import Known
from wattbell.results import Run, TestResult
from wattbell.results.declared import feature, power_states

from .reduce import POINTS, SERIES, WHOLE_SERIES
from .statements import Reference, SeedDrive


@dataclass(frozen=True)
class MeasuredFigure:
    """A figure, or why there is none (``missing``), and the ``runs`` it comes from."""

    value: Known | None = None
    missing: str = ""
    runs: tuple[Run, ...] = field(default=(), repr=False)


def runs_of(drive: SeedDrive, runs: Sequence[Run]) -> list[Run]:
    """Runs of a drive: the least shortened first, and among those the latest."""
    found = [run for run in runs if drive.matches(run.profile)]
    return sorted(found, key=lambda r: (abs(r.scale - 1.0), -r.started_s))


class Lookup:
    """Resolves references against a set of runs."""

    def __init__(self, runs: Sequence[Run], drives: Mapping[str, SeedDrive]) -> None:
        self._runs = {key: runs_of(drive, runs) for key, drive in drives.items()}
        self._drives = drives

    def runs(self, key: str) -> list[Run]:
        """Runs of a drive, best first."""
        return self._runs[key]

    def measure(self, reference: Reference) -> MeasuredFigure:
        """The figure a reference asks for. Of several drives, those without it are left out; at least two must have it."""
        each = {key: self._one(key, reference) for key in reference.drives}
        if len(each) == 1:
            return next(iter(each.values()))
        found = {key: m for key, m in each.items() if m.value is not None}
        if len(found) < 2:
            missing = "; ".join(m.missing for m in each.values() if m.missing)
            return MeasuredFigure(missing=f"fewer than two of {', '.join(reference.drives)} are measured ({missing})")
        runs = tuple(run for m in found.values() for run in m.runs)
        return MeasuredFigure(_picked(reference.pick, [m.value for m in found.values() if m.value]), runs=runs)

    def _one(self, key: str, reference: Reference) -> MeasuredFigure:
        title = self._drives[key].title
        if not self._runs[key]:
            return MeasuredFigure(missing=f"no run of {title}")
        if reference.declared:
            return self._declared(key, reference.declared)
        reason = f"no {reference.suite} run of {title}"
        for run in self._runs[key]:
            if run.suite != reference.suite:
                continue
            test = run.test(reference.test, reference.condition or None)
            if test is None:
                reason = f"{reference.test}{f' ({reference.condition})' if reference.condition else ''} not run on {title}"
                continue
            value = _figure(run, test, reference)
            if isinstance(value, Known):
                return MeasuredFigure(value, runs=(run,))
            reason = f"{title}, {reference.test}: {value}"
        return MeasuredFigure(missing=reason)

    def _declared(self, key: str, name: str) -> MeasuredFigure:
        for run in self._runs[key]:
            value = declared(run, name)
            if value is not None:
                return MeasuredFigure(Known(value), runs=(run,))
        return MeasuredFigure(missing=f"the runs of {self._drives[key].title} do not record {name}")


def declared(run: Run, name: str) -> float | None:
    """A declared figure: ``power_states.N.max_w``, ``.entry_s``, ``.exit_s``, or a feature (supported: 1)."""
    parts = name.split(".")
    if parts[0] == "power_states":
        for state in power_states(run):
            if state.number == int(parts[1]):
                value = getattr(state, parts[2])
                return None if value is None else float(value)
        return None
    found = feature(run, name)
    return float(found) if isinstance(found, (bool, int, float)) else None


def _picked(pick: str, values: Sequence[Known]) -> Known:
    if pick in ("max", "min"):
        return (max if pick == "max" else min)(values, key=lambda q: q.value)
    lost = sum(q.lost for q in values)
    u = math.sqrt(sum((q.u or 0.0) ** 2 for q in values)) / len(values)
    mean = statistics.median if pick == "median" else statistics.fmean
    return Known(mean([q.value for q in values]), u or None, lost=lost)


def _figure(run: Run, test: TestResult, reference: Reference) -> Known | str:
    """The figure, or why the test does not have it."""
    if reference.series:
        return _of_series(run, test, reference)
    if reference.over:
        points = [(x, q) for x, q in test.over(reference.over, reference.q) if reference.start <= x <= reference.to]
        least, make = POINTS[reference.take]
        if len(points) < least:
            return f"fewer than {least} points over {reference.over}"
        try:
            return make(points)
        except ZeroDivisionError:
            return f"a zero under {reference.take.replace('_', ' ')}"
    if reference.score:
        score = test.reviewed(reference.score, reference.name or None)
        return score.value if score else f"no score {reference.name} in {reference.score}".replace("  ", " ")
    for point in test.points:
        x = point.x
        if all(isinstance(v := x.get(k), (int, float)) and math.isclose(v, at) for k, at in reference.at.items()):
            found = point.figures.get(reference.q)
            if found is not None:
                return found
    return f"no point at {', '.join(f'{k} {v:g}' for k, v in reference.at.items())}"


def _of_series(run: Run, test: TestResult, reference: Reference) -> Known | str:
    frame = run.series(test)
    if frame is None or not {"t_s", reference.series} <= set(frame.columns):
        return f"no series of {reference.series}"
    frame = frame.select("t_s", reference.series).drop_nulls().sort("t_s")
    t = frame["t_s"].to_numpy().astype(np.float64)
    values = frame[reference.series].to_numpy().astype(np.float64)
    if len(t) < 10:
        return "the series is shorter than ten seconds"
    if reference.take in WHOLE_SERIES:
        found = WHOLE_SERIES[reference.take](t, values, run.scale)
    else:
        keep = t >= reference.from_s * run.scale
        if reference.last_s:
            keep &= t > t[-1] - reference.last_s * run.scale
        if keep.sum() < 10:
            return "fewer than ten seconds of the series are in the window"
        found = SERIES[reference.take](values[keep])
    return Known(found, lost=test.n_lost) if math.isfinite(found) else "never in this run"
