"""The last table of a run of a suite: one line a test, with the scores one looks for first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from ..analysis.text import count
from .show import DIM, header, quantity_text

_RATES = ("MB/s", "IOPS")
_IN_COLUMNS = (*_RATES, "W", "MB/s/W")
_FIRST_OF = ("GB", "s", "J", "1")
"""Units of what has no column; the first score of each is named."""
_TRACE = ("mean latency, all", "99th percentile of latency, all", "energy")


def summary(results: Mapping[str, Any]) -> Group:
    """Drive, scale, losses, and the first score of each kind of every test."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1), header_style=f"not bold {DIM}")
    tests = results["tests"]
    several = len({t["condition"] for t in tests}) > 1
    table.add_column("test", min_width=24, overflow="fold")
    if several:
        table.add_column("drive")
    columns = (("rate", _RATES), ("power", ("W",)), ("efficiency", ("MB/s/W",)))
    present = [(name, units) for name, units in columns if any(_first(t["scores"], units) for t in tests)]
    for name, _ in present:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    for test in tests:
        cells = [quantity_text(s["value"], s["unit"]) if (s := _first(test["scores"], units)) else Text("") for _, units in present]
        where = [Text(test["condition"], style=DIM)] if several else []
        table.add_row(test["name"], *where, *cells, _more(test))
    parts: list[Any] = [header(results), table]
    lost = results.get("lost") or {}
    if lost:
        text = ", ".join(f"{name.replace('_', ' ')} {count(n)}" for name, n in lost.items())
        parts.append(Text(f"DATA LOST: {text}; figures marked ! are touched", style="bold red"))
    return Group(*parts)


def _first(scores: Iterable[Mapping[str, Any]], units: Sequence[str]) -> Mapping[str, Any] | None:
    return next((s for s in scores if s["unit"] in units and s["value"]["value"] is not None), None)


def _more(test: Mapping[str, Any]) -> Text:
    scores = test["scores"]
    if test["kind"] == "rounds":
        chosen = [s for s in scores if s is not _first(scores, _RATES)]
    elif test["kind"] == "trace":
        chosen = [s for s in scores if s["name"] in _TRACE]
    elif test["kind"] == "idle":
        chosen = []
    else:
        chosen = [s for unit in _FIRST_OF if (s := _first(scores, (unit,)))]
    out = Text(style=DIM)
    for score in chosen:
        if out:
            out.append("; ")
        out.append(f"{score['name']} ")
        out.append_text(quantity_text(score["value"], "" if score["unit"] == "1" else score["unit"]))
    return out
