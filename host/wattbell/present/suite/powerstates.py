"""The table of NVMe power states: each declared figure beside its measured counterpart, with a verdict if both exist."""

from __future__ import annotations

from collections.abc import Sequence

from wattbell.measure.figure import Figure
from wattbell.measure.judge import LINK_S, Judgement, judge
from wattbell.present.chart import readable, shown
from wattbell.present.table import Cell, Column, Table, TextSpan, Tone, cell, figure, text_column
from wattbell.results import Known, Run
from wattbell.results.bystate import measured_of, quantities
from wattbell.results.declared import power_states
from wattbell.text import NOTHING, si


def declared_and_measured(run: Run, runs: Sequence[Run]) -> Table:
    """Return the table for the drive of ``run``, from measurements of ``runs`` of the same drive; without rows if there are none."""
    measured = measured_of(runs)
    rows: list[list[Cell | str]] = []
    for state in power_states(run):
        found = measured.get(state.number)
        if not found:
            continue
        name = f"PS {state.number}" + ("" if state.operational else " (idle)")
        for what, declared, quantity, unit in quantities(state, found):
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
        "or above by more than the uncertainty; a latency fails by more than that and the 100 µs of the link. Conditional: closer."
    )
    return Table(f"{run.title}: power states, declared and measured", columns, rows, page_note=note)


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
