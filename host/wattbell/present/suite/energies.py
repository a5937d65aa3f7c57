"""Energies of several runs side by side: commands by class, where the joules of the phases went, power states that were found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.console import RenderableType
from rich.text import Text

from wattbell.analysis.result import EnergyShares
from wattbell.present.chart import Bar, Bars, Block, ChartSection, Lines
from wattbell.present.joules import SHARE_COLUMNS, SHARES_EXPLAINED, opcode_colour, share_cells, stacked
from wattbell.present.suite.entities import named
from wattbell.present.suite.sidebyside import fitting, letters, measures, method, side_by_side
from wattbell.present.table import Cell, Table, cell, muted, text_column
from wattbell.present.terminal import WholeText, drawn, words
from wattbell.results import Known, Run
from wattbell.results.beside import numbered
from wattbell.results.comparison import Against, Comparison
from wattbell.results.energies import Energies, Quantity, Shares
from wattbell.results.sides import DriveSide

_MOST_BARS = 48
"""Beyond that the table says it alone."""


@dataclass(frozen=True)
class RunEnergies:
    """A run that has energies. ``letter``: its name in tables, with a number if its side has several runs."""

    run: Run
    energy: Energies
    letter: str
    name: str
    colour: str


def told(sides: Sequence[DriveSide]) -> list[RunEnergies]:
    """The runs that have energies, side by side."""
    runs = [run for side in sides for run in side.runs]
    letters = [f"{side.letter}{i}" if len(side.runs) > 1 else side.letter for side in sides for i, _ in enumerate(side.runs, start=1)]
    each = zip(runs, letters, named(runs), strict=True)
    return [RunEnergies(run, run.energy, letter, name, colour) for run, letter, (name, colour) in each if run.energy is not None]


def without(runs: Sequence[Run]) -> str:
    """Return a sentence on runs without energies if others have them; else ""."""
    lacking = [run.source or run.title for run in runs if run.energy is None]
    if not lacking or len(lacking) == len(runs):
        return ""
    which = ", ".join(dict.fromkeys(lacking))
    return f"Without energies by class and power states: {which}. They are told of captures; name one that a suite kept in its captures/."


# Tables, for the page and the terminal.


@dataclass(frozen=True)
class EnergyTables:
    """Tables by subject. Each has rows, and its notes below it."""

    commands: Sequence[Table | Lines]
    joules: Sequence[Table | Lines]
    states: Sequence[Table | Lines]

    @property
    def all(self) -> Sequence[Table | Lines]:
        """Tables and lines in the order in which pages show them."""
        return (*self.commands, *self.joules, *self.states)


def tables(found: Comparison) -> EnergyTables:
    """The tables of all pairs."""
    only = [cell(line) for line in dict.fromkeys(line for pair in found.pairs for line in pair.only)]
    commands = [part for pair in found.pairs for part in (*_commands(pair), *_alone(pair))]
    return EnergyTables(
        [*commands, *([Lines(only)] if only else [])],
        [table for table in [_joules(told(found.sides))] if table.rows],
        [part for pair in found.pairs for part in _states(pair)],
    )


_EXPLAINED = (
    "Energy above idle of one command, with k = 2 in the last digits. Not comparable: classes that are told apart in one run and are one "
    "figure in the other, or that one lacks."
)


def _commands(pair: Against) -> list[Table | Lines]:
    return side_by_side("Energy of one command", "command", pair, pair.commands, "above idle")


def _alone(pair: Against) -> list[Table | Lines]:
    title = "Energy of commands that stood alone"
    return side_by_side(title, "command", pair, pair.alone, "means; above the baseline, until the rail is back there")


def _states(pair: Against) -> list[Table | Lines]:
    explained = (
        "States by their labels, with power, share of the capture and the probability that the label is right; ways into sleep and out of "
        "it with time, energy and break-even. Power is compared with the link in the same state: it is in the figure."
    )
    return side_by_side("Power states", "state", pair, pair.states, "as found from the rail, the link and the wire", explained)


def _shares(shares: Shares) -> EnergyShares:
    return {
        "total_j": shares.total_j.known,
        "baseline_j": shares.baseline_j.known,
        "classes_j": {name: joules.known for name, joules in shares.classes_j.items()},
        "after_j": shares.after_j.known,
        "deferred_j": shares.deferred_j.known,
        "unexplained_j": shares.unexplained_j.known,
    }


def _by_phase(found: Sequence[RunEnergies]) -> list[tuple[str, RunEnergies, EnergyShares]]:
    """Return the uses of energy, for each phase in each run that has it."""
    each = [(one, numbered(one.energy.phases)) for one in found]
    names = dict.fromkeys(name for _, phases in each for name in phases)
    return [
        (name, one, _shares(shares))
        for name in names
        for one, phases in each
        if name in phases and (shares := phases[name].shares) is not None
    ]


def _joules(found: Sequence[RunEnergies]) -> Table:
    rows: list[list[Cell | str]] = []
    for name, members in groupby(_by_phase(found), key=lambda item: item[0]):
        rows += [[name, *[""] * len(SHARE_COLUMNS)]]
        rows += [[Cell(muted(one.letter).spans, inner=True), *share_cells(shares)] for _, one, shares in members]
    columns = (text_column("phase"), *SHARE_COLUMNS)
    return Table("Where the energy went", columns, rows, "of each phase", SHARES_EXPLAINED)


def printed(found: Comparison, width: int) -> list[RenderableType]:
    """Return the output of several sides for a terminal of this width: the letters, the tables, and the method of the verdicts."""
    made: list[RenderableType] = [WholeText(Text(line)) for line in letters(found.sides)]
    for part in (*measures(found, fitting(width)), *tables(found).all):
        made += [drawn(part)] if isinstance(part, Table) else [WholeText(words(line)) for line in part.lines]
    return [*made, *(WholeText(Text(line)) for line in method(found))]


# The page.


def sections(sides: Sequence[DriveSide], found: Comparison) -> list[ChartSection]:
    """Return the sections of a page on the energies of these runs."""
    runs = told(sides)
    if not runs:
        return []
    key = f"{'. '.join(f'{one.letter}: {one.name}' for one in runs)}." if len(runs) > 1 else ""
    every = tables(found) if len(sides) > 1 else EnergyTables([], [table for table in [_joules(runs)] if table.rows], [])
    commands = ChartSection("Energy of one command", f"{key} {_EXPLAINED}" if key else "Above idle, by phase and class.")
    commands.blocks += [*_bars(runs), *every.commands]
    joules = ChartSection("Where the energy went", f"{key} {SHARES_EXPLAINED}".lstrip())
    joules.blocks += [*_stack(runs), *every.joules]
    states = ChartSection("Power states found", key)
    states.blocks += every.states
    return [section for section in (commands, joules, states) if section.blocks]


def _bars(found: Sequence[RunEnergies]) -> list[Block]:
    """The classes that all runs have, phase by phase, a bar for each run."""
    each = [
        {f"{phase}: {one.name}": one.energy_j for phase, of in numbered(run.energy.phases).items() for one in of.classes} for run in found
    ]
    bars = []
    for label in each[0]:
        if all(label in one and one[label].value is not None for one in each):
            bars += [_bar(label, run, one[label], len(found) > 1) for run, one in zip(found, each, strict=True)]
    return [Bars("energy-commands", "Energy of one command", "J", bars[:_MOST_BARS], better="lower")] if bars else []


def _bar(label: str, run: RunEnergies, energy_j: Quantity, several: bool) -> Bar:
    value = Known(energy_j.value or 0.0, energy_j.u, "J", energy_j.n_lost)
    colour = run.colour if several else opcode_colour(label)
    return Bar(f"{label}, {run.letter}" if several else label, colour, value, remark="" if energy_j.u else "no interval")


def _stack(found: Sequence[RunEnergies]) -> list[Block]:
    several = len(found) > 1
    bars = [stacked(f"{name}, {one.letter}" if several else name, shares) for name, one, shares in _by_phase(found)]
    return [Bars("energy-stack", "Where the energy of each phase went", "J", bars[:_MOST_BARS], better="")] if bars else []
