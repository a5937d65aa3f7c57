"""Tables of the results of many captures: one to read, and rows of figures to compute with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from wattbell import durable
from wattbell.errors import CaptureError
from wattbell.export.csvs import flatten
from wattbell.export.parquet import write_table
from wattbell.measure.figure import Figure
from wattbell.origin import Origin, origin_of_capture
from wattbell.present.table import Cell, Column, Table, cell, rounded, text_column, toned

from .outcome import CaptureOutcome

COLUMNS = {
    "capture": pl.String,
    "state": pl.String,
    "drive": pl.String,
    "origin": pl.String,
    "phase": pl.String,
    "figure": pl.String,
    "value": pl.Float64,
    "u_k2": pl.Float64,
    "unit": pl.String,
    "lost": pl.Int64,
    "error": pl.String,
}
"""Columns of the rows of figures: one row a figure, as in ``figures.csv``; a capture without figures has one row, with its ``error``."""


def short_names(paths: Sequence[str]) -> list[str]:
    """The paths without the folders that all have in common."""
    if len(paths) < 2:
        return [Path(path).name for path in paths]
    parts = [Path(path).parts for path in paths]
    common = 0
    while len({part[common] for part in parts if len(part) > common + 1}) == 1 and all(len(part) > common + 1 for part in parts):
        common += 1
    return [str(Path(*part[common:])) for part in parts]


def _figure(node: Any) -> Figure | None:
    """A figure of the analysis, from its JSON."""
    if not isinstance(node, Mapping) or "value" not in node:
        return None
    return Figure(node["value"], node["u"], node["unit"], node["lost"], node.get("conditions") or {})


def _drive(figures: Mapping[str, Any]) -> str:
    return str((figures["capture"].get("drive") or {}).get("model") or "")


def _origin(figures: Mapping[str, Any]) -> Origin:
    return origin_of_capture(figures["capture"])


def figures_table(outcomes: Sequence[CaptureOutcome]) -> Table:
    """Return a table with a row a capture: the figures of the whole capture, or the reason for having none."""
    columns = [
        text_column("capture", whole=True),
        text_column("drive"),
        Column("time", "s", leaves=4),
        Column("I/O", leaves=5),
        Column("rate", "MB/s"),
        Column("rate", "1/s", short="IOPS"),
        Column("p99", "us", leaves=6),
        Column("power", "W"),
        Column("energy", "J", leaves=3),
        text_column("state", leaves=1),
    ]
    rows: list[list[Cell | str]] = []
    for name, outcome in zip(short_names([one.path for one in outcomes]), outcomes, strict=True):
        if outcome.figures is None:
            rows.append([name, *[""] * 8, toned("failed", "bad")])
            continue
        figures = outcome.figures
        rates, power, capture = figures["rates"], figures.get("power") or {}, figures["capture"]
        rows.append(
            [
                name,
                _origin(figures).marked(_drive(figures)).strip(),
                rounded(Figure(capture.get("duration_s"), None, "s")),
                f"{rates['count']:,}".replace(",", " ") if rates.get("count") else "",
                rounded(_figure(rates.get("mb_per_s"))),
                rounded(_figure(rates.get("iops"))),
                _microseconds(figures),
                rounded(_figure(power.get("mean_w"))),
                rounded(_figure(power.get("energy_j"))),
                cell(str(capture["state"])),
            ]
        )
    failed = sum(outcome.figures is None for outcome in outcomes)
    note = f"{failed} failed" if failed else "rates over the active span, power and energy over all of each"
    return Table(f"{len(outcomes)} captures", columns, rows, note)


def _microseconds(figures: Mapping[str, Any]) -> Cell:
    latency = ((figures["commands"].get("all") or {}).get("latency_s")) or {}
    value = latency.get("p99")
    return rounded(Figure(None if value is None else value * 1e6, None, "us", figures["commands"].get("lost") or 0))


def rows_of(outcomes: Iterable[CaptureOutcome]) -> pl.DataFrame:
    """The figures of all captures, one a row (``COLUMNS``)."""
    rows: list[tuple[Any, ...]] = []
    for outcome in outcomes:
        if outcome.figures is None:
            rows.append((outcome.path, None, None, None, "", None, None, None, None, None, outcome.error))
            continue
        state, drive, origin = outcome.figures["capture"]["state"], _drive(outcome.figures), _origin(outcome.figures).value
        for phase, figure, value, u, unit, lost in flatten(outcome.figures):
            rows.append((outcome.path, state, drive, origin, phase, figure, value, u, unit, lost, None))
    return pl.DataFrame(rows, schema=COLUMNS, orient="row", strict=False)


def write_figures(outcomes: Iterable[CaptureOutcome], path: Path) -> Path:
    """Write :func:`rows_of` as Parquet. Raises CaptureError if the disk refuses it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with durable.replacing(path) as made:
            write_table(rows_of(outcomes), made, {"wattbell.table": "figures"})
    except OSError as error:
        raise CaptureError(f"{path} cannot be written ({error.strerror or error}); choose another place.") from None
    return path
