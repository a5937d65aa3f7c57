"""Energies of several runs side by side: commands by class, where the joules of the phases went, power states that were found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.console import RenderableType
from rich.text import Text

from wattbell.analysis.result import EnergyShares
from wattbell.jsondata import Json, JsonObject
from wattbell.measure.encode import quantity_json
from wattbell.measure.figure import Figure, ratio
from wattbell.present.chart import Bar, Bars, Block, Lines, Section, readable
from wattbell.present.joules import SHARE_COLUMNS, SHARES_EXPLAINED, opcode_colour, share_cells, stacked
from wattbell.present.suite.entities import named
from wattbell.present.table import Cell, Column, Table, Tone, cell, figure, muted, text_column, toned
from wattbell.present.terminal import WholeText, drawn, words
from wattbell.results import Known, Run
from wattbell.results.beside import Compared, Pair, beside, numbered
from wattbell.results.energies import Energies, Quantity, Shares
from wattbell.text import NOTHING, concise

_MOST_BARS = 48
"""Beyond that the table says it alone."""
_TONES: dict[str, Tone] = {"higher": "bad", "lower": "good"}


@dataclass(frozen=True)
class Told:
    """A run that has energies. ``letter``: what it is called in tables."""

    run: Run
    energy: Energies
    letter: str
    name: str
    colour: str


def told(runs: Sequence[Run]) -> list[Told]:
    """The runs that have energies, in order."""
    having = [(run, name, colour) for run, (name, colour) in zip(runs, named(runs), strict=True) if run.energy is not None]
    return [Told(run, run.energy, _letter(i), name, colour) for i, (run, name, colour) in enumerate(having) if run.energy is not None]


def _letter(i: int) -> str:
    return chr(ord("A") + i) if i < 26 else f"run {i + 1}"


def pairs(found: Sequence[Told]) -> list[tuple[Told, Told, Pair]]:
    """The first run with each other one."""
    return [(found[0], other, beside(found[0].energy, other.energy, (found[0].letter, other.letter))) for other in found[1:]]


def without(runs: Sequence[Run]) -> str:
    """That some runs have no energies where others do, in a sentence; "" otherwise."""
    lacking = [run.source or run.title for run in runs if run.energy is None]
    if not lacking or len(lacking) == len(runs):
        return ""
    which = ", ".join(dict.fromkeys(lacking))
    return f"Without energies by class and power states: {which}. They are told of captures; name one that a suite kept in its captures/."


def letters(found: Sequence[Told]) -> list[str]:
    """What each letter stands for."""
    return [f"{one.letter}: {one.name}" + (f" ({one.run.source})" if one.run.source else "") for one in found]


# Tables, for the page and the terminal.


def tables(found: Sequence[Told]) -> dict[str, list[Table | Lines]]:
    """By what they are about: tables that have rows, each with its notes below it."""
    each = pairs(found)
    only = [cell(line) for line in dict.fromkeys(line for *_, pair in each for line in pair.only)]
    made: dict[str, list[Table | Lines]] = {
        "commands": [part for a, b, pair in each for part in (*_commands(a, b, pair), *_alone(a, b, pair))],
        "joules": [table for table in [_joules(found)] if table.rows],
        "states": [part for a, b, pair in each for part in _states(a, b, pair)],
    }
    made["commands"] += [Lines(only)] if only else []
    return made


_NOTE = "above idle; verdict: by more than the uncertainty of the difference"
_EXPLAINED = (
    "Energy above idle of one command, with k = 2 in the last digits. The difference has the root of both uncertainties' squares as its "
    "own (what one front end gets wrong in both runs alike is then counted twice), and differs if it is larger than that: of twenty "
    "classes that are equal, one is expected to be called different. No verdict: one of the two has no interval. Not comparable: classes "
    "that are told apart in one run and are one figure in the other, or that one lacks."
)
_MOST_TOLD = 0.5
"""Relative uncertainty beyond which a quotient says nothing."""


def _side_by_side(
    title: str, first: str, a: Told, b: Told, rows: Sequence[Compared], note: str, explained: str = ""
) -> list[Table | Lines]:
    """The table, with the groups' names in rows of their own, and its notes by number: a reason may be long, and many rows may have it."""
    notes = {why: i for i, why in enumerate(dict.fromkeys(row.why for row in rows if row.why), start=1)}
    columns = (
        text_column(first), Column(a.letter), Column(b.letter), Column(f"{b.letter} − {a.letter}", leaves=2),
        Column(f"{b.letter} / {a.letter}", leaves=1), text_column("verdict", whole=True),
        text_column("note", whole=True, leaves=3 if notes else 0, page_only=not notes),
    )  # fmt: skip
    made: list[list[Cell | str]] = []
    for group, members in groupby(rows, key=lambda row: row.group):
        made += [[group, *[""] * (len(columns) - 1)]] if group else []
        made += [_row(row, b.letter, notes) for row in members]
    table = Table(f"{title}, {b.letter} against {a.letter}", columns, made, note, explained)
    below = Lines([muted(f"note {i}: {why}") for why, i in notes.items()])
    return [table, *([below] if notes else [])] if rows else []


def _row(row: Compared, letter: str, notes: Mapping[str, int]) -> list[Cell | str]:
    values = [abs(one.value) or one.u or 0.0 for one in (row.a, row.b) if one.value is not None]
    factor, unit = readable(values, row.unit)
    verdict = f"{letter} {row.verdict}" if row.verdict in _TONES else row.verdict
    quotient = ratio(row.b, row.a) if row.difference.value is not None else Figure()
    if quotient.value is None or (quotient.u or 0.0) > _MOST_TOLD * quotient.value:
        quotient = Figure()
    return [
        Cell(muted(row.name).spans, inner=bool(row.group)),
        *(_given(one, factor, unit) for one in (row.a, row.b)),
        _signed(row.difference, factor, unit),
        figure(quotient),
        toned(verdict, _TONES.get(row.verdict, "muted")) if verdict else NOTHING,
        str(notes[row.why]) if row.why else "",
    ]


def _given(one: Figure, factor: float, unit: str) -> Cell:
    return cell(NOTHING) if one.value is None else figure(one, factor, unit) if one.u else cell(f"{one.value * factor:.4g} {unit}")


def _signed(one: Figure, factor: float, unit: str) -> Cell:
    return cell(NOTHING) if one.value is None else cell("+" if one.value > 0 else "", f"{concise(one, factor)} {unit}")


def _commands(a: Told, b: Told, pair: Pair) -> list[Table | Lines]:
    return _side_by_side("Energy of one command", "command", a, b, pair.commands, _NOTE)


def _alone(a: Told, b: Told, pair: Pair) -> list[Table | Lines]:
    title = "Energy of commands that stood alone"
    return _side_by_side(title, "command", a, b, pair.alone, "means; above the baseline, until the rail is back there")


def _states(a: Told, b: Told, pair: Pair) -> list[Table | Lines]:
    explained = (
        "States by their labels, with power, share of the capture and the probability that the label is right; ways into sleep and out of "
        "it with time, energy and break-even. Power is compared with the link in the same state: it is in the figure."
    )
    note = "as found from the rail, the link and the wire"
    return _side_by_side("Power states", "state", a, b, pair.states, note, explained)


def _shares(shares: Shares) -> EnergyShares:
    return {
        "total_j": shares.total_j.known,
        "baseline_j": shares.baseline_j.known,
        "classes_j": {name: joules.known for name, joules in shares.classes_j.items()},
        "after_j": shares.after_j.known,
        "deferred_j": shares.deferred_j.known,
        "unexplained_j": shares.unexplained_j.known,
    }


def _by_phase(found: Sequence[Told]) -> list[tuple[str, Told, EnergyShares]]:
    """Where the joules went, of each phase in each run that has it."""
    each = [(one, numbered(one.energy.phases)) for one in found]
    names = dict.fromkeys(name for _, phases in each for name in phases)
    return [
        (name, one, _shares(shares))
        for name in names
        for one, phases in each
        if name in phases and (shares := phases[name].shares) is not None
    ]


def _joules(found: Sequence[Told]) -> Table:
    rows: list[list[Cell | str]] = []
    for name, members in groupby(_by_phase(found), key=lambda item: item[0]):
        rows += [[name, *[""] * len(SHARE_COLUMNS)]]
        rows += [[Cell(muted(one.letter).spans, inner=True), *share_cells(shares)] for _, one, shares in members]
    columns = (text_column("phase"), *SHARE_COLUMNS)
    return Table("Where the energy went", columns, rows, "of each phase", SHARES_EXPLAINED)


def printed(runs: Sequence[Run]) -> list[RenderableType]:
    """What the terminal shows of them, where there are several."""
    found = told(runs)
    if len(found) < 2:
        return []
    made: list[RenderableType] = [WholeText(Text(line)) for line in letters(found)]
    for part in (part for parts in tables(found).values() for part in parts):
        made += [drawn(part)] if isinstance(part, Table) else [WholeText(words(line)) for line in part.lines]
    return made


# The page.


def sections(runs: Sequence[Run]) -> list[Section]:
    """What the page of these runs has of them."""
    found = told(runs)
    if not found:
        return []
    key = f"{'. '.join(f'{one.letter}: {one.name}' for one in found)}." if len(found) > 1 else ""
    every = tables(found)
    commands = Section("Energy of one command", f"{key} {_EXPLAINED}" if key else "Above idle, by phase and class.")
    commands.blocks += [*_bars(found), *every["commands"]]
    joules = Section("Where the energy went", f"{key} {SHARES_EXPLAINED}".lstrip())
    joules.blocks += [*_stack(found), *every["joules"]]
    states = Section("Power states found", key)
    states.blocks += every["states"]
    return [section for section in (commands, joules, states) if section.blocks]


def _bars(found: Sequence[Told]) -> list[Block]:
    """The classes that all runs have, phase by phase, a bar for each run."""
    each = [
        {f"{phase}: {one.name}": one.energy_j for phase, of in numbered(run.energy.phases).items() for one in of.classes} for run in found
    ]
    bars = []
    for label in each[0]:
        if all(label in one and one[label].value is not None for one in each):
            bars += [_bar(label, run, one[label], len(found) > 1) for run, one in zip(found, each, strict=True)]
    return [Bars("energy-commands", "Energy of one command", "J", bars[:_MOST_BARS], better="lower")] if bars else []


def _bar(label: str, run: Told, energy_j: Quantity, several: bool) -> Bar:
    value = Known(energy_j.value or 0.0, energy_j.u, "J", energy_j.n_lost)
    colour = run.colour if several else opcode_colour(label)
    return Bar(f"{label}, {run.letter}" if several else label, colour, value, remark="" if energy_j.u else "no interval")


def _stack(found: Sequence[Told]) -> list[Block]:
    several = len(found) > 1
    bars = [stacked(f"{name}, {one.letter}" if several else name, shares) for name, one, shares in _by_phase(found)]
    return [Bars("energy-stack", "Where the energy of each phase went", "J", bars[:_MOST_BARS], better="")] if bars else []


# JSON.


def to_json(runs: Sequence[Run]) -> Json:
    """The figures of the tables, one pair of runs after the other."""
    return [
        {
            "a": a.run.id or a.run.content_hash[:12],
            "b": b.run.id or b.run.content_hash[:12],
            "commands": [_row_json(row) for row in pair.commands],
            "alone": [_row_json(row) for row in pair.alone],
            "states": [_row_json(row) for row in pair.states],
            "not_in_both": list(pair.only),
        }
        for a, b, pair in pairs(told(runs))
    ]


def _row_json(row: Compared) -> JsonObject:
    return {
        "of": row.group,
        "name": row.name,
        "unit": row.unit,
        "a": quantity_json(row.a),
        "b": quantity_json(row.b),
        "difference": quantity_json(row.difference),
        "verdict": row.verdict or None,
        "why": row.why,
    }
