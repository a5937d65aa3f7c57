"""Entities of a suite page: each drive in each condition, with its name and colour, and whether the runs are comparable at all."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from wattbell.origin import Origin, warning_of
from wattbell.present.colours import colour_of
from wattbell.results import Run, TestResult
from wattbell.results.reference import SOURCE
from wattbell.suites.kinds import KindOfTest, kind_of

FULL = "full"
TestKey = tuple[str, str]
"""(suite, test id): suites share test ids."""


@dataclass(frozen=True)
class Entity:
    """One run in one condition, the drive filled beforehand or not: one curve, one bar, one column."""

    run: Run
    full: bool
    """True: the tests on the filled drive, drawn hatched or dashed. False: all others."""
    label: str
    name: str
    """The label without the condition: the run's label."""
    colour: str

    @property
    def tests(self) -> list[TestResult]:
        """Tests of this entity."""
        return [test for test in self.run.tests if (test.condition == FULL) == self.full]

    def test(self, key: TestKey) -> TestResult | None:
        """The entity's result of a test."""
        suite, name = key
        if self.run.suite != suite:
            return None
        return next((test for test in self.tests if test.test == name), None)


def drive_key(run: Run) -> str:
    """A key that is the same for all runs of one drive."""
    return "\0".join(str(run.drive.get(key) or "") for key in ("model", "serial", "profile"))


def named(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """Return name and colour of each run; names and colours are unique within a suite.

    A drive with one firmware keeps its colour from suite to suite. Its further runs in one suite have colours of their own, so that a chart
    can be read. A name ends in the mark of its origin.
    """
    colours: dict[tuple[str, str, int], str] = {}
    out: list[tuple[str, str]] = []
    for i, run in enumerate(runs):
        key = drive_key(run)
        of_drive = [r for r in runs if drive_key(r) == key]
        earlier = sum(r.suite == run.suite and r.firmware == run.firmware for r in runs[:i] if drive_key(r) == key)
        colour = colours.setdefault((key, run.firmware, earlier), colour_of(len(colours)))
        title = run.drive_name
        if any(r.drive_name == title and drive_key(r) != key for r in runs):
            title += f" {run.drive.get('serial') or run.profile or ''}".rstrip()
        if run.firmware and len({r.firmware for r in of_drive}) > 1:
            title += f", firmware {run.firmware}"
        if run.scaled and len({r.scale for r in runs}) > 1:
            title += f" (scaled ×{run.scale:g})"
        twins = [r for r in of_drive if (r.suite, r.scale, r.firmware) == (run.suite, run.scale, run.firmware)]
        if len(twins) > 1:
            dates = [_minute(r) for r in twins]
            date = _minute(run)
            title += f" · {date}" if date and dates.count(date) == 1 else f" #{i + 1}"
        out.append((run.origin.marked(title), colour))
    return out


def _minute(run: Run) -> str:
    """Return when a run began, as UTC; to the minute if it is known to the second."""
    return re.sub(r"(\d\d:\d\d):\d\d(?=Z| )", r"\1", run.started).replace("Z", " UTC")


def entities(runs: Sequence[Run]) -> list[Entity]:
    """One or two entities for each run, as :func:`named` names them."""
    out: list[Entity] = []
    for run, (title, colour) in zip(runs, named(runs), strict=True):
        for full in (False, True):
            if any((test.condition == FULL) == full for test in run.tests):
                out.append(Entity(run, full, f"{title}, full" if full else title, title, colour))
    return out


def behind(background: Sequence[Run]) -> str:
    """Return a sentence on the drives in grey; "" if there are none."""
    stored = ", ".join(dict.fromkeys(run.title for run in background if run.source != SOURCE))
    parts = [f"Grey, from the store, same job files and scale: {stored}."] if stored else []
    if any(run.source != SOURCE and run.origin is Origin.VIRTUAL for run in background):
        parts.append("Marked (model): runs on drive models; nobody measured them.")
    if any(run.source != SOURCE and run.origin is Origin.UNKNOWN for run in background):
        parts.append("Marked (origin unknown): nothing says whether a drive was measured.")
    if any(run.source == SOURCE for run in background):
        parts.append("Grey, marked (model): figures that were computed by drive models and come with Wattbell; nobody measured them.")
    return " ".join(parts)


def kind_in(found: Sequence[Entity], key: TestKey) -> KindOfTest:
    """The kind of a test, taken from the first entity that ran it."""
    return kind_of(next((result.kind for entity in found if (result := entity.test(key))), ""))


def titles_of(found: Sequence[Entity]) -> dict[TestKey, str]:
    """The title of every test, in the order of the suites, preceded by the suite's name where two tests share a title."""
    names = {(e.run.suite, t.test): t.name for e in found for t in e.run.tests}
    shared = {name for name in names.values() if len({s for (s, _), n in names.items() if n == name}) > 1}
    return {key: f"{key[0]}: {name}" if name in shared else name for key, name in names.items()}


def mixtures(runs: Sequence[Run]) -> list[str]:
    """Why these runs are not directly comparable, one sentence for each reason; empty when they are."""
    out: list[str] = []
    for suite in dict.fromkeys(run.suite for run in runs):
        members = [run for run in runs if run.suite == suite]
        hashes = {run.suite_hash for run in members}
        if len(hashes) > 1 and suite != "capture":
            which = "; ".join(f"{h[:8]}: {_names([r for r in members if r.suite_hash == h])}" for h in sorted(hashes))
            out.append(f"{suite} was run with {len(hashes)} different versions of its job files ({which}).")
        elif len(hashes) > 1:
            out.append("The captures come from different workloads; only phases of the same name say the same.")
        scales = {run.scale for run in members}
        if len(scales) > 1:
            which = "; ".join(f"×{s:g}: {_names([r for r in members if r.scale == s])}" for s in sorted(scales))
            out.append(f"{suite}: scaled and unscaled runs, or runs of different scales, stand side by side ({which}).")
    by_origin = {origin: [run for run in runs if run.origin is origin] for origin in Origin}
    if by_origin[Origin.VIRTUAL] and by_origin[Origin.MEASURED]:
        out.append(f"Models and real drives stand side by side (models: {_names(by_origin[Origin.VIRTUAL])}).")
    if (doubtful := by_origin[Origin.UNKNOWN]) and len(doubtful) < len(runs):
        out.append(f"Of some runs nothing says whether they were measured: {_names(doubtful)}.")
    return out


def _names(runs: Sequence[Run]) -> str:
    return ", ".join(dict.fromkeys(run.title for run in runs))


def stamp(runs: Sequence[Run]) -> str:
    """Return the remarks that every picture of these runs needs: model, scale, lost data. Empty for unscaled runs of real drives."""
    parts = [warning] if (warning := warning_of(run.origin for run in runs)) else []
    if any(run.scaled for run in runs):
        scales = ", ".join(f"×{s:g}" for s in sorted({run.scale for run in runs}))
        parts.append(f"SCALED {scales}")
    if any(run.lost for run in runs):
        parts.append("DATA LOST, see page")
    return " · ".join(parts)
