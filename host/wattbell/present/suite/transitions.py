"""The table of transitions between all ordered pairs of power states, in the terminal and on a suite page."""

from __future__ import annotations

from collections.abc import Sequence

from wattbell.measure.judge import LINK_S
from wattbell.present.chart import ChartSection, readable, shown
from wattbell.present.suite.entities import Entity, kind_in, titles_of
from wattbell.present.suite.powerstates import verdict
from wattbell.present.table import Cell, Column, Table, figure, text_column
from wattbell.results import Known, Point
from wattbell.suites.kinds import ScoreSection
from wattbell.text import NOTHING, si

NOTE = (
    "From the doorbell of Set Features 02h to its completion, and from the last completion before the rest to the rail within a tenth of "
    "the step to the new level. Declared: EXLAT of the old state and ENLAT of the new one. Without either there is no limit."
)


def pairs_table(title: str, points: Sequence[Point[Known]]) -> Table:
    """Return the table of the points of a test of kind state-pairs: a row for each ordered pair of states."""
    rows: list[list[Cell | str]] = []
    for point in points:
        found, declared = point.figures, point.figures.get("declared_s")
        limit = si(declared.value, "s", 3) if declared else NOTHING
        longest = found.get("longest_s")
        judged = verdict(declared.value if declared else None, longest, LINK_S)
        count = found.get("count")
        rows.append(
            [
                f"PS{point.x['from_ps']:g}",
                f"PS{point.x['to_ps']:g}",
                limit,
                *(_cell(found.get(name), "s") for name in _TIMES),
                f"{count.value:g}" if count else NOTHING,
                _cell(found.get("transition_j"), "J"),
                judged,
            ]
        )
    heads = ("declared", "longest", "p50", "p99.9", "number", "mean energy")
    columns = (text_column("from"), text_column("to"), *(Column(head) for head in heads), text_column("verdict"))
    return Table(title, columns, rows)


def section(found: Sequence[Entity]) -> ChartSection:
    """Return a table for each drive whose transitions a run measured."""
    made = ChartSection("Transitions between power states", NOTE)
    for key, title in titles_of(found).items():
        if kind_in(found, key).place is ScoreSection.TRANSITIONS:
            made.blocks += [pairs_table(f"{entity.label}: {title}", result.points) for entity in found if (result := entity.test(key))]
    return made


_TIMES = ("longest_s", "p50_s", "p999_s")


def _cell(one: Known | None, unit: str) -> Cell | str:
    if one is None:
        return NOTHING
    factor, prefixed = readable([one.value], unit)
    return figure(shown(one), factor, prefixed)
