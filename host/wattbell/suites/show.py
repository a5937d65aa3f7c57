"""Results of a suite as terminal tables: one a test, with conditions, both readings, what was scaled and what was lost."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..analysis.names import size_text
from ..analysis.text import NOTHING, concise, count, digits, si
from .kinds import Place, kind_of

DIM = "grey58"
_CONDITION = {"test-data": "test's data only", "full": "full drive", "empty": "empty drive"}
_PREFIXED = {"W", "s", "J"}
_COLUMNS = (
    ("mb_per_s", "MB/s"),
    ("iops", "IOPS"),
    ("mean_w", "W"),
    ("mb_per_s_per_w", "MB/s/W"),
    ("mean_latency_s", "mean latency"),
    ("p99_latency_s", "p99"),
    ("energy_j", "energy"),
)
_TIMES = {"mean_latency_s": "s", "p99_latency_s": "s", "energy_j": "J"}


def show(results: Mapping[str, Any], console: Console) -> None:
    """Print all tests of a ``results.json``."""
    console.print(header(results))
    for test in results["tests"]:
        show_test(test, results, console)


def header(results: Mapping[str, Any]) -> Text:
    """What was run on what, in one line; a scaled run says so in colour."""
    drive = results["drive"]
    text = Text(f"\n{results['suite']}", style="bold")
    text.append(f"  {drive.get('model') or drive.get('profile')}", style="not bold")
    text.append(f"  {si(drive['capacity_bytes'], 'B')}", style=f"not bold {DIM}")
    if results.get("virtual"):
        text.append("  virtual drive and rig", style="not bold yellow")
    if results["scale"] != 1:
        text.append(f"  SCALED x {results['scale']:g}: not the published test", style="bold yellow")
    return text


def show_test(test: Mapping[str, Any], results: Mapping[str, Any], console: Console) -> None:
    """Print one test: points, table, scores, notes, losses."""
    title = Text(f"\n{test['name']}", style="bold")
    title.append(f"  {_CONDITION.get(test['condition'], test['condition'])}", style="not bold cyan")
    if results["scale"] != 1:
        title.append(f"  scaled x {results['scale']:g}", style="not bold yellow")
    console.print(title)
    kind = kind_of(test["kind"])
    if kind.place is Place.POWER_STATES:
        console.print(_states(test["points"], results["drive"].get("power_states") or []))
    elif test["points"]:
        step = -(-len(test["points"]) // kind.most_rows) if kind.most_rows else 1
        console.print(_points(test["points"][::step]))
    if test["scores"]:
        console.print(_scores(test["scores"]))
    for note in test["notes"]:
        console.print(Text(f"  {note}", style=DIM))
    if test["lost"]:
        lost = ", ".join(f"{name.replace('_', ' ')} {count(n)}" for name, n in test["lost"].items())
        console.print(Text(f"  lost under this test: {lost}; counts and rates are lower bounds", style="bold red"))


def _table() -> Table:
    return Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1), header_style=f"not bold {DIM}")


def _x(x: Mapping[str, float]) -> str:
    parts = []
    for key, value in x.items():
        if key == "qd":
            parts.append(f"QD{value:g}")
        elif key == "write_share":
            parts.append(f"{value:.0%} writes")
        elif key == "block_bytes":
            parts.append(size_text(int(value)))
        elif key == "ps":
            parts.append(f"PS{value:g}")
        elif key == "gb":
            parts.append(f"{value:.4g} GB")
        elif value:
            parts.append(f"{key.removesuffix('_s')} {value:g}")
    return ", ".join(parts) or "all"


def quantity_text(value: Mapping[str, Any] | None, unit: str = "") -> Text:
    """A quantity with its uncertainty in parentheses; ``!`` where something was lost under it. Watts, seconds and joules
    get an SI prefix."""
    if value is None or value.get("value") is None:
        return Text(NOTHING, style=DIM)
    factor, shown = 1.0, unit
    if unit in _PREFIXED and not (unit == "s" and abs(value["value"]) >= 1):
        text = si(abs(float(value["value"])), unit, 3)
        shown = text.rpartition(" ")[2]
        factor = {"n": 1e9, "µ": 1e6, "m": 1e3, "k": 1e-3, "M": 1e-6, "G": 1e-9}.get(shown[: -len(unit)] if shown != unit else "", 1.0)
    number, u = float(value["value"]), value["u"] or 0.0
    # more than five digits are nobody's measurement, however well the clock is known
    plain = concise({"value": number, "u": u}, factor) if u > abs(number) * 2e-5 else digits(number * factor, 5)
    head, paren, tail = plain.partition("(")
    out = Text(head)
    out.append(paren + tail, style=DIM)
    if value["n_lost"]:
        out.append("!", style="bold yellow")
    if shown:
        out.append(f" {shown}")
    return out


def _points(points: Sequence[Mapping[str, Any]]) -> Table:
    table = _table()
    table.add_column("")
    present = [(key, name) for key, name in _COLUMNS if any((p.get(key) or {}).get("value") is not None for p in points)]
    for _, name in present:
        table.add_column(name, justify="right")
    for point in points:
        table.add_row(_x(point["x"]), *(quantity_text(point.get(key), _TIMES.get(key, "")) for key, _ in present))
    return table


_HEADS = {
    "entry_s": "entry",
    "exit_s": "exit",
    "doorbell_to_cqe_s": "waking read",
    "settled_w": "power",
    "entry_j": "energy in",
    "exit_j": "energy out",
    "break_even_s": "break-even",
}
_DECLARED = (("max_power_w", "W", "max"), ("entry_latency_s", "s", "entry"), ("exit_latency_s", "s", "exit"))
_UNIT_SUFFIX = re.compile("_(mb_per_s|w|s|j)$")


def _states(points: Sequence[Mapping[str, Any]], declared: Sequence[Mapping[str, Any]]) -> Table:
    """Power states: what the drive declares, then what was measured."""
    said = {int(state["state"]): state for state in declared}
    keys = list(dict.fromkeys(key for point in points for key in point if key != "x"))
    table = _table()
    table.add_column("state")
    for _, _, head in _DECLARED:
        table.add_column(f"declared\n{head}", justify="right", style=DIM)
    for key in keys:
        head = _HEADS.get(key) or _UNIT_SUFFIX.sub("", key).replace("_", " ")
        table.add_column(f"measured\n{head}", justify="right", no_wrap=True)
    for point in points:
        state = said.get(int(point["x"]["ps"]), {})
        limits = [Text(si(state[key], unit, 3) if state.get(key) else NOTHING) for key, unit, _ in _DECLARED]
        cells = [quantity_text(point.get(key), _unit(key)) for key in keys]
        table.add_row(f"PS{point['x']['ps']}", *limits, *cells)
    return table


def _unit(key: str) -> str:
    return "MB/s" if key.endswith("mb_per_s") else {"w": "W", "s": "s", "j": "J"}.get(key.rpartition("_")[2], "")


def _scores(scores: Sequence[Mapping[str, Any]]) -> Table:
    table = _table()
    for name, justify in (("score", "left"), ("", "right"), ("reading", "left")):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    for score in scores:
        unit = "" if score["unit"] == "1" else score["unit"]
        table.add_row(score["name"], quantity_text(score["value"], unit), Text(score["reading"] or "", style=DIM))
    return table
