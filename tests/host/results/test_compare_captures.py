"""`wattbell compare` of captures: energies by class, where the joules went, power states; in the terminal, on the page, as JSON."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from wattbell.analysis import figures_of
from wattbell.capture import open_capture
from wattbell_spec.wire import EventType, LinkState

from tests.host.conftest import MS, Builder

MARKUP = "reads <b>&[red]x[/red]"


def build(path: Path, watt: float, deep: bool = True) -> Path:
    """Idle at 0.5 W; 1000 reads of 100 us at ``watt``; a mix of reads and writes; a sleep that a read ends."""
    made = Builder(path)
    made.levels += [(0, 0.5), (100 * MS, watt), (200 * MS, 0.5)]
    made.phase(1, 90 * MS, 210 * MS, MARKUP)
    for k in range(1000):
        made.command(100 * MS + k * 100_000, 80_000, slba=80 * k)
    made.levels += [(310 * MS, 1.5), (450 * MS, 0.5)]
    made.phase(2, 300 * MS, 500 * MS, "mixed")
    for k in range(140):
        made.command(310 * MS + k * MS, 900_000, opcode=2 if k % 3 else 1, slba=80 * k)
    made.events += [(10, EventType.LINK, int(LinkState.L0), 0)]
    made.phase(3, 600 * MS, 2500 * MS, "sleep", kind="wake")
    if deep:
        made.levels += [(700 * MS, 0.03), (2000 * MS, 0.8), (2006 * MS, 0.5)]
        made.events += [(700 * MS, EventType.LINK, int(LinkState.L1_2), 0), (2000 * MS, EventType.LINK, int(LinkState.L0), 0)]
    made.command(2000 * MS, 5 * MS)
    made.levels.sort()
    return made.write(2600 * MS).path


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("captures")
    return build(folder / "a", 2.0), build(folder / "b", 2.3, deep=False)


@pytest.fixture
def wattbell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a command in this process, at a width; returns its output."""
    from wattbell.cli import output
    from wattbell.cli.app import app

    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object, width: int = 200) -> str:
        console = output.PlainConsole(width=width, record=True)
        monkeypatch.setattr(output, "out", console)
        app([str(a) for a in arguments], standalone_mode=False)
        return console.export_text()

    return run


def test_the_difference_is_that_of_the_two_analyses(captures: tuple[Path, Path], wattbell: Any, capsys: Any) -> None:
    wattbell("compare", *captures, "--no-plots", "--out", "c.html", "--json")
    found = json.loads(capsys.readouterr().out)
    (pair,) = found["differences"]
    rows = {(row["of"], row["name"]): row for row in pair["commands"]}
    figures = [figures_of(open_capture(path))["phases"][0]["energy_per_command"]["classes"]["read 4 KiB"] for path in captures]
    row = rows[MARKUP, "read 4 KiB"]
    assert [row[k]["value"] for k in "ab"] == [figure.value for figure in figures]
    # by hand: (2.3 W - 2.0 W) for 100 us
    assert row["difference"]["value"] == pytest.approx(30e-6, rel=1e-3)
    assert row["difference"]["u"] ** 2 == pytest.approx(sum(figure.u**2 for figure in figures))
    assert row["verdict"] == "no repeats" and row["runs"] == [1, 1] and row["p"] is None, "however far apart"
    assert row["seen_from_is_at_least"] and row["seen_from"] == pytest.approx(row["difference"]["u"])
    mixed = rows["mixed", "read 4 KiB + write 4 KiB"]
    assert mixed["verdict"] == "no repeats", "one figure for both, of one mix"
    asleep = figures_of(open_capture(captures[0]))["phases"][2]["energy_per_command"]["shares"]
    stated = found["runs"][0]["energy"]["phases"][2]["shares"]
    parts = [name for name in stated if name != "classes_j"]
    assert len({asleep[name].value for name in parts}) == len(parts) == 5, "no two alike"
    assert [stated[name]["value"] for name in parts] == [asleep[name].value for name in parts]
    assert not [of for of, _ in rows if of == "sleep"], "what a waking read costs is the state's, not its class's"
    states = {(row["of"], row["name"]): row for row in pair["states"]}
    asleep = states["PS3", "power, link in L1.2"]
    assert asleep["a"]["value"] == pytest.approx(0.03, rel=1e-3) and asleep["verdict"] == "not comparable"
    assert asleep["why"] == "B: not found"
    assert "B: no wake-up from it by read 4 KiB" in {row["why"] for (of, _), row in states.items() if of == "PS3, woken by read 4 KiB"}


def test_it_is_printed_with_names_as_they_stand(captures: tuple[Path, Path], wattbell: Any) -> None:
    text = wattbell("compare", *captures, "--no-plots", "--out", "c.html")
    assert f"A: unknown drive #1 (model) ({captures[0]})" in text.replace("\n", ""), "captures of one drive are told apart"
    assert MARKUP in text and "Energy of one command, B against A" in text
    (line,) = [line for line in text.splitlines() if "read 4 KiB  " in line and "µJ" in line and " 149." in line]
    shown = r"  read 4 KiB\s+149.\d+\(\d+\) µJ\s+179.\d+\(\d+\) µJ\s+\+30.00\(\d+\) µJ\s+1.20\d+\(\d+\)\s+> 0.\d+ %\s*"
    assert re.fullmatch(shown, line), line
    assert "higher" not in text and "lower" not in text, "one run of each: no verdict"
    assert "No verdicts: how far the runs of one drive differ is told by 3 runs of each side, and A has 1 and B has 1." in text
    joules = text.partition("Where the energy went")[2].partition("Power states")[0]
    assert "unexplained" in joules.splitlines()[1] and joules.count("\n  A ") == joules.count("\n  B ") == 3


def test_the_page_has_bars_stacks_and_tables(captures: tuple[Path, Path], wattbell: Any, tmp_path: Path) -> None:
    wattbell("compare", *captures, "--no-plots", "--out", "c.html")
    page = (tmp_path / "c.html").read_text(encoding="utf-8")
    own = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    headings = [unescape(found) for found in re.findall(r"<h2[^>]*>(.*?)</h2>", own)]
    assert [h for h in headings if "nergy" in h or "states" in h] == [
        "Energy of one command",
        "Where the energy went",
        "Power states found",
    ]
    assert "reads &lt;b&gt;&amp;[red]x[/red]: read 4 KiB, A" in own and "<b>&" not in own
    bars = json.loads(re.search(r",?const B=(\{.*?\});\n", page)[1])  # type: ignore[index]
    stack = {label: parts for label, *_, parts in bars["energy-stack"]["bars"]}
    assert set(stack) == {f"{name}, {letter}" for name in (MARKUP, "mixed", "sleep") for letter in "AB"}
    assert stack[f"{MARKUP}, A"]["reads"] == pytest.approx(0.15, rel=1e-2) and stack[f"{MARKUP}, B"]["reads"] == pytest.approx(
        0.18, rel=1e-2
    )
    assert len(bars["energy-commands"]["bars"]) == 4
    assert own.count("unexplained ") >= 6, "said beside every bar"


def test_three_runs_are_compared_with_the_first(
    captures: tuple[Path, Path], wattbell: Any, tmp_path: Path, capsys: Any, samples: Any
) -> None:
    third = build(tmp_path / "third", 1.8)
    wattbell("compare", *captures, third, "--no-plots", "--out", "c.html", "--json")
    found = json.loads(capsys.readouterr().out)
    assert [len(pair["commands"]) for pair in found["differences"]] == [2, 2]
    assert found["differences"][1]["commands"][0]["difference"]["value"] == pytest.approx(-20e-6, rel=1e-3)
    assert "C against A" in wattbell("compare", *captures, third, "--no-plots", "--out", "c.html")
    capsys.readouterr()
    samples.write_results(tmp_path / "suite")
    text = wattbell("compare", captures[0], "suite", "--no-plots", "--out", "c.html")
    assert "against" not in text
    said = " ".join(capsys.readouterr().err.split())
    assert f"Without energies by class and power states: {tmp_path / 'suite'}. They are told of captures" in said


def test_a_single_capture_has_its_stack(captures: tuple[Path, Path], wattbell: Any, tmp_path: Path) -> None:
    assert "against" not in wattbell("compare", captures[0], "--no-plots", "--out", "c.html")
    page = (tmp_path / "c.html").read_text(encoding="utf-8")
    assert "Where the energy went" in page and "Power states found" not in page
