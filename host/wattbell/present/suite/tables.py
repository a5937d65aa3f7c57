"""The tables of a suite page: block sizes and mixes, every figure, provenance."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from wattbell.analysis.names import size_text
from wattbell.origin import Origin
from wattbell.present.around import worded
from wattbell.present.chart import COVERS, ChartSection, shown
from wattbell.present.suite.entities import Entity, titles_of
from wattbell.present.table import BREAK, Cell, Column, Table, figure, text_column
from wattbell.results import Known, Point, Run
from wattbell.text import NOTHING, count


def matrices(found: Sequence[Entity]) -> ChartSection:
    """Tests that vary block size and mix together (SNIA PTS): for each drive, a table of block sizes by mixes."""
    note = "Means over the rounds of the steady-state window; where there was none, the notes above say so."
    section = ChartSection("Block sizes and mixes (SNIA PTS)", note)
    for key, title in titles_of(found).items():
        for entity in found:
            result = entity.test(key)
            cells: dict[tuple[float, float], Point[Known]] = {}
            for point in result.points if result else ():
                block, share = point.x.get("block_bytes"), point.x.get("write_share")
                if isinstance(block, float) and isinstance(share, float):
                    cells[block, share] = point
            blocks, shares = (sorted({k[i] for k in cells}) for i in (0, 1))
            if len(blocks) < 2:
                continue
            for quantity, unit in (("iops", "IOPS"), ("mb_per_s", "MB/s"), ("mean_latency_s", "mean latency, µs")):
                factor = 1e6 if quantity == "mean_latency_s" else 1.0
                columns = (text_column(f"block \\ {unit}"), *(Column(f"{100 * (1 - share):g} % reads") for share in shares))
                rows = [[size_text(int(b)), *(_cell(cells.get((b, s)), quantity, factor) for s in shares)] for b in blocks]
                section.blocks.append(Table(f"{title}: {entity.label}, {unit}", columns, rows))
    return section


def _cell(point: Point[Known] | None, quantity: str, factor: float) -> Cell | str:
    value = point.figures.get(quantity) if point else None
    return figure(shown(value), factor) if value else NOTHING


def every_figure(found: Sequence[Entity]) -> ChartSection:
    """Return every point and score, with its uncertainty and its losses."""
    section = ChartSection("Every figure", f"In brackets: expanded uncertainty (k = 2) in the last digits. {COVERS}")
    for key, title in titles_of(found).items():
        quantities: dict[str, None] = {}
        for entity in found:
            result = entity.test(key)
            for point in result.points if result else ():
                quantities.update(dict.fromkeys(point.figures))
        rows = []
        for entity in found:
            result = entity.test(key)
            for point in result.points if result else ():
                cells = [figure(q, _column(n)[1]) if (q := point.figures.get(n)) else NOTHING for n in quantities]
                lost = max((q.lost for q in point.figures.values()), default=0)
                rows.append([entity.label, at(point.x), *cells, count(lost) if lost else ""])
        if rows:
            columns = (text_column("drive"), text_column("at"), *(Column(_column(n)[0]) for n in quantities), Column("lost"))
            section.blocks.append(Table(title, columns, rows))
    return section


_AXES: dict[str, Callable[[float], str]] = {
    "qd": lambda v: f"QD{v:g}",
    "write_share": lambda v: f"{100 * v:.3g} % writes",
    "block_bytes": lambda v: size_text(int(v)),
    "gb": lambda v: f"{v:.4g} GB",
    "ps": lambda v: f"PS {v:g}",
    "t_s": lambda v: f"{v:g} s" if v else "whole test",
}


def at(x: Mapping[str, float | str]) -> str:
    """Return the varied quantities in words: ``35 % writes, 4 KiB, QD32``."""
    return ", ".join(_AXES[k](v) if k in _AXES and not isinstance(v, str) else f"{k.replace('_', ' ')} {v}" for k, v in x.items())


_COLUMNS = {"mb_per_s": "MB/s", "iops": "IOPS", "mean_w": "W", "mb_per_j": "MB/J", "bytes": "data, bytes"}
_SUFFIXES = (("_latency_s", " latency, µs", 1e6), ("_mb_per_s", ", MB/s", 1.0), ("_w", ", W", 1.0), ("_s", ", s", 1.0), ("_j", ", J", 1.0))


def _column(name: str) -> tuple[str, float]:
    """A column's header with its unit, and the factor to that unit."""
    if name in _COLUMNS:
        return _COLUMNS[name], 1.0
    for suffix, text, factor in _SUFFIXES:
        if name.endswith(suffix):
            return name.removesuffix(suffix).replace("_", " ") + text, factor
    return name.replace("_", " "), 1.0


def provenance(runs: Sequence[Run], rests_on: Mapping[str, Mapping[str, Any]]) -> ChartSection:
    """Return the section on the origin of the figures. ``rests_on``: capture and job hashes by content hash."""
    section = ChartSection("Where this comes from")
    rows: list[tuple[str, list[str]]] = []

    def add(name: str, values: Sequence[str]) -> None:
        if any(value and value != NOTHING for value in values):
            rows.append((name, [value or NOTHING for value in values]))

    add("run", [run.id or str(run.source) for run in runs])
    add("suite", [run.suite for run in runs])
    add("suite hash", [run.suite_hash.removeprefix("sha256:")[:16] for run in runs])
    add("scale", [f"×{run.scale:g}" + (" SCALED" if run.scaled else "") for run in runs])
    add("rig", [{Origin.VIRTUAL: "virtual", Origin.MEASURED: "hardware"}.get(run.origin, "unknown") for run in runs])
    add("drive model", [run.profile or "" for run in runs])
    add("profile hash", [str(run.drive.get("profile_hash") or "").removeprefix("sha256:")[:16] for run in runs])
    add("serial number", [str(run.drive.get("serial") or "") for run in runs])
    add("drive firmware", [run.firmware for run in runs])
    add("started", [run.started for run in runs])
    for part in dict.fromkeys(part for run in runs for part in run.versions):
        add(f"{part.replace('_', ' ')} version", [run.versions.get(part, "") for run in runs])
    conditions: dict[str, None] = {}
    for run in runs:
        conditions.update(dict.fromkeys(_conditions(run)))
    for name in conditions:
        label = name.removesuffix("_s").replace("_", " ") + (", s" if name.endswith("_s") else "")
        add(label.replace("adc", "ADC"), [_text(_conditions(run).get(name)) for run in runs])
    add("lost", [", ".join(f"{n} {kind}" for kind, n in run.lost.items()) or "nothing" for run in runs])
    add("uncertainty", [_error_model(run.told.get("uncertainty")) for run in runs])
    add("capture", [str(rests_on.get(run.content_hash, {}).get("capture") or run.told.get("capture") or "") for run in runs])
    add("job files", [_jobs(run, rests_on) for run in runs])
    broken = [[name, *(value.replace("/", f"/{BREAK}") for value in values)] for name, values in rows]
    for at in range(0, len(runs), _BESIDE):
        last = at + _BESIDE
        columns = (text_column(), *(text_column(run.title) for run in runs[at:last]))
        some = [[row[0], *row[1 + at : 1 + last]] for row in broken]
        section.blocks.append(Table("", columns, [row for row in some if any(value != NOTHING for value in row[1:])]))
    return section


_BESIDE = 4
"""Runs beside one another in a table of texts: more would be cut on paper."""


def _conditions(run: Run) -> Mapping[str, Any]:
    found = run.told.get("conditions")
    return {k: v for k, v in found.items() if k not in ("virtual", "notes")} if isinstance(found, Mapping) else {}


def _jobs(run: Run, rests_on: Mapping[str, Mapping[str, Any]]) -> str:
    """Return job files and traces, each once. Plans are generated from these and the manifest, whose hash is the suite's."""
    jobs = rests_on.get(run.content_hash, {}).get("jobs") or run.told.get("jobs") or {}
    names = {f"{Path(name).name} {str(h).removeprefix('sha256:')[:8]}": None for name, h in jobs.items() if not name.endswith("plan.toml")}
    return ", ".join(sorted(names))


def _error_model(model: Any) -> str:
    if isinstance(model, Mapping) and model.get("source"):
        return f"{model['source']} (k = {model.get('k', 2)})"
    return _text(model)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return worded(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
