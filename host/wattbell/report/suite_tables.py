"""The tables of a suite page: power states, power and thermal features, provenance, every figure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from wattbell.analysis.names import size_text
from wattbell.analysis.text import NOTHING, count, duration, si, size_bytes
from wattbell.report.suite_charts import Section, TableBlock, readable
from wattbell.report.suite_entities import Entity, drive_key, titles_of
from wattbell.report.tables import pair
from wattbell.results import Point, Quantity, Run
from wattbell.results.declared import feature, power_states
from wattbell.results.model import QUANTITIES

FEATURES = (
    ("", "Controller", "controller"),
    ("", "Firmware", "firmware"),
    ("", "NVMe version", "nvme_version"),
    ("1.0", "Number of operational (active) power states", "operational_states"),
    ("1.1", "Number of non-operational (idle) power states", "non_operational_states"),
    ("1.1", "Autonomous Power State Transition (APST)", "apst"),
    ("1.2", "Warning temperature", "warning_c"),
    ("1.2", "Critical temperature", "critical_c"),
    ("1.3", "Host Controlled Thermal Management", "hctm"),
    ("1.3", "Non-Operational Power State Permissive Mode", "nopspm"),
    ("1.2", "Host Memory Buffer", "hmb"),
    ("1.0", "Volatile write cache", "write_cache"),
)
"""NVMe version that brought a feature, its name, and its key (:mod:`wattbell.results.declared`)."""


def _one_a_drive(runs: Sequence[Run]) -> list[Run]:
    """Of each drive the run that recorded most of what it declares."""
    best: dict[str, Run] = {}
    for run in runs:
        key = drive_key(run)
        if key not in best or _known(run) > _known(best[key]):
            best[key] = run
    return list(best.values())


def _known(run: Run) -> int:
    return sum(feature(run, name) is not None for _, _, name in FEATURES)


def _shown(name: str, value: Any) -> str:
    if value is None:
        return NOTHING
    if name.endswith("_c"):
        return f"{float(value):g} °C"
    if name == "hmb" and not isinstance(value, bool):
        return f"{size_bytes(int(value))} preferred" if value else "Not used"
    if isinstance(value, bool):
        return "Supported" if value else "Not supported"
    return escape(str(value))


def features(runs: Sequence[Run]) -> Section:
    """Power and thermal management features and power states, as the drives declare them, and as they were measured."""
    section = Section(
        "Power and thermal management",
        "What the drive says of itself (Identify), and beside it what was measured. Declared figures are limits, often far from it.",
    )
    drives = [run for run in _one_a_drive(runs) if power_states(run) or run.drive.get("features")]
    if not drives:
        return section
    head = ("NVMe", "feature", *(escape(run.title) for run in drives))
    rows = []
    for version, text, name in FEATURES:
        values = [feature(run, name) for run in drives]
        if any(value is not None for value in values):
            rows.append([version, text, *(_shown(name, value) for value in values)])
    if rows:
        section.blocks.append(TableBlock("Power and thermal management features", head, rows, left=2))
    for run in drives:
        if power_states(run):
            section.blocks.append(_power_states(run, runs))
    return section


def _latency(seconds: float | None) -> str:
    return duration(seconds, 3) if seconds else NOTHING


def _power_states(run: Run, runs: Sequence[Run]) -> TableBlock:
    """Declared states of the run's drive; columns measured by its runs of power-states on this page."""
    measured: dict[int, dict[str, Quantity]] = {}
    names: dict[str, None] = {}
    for other in runs:
        for test in other.tests if drive_key(other) == drive_key(run) else ():
            for point in test.points:
                ps = point.x.get("ps")
                for name, value in point.quantities.items():
                    if isinstance(ps, float):
                        measured.setdefault(int(ps), {})[name] = value
                        names[name] = None
    rows = []
    for state in power_states(run):
        cells = [
            f"PS {state.number}",
            "active" if state.operational else "idle",
            si(state.max_w, "W", 3),
            _latency(state.entry_s),
            _latency(state.exit_s),
        ]
        found = measured.get(state.number, {})
        rows.append(cells + [_measured(name, found[name]) if name in found else NOTHING for name in names])
    head = ("state", "kind", "max. power", "entry latency", "exit latency", *(_column(name) for name in names))
    note = "Columns after the exit latency are measured, the others declared."
    if not names:
        note = "Declared; no run of power-states on this page measured them."
    return TableBlock(f"{run.title}: NVMe power states", head, rows, left=2, note=note)


_UNITS = (("_mb_per_s", "MB/s"), ("_w", "W"), ("_s", "s"), ("_j", "J"))


def _unit(name: str) -> str:
    return next((unit for suffix, unit in _UNITS if name.endswith(suffix)), "")


def _column(name: str) -> str:
    """``entry_j`` is ``entry energy``: rates and times need no word beside their unit."""
    suffix = next((suffix for suffix, _ in _UNITS if name.endswith(suffix)), "")
    text = name.removesuffix(suffix).replace("_", " ").replace("cqe", "CQE")
    return escape(text + {"_w": " power", "_j": " energy"}.get(suffix, ""))


def _measured(name: str, quantity: Quantity) -> str:
    unit = _unit(name)
    factor, shown = readable([quantity.value], unit)
    return f"{pair(quantity.to_figure(), factor)} {shown}"


def matrices(found: Sequence[Entity]) -> Section:
    """Tests that vary block size and mix together (SNIA PTS): a table of blocks by mixes for each drive."""
    note = "Means over the rounds of the steady-state window; where there was none, the notes above say so."
    section = Section("Block sizes and mixes (SNIA PTS)", note)
    for key, title in titles_of(found).items():
        for entity in found:
            result = entity.test(key)
            cells: dict[tuple[float, float], Point] = {}
            for point in result.points if result else ():
                block, share = point.x.get("block_bytes"), point.x.get("write_share")
                if isinstance(block, float) and isinstance(share, float):
                    cells[block, share] = point
            blocks, shares = (sorted({k[i] for k in cells}) for i in (0, 1))
            if len(blocks) < 2:
                continue
            for quantity, unit in (("iops", "IOPS"), ("mb_per_s", "MB/s"), ("mean_latency_s", "mean latency, µs")):
                factor = 1e6 if quantity == "mean_latency_s" else 1.0
                head = (f"block \\ {unit}", *(f"{100 * (1 - share):g} % reads" for share in shares))
                rows = [[size_text(int(b)), *(_cell(cells.get((b, s)), quantity, factor) for s in shares)] for b in blocks]
                section.blocks.append(TableBlock(f"{title}: {entity.label}, {unit}", head, rows))
    return section


def _cell(point: Point | None, quantity: str, factor: float) -> str:
    value = point.quantities.get(quantity) if point else None
    return pair(value.to_figure(), factor) if value else NOTHING


def every_figure(found: Sequence[Entity]) -> Section:
    """Every point and score, with its uncertainty and what was lost under it."""
    section = Section("Every figure", "In brackets: expanded uncertainty (k = 2) in the last digits.")
    for key, title in titles_of(found).items():
        quantities: dict[str, None] = {}
        for entity in found:
            result = entity.test(key)
            for point in result.points if result else ():
                quantities.update(dict.fromkeys(point.quantities))
        rows = []
        for entity in found:
            result = entity.test(key)
            for point in result.points if result else ():
                x = ", ".join(f"{k.replace('_', ' ')} {v:g}" if isinstance(v, float) else f"{k} {v}" for k, v in point.x.items())
                cells = [pair(q.to_figure()) if (q := point.quantities.get(n)) else NOTHING for n in quantities]
                lost = max((q.n_lost for q in point.quantities.values()), default=0)
                rows.append([escape(entity.label), escape(x), *cells, count(lost) if lost else ""])
        if rows:
            units = [f"{n.removesuffix('_s').replace('_', ' ')}, {QUANTITIES[n]}" if n in QUANTITIES else n for n in quantities]
            head = ("drive", "at", *(escape(_plain(u)) for u in units), "lost")
            section.blocks.append(TableBlock(title, head, rows, left=2))
    return section


def _plain(text: str) -> str:
    names = {"mb per, MB/s": "MB/s", "mb per s per w, MB/s/W": "MB/s/W", "iops, IOPS": "IOPS", "mean w, W": "W"}
    return names.get(text, text.replace("energy j, J", "energy, J"))


def provenance(runs: Sequence[Run], rests_on: Mapping[str, Mapping[str, Any]]) -> Section:
    """What the figures rest on. ``rests_on``: capture and job hashes by content hash."""
    section = Section("Where this comes from")
    rows: list[tuple[str, list[str]]] = []

    def add(name: str, values: Sequence[str]) -> None:
        if any(value and value != NOTHING for value in values):
            rows.append((name, [escape(value) if value else NOTHING for value in values]))

    add("run", [run.id or str(run.source) for run in runs])
    add("suite", [run.suite for run in runs])
    add("suite hash", [run.suite_hash.removeprefix("sha256:")[:16] for run in runs])
    add("scale", [f"×{run.scale:g}" + (" SCALED" if run.scaled else "") for run in runs])
    add("rig", ["virtual" if run.virtual else "hardware" for run in runs])
    add("drive model", [run.profile or "" for run in runs])
    add("profile hash", [str(run.drive.get("profile_hash") or "").removeprefix("sha256:")[:16] for run in runs])
    add("serial number", [str(run.drive.get("serial") or "") for run in runs])
    add("drive firmware", [str(run.drive.get("firmware") or "") for run in runs])
    add("started", [str(run.document.get("started_utc") or "") for run in runs])
    for part in dict.fromkeys(part for run in runs for part in run.versions):
        add(f"{part} version", [run.versions.get(part, "") for run in runs])
    conditions: dict[str, None] = {}
    for run in runs:
        conditions.update(dict.fromkeys(_conditions(run)))
    for name in conditions:
        add(name.replace("_", " "), [_text(_conditions(run).get(name)) for run in runs])
    add("lost", [", ".join(f"{n} {kind}" for kind, n in run.lost.items()) or "nothing" for run in runs])
    add("uncertainty", [_text(run.document.get("uncertainty")) for run in runs])
    add("capture", [str(rests_on.get(run.content_hash, {}).get("capture") or run.document.get("capture") or "") for run in runs])
    add("job files", [_jobs(run, rests_on) for run in runs])
    head = ("", *(escape(run.title) for run in runs))
    section.blocks.append(TableBlock("", head, [[name, *values] for name, values in rows], left=1 + len(runs)))
    return section


def _conditions(run: Run) -> Mapping[str, Any]:
    found = run.document.get("conditions")
    return {k: v for k, v in found.items() if k not in ("virtual", "notes")} if isinstance(found, Mapping) else {}


def _jobs(run: Run, rests_on: Mapping[str, Mapping[str, Any]]) -> str:
    jobs = rests_on.get(run.content_hash, {}).get("jobs") or run.document.get("jobs") or {}
    return ", ".join(f"{name} {str(h).removeprefix('sha256:')[:8]}" for name, h in jobs.items())


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
