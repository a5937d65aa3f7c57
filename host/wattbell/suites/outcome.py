"""The result of scoring a test."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from ..jsondata import JsonObject
from ..measure.figure import Figure
from ..measure.phase import PhaseMeasurement
from ..measure.phases import Phase
from ..measure.point import Point, Score
from ..measure.source import Source
from ..measure.steadiness import UNSTEADY
from .peaks import Peak

TOTALS = "totals"
"""A reading of an average: total data, time and energy of one set of windows, so that rate divided by power is bytes per joule."""
REVIEWS = "mean of the points, as SSD reviews"
"""The other reading: each point counts alike, however long it took. The mean rate divided by the mean power is not the mean MB/s/W."""
REVIEW_READINGS = (REVIEWS, "mean of ratios")
"""The second: as results of 0.2.0 and before call it."""


@dataclass
class Outcome:
    """Points, scores and series of one test in one condition (``tests`` of results.json).

    notes: sentences that a reader must know
    lost: losses under the test, by kind
    peaks: the highest mean power over each of OCP's windows (:mod:`.peaks`)
    unfinished: more rounds are needed
    health: of the drive while the test ran (:func:`.health.of_test`)
    """

    points: list[Point[Figure]] = field(default_factory=list)
    scores: list[Score[Figure]] = field(default_factory=list)
    series: pl.DataFrame | None = None
    notes: list[str] = field(default_factory=list)
    lost: dict[str, int] = field(default_factory=dict)
    peaks: dict[str, Peak] = field(default_factory=dict)
    unfinished: bool = False
    health: JsonObject | None = None

    def score(self, name: str, unit: str, value: Figure, reading: str | None = None) -> None:
        """One more score."""
        self.scores.append(Score(name, unit, value, reading))

    def add_loss(self, source: Source, phase: Phase) -> None:
        """Count the losses in a phase, and rail blocks with doubtful power."""
        loss = source.loss(phase)
        for name, n in (
            ("commands", loss.commands),
            ("rail_samples", loss.rail_samples),
            ("blocks_of_unknown_kind", loss.missing_blocks),
            ("gaps_of_unknown_size", loss.unknown_gaps),
            *((f"rig_{origin}", n) for origin, n in loss.by_source.items()),
            *source.doubtful_blocks(phase.first_tick, phase.last_tick).items(),
        ):
            self._add(name, n)

    def add_measured(self, source: Source, phase: Phase, measured: PhaseMeasurement) -> None:
        """Count the losses in a phase with I/O, including data that fio moved and the wire did not show."""
        self.add_loss(source, phase)
        self.note_unsteady(f"{phase.name}: power", measured.power()[1])
        missing = source.disagreement(phase, measured.bytes)
        if missing >= 0:
            self._add("bytes_fio_moved_and_the_wire_did_not_show", missing)
        else:
            self.notes.append(f"{phase.name}: the wire shows {-missing} bytes more than fio moved: other traffic")

    def note_unsteady(self, what: str, figure: Figure) -> None:
        """A note where the window of a mean was not of one level."""
        if UNSTEADY in figure.conditions:
            self.notes.append(f"{what} {figure.conditions[UNSTEADY]}; the uncertainty has it in it")

    def _add(self, name: str, n: int) -> None:
        if n:
            self.lost[name] = self.lost.get(name, 0) + int(n)
