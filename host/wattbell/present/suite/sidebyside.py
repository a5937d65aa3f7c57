"""Figures of several sides, side by side: values, ratios to the first side, visible differences, and verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

import numpy as np

from wattbell.jsondata import Json, JsonObject
from wattbell.measure.encode import quantity_json
from wattbell.measure.figure import Figure
from wattbell.present.chart import MOST_EXACT, ChartSection, Lines, readable
from wattbell.present.suite.entities import named
from wattbell.present.table import Cell, Column, Table, Tone, cell, figure, muted, text_column, toned
from wattbell.results import Run
from wattbell.results.compared import Compared
from wattbell.results.comparison import Against, Comparison
from wattbell.results.measures import HIGHER_IS_BETTER
from wattbell.results.measures import measures as of_run
from wattbell.results.sides import DriveSide
from wattbell.results.spread import FALSE_CALLS, LEAST_RUNS
from wattbell.text import NOTHING, concise, digits

_MOST_TOLD = 0.5
"""Relative uncertainty beyond which a quotient says nothing."""
_LEAST_SHARE = 0.01
"""Percent below which no difference is shown in digits."""
_WIDE = 100
"""Characters that a table of three drives takes."""
_UNSAID = ("no repeats", "")


def letters(sides: Sequence[DriveSide]) -> list[str]:
    """Return the meaning of each letter, with the runs."""
    firsts = named([side.first for side in sides])
    return [f"{side.letter}: {name}{_runs(side)}" for side, (name, _) in zip(sides, firsts, strict=True)]


def _runs(side: DriveSide) -> str:
    sources = [run.source or run.id for run in side.runs]
    where = ", ".join(filter(None, sources))
    if len(side.runs) == 1:
        return f" ({where})" if where else ""
    return f", {len(side.runs)} runs ({where})" if where else f", {len(side.runs)} runs"


def method(found: Comparison) -> list[str]:
    """How the verdicts came about, or why there are none."""
    if not found.pairs:
        return []
    short = [side for side in found.sides if len(side.runs) < LEAST_RUNS]
    lines = []
    if found.judged:
        rows = f"all {found.judged} rows together (Bonferroni)" if found.judged > 1 else "the one row"
        lines.append(
            f"Verdicts: Welch's t-test between the runs of both sides, {100 * FALSE_CALLS:g} % for {rows}, and by more than the "
            "instrument may be off by. Of twenty comparisons of equal drives, at most one is expected to have any verdict."
        )
    if short:
        which = " and ".join(f"{side.letter} has {len(side.runs)}" for side in short)
        lines.append(
            f"No verdicts{f' on {_listed(short)}' if found.judged else ''}: how far the runs of one drive differ is told by {LEAST_RUNS} "
            f"runs of each side, and {which}. Repeat them (wattbell run SUITE --repeat 5)."
        )
    lines.append(_SEEN_FROM + (_AT_LEAST if any(row.at_least for pair in found.pairs for row in pair.rows) else ""))
    return lines


_SEEN_FROM = "Seen from: the difference that a verdict takes, as a share of A."
_AT_LEAST = (
    " Behind >: what the instrument may be off by. A difference has to be larger than that; how much larger is not known without repeats."
)


def _listed(sides: Sequence[DriveSide]) -> str:
    return " and ".join(side.letter for side in sides)


def side_by_side(title: str, first: str, pair: Against, rows: Sequence[Compared], note: str, explained: str = "") -> list[Table | Lines]:
    """Return the rows of one pair, with the groups' names in separate rows, and its notes by number.

    Notes are numbered since a reason may be long, and many rows may have it.
    """
    a, b = pair.a.letter, pair.b.letter
    notes = {why: i for i, why in enumerate(dict.fromkeys(row.why for row in rows if row.why), start=1)}
    told = any(row.verdict not in _UNSAID for row in rows)
    columns = [
        text_column(first),
        Column(a),
        Column(b),
        Column(f"{b} − {a}", leaves=3),
        Column(f"{b} / {a}", leaves=2),
        Column("seen from", leaves=1),
        *([text_column("verdict", whole=True)] if told else []),
        text_column("note", whole=True, leaves=4 if notes else 0, page_only=not notes),
    ]
    made: list[list[Cell | str]] = []
    for group, members in groupby(rows, key=lambda row: row.group):
        made += [[group, *[""] * (len(columns) - 1)]] if group else []
        made += [_row(row, notes, told) for row in members]
    table = Table(f"{title}, {b} against {a}", columns, made, note, explained)
    below = Lines([muted(f"note {i}: {why}") for why, i in notes.items()])
    return [table, *([below] if notes else [])] if rows else []


def _row(row: Compared, notes: Mapping[str, int], told: bool) -> list[Cell | str]:
    factor, unit = _unit([row])
    return [
        Cell(muted(row.name).spans, inner=bool(row.group)),
        *(_given(one, factor, unit) for one in (row.a, row.b)),
        _signed(row.difference, factor, unit),
        figure(_told_ratio(row)),
        _seen_from(row),
        *([_verdict(row)] if told else []),
        str(notes[row.why]) if row.why else "",
    ]


def _verdict(row: Compared) -> Cell | str:
    if row.verdict not in ("higher", "lower"):
        return muted(row.verdict) if row.verdict not in ("", "not comparable", "no repeats") else NOTHING
    good: bool = (row.verdict == "higher") == (row.unit in HIGHER_IS_BETTER)
    tone: Tone = "good" if good else "bad"
    return toned(row.verdict, tone)


def _told_ratio(row: Compared) -> Figure:
    """The ratio, unless it is so uncertain that it says nothing."""
    quotient = row.ratio
    if quotient.value is None or (quotient.u or 0.0) > _MOST_TOLD * quotient.value:
        return Figure()
    return _at_most(quotient)


def _at_most(one: Figure) -> Figure:
    """Drop an uncertainty by which nobody would compare drives."""
    exact = one.u is None or one.u < MOST_EXACT * abs(one.value or 0.0)
    return Figure(one.value, None if exact else one.u, "", one.lost)


def _seen_from(row: Compared) -> Cell | str:
    """Return the least visible difference as a share of A's value."""
    if row.seen_from is None or not row.a.value:
        return NOTHING
    share = 100 * row.seen_from / abs(row.a.value)
    if share < _LEAST_SHARE:
        return NOTHING if row.at_least else muted(f"< {_LEAST_SHARE} %")  # a clock's: it says nothing of the drive
    return muted(f"{'> ' if row.at_least else ''}{digits(share, 2)} %")


def _unit(rows: Sequence[Compared]) -> tuple[float, str]:
    values = [abs(one.value) or one.u or 0.0 for row in rows for one in (row.a, row.b) if one.value is not None]
    return readable(values, rows[0].unit)


def _given(one: Figure, factor: float, unit: str = "") -> Cell:
    if one.value is None:
        return cell(NOTHING)
    return figure(_at_most(one), factor, unit) if one.u or one.lost else cell(f"{digits(one.value * factor, 4)} {unit}".rstrip())


def _signed(one: Figure, factor: float, unit: str) -> Cell:
    return cell(NOTHING) if one.value is None else cell("+" if one.value > 0 else "", f"{concise(one, factor)} {unit}")


# The figures of tests, of two drives and more.


def measures(found: Comparison, others: int) -> list[Table | Lines]:
    """Rate, power, bytes per joule, idle power and wake-up of each test: a row a figure, a column a drive, each against the first.
    ``others``: how many drives beside the first one table has."""
    made: list[Table | Lines] = []
    for at in range(0, len(found.pairs), others):
        pairs = found.pairs[at : at + others]
        if any(pair.measures for pair in pairs):
            made += _measures(pairs)
    return made


def _measures(pairs: Sequence[Against]) -> list[Table | Lines]:
    a = pairs[0].a.letter
    each = [{(row.group, row.name, row.unit): row for row in pair.measures} for pair in pairs]
    keys = list(dict.fromkeys(key for rows in each for key in rows))
    order = list(dict.fromkeys(group for group, *_ in keys))
    keys.sort(key=lambda key: order.index(key[0]))
    why = dict.fromkeys(row.why for rows in each for row in rows.values() if row.why)
    notes = {text: i for i, text in enumerate(why, start=1)}
    told = [any(row.verdict not in _UNSAID for row in rows.values()) for rows in each]
    columns = [text_column("figure"), Column(a)]
    for pair, verdicts in zip(pairs, told, strict=True):
        b = pair.b.letter
        columns += [Column(b), Column(f"{b} / {a}"), Column("seen from", leaves=1)]
        columns += [text_column("verdict", whole=True)] if verdicts else []
    columns += [text_column("note", whole=True, page_only=not notes)]
    made: list[list[Cell | str]] = []
    for group, members in groupby(keys, key=lambda key: key[0]):
        made += [[group, *[""] * (len(columns) - 1)]]
        for key in members:
            rows = [one[key] for one in each if key in one]
            factor, unit = _unit(rows)
            name = f"{key[1]}, {unit}" if unit != "1" else key[1]
            line: list[Cell | str] = [Cell(muted(name).spans, inner=True), _given(rows[0].a, factor)]
            for one, verdicts in zip(each, told, strict=True):
                row = one.get(key)
                if row is None:
                    line += [NOTHING] * (4 if verdicts else 3)
                    continue
                line += [_given(row.b, factor), figure(_told_ratio(row)), _seen_from(row)]
                line += [_verdict(row)] if verdicts else []
            marks = dict.fromkeys(str(notes[row.why]) for row in rows if row.why)
            made.append([*line, ", ".join(marks)])
    against = " and ".join(pair.b.letter for pair in pairs)
    below = Lines([muted(f"note {i}: {text}") for text, i in notes.items()])
    return [Table(f"Figures, {against} against {a}", columns, made), *([below] if notes else [])]


def spread(runs: Sequence[Run]) -> Table:
    """Return the table of runs that repeat one another: the mean of each figure, and how far the runs lie apart."""
    each = [{one.key: one for one in of_run(run)} for run in runs]
    keys = dict.fromkeys(key for one in each for key in one)
    firsts = [next(one[key] for one in each if key in one) for key in keys]
    made: list[list[Cell | str]] = []
    for group, members in groupby(firsts, key=lambda one: one.group):
        made += [[group, "", "", "", ""]]
        for first in members:
            values = [one[first.key].value.known for one in each if first.key in one]
            factor, unit = readable(values, first.value.unit)
            mean, apart = float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None
            share = NOTHING if apart is None or not mean else f"{digits(100 * apart / abs(mean), 2)} %"
            ends = [cell(digits(end * factor, 5)) for end in (mean, min(values), max(values))]
            name = Cell(muted(f"{first.name}, {unit}").spans, inner=True)
            made.append([name, ends[0], share, *ends[1:]])
    columns = (text_column("figure"), Column("mean"), Column("standard deviation"), Column("lowest"), Column("highest"))
    return Table(f"Spread between {len(runs)} runs", columns, made)


def fitting(width: int) -> int:
    """How many drives beside the first a table has in a terminal of this width."""
    return 2 if width >= _WIDE else 1


def section(found: Comparison) -> ChartSection:
    """Return the page's section on several sides, with the letters and the method."""
    made = ChartSection("Side by side", " ".join([f"{'. '.join(letters(found.sides))}.", *method(found)]))
    made.blocks += measures(found, 2) if found.pairs else []
    return made


def to_json(found: Comparison) -> Json:
    """The figures of the tables, one pair of sides after the other."""
    return [
        {
            "a": _names(pair.a)[0],
            "b": _names(pair.b)[0],
            "runs_of_a": [*_names(pair.a)],
            "runs_of_b": [*_names(pair.b)],
            "rows_judged": found.judged,
            "false_calls": FALSE_CALLS,
            "measures": [_row_json(row) for row in pair.measures],
            "commands": [_row_json(row) for row in pair.commands],
            "alone": [_row_json(row) for row in pair.alone],
            "states": [_row_json(row) for row in pair.states],
            "not_in_both": list(pair.only),
        }
        for pair in found.pairs
    ]


def _names(side: DriveSide) -> list[str]:
    return [run.id or run.content_hash[:12] for run in side.runs]


def _row_json(row: Compared) -> JsonObject:
    return {
        "of": row.group,
        "name": row.name,
        "unit": row.unit,
        "a": quantity_json(row.a),
        "b": quantity_json(row.b),
        "difference": quantity_json(row.difference),
        "ratio": quantity_json(row.ratio),
        "runs": list(row.runs),
        "seen_from": row.seen_from,
        "seen_from_is_at_least": row.at_least,
        "p": row.p,
        "verdict": row.verdict or None,
        "why": row.why,
    }
