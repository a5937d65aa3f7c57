"""Quantities that the suite power-states measured, by power state, beside the declared ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ..measure.figure import Known
from .declared import PowerStateDescriptor
from .model import Run

Measured = Mapping[int, Mapping[str, Known]]
IDLE, BURST, SEQUENTIAL = "idlp_w", "actp1_w", "actp2_w"
SPECIFIED = (IDLE, BURST, SEQUENTIAL)
"""Quantities that are measured as the specification defines the declared ones."""


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


def quantities(state: PowerStateDescriptor, found: Mapping[str, Known]) -> Iterator[tuple[str, float | None, Known | None, str]]:
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
