"""Power and thermal management on a suite page: declared values beside measured values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wattbell.measure.judge import LINK_S, judge
from wattbell.present.chart import ChartSection, readable, shown
from wattbell.present.suite.entities import drive_key
from wattbell.present.suite.powerstates import declared_and_measured, times
from wattbell.present.table import Cell, Column, Table, TextSpan, cell, figure, text_column
from wattbell.results import Known, Run
from wattbell.results.bystate import SPECIFIED, Measured, longest, measured_of
from wattbell.results.declared import PowerStateDescriptor, feature, power_states
from wattbell.results.limits import LARGEST
from wattbell.text import NOTHING, duration, si, size_bytes

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
"""NVMe version that introduced a feature, its name, and its key in :mod:`wattbell.results.declared`."""


def _one_a_drive(runs: Sequence[Run]) -> list[Run]:
    """Choose, for each drive, the run that recorded most of its declared features."""
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
    if isinstance(value, bool):
        return "Supported" if value else "Not supported"
    if isinstance(value, int | float) and abs(value) < LARGEST:
        if name.endswith("_c"):
            return f"{value:g} °C"
        if name == "hmb":
            return f"{size_bytes(int(value))} preferred" if value else "Not used"
    return str(value)


def features(runs: Sequence[Run]) -> ChartSection:
    """Power and thermal management features and power states, as declared and as measured."""
    section = ChartSection(
        "Power and thermal management",
        "What the drive says of itself (Identify), and beside it what was measured. The system chooses idle states by the declared "
        "figures; how far they are from what the drive does is the factor behind the measured ones, red where these do not keep to them.",
    )
    drives = [run for run in _one_a_drive(runs) if power_states(run) or run.drive.get("features")]
    if not drives:
        return section
    columns = (text_column("NVMe"), text_column("feature"), *(Column(run.title) for run in drives))
    rows = []
    for version, text, name in FEATURES:
        values = [feature(run, name) for run in drives]
        if any(value is not None for value in values):
            rows.append([version, text, *(_shown(name, value) for value in values)])
    if rows:
        section.blocks.append(Table("Power and thermal management features", columns, rows))
    for run in drives:
        if power_states(run):
            section.blocks += _power_states(run, [r for r in runs if drive_key(r) == drive_key(run)])
    return section


def _latency(seconds: float | None) -> str:
    return duration(seconds, 3) if seconds else NOTHING


def _power_states(run: Run, runs: Sequence[Run]) -> list[Table]:
    """Return a drive's declared power states beside measurements of ``runs`` of the same drive."""
    states = power_states(run)
    rows = [
        [f"PS {s.number}", si(s.max_w, "W", 3), "active" if s.operational else "idle", _latency(s.entry_s), _latency(s.exit_s)]
        for s in states
    ]
    columns = (text_column("state"), *map(Column, ("max. power", "active or idle", "entry latency", "exit latency")))
    measured = measured_of(runs)
    note = "" if measured else "No run of power-states on this page measured them."
    blocks = [Table(f"{run.title}: NVMe power states, as declared", columns, rows, page_note=note)]
    made = (declared_and_measured(run, runs), _operational(run, states, measured), _idle(run, states, measured))
    return blocks + [table for table in made if table.rows]


def _operational(run: Run, states: Sequence[PowerStateDescriptor], measured: Measured) -> Table:
    mine = [s for s in states if s.operational and measured.get(s.number)]
    names = list(dict.fromkeys(name for s in mine for name in measured[s.number] if name not in SPECIFIED))
    columns = (text_column("state"), Column("max. power\ndeclared"), *(Column(_heading(name)) for name in names))
    rows: list[list[Cell | str]] = []
    for state in mine:
        found = measured[state.number]
        cells = [_value(name, found.get(name), state.max_w if name.endswith("_w") else None, found.get(name)) for name in names]
        rows.append([f"PS {state.number}", si(state.max_w, "W", 3), *cells])
    note = "Idle, and under each load at its highest rate. A factor: mean power above the declared maximum, by more than the uncertainty."
    return Table(f"{run.title}: active states, measured", columns, rows, page_note=note)


_IDLE: tuple[tuple[str, str, Callable[[PowerStateDescriptor], float | None]], ...] = (
    ("power", "settled_w", lambda s: s.max_w),
    ("entry latency", "entry_s", lambda s: s.entry_s),
    ("exit latency", "exit_s", lambda s: s.exit_s),
)
"""Quantities of an idle state that are both declared and measured: title, quantity, declared value."""
_ONLY_MEASURED = (
    ("waking read,\ndoorbell to CQE", "doorbell_to_cqe_s"),
    ("energy\nof entry", "entry_j"),
    ("energy\nof exit", "exit_j"),
    ("break-even\nidle time", "break_even_s"),
)


def _idle(run: Run, states: Sequence[PowerStateDescriptor], measured: Measured) -> Table:
    heads = [f"{title}\n{whose}" for title, *_ in _IDLE for whose in ("declared", "measured")] + [title for title, _ in _ONLY_MEASURED]
    rows: list[list[Cell | str]] = []
    for state in states:
        found = measured.get(state.number)
        if state.operational or not found:
            continue
        cells: list[Cell | str] = [f"PS {state.number}"]
        for _, name, of in _IDLE:
            said = of(state)
            power = name.endswith("_w")
            judged = found.get(name) if power else longest(found, name)
            cells += [si(said, "W", 3) if power and said else _latency(said), _value(name, found.get(name), said, judged, always=True)]
        rows.append([*cells, *(_value(name, found.get(name)) for _, name in _ONLY_MEASURED)])
    note = (
        "Entry: last completion to settled power. Exit: CLKREQ# asserted to the completion of a read, less that read's latency when awake. "
        "Both are means; red: the longest is above the declared by more than its uncertainty and the link's 100 µs. "
        "Break-even: idle time above which entering the state saves energy."
    )
    return Table(f"{run.title}: idle states, declared and measured", [text_column("state"), *map(Column, heads)], rows, page_note=note)


_UNITS = (("_mb_per_s", "MB/s"), ("_w", "W"), ("_s", "s"), ("_j", "J"))


def _heading(name: str) -> str:
    """``sequential_read_w`` is ``sequential read`` over ``power``."""
    suffix, unit = next(((suffix, unit) for suffix, unit in _UNITS if name.endswith(suffix)), ("", ""))
    text = name.removesuffix(suffix).replace("_", " ")
    return "\n".join((text, {"MB/s": "rate", "W": "power"}.get(unit, "")))


def _value(
    name: str, quantity: Known | None, declared: float | None = None, judged: Known | None = None, always: bool = False
) -> Cell | str:
    """Return the value with its unit, and its ratio to the declared value if ``judged`` fails against that.

    judged: the figure that must keep to the declared value
    always: show the ratio whenever a value is declared
    """
    if quantity is None:
        return NOTHING
    unit = next((unit for suffix, unit in _UNITS if name.endswith(suffix)), "")
    factor, prefixed = readable([quantity.value], unit)
    value = figure(shown(quantity), factor, prefixed)
    found = judge(declared, judged, LINK_S if unit == "s" else 0.0)
    if declared and (always or found.verdict == "fail"):
        return cell(value, " ", TextSpan(times(quantity.value, declared), "bad" if found.verdict == "fail" else "muted"))
    return value
