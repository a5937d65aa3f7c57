"""Results of a suite in the terminal: the tables of each test with its condition, both readings, scale and losses.

The summary of a run has the scores that a reader looks for first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.text import Text

from wattbell.measure.figure import Figure
from wattbell.origin import Origin
from wattbell.present.chart import COVERS, MOST_EXACT
from wattbell.present.suite.peaks import window_words
from wattbell.present.suite.powerstates import declared_and_measured
from wattbell.present.suite.tables import at
from wattbell.present.suite.transitions import pairs_table
from wattbell.present.table import Cell, Column, Table, figure, muted, text_column
from wattbell.present.terminal import DIM, drawn
from wattbell.results.model import parse
from wattbell.suites.kind import EFFICIENCIES, RATES, first_of
from wattbell.suites.kinds import ScoreSection, kind_of
from wattbell.text import NOTHING, count, si

_CONDITION = {"test-data": "test's data only", "full": "full drive", "empty": "empty drive"}
_PREFIXES = {"n": 1e9, "µ": 1e6, "m": 1e3, "k": 1e-3, "M": 1e-6, "G": 1e-9}
_COLUMNS = {
    "mb_per_s": "MB/s",
    "iops": "IOPS",
    "mean_w": "W",
    "mb_per_j": "MB/J",
    "mean_latency_s": "mean latency",
    "p99_latency_s": "p99",
    "energy_j": "energy",
    "reached_s": "reached after",
    "held_s": "held for",
}
_PREFIXED = {"mean_latency_s": "s", "p99_latency_s": "s", "energy_j": "J", "reached_s": "s", "held_s": "s"}


def header(results: Mapping[str, Any]) -> Text:
    """One line about the suite and the drive; a scaled run is marked in colour."""
    drive = results["drive"]
    text = Text(f"\n{results['suite']}", style="bold")
    text.append(f"  {drive.get('model') or drive.get('profile')}", style="not bold")
    text.append(f"  {si(drive['capacity_bytes'], 'B')}", style=f"not bold {DIM}")
    origin = parse(results, "these results").origin
    if origin is Origin.VIRTUAL:
        text.append(f"  MODEL: virtual drive and rig{_fidelity(results)}", style="not bold yellow")
    elif origin is Origin.UNKNOWN:
        text.append(f"  {origin.words}", style="bold yellow")
    if results["scale"] != 1:
        text.append(f"  SCALED x {results['scale']:g}: not the published test", style="bold yellow")
    return text


def _fidelity(results: Mapping[str, Any]) -> str:
    """How the rig was simulated, where the results say it."""
    fidelity = (results.get("conditions") or {}).get("fidelity")
    return f", {fidelity} fidelity" if fidelity else ""


def show_test(test: Mapping[str, Any], results: Mapping[str, Any], console: Console) -> None:
    """Print one test: points, table, scores, notes, losses."""
    title = Text(f"\n{test['name']}", style="bold")
    title.append(f"  {_CONDITION.get(test['condition'], test['condition'])}", style="not bold cyan")
    if results["scale"] != 1:
        title.append(f"  scaled x {results['scale']:g}", style="not bold yellow")
    console.print(title)
    kind = kind_of(test["kind"])
    if kind.place is ScoreSection.POWER_STATES:
        console.print(drawn(_states(test["points"], results["drive"].get("power_states") or [])))
    elif kind.place is ScoreSection.TRANSITIONS:
        console.print(drawn(_pairs(test, results)))
    elif test["points"]:
        step = -(-len(test["points"]) // kind.most_rows) if kind.most_rows else 1
        console.print(drawn(_points(test["points"][::step])))
    if test["scores"]:
        console.print(drawn(_scores(test["scores"])))
    for note in [*_peaks(test.get("peaks") or {}), *test["notes"]]:
        console.print(Text(f"  {note}", style=DIM))
    if test["lost"]:
        console.print(Text(f"  lost under this test: {_lost(test['lost'])}; counts and rates are lower bounds", style="bold red"))


def show(results: Mapping[str, Any], console: Console) -> None:
    """Print all tests of a ``results.json``."""
    console.print(header(results))
    for test in results["tests"]:
        show_test(test, results, console)


def _lost(lost: Mapping[str, int]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {count(n)}" for name, n in lost.items())


def quantity(value: Mapping[str, Any] | None, unit: str = "") -> Cell:
    """A quantity with its uncertainty in parentheses; ``!`` where something was lost under it. Watts, seconds and joules
    get an SI prefix."""
    if value is None or value.get("value") is None:
        return muted(NOTHING)
    number, u, shown = float(value["value"]), value["u"] or 0.0, unit
    if unit in ("W", "s", "J", "A", "C") and not (unit == "s" and abs(number) >= 1):
        shown = si(abs(number), unit, 3).rpartition(" ")[2]
    factor = _PREFIXES.get(shown.removesuffix(unit), 1.0) if shown != unit else 1.0
    # more than five digits are nobody's measurement, however well the clock is known
    return figure(Figure(number, u if u > abs(number) * MOST_EXACT else None, lost=value["n_lost"]), factor, shown)


def _points(points: Sequence[Mapping[str, Any]]) -> Table:
    present = [key for key in _COLUMNS if any((p.get(key) or {}).get("value") is not None for p in points)]
    rows: list[list[Cell | str]] = [[at(p["x"]), *(quantity(p.get(key), _PREFIXED.get(key, "")) for key in present)] for p in points]
    return Table("", [text_column(whole=True), *(Column(_COLUMNS[key]) for key in present)], rows)


def _pairs(test: Mapping[str, Any], results: Mapping[str, Any]) -> Table:
    """Return the table of transitions of one test."""
    run = parse({**results, "tests": [test]}, "these results")
    return pairs_table("", run.tests[0].points)


_HEADS = {
    "idlp_w": "IDLP, 30 s",
    "actp1_w": "ACTP, 10 s",
    "actp2_w": "ACTP, 10 s",
    "entry_s": "entry",
    "exit_s": "exit",
    "doorbell_to_cqe_s": "waking read",
    "settled_w": "power",
    "entry_j": "energy in",
    "exit_j": "energy out",
    "break_even_s": "break-even",
}
_DECLARED = (("max_power_w", "W", "max"), ("entry_latency_s", "s", "entry"), ("exit_latency_s", "s", "exit"))
_UNITS = {"mb_per_s": "MB/s", "w": "W", "s": "s", "j": "J"}
_SUFFIX = re.compile("_(mb_per_s|w|s|j)$")


def _states(points: Sequence[Mapping[str, Any]], declared: Sequence[Mapping[str, Any]]) -> Table:
    """Return the table of power states: declared values, then measured values."""
    said = {int(state["state"]): state for state in declared}
    keys = [key for point in points for key in point if key != "x" and not key.startswith("longest_")]  # the verdicts' own table has them
    units = {key: _UNITS[found[1]] if (found := _SUFFIX.search(key)) else "" for key in keys}
    heads = [_HEADS.get(key) or _SUFFIX.sub("", key).replace("_", " ") for key in units]
    rows: list[list[Cell | str]] = []
    for point in points:
        state = said.get(int(point["x"]["ps"]), {})
        limits = [muted(si(state[key], unit, 3) if state.get(key) else NOTHING) for key, unit, _ in _DECLARED]
        rows.append([f"PS{point['x']['ps']}", *limits, *(quantity(point.get(key), unit) for key, unit in units.items())])
    columns = [text_column("state"), *(Column(f"declared\n{head}") for *_, head in _DECLARED), *(Column(f"measured\n{h}") for h in heads)]
    return Table("", columns, rows)


def _peaks(peaks: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A line on the highest mean power over OCP's windows: those that the rail is fine enough for."""
    known = [
        f"{quantity(peak, 'W').text} over {window_words(window)}" + (f" ({peak['phase']})" if peak.get("phase") else "")
        for window, peak in peaks.items()
        if peak.get("value") is not None
    ]
    lines = [f"highest mean power: {', '.join(known)}"] if known else []
    for window, peak in peaks.items():
        if short := peak.get("shorter"):
            left = f"left out, as their load was shorter than that: {', '.join(short)}"
            lines.append(f"highest mean power over {window_words(window)}: {left}")
    return lines


def _score(score: Mapping[str, Any]) -> Cell:
    return quantity(score["value"], "" if score["unit"] == "1" else score["unit"])


def _scores(scores: Sequence[Mapping[str, Any]]) -> Table:
    rows = [[score["name"], _score(score), muted(score["reading"] or "")] for score in scores]
    return Table("", [text_column("score"), Column(""), text_column("reading")], rows)


def summary(results: Mapping[str, Any]) -> RenderableType:
    """Drive, scale, losses, and the first score of each kind of every test."""
    tests = results["tests"]
    several = len({t["condition"] for t in tests}) > 1
    columns = (("rate", RATES), ("power", ("W",)), ("bytes per joule", EFFICIENCIES))
    present = [(name, units) for name, units in columns if any(first_of(t["scores"], units) for t in tests)]
    rows: list[list[Cell | str]] = []
    for test in tests:
        cells = [_score(s) if (s := first_of(test["scores"], units)) else "" for _, units in present]
        more = "; ".join(f"{s['name']} {_score(s).text}" for s in kind_of(test["kind"]).summed_up(test["scores"]))
        rows.append([test["name"], *([muted(test["condition"])] if several else []), *cells, muted(more)])
    heads = [text_column("test"), *([text_column("drive")] if several else []), *(Column(name) for name, _ in present), text_column()]
    parts: list[RenderableType] = [header(results), drawn(Table("", heads, rows))]
    if any(kind_of(test["kind"]).place is ScoreSection.POWER_STATES for test in tests):
        run = parse(results, "these results")
        parts.append(drawn(declared_and_measured(run, [run])))
    parts.append(Text(f"(n): expanded uncertainty (k = 2) in the last digits. {COVERS}", style=DIM))
    if lost := results.get("lost"):
        parts.append(Text(f"DATA LOST: {_lost(lost)}; figures marked ! are touched", style="bold red"))
    return Group(*parts)
