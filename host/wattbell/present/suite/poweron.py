"""How drives start, on a suite page: each figure of the tests of kind power-on, by drive and test."""

from __future__ import annotations

from collections.abc import Sequence

from wattbell.present.chart import ChartSection, readable, shown
from wattbell.present.suite.entities import Entity, kind_in, titles_of
from wattbell.present.table import Cell, Column, Table, figure, text_column
from wattbell.results import Known
from wattbell.suites.kinds import ScoreSection
from wattbell.text import NOTHING


def starts(found: Sequence[Entity]) -> ChartSection:
    """A column for each drive and test that restarted it."""
    section = ChartSection(
        "Power-on",
        "Cold: the rail is switched off and on; warm: PERST# alone. Instants are those of the wire. The rail is on 0.5 % up its rise; "
        "inrush is what flows from there to 0.5 % below its level, its peak one sample of the rail. Upper bounds: CC.EN to the first "
        "doorbell, as the host reads CSTS.RDY in its own time; and the last completion to PERST#, part of which is the host's own work.",
    )
    columns = [
        (entity, title, result)
        for key, title in titles_of(found).items()
        if kind_in(found, key).place is ScoreSection.POWER_ON
        for entity in found
        if (result := entity.test(key))
    ]
    several = len({entity.label for entity, *_ in columns}) > 1
    values: dict[tuple[str, str], dict[int, Known]] = {}
    for number, (_, _, result) in enumerate(columns):
        for score in result.scores:
            name = score.name.replace("rail on to", "start to").replace("PERST# released to the first read", "start to the first read")
            values.setdefault((name, score.unit), {})[number] = score.value
    rows: list[list[Cell | str]] = []
    for (name, unit), by_column in values.items():
        factor, prefixed = readable([value.value for value in by_column.values()], "" if unit == "1" else unit)
        cells = [figure(shown(by_column[n]), factor, prefixed) if n in by_column else NOTHING for n in range(len(columns))]
        rows.append([name, *cells])
    if rows:
        heads = [Column(f"{entity.label}\n{title}" if several else title) for entity, title, _ in columns]
        section.blocks.append(Table("", [text_column(""), *heads], rows))
    return section
