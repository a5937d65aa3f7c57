"""Verdicts of ``wattbell compare --gate`` as the verdicts of ``wattbell judge``: for their exit codes and their JUnit XML."""

from __future__ import annotations

from ..measure.figure import Figure
from ..results.gate import RULE, GatedSides
from .judging import JudgedRow, Verdicts
from .model import Requirement

GATE = "gate"
"""Stands where the rows of other verdicts have the name of their set."""


def verdicts_of(found: GatedSides) -> Verdicts:
    """Return a row a figure. The measured figure is the regression in percent: above 0 if side B is worse."""
    limit = 100 * found.gate
    sources = tuple(run.source or run.id for side in (found.a, found.b) for run in side.runs)
    rows = []
    for one in found.rows:
        share, sign = one.share, 1 if one.worse == "higher" else -1
        worse = Figure(None if share.value is None else sign * share.value, share.u, "%", share.lost)
        text = f"A new firmware makes this figure at most {limit:g} % {one.worse}."
        asked = Requirement(id=f"{one.group}: {one.name}" if one.group else one.name, clause="", text=text, limit=limit, unit="%")
        scope = "" if one.change is None else scope_of(found)
        judged = one.judgement
        figures = (worse, Figure(limit, 0.0, "%"), f"{limit:g}")
        rows.append(JudgedRow(GATE, asked, "", scope, *figures, judged.verdict, judged.why, RULE, sources))
    first = found.a.first
    return Verdicts(first.title, first.origin, sources, tuple(rows))


def scope_of(found: GatedSides) -> str:
    """Return the samples that the verdicts hold for, in words."""
    a, b = found.samples
    if set(a) == set(b):
        return f"sample {a[0]} alone" if len(a) == 1 else f"{len(a)} samples"
    return f"{len(a)} and {len(b)} samples"
