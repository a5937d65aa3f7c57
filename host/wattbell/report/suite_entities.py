"""Who is on a suite page: drives in a condition, their names and colours, and whether they may be compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from wattbell.report.suite_charts import PALETTE
from wattbell.results import Run, TestResult

CONDITION_NAMES = {"test-data": "test data only", "full": "full", "empty": "empty"}


@dataclass(frozen=True)
class Entity:
    """One run in one condition of its drive: a curve, a bar, a column."""

    run: Run
    condition: str
    label: str
    colour: str
    full: bool
    """Drawn hatched or dashed: the drive was filled before."""

    def test(self, test: str) -> TestResult | None:
        """The entity's result of a test."""
        return self.run.test(test, self.condition)


def drive_key(run: Run) -> str:
    """What makes two runs runs of the same drive."""
    return "\0".join(str(run.drive.get(key) or "") for key in ("model", "serial", "profile"))


def entities(runs: Sequence[Run]) -> list[Entity]:
    """An entity for each run and condition. A drive keeps its colour over all of them; every label is unique."""
    colours: dict[str, str] = {}
    found: list[tuple[Run, str]] = []
    for run in runs:
        colours.setdefault(drive_key(run), PALETTE[len(colours) % len(PALETTE)])
        found += [(run, condition) for condition in dict.fromkeys(t.condition for t in run.tests)]
    titles = {key: next(r.title for r in runs if drive_key(r) == key) for key in colours}
    conditions: dict[str, set[str]] = {}
    for run, condition in found:
        conditions.setdefault(drive_key(run), set()).add(condition)
    labels: list[str] = []
    for run, condition in found:
        key = drive_key(run)
        label = titles[key]
        if sum(title == label for title in titles.values()) > 1:
            label += f" {run.drive.get('serial') or run.profile or ''}".rstrip()
        if condition and (len(conditions[key]) > 1 or condition == "full"):
            label += f", {CONDITION_NAMES.get(condition, condition)}"
        if run.scaled:
            label += f" (scaled ×{run.scale:g})"
        labels.append(label)
    out: list[Entity] = []
    for i, (run, condition) in enumerate(found):
        label = labels[i]
        if labels.count(label) > 1:
            label += f" · {run.suite} {str(run.document.get('started_utc') or run.id or i + 1)[:16]}"
        if any(e.label == label for e in out):
            label += f" #{i + 1}"
        out.append(Entity(run, condition, label, colours[drive_key(run)], condition == "full"))
    return out


def in_suite(found: Sequence[Entity], *suites: str) -> Iterator[Entity]:
    """The entities that ran one of the suites."""
    return (e for e in found if e.run.suite in suites)


def mixtures(runs: Sequence[Run]) -> list[str]:
    """Why these runs are not simply comparable, one sentence a reason; empty when they are."""
    out: list[str] = []
    for suite in dict.fromkeys(run.suite for run in runs):
        members = [run for run in runs if run.suite == suite]
        hashes = {run.suite_hash for run in members}
        if len(hashes) > 1 and suite != "capture":
            which = "; ".join(f"{h[:8]}: {_names([r for r in members if r.suite_hash == h])}" for h in sorted(hashes))
            out.append(f"{suite} was run with {len(hashes)} different versions of its job files ({which}).")
        elif len(hashes) > 1:
            out.append("The captures come from different workloads; only phases of the same name say the same.")
        scales = {run.scale for run in members}
        if len(scales) > 1:
            which = "; ".join(f"×{s:g}: {_names([r for r in members if r.scale == s])}" for s in sorted(scales))
            out.append(f"{suite}: scaled and unscaled runs, or runs of different scales, stand side by side ({which}).")
    virtual = [run for run in runs if run.virtual]
    if virtual and len(virtual) < len(runs):
        out.append(f"Models and real drives stand side by side (models: {_names(virtual)}).")
    return out


def _names(runs: Sequence[Run]) -> str:
    return ", ".join(dict.fromkeys(run.title for run in runs))


def stamp(runs: Sequence[Run]) -> str:
    """What must stand on every picture made of these runs: model, scale, lost data. Empty for unscaled real drives."""
    parts = []
    virtual = [run for run in runs if run.virtual]
    if virtual:
        parts.append("drive models on the virtual rig" if len(virtual) == len(runs) else "some drives are models")
    if any(run.scaled for run in runs):
        scales = ", ".join(f"×{s:g}" for s in sorted({run.scale for run in runs}))
        parts.append(f"SCALED {scales}")
    if any(run.lost for run in runs):
        parts.append("DATA LOST, see page")
    return " · ".join(parts)
