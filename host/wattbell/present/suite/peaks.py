"""The highest mean power of each test over OCP's windows, on a suite page."""

from __future__ import annotations

from collections.abc import Sequence

from wattbell.measure.rail import OCP_WINDOWS_S, window_text
from wattbell.present.chart import ChartSection, shown
from wattbell.present.suite.entities import Entity, titles_of
from wattbell.present.table import Cell, Column, Table, figure, text_column
from wattbell.text import NOTHING


def window_words(window: str) -> str:
    """Return a window in words: ``100us`` becomes ``100 µs``."""
    number = window.rstrip("mus")
    return f"{number} {window[len(number) :].replace('us', 'µs')}"


def highest(found: Sequence[Entity]) -> ChartSection:
    """Find, for each test and drive, the largest moving average over each window for which the rail's samples are fine enough."""
    section = ChartSection(
        "Highest power",
        "The largest moving averages of the test's phases, rests within them included. A dash: the rail's samples lie further apart than "
        "the window is long, or every load of the test is shorter than that. Loads shorter than a window are left out of it. A finer "
        "rail: --interval and --decimation of wattbell run.",
    )
    windows = [window_text(length) for length in OCP_WINDOWS_S]
    rows: list[list[Cell | str]] = []
    for key, title in titles_of(found).items():
        for entity in found:
            result = entity.test(key)
            if result is None or not result.peaks:
                continue
            cells = [figure(shown(result.peaks[w])) if w in result.peaks else NOTHING for w in windows]
            rows.append([title, entity.label, *cells])
    if rows:
        columns = (text_column("test"), text_column("drive"), *(Column(f"over {window_words(w)}", "W") for w in windows))
        section.blocks.append(Table("", columns, rows))
    return section
