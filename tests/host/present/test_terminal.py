"""Tables and lines in terminals of every width."""

from __future__ import annotations

import io
import re

import pytest
from rich.cells import cell_len
from rich.text import Text
from wattbell.cli.output import PlainConsole
from wattbell.present.terminal import WholeTable, WholeText

FIGURES = {
    "mean": ["49.44 µs", "1\u202f234 µs", "≥12.5 ms"],
    "energy J": ["0.62170(62)", "0.079114(79)", "12\u202f345(12)"],
    "IOPS": ["19\u202f212", "7\u202f706", "–"],
    "max": ["297.7 µs", "53.55 µs", "4.295 s"],
}
NAMES = ["sustained random read/QD1", "idle", "a-name-without-any-space-in-it-at-all"]


def table(**options: object) -> WholeTable:
    made = WholeTable(box=None, pad_edge=False, padding=(0, 2, 0, 0), **options)
    made.add_column("phase")
    for name in FIGURES:
        made.add_column(name, justify="right", no_wrap=True)
    for row in zip(NAMES, *FIGURES.values(), strict=True):
        made.add_row(*row)
    return made


def printed(what: object, width: int) -> str:
    console = PlainConsole(width=width, file=io.StringIO(), record=True)
    console.print(what)
    text = console.export_text()
    assert max(map(cell_len, text.splitlines())) <= width
    return text


def left_out(text: str) -> tuple[list[str], int]:
    found = re.search(r"left out: (.*?) \(a terminal (\d+) columns wide", " ".join(text.split("\n")))
    return (re.split(r", +", re.sub(" +", " ", found[1])), int(found[2])) if found else ([], 0)


@pytest.mark.parametrize("width", range(26, 100))
def test_a_figure_is_whole_or_its_column_is_left_out_and_named(width: int) -> None:
    text = printed(table(), width)
    body = text.partition("left out")[0]
    assert "…" not in text
    gone, _ = left_out(text)
    for name, figures in FIGURES.items():
        for what in (name, *figures):
            if what != "–":
                assert len(re.findall(rf"(?<!\S){re.escape(what)}(?!\S)", body)) == (name not in gone), (what, gone)
    rest = body
    for what in (*FIGURES, *(figure for column in FIGURES.values() for figure in column)):
        rest = rest.replace(what, "")
    assert not re.search(r"\d", rest.replace("QD1", "")), "no part of a figure stands anywhere"


def test_the_width_that_is_named_shows_all_and_one_less_does_not() -> None:
    gone, width = left_out(printed(table(), 40))
    assert gone
    assert left_out(printed(table(), width)) == ([], 0)
    assert len(left_out(printed(table(), width - 1))[0]) == 1


def test_columns_go_in_the_order_of_their_worth() -> None:
    order = [left_out(printed(table(expendable=("mean", "IOPS")), width))[0] for width in range(80, 26, -1)]
    steps = list(dict.fromkeys(map(tuple, order)))
    assert steps == [(), ("mean",), ("mean", "IOPS"), ("mean", "IOPS", "max"), ("mean", "energy J", "IOPS", "max")][: len(steps)]
    assert len(steps) >= 4


@pytest.mark.parametrize("width", range(20, 80))
def test_a_number_stays_with_its_thousands_and_its_unit(width: int) -> None:
    text = "mean 0.65236(65) W · max 2.743 W over 100 ms · 28\u202f929 I/O commands, at most 1.00 µs; 85 % of 12\u202f345\u202f678 B."
    lines = printed(WholeText(Text(text)), width).splitlines()
    assert " ".join(line.rstrip() for line in lines) == text
    for figure in ("0.65236(65) W", "2.743 W", "100 ms", "28\u202f929", "1.00 µs;", "85 %", "12\u202f345\u202f678 B."):
        assert any(figure in line for line in lines), (figure, lines)
