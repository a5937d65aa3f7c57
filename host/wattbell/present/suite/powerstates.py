"""The table of NVMe power states: each declared figure beside its measured counterpart, with a verdict if both exist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from wattbell.measure.figure import Figure
from wattbell.measure.judge import LINK_S, Judgement, judge
from wattbell.present.chart import readable, shown
from wattbell.present.table import Cell, Column, Table, TextSpan, Tone, cell, figure, text_column
from wattbell.results import Known, Run
from wattbell.results.declared import PowerStateDescriptor, power_states
from wattbell.text import NOTHING, si

Measured = Mapping[int, Mapping[str, Known]]
IDLE, BURST, SEQUENTIAL = "idlp_w", "actp1_w", "actp2_w"
SPECIFIED = (IDLE, BURST, SEQUENTIAL)
"""Quantities that are measured as the specification defines the declared ones: this table's own."""


def measured_of(runs: Sequence[Run]) -> Measured:
    """All quantities that runs of one drive measured, by power state."""
    out: dict[int, dict[str, Known]] = {}
    for run in runs:
        for test in run.tests:
            for point in test.points:
                ps = point.x.get("ps")
                if isinstance(ps, float):
                    out.setdefault(int(ps), {}).update(point.figures)
    return out


def declared_and_measured(run: Run, runs: Sequence[Run]) -> Table:
    """Return the table for the drive of ``run``, from measurements of ``runs`` of the same drive; without rows if there are none."""
    measured = measured_of(runs)
    rows: list[list[Cell | str]] = []
    for state in power_states(run):
        found = measured.get(state.number)
        if not found:
            continue
        name = f"PS {state.number}" + ("" if state.operational else " (idle)")
        for what, declared, quantity, unit in _quantities(state, found):
            judged = verdict(declared, quantity, LINK_S if unit == "s" else 0.0)
            rows.append([name, what, si(declared, unit, 3) if declared else NOTHING, _shown(quantity, unit), judged])
            name = ""
    columns = (
        text_column("state", whole=True),
        text_column("", whole=True),
        Column("declared"),
        Column("measured"),
        text_column("verdict"),
    )
    note = (
        "MP: the highest mean power of a load, or asleep. IDLP: mean of 30 s after 10 s of idle. ACTP: the largest mean over 10 s, with "
        "workload #1 or #2 of the specification; judged where the drive declares it with the same one. ENLAT: last completion to settled "
        "power; EXLAT: CLKREQ# (else doorbell) to the completion of a read, less that read awake; the longest of each. Pass, fail: below "
        "or above by more than the uncertainty; a latency fails by more than that and the 100 µs that the link may take. Undecided: closer."
    )
    return Table(f"{run.title}: power states, declared and measured", columns, rows, page_note=note)


def _quantities(state: PowerStateDescriptor, found: Mapping[str, Known]) -> Iterator[tuple[str, float | None, Known | None, str]]:
    """Yield (name, declared, measured, unit) of the known figures of a state."""
    loads = [q for name, q in found.items() if name.endswith("_w") and name not in (IDLE, "idle_w")]
    asleep = [found[name] for name in ("settled_w", IDLE) if name in found]
    each: list[tuple[str, float | None, Known | None, str]] = [
        ("MP", state.max_w, max(loads if state.operational else asleep, key=lambda q: q.value, default=None), "W"),
        ("IDLP", state.idle_w, found.get(IDLE), "W"),
    ]
    for workload, name in ((1, BURST), (2, SEQUENTIAL)):
        same = state.workload == workload or (state.workload is None and state.active_w is None)
        if state.operational and (name in found or (same and state.active_w)):
            each.append((f"ACTP, workload #{workload}", state.active_w if same else None, found.get(name), "W"))
    if not state.operational or state.entry_s or state.exit_s:
        each += [("ENLAT", state.entry_s, longest(found, "entry_s"), "s"), ("EXLAT", state.exit_s, longest(found, "exit_s"), "s")]
    return (entry for entry in each if entry[1] or entry[2])


def longest(found: Mapping[str, Known], name: str) -> Known | None:
    """Return the longest ``entry_s`` or ``exit_s``, for a declared maximum.

    Results of an earlier version may have only the mean, which gets no uncertainty and so cannot be judged.
    """
    whole = found.get(name)
    return found.get(f"longest_{name}") or (None if whole is None else replace(whole, u=None))


_TONES: dict[str, Tone] = {"pass": "good", "fail": "bad"}


def tone(found: Judgement) -> Tone:
    """Return the colour of a verdict, also used for cells in its place."""
    return _TONES.get(found.verdict, "muted")


def times(measured: float, declared: float) -> str:
    """How many times the declared figure the measured is."""
    return f"×{measured / declared:.{2 if measured < 10 * declared else 0}f}"


def verdict(declared: float | None, quantity: Figure | None, slack: float = 0.0) -> Cell | str:
    """Whether a measured figure keeps to the declared one (:func:`~wattbell.measure.judge.judge`), and how many times that it is; empty
    where one of the two is missing."""
    if not declared or quantity is None or quantity.value is None:
        return ""
    found = judge(declared, quantity, slack)
    why = [TextSpan(f", {found.why}", "muted")] if found.verdict == "not measured" else []
    return cell(TextSpan(found.verdict, tone(found)), TextSpan(f" {times(quantity.value, declared)}", "muted"), *why)


def _shown(quantity: Known | None, unit: str) -> Cell | str:
    if quantity is None:
        return NOTHING
    factor, prefixed = readable([quantity.value], unit)
    return figure(shown(quantity), factor, prefixed)
