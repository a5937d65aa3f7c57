"""The tables of a suite page: power states, power and thermal features, provenance, every figure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from wattbell.analysis.text import NOTHING, count, duration, si
from wattbell.report.suite_charts import Section, TableBlock
from wattbell.report.suite_entities import Entity, drive_key, titles_of
from wattbell.report.tables import pair
from wattbell.results import Run
from wattbell.results.model import QUANTITIES

FEATURES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("", "Controller", ("controller",)),
    ("", "Firmware", ("firmware",)),
    ("", "NVMe version", ("nvme_version", "version")),
    ("1.0", "Number of operational (active) power states", ("operational_states",)),
    ("1.1", "Number of non-operational (idle) power states", ("non_operational_states",)),
    ("1.1", "Autonomous Power State Transition (APST)", ("apst", "apsta")),
    ("1.2", "Warning temperature", ("warning_c", "warning_temperature_c")),
    ("1.2", "Critical temperature", ("critical_c", "critical_temperature_c")),
    ("1.3", "Host Controlled Thermal Management", ("hctm", "hctma")),
    ("1.3", "Non-Operational Power State Permissive Mode", ("nopspm", "non_operational_permissive")),
    ("1.2", "Host Memory Buffer", ("hmb", "hmb_preferred")),
    ("1.0", "Volatile write cache", ("vwc", "volatile_write_cache")),
)
"""NVMe version that brought a feature, its name, and where a drive's description may say it."""


def _one_a_drive(runs: Sequence[Run]) -> list[Run]:
    return list({drive_key(run): run for run in reversed(runs)}.values())[::-1]


def _states(run: Run) -> list[Mapping[str, Any]]:
    found = run.drive.get("power_states")
    return [s for s in found if isinstance(s, Mapping)] if isinstance(found, list) else []


def _feature(run: Run, keys: Sequence[str]) -> Any:
    features = run.drive.get("features")
    places = [features if isinstance(features, Mapping) else {}, run.drive]
    for place in places:
        for key in keys:
            if place.get(key) is not None:
                return place[key]
    states = _states(run)
    if states and keys[0] in ("operational_states", "non_operational_states"):
        idle = sum(1 for state in states if _non_operational(state))
        return idle if keys[0].startswith("non") else len(states) - idle
    return None


def _non_operational(state: Mapping[str, Any]) -> bool:
    if "operational" in state:
        return not state["operational"]
    return bool(state.get("non_operational"))


def _shown(keys: Sequence[str], value: Any) -> str:
    if value is None:
        return NOTHING
    if keys[0].endswith("_c"):
        return f"{float(value):g} °C"
    if isinstance(value, bool):
        return "Supported" if value else "Not supported"
    return escape(str(value))


def features(runs: Sequence[Run]) -> Section:
    """Power and thermal management features and power states, as the drives declare them, and as they were measured."""
    section = Section(
        "Power and thermal management",
        "What the drive says of itself (Identify), and beside it what was measured. Declared figures are limits, often far from it.",
    )
    drives = [run for run in _one_a_drive(runs) if _states(run) or run.drive.get("features")]
    if not drives:
        return section
    head = ("NVMe", "feature", *(escape(run.title) for run in drives))
    rows = []
    for version, text, keys in FEATURES:
        values = [_feature(run, keys) for run in drives]
        if any(value is not None for value in values):
            rows.append([version, text, *(_shown(keys, value) for value in values)])
    section.blocks.append(TableBlock("Power and thermal management features", head, rows, left=2))
    for run in drives:
        if _states(run):
            section.blocks.append(_power_states(run, runs))
    return section


def _latency(state: Mapping[str, Any], name: str) -> str:
    for key, scale in ((f"{name}_us", 1e-6), (f"{name}_latency_us", 1e-6), (f"{name}_s", 1.0), (f"{name}_latency_s", 1.0)):
        if state.get(key) is not None:
            return duration(float(state[key]) * scale, 3) if state[key] else NOTHING
    return NOTHING


def _power_states(run: Run, runs: Sequence[Run]) -> TableBlock:
    measured: dict[int, dict[str, Any]] = {}
    columns: dict[str, str] = {}
    for other in runs:
        if drive_key(other) != drive_key(run):
            continue
        for test in other.tests:
            for point in test.points:
                ps = point.x.get("ps")
                if isinstance(ps, (int, float)):
                    for name, q in point.quantities.items():
                        measured.setdefault(int(ps), {})[name] = q
                        columns.setdefault(name, _column(name))
    rows = []
    for i, state in enumerate(_states(run)):
        ps = int(state.get("ps", state.get("state", i)))
        limit = state.get("max_w", state.get("max_power_w"))
        row = [
            f"PS {ps}",
            "idle" if _non_operational(state) else "active",
            si(float(limit), "W", 3) if limit is not None else NOTHING,
            _latency(state, "entry"),
            _latency(state, "exit"),
        ]
        found = measured.get(ps, {})
        row += [_measured(name, found[name]) if name in found else NOTHING for name in columns]
        rows.append(row)
    head = ("state", "kind", "max. power", "entry latency", "exit latency", *columns.values())
    note = "Columns after the exit latency are measured." if columns else "No run of power-states on this page: declared only."
    return TableBlock(f"{run.title}: NVMe power states", head, rows, left=2, note=note)


def _column(name: str) -> str:
    text = name
    for suffix in ("_w", "_s", "_j", "_mb_per_s"):
        text = text.removesuffix(suffix)
    return escape("measured " + text.replace("_", " ")) if text != "mb_per_s" else "measured rate"


def _measured(name: str, quantity: Any) -> str:
    unit = next((u for suffix, u in (("_w", "W"), ("_s", "s"), ("_j", "J")) if name.endswith(suffix)), "")
    if name == "mb_per_s" or not unit or name.endswith("per_s"):
        return pair(quantity.to_figure())
    for scale, prefix in ((1.0, ""), (1e3, "m"), (1e6, "µ")):
        if abs(quantity.value) * scale >= 1 or prefix == "µ":
            return pair(quantity.to_figure(), scale) + f" {prefix}{unit}"
    return NOTHING


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
