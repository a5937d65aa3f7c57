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


def compare_sides(sides: Sequence[DriveSide]) -> Comparison:
    """The first side against each other."""
    found: list[tuple[DriveSide, DriveSide, list[Matched], PairedEnergies]] = []
    for other in sides[1:]:
        names = (sides[0].letter, other.letter)
        each = [[run.energy for run in side.runs if run.energy is not None] for side in (sides[0], other)]
        energies = beside(each[0], each[1], names) if all(each) else PairedEnergies()
        found.append((sides[0], other, matched(sides[0].runs, other.runs, names), energies))
    judged = sum(number_judged((*rows, *pair.commands, *pair.alone, *pair.states)) for *_, rows, pair in found)

    def of(rows: Sequence[Matched]) -> list[Compared]:
        return [compared(row, judged) for row in rows]

    pairs = [Against(a, b, of(rows), of(pair.commands), of(pair.alone), of(pair.states), pair.only) for a, b, rows, pair in found]
    return Comparison(sides, pairs, judged)
