"""The last table of a run of a suite: one line a test, with the scores one looks for first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from ..analysis.text import count
from .kind import RATES, first_of
from .kinds import kind_of
from .show import DIM, header, quantity_text


def summary(results: Mapping[str, Any]) -> Group:
    """Drive, scale, losses, and the first score of each kind of every test."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1), header_style=f"not bold {DIM}")
    tests = results["tests"]
    several = len({t["condition"] for t in tests}) > 1
    table.add_column("test", min_width=24, overflow="fold")
    if several:
        table.add_column("drive")
    columns = (("rate", RATES), ("power", ("W",)), ("efficiency", ("MB/s/W",)))
    present = [(name, units) for name, units in columns if any(first_of(t["scores"], units) for t in tests)]
    for name, _ in present:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    for test in tests:
        cells = [quantity_text(s["value"], s["unit"]) if (s := first_of(test["scores"], units)) else Text("") for _, units in present]
        where = [Text(test["condition"], style=DIM)] if several else []
        table.add_row(test["name"], *where, *cells, _more(test))
    parts: list[Any] = [header(results), table]
    lost = results.get("lost") or {}
    if lost:
        text = ", ".join(f"{name.replace('_', ' ')} {count(n)}" for name, n in lost.items())
        parts.append(Text(f"DATA LOST: {text}; figures marked ! are touched", style="bold red"))
    return Group(*parts)


def _more(test: Mapping[str, Any]) -> Text:
    scores = kind_of(test["kind"]).summed_up(test["scores"])
    out = Text(style=DIM)
    for score in scores:
        if out:
            out.append("; ")
        out.append(f"{score['name']} ")
        out.append_text(quantity_text(score["value"], "" if score["unit"] == "1" else score["unit"]))
    return out
