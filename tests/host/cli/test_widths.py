"""Tables of the commands in terminals of every width: no figure is cut, no word broken, and nothing is wider than the terminal."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from wattbell.cli import output
from wattbell.cli.app import app
from wattbell.present.terminal import WIDEST

from tests.host.conftest import MS, Builder
from tests.host.results import samples

FIGURE = re.compile(r"\S*\d\S*")
LEFT_OUT = re.compile(r"left out:.*?--json\)", re.DOTALL)


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With phases, commands, steps of the rail and an idle time."""
    path = tmp_path_factory.mktemp("widths") / "capture"
    builder = Builder(path)
    for n in range(3):
        begin = 10 * MS + n * 40 * MS
        builder.power(begin, 1.234567 + n)
        builder.power(begin + 20 * MS, 0.0123)
        for k in range(400):
            builder.command(begin + 20_000 * k + 10_000, 8_000 + 17 * k, blocks=8 << (k % 3), opcode=1 + k % 2)
        builder.phase(n + 1, begin, begin + 20 * MS, f"sustained random read/QD{1 << n}")
    builder.write(140 * MS)
    return path


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> Any:
    def run(width: int, *arguments: object) -> str:
        console = output.PlainConsole(width=width, file=io.StringIO(), record=True)
        monkeypatch.setattr(output, "out", console)
        app([str(a) for a in arguments], standalone_mode=False)
        return str(console.export_text())

    return run


COMMANDS = [
    ("info",),
    ("suites",),
    ("suites", "anandtech-2018"),
    ("sim", "profiles"),
    ("run", "quick", "--virtual", "intel-660p-1tb", "--out", "o", "--dry-run"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_figure_is_cut_and_no_word_broken(printed: Any, capture: Path, command: tuple[str, ...]) -> None:
    arguments: tuple[object, ...] = (*command, capture) if command == ("info",) else command
    whole = set(FIGURE.findall(printed(WIDEST, *arguments)))
    for width in range(60, 201, 14):
        text = printed(width, *arguments)
        assert "…" not in text
        assert max(map(cell_len, text.splitlines())) <= width
        assert set(FIGURE.findall(LEFT_OUT.sub("", text))) <= whole, width


def test_nor_in_the_figures_of_a_capture(capture: Path) -> None:
    from wattbell.capture import open_capture
    from wattbell.cli.captures import computed
    from wattbell.present.capture.terminal import render

    result = computed(open_capture(capture))

    def at(width: int) -> str:
        console = output.PlainConsole(width=width, file=io.StringIO(), record=True)
        render(result, console)
        return console.export_text()

    whole = set(FIGURE.findall(at(WIDEST)))
    assert len(whole) > 50
    for width in range(60, 201):
        text = at(width)
        assert "…" not in text
        assert max(map(cell_len, text.splitlines())) <= width
        cut = set(FIGURE.findall(LEFT_OUT.sub("", text))) - whole
        assert not cut, (width, [line for line in text.splitlines() if any(word in line for word in cut)])
        if width >= 80:
            rows = text.partition("Workloads")[2].partition("Power and")[0]
            assert "sustained random read/QD4" in rows, "a row is one line"


def test_nor_in_a_comparison_of_captures() -> None:
    from wattbell.present.suite.energies import printed
    from wattbell.results.comparison import compare_sides
    from wattbell.results.model import parse
    from wattbell.results.sides import sides_of

    name = "a suite <b>with a long name</b> of [red]drives[/red]"
    document = {"format": 1, "suite": "capture", "suite_hash": "x", "drive": {"model": "TESTDRIVE 1TB"}, "tests": []}
    energies = [samples.energy(scale) for scale in (1.0, 1.02, 137.0)]
    energies[1]["phases"][1]["classes"][0]["name"] = "read 4 KiB + write 4 KiB"
    energies[0]["phases"][0]["name"] = energies[2]["phases"][0]["name"] = "sustained random read/QD4"
    runs = [parse({**document, "energy": energy}, name, source=name) for energy in energies]
    found = compare_sides(sides_of([[run] for run in runs], given=True))

    def at(width: int) -> str:
        console = output.PlainConsole(width=width, file=io.StringIO(), record=True)
        for part in printed(found, width):
            console.print(part)
        return console.export_text()

    whole = set(FIGURE.findall(at(WIDEST)))
    assert len(whole) > 100 and "note 2" in at(WIDEST)
    for width in range(60, 201):
        text = at(width)
        assert "…" not in text
        assert max(map(cell_len, text.splitlines())) <= width
        cut = set(FIGURE.findall(LEFT_OUT.sub("", text))) - whole
        assert not cut, (width, [line for line in text.splitlines() if any(word in line for word in cut)])
        rows = [line for line in text.splitlines() if line.startswith("  read 4 KiB ")]
        assert rows and all(len(re.findall("J( |$)|–", row)) >= 2 for row in rows), "both figures stay at any width"
        assert "unexplained" in LEFT_OUT.sub("", text), "and what is unexplained"
        if width >= 110:
            assert "seen from" in LEFT_OUT.sub("", text), "and how large a difference would have to be, where there is some room"


def test_wide_leaves_nothing_out(printed: Any) -> None:
    assert "left out" in printed(60, "suites", "anandtech-2018")
    assert "left out" not in printed(60, "suites", "anandtech-2018", "--wide")


def test_a_name_that_is_too_long_ends_at_a_whole_number() -> None:
    from wattbell.present.table import Column, Table, text_column
    from wattbell.present.terminal import drawn

    for cut in range(50, 70):
        name = "x" * cut + "1234567890" * 3
        console = output.PlainConsole(width=200, file=io.StringIO(), record=True)
        console.print(drawn(Table("", (text_column("phase"), Column("W")), [(name, "1.5")])))
        shown = console.export_text().splitlines()[-1].split()[0]
        assert re.fullmatch(r"x+…", shown), shown
