"""The first side of a comparison against each other one: figures of tests, energies by class, power states, all judged together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .beside import PairedEnergies, beside
from .compared import Compared, Matched, compared, number_judged
from .measures import matched
from .sides import DriveSide


@dataclass(frozen=True)
class Against:
    """One side, ``b``, against the first. ``only``: figures of one side alone, in words."""

    a: DriveSide
    b: DriveSide
    measures: Sequence[Compared]
    commands: Sequence[Compared]
    alone: Sequence[Compared]
    states: Sequence[Compared]
    only: Sequence[str]

    @property
    def rows(self) -> Sequence[Compared]:
        """All of them."""
        return (*self.measures, *self.commands, *self.alone, *self.states)


@dataclass(frozen=True)
class Comparison:
    """``judged``: how many rows have a verdict; the level of each is divided by that."""

    sides: Sequence[DriveSide]
    pairs: Sequence[Against]
    judged: int


@dataclass(frozen=True)
class MatchedSides:
    """All figures of two sides, run by run. ``only``: figures of one side alone, in words."""

    measures: Sequence[Matched]
    commands: Sequence[Matched]
    alone: Sequence[Matched]
    states: Sequence[Matched]
    only: Sequence[str]


def matched_sides(a: DriveSide, b: DriveSide) -> MatchedSides:
    """Return the figures of both sides' suites and captures. A figure that every run has keeps the order of the runs."""
    names = (a.letter, b.letter)
    each = [[run.energy for run in side.runs if run.energy is not None] for side in (a, b)]
    pair = beside(each[0], each[1], names) if all(each) else PairedEnergies()
    return MatchedSides(matched(a.runs, b.runs, names), pair.commands, pair.alone, pair.states, pair.only)


def compare_sides(sides: Sequence[DriveSide]) -> Comparison:
    """The first side against each other."""
    found = [(sides[0], other, matched_sides(sides[0], other)) for other in sides[1:]]
    judged = sum(number_judged((*rows.measures, *rows.commands, *rows.alone, *rows.states)) for *_, rows in found)

    def of(rows: Sequence[Matched]) -> list[Compared]:
        return [compared(row, judged) for row in rows]

    pairs = [Against(a, b, of(rows.measures), of(rows.commands), of(rows.alone), of(rows.states), rows.only) for a, b, rows in found]
    return Comparison(sides, pairs, judged)
