"""Everything that a page, the terminal and JSON show of suite runs, worked out once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from wattbell.origin import Origin
from wattbell.present.chart import Bars, Chart, ChartSection
from wattbell.present.suite import curves, energies, peaks, power, poweron, scores, sidebyside, tables, transitions
from wattbell.present.suite.entities import Entity, entities, mixtures
from wattbell.results import Run
from wattbell.results.comparison import Comparison, compare_sides
from wattbell.results.sides import DriveSide, sides_of


@dataclass(frozen=True)
class SuitePresentation:
    """Runs of suites as they are shown.

    runs : in the order of their names and colours.
    background : runs of other drives, drawn in grey.
    given_sides : the runs that repeat one another; empty: each run is a side.
    """

    runs: Sequence[Run]
    background: Sequence[Run] = ()
    given_sides: Sequence[DriveSide] = ()

    @cached_property
    def sides(self) -> Sequence[DriveSide]:
        """The runs that repeat one another."""
        return self.given_sides or sides_of([[run] for run in self.runs], given=True)

    @cached_property
    def entities(self) -> list[Entity]:
        """Each run in each condition, with its name and colour."""
        return entities(self.runs)

    @cached_property
    def others(self) -> list[Entity]:
        """The background's runs in each condition."""
        return entities(self.background)

    @cached_property
    def compared(self) -> Comparison:
        """The sides, each against the first."""
        return compare_sides(self.sides)

    @cached_property
    def mixed(self) -> list[str]:
        """Reasons why the runs are not comparable."""
        return mixtures(self.runs)

    def sections(self, rests_on: Mapping[str, Any] | None = None) -> list[ChartSection]:
        """Return all sections of the page for which these runs have data. ``rests_on``: content hash of a run -> its provenance."""
        found, others = self.entities, self.others
        made = [
            sidebyside.section(self.compared),
            scores.scores(found, others),
            scores.queue_depths(found),
            scores.mixes(found),
            tables.matrices(found),
            curves.rounds(found),
            scores.against_power(found, others),
            curves.fill(found),
            curves.consistency(found),
            scores.traces(found, others),
            curves.idle(found, others),
            *energies.sections(self.sides, self.compared),
            power.features(self.runs),
            transitions.section(found),
            poweron.starts(found),
            peaks.highest(found),
            tables.every_figure(found),
            tables.provenance(self.runs, rests_on or {}),
        ]
        return _named_apart([section for section in made if section.blocks])

    def stamps(self) -> list[tuple[str, str]]:
        """Return (CSS class, text) of the warnings that the reader needs before any figure."""
        stamps = []
        scaled = sorted({run.scale for run in self.runs if run.scaled})
        if scaled:
            text = "SCALED " + ", ".join(f"×{s:g}" for s in scaled)
            stamps.append(("bad", f"{text}: time and span shortened, figures not those of the whole suite"))
        for origin, style, text in (
            (Origin.VIRTUAL, "model", "MODEL on the virtual rig"),
            (Origin.UNKNOWN, "bad", "ORIGIN UNKNOWN, measured or computed"),
        ):
            if names := dict.fromkeys(run.profile or run.drive_name for run in self.runs if run.origin is origin):
                stamps.append((style, f"{text}: {', '.join(names)}"))
        if any(run.lost or any(t.lost for t in run.tests) for run in self.runs):
            stamps.append(("bad", "DATA LOST"))
        return stamps

    def banners(self) -> dict[str, list[str]]:
        """Return the lists of remarks on the runs that suite.html shows before their figures."""
        lost = [f"{run.title}, {run.suite}: {n} {kind}" for run in self.runs for kind, n in run.lost.items()]
        lost += [f"{r.title}, {t.name} ({t.condition}): {n} {kind}" for r in self.runs for t in r.tests for kind, n in t.lost.items()]
        notes = [(run.title, text, routine) for run in self.runs for text, routine in _test_notes(run)]
        warnings = _merged([(run.title, note) for run in self.runs for note in _notes(run)])
        short = [(run, missing) for run in self.runs if (missing := run.missing)]
        return {
            "mixed": self.mixed,
            "lost": lost,
            "short": [f"{run.title}, {run.suite}: interrupted; {n} of {run.planned} tests are missing" for run, n in short],
            "warnings": warnings + _merged([(title, text) for title, text, routine in notes if not routine]),
            "routine": _merged([(title, text) for title, text, routine in notes if routine]),
        }

    def copied(self) -> str:
        """Return the text of a chart that is copied: drives, suite, the warnings before any figure, and versions."""
        lines = [
            ", ".join(dict.fromkeys(run.title for run in self.runs)),
            ", ".join(dict.fromkeys(run.suite for run in self.runs)),
            " · ".join(text for _, text in self.stamps()) or "measured at the drive's connector",
            "made with Wattbell",
        ]
        for run in self.runs:
            conditions: Any = run.told.get("conditions") or {}
            told = [f"{k}: {v}" for k, v in conditions.items() if isinstance(v, str | int | float)]
            told += [f"{k} {v}" for k, v in (run.told.get("versions") or {}).items() if v]
            lines.append(f"{run.title}, {run.suite}, job files {run.suite_hash[:19]}, {run.started}: {', '.join(told)}")
        return "\n".join([*lines, *self.mixed])


def _named_apart(found: list[ChartSection]) -> list[ChartSection]:
    """The sections, each chart with a unique key, which names its files and its place on the page."""
    taken: set[str] = set()
    for section in found:
        for i, block in enumerate(section.blocks):
            if not isinstance(block, Bars | Chart):
                continue
            key, n = block.key, 1
            while key in taken:
                n += 1
                key = f"{block.key}-{n}"
            taken.add(key)
            section.blocks[i] = replace(block, key=key)
    return found


def _merged(notes: Sequence[tuple[str, str]]) -> list[str]:
    """One line for each note, preceded by the drives it concerns."""
    drives: dict[str, dict[str, None]] = {}
    for drive, note in notes:
        drives.setdefault(note, {})[drive] = None
    return [f"{', '.join(names)}: {note}" for note, names in drives.items()]


def _notes(run: Run) -> list[str]:
    conditions: Any = run.told.get("conditions")
    places = [run.told.get("notes"), conditions.get("notes") if isinstance(conditions, dict) else None]
    return list(dict.fromkeys(str(n) for notes in places if isinstance(notes, list) for n in notes))


_ROUTINE = ("busy for ", "steady in rounds ")
"""How notes begin that report nothing unusual."""


def _test_notes(run: Run) -> list[tuple[str, bool]]:
    """(note with the names and conditions of the tests that have it, whether it is routine) for every note of a test."""
    several = len({test.condition for test in run.tests}) > 1
    tests: dict[str, dict[str, None]] = {}
    for test in run.tests:
        for note in test.notes:
            tests.setdefault(note, {})[f"{test.name}{f' ({test.condition})' if several and test.condition else ''}"] = None
    return [(f"{_listed(names, len(run.tests))}: {note}", note.startswith(_ROUTINE)) for note, names in tests.items()]


def _listed(names: Iterable[str], of: int) -> str:
    found = list(names)
    return ", ".join(found) if len(found) < max(of, 2) else "every test"
