"""Checks each statement of the seeds against measured results."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from wattbell import door
from wattbell.errors import UsageError
from wattbell.measure.figure import Known
from wattbell.results import Run

from . import method
from .measure import Lookup, MeasuredFigure
from .statements import Book, SeedDrive, Statement

Verdict = Literal["holds", "does not hold", "not measured", "not measurable"]
_FROM_SEEDS = re.compile(r"\bseeds? \d|methodology")
VERDICTS: tuple[Verdict, ...] = ("holds", "does not hold", "not measured", "not measurable")


@dataclass(frozen=True)
class CheckedStatement:
    """A statement and its verdict. ``fitted_by``: profile figures that all but determine the answer."""

    statement: Statement
    verdict: Verdict
    value: Known | None = None
    text: str = ""
    remark: str = ""
    fitted_by: tuple[str, ...] = ()
    runs: tuple[Run, ...] = ()

    @property
    def group(self) -> str:
        """Group it is counted in: figures a profile was fitted to say nothing new."""
        kind = self.statement.kind
        if kind != "result":
            return kind
        return "fitted" if self.fitted_by else "unfitted"


class Profiles:
    """The drives' profiles, with marks on fitted figures. ``folder`` holds ``NAME.toml``, and the defaults of every profile in
    ``common.toml``.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, Mapping[str, Any]] = {}

    def _profile(self, name: str) -> Mapping[str, Any]:
        if name not in self._known:
            try:
                self._known[name] = tomllib.loads(door.read_text(self._folder / f"{name}.toml", door.SETTINGS))
            except (OSError, tomllib.TOMLDecodeError):
                self._known[name] = {}
        return self._known[name]

    def names(self, drive: SeedDrive) -> list[str]:
        """Profiles in the folder that represent a drive."""
        return sorted(p.stem for p in self._folder.glob("*.toml") if drive.matches(p.stem))

    def entry(self, name: str, key: str) -> Mapping[str, Any] | None:
        """Value of a key such as ``flash.read_slc_us`` or ``power_state.4.core_w``, from a profile or the defaults; None if there is
        none."""
        own = self._named(name, key)
        return self._named("common", key) if own is None else own

    def _named(self, name: str, key: str) -> Mapping[str, Any] | None:
        found: Any = self._profile(name)
        for part in key.split("."):
            if isinstance(found, list):
                found = found[int(part)] if int(part) < len(found) else None
            else:
                found = found.get(part) if isinstance(found, Mapping) else None
        return found if isinstance(found, Mapping) else None

    def fitted(self, name: str, key: str) -> bool:
        """Return whether a profile's figure is marked as fitted, or was taken from a seed (or the extract of the seeds)."""
        entry = self.entry(name, key)
        if entry is None:
            return False
        return bool(entry.get("fitted")) or bool(_FROM_SEEDS.search(str(entry.get("source", ""))))


def check(book: Book, runs: Sequence[Run], profiles: Path) -> list[CheckedStatement]:
    """Outcome of every statement, in order. ``profiles``: folder of the drive profiles."""
    lookup, known = Lookup(runs, book.drives), Profiles(profiles)
    return [_outcome(statement, book, lookup, known) for statement in book.statements]


def _outcome(statement: Statement, book: Book, lookup: Lookup, profiles: Profiles) -> CheckedStatement:
    if statement.not_measurable:
        return CheckedStatement(statement, "not measurable", remark=statement.not_measurable)
    if statement.method:
        return _method(statement)
    if statement.values:
        top, *below = statement.values
        return _judged(statement, MeasuredFigure(Known(top / math.prod(below))), ())
    fitted = _fitted_by(statement, book, profiles)
    return _judged(statement, _combined(statement, lookup), fitted)


def _method(statement: Statement) -> CheckedStatement:
    try:
        found = method.asked(statement.method)
    except UsageError as error:
        return CheckedStatement(statement, "not measured", remark=str(error))
    good = method.same(found, statement.equals)
    return CheckedStatement(statement, "holds" if good else "does not hold", text=str(found))


def _combined(statement: Statement, lookup: Lookup) -> MeasuredFigure:
    assert statement.a is not None
    a = lookup.measure(statement.a)
    if a.value is None:
        return a
    if statement.b is None:
        q = a.value
        return MeasuredFigure(Known(q.value * statement.scale, q.u * statement.scale if q.u else None, lost=q.lost), runs=a.runs)
    b = lookup.measure(statement.b)
    if b.value is None:
        return b
    runs = tuple({id(run): run for run in (*a.runs, *b.runs)}.values())
    if statement.op == "a-b":
        u = math.hypot(a.value.u or 0.0, b.value.u or 0.0)
        return MeasuredFigure(Known(a.value.value - b.value.value, u or None, lost=a.value.lost + b.value.lost), runs=runs)
    if b.value.value == 0:
        return MeasuredFigure(missing=f"{statement.b.text()} is zero")
    ratio = a.value.value / b.value.value
    relative = [q.u / abs(q.value) for q in (a.value, b.value) if q.u and q.value]
    u = abs(ratio) * math.hypot(*relative) if relative else 0.0
    return MeasuredFigure(Known(ratio, u or None, lost=a.value.lost + b.value.lost), runs=runs)


def _judged(statement: Statement, measured: MeasuredFigure, fitted: tuple[str, ...]) -> CheckedStatement:
    q = measured.value
    if q is None:
        return CheckedStatement(statement, "not measured", remark=measured.missing, fitted_by=fitted)
    # Declared figures are compared as printed: 9 ms is 0.009 s only to the last bit.
    slack = 1e-9 * max(abs(q.value), 1e-12)
    inside = statement.low - slack <= q.value <= statement.high + slack
    remarks = []
    if q.u and any(abs(q.value - limit) <= q.u for limit in (statement.low, statement.high)):
        remarks.append("a limit lies within the uncertainty")
    scales = sorted({run.scale for run in measured.runs})
    if scales and scales != [1.0]:
        remarks.append("scaled " + ", ".join(f"×{s:g}" for s in scales))
    if len(scales) > 1:
        remarks.append("runs of different scales")
    if q.lost:
        remarks.append(f"{q.lost} records lost")
    verdict: Verdict = "holds" if inside else "does not hold"
    return CheckedStatement(statement, verdict, q, "", "; ".join(remarks), fitted, measured.runs)


def _fitted_by(statement: Statement, book: Book, profiles: Profiles) -> tuple[str, ...]:
    """Profile figures that were fitted to the answer, as ``profile: key``."""
    found = []
    for drive in statement.drives:
        for name in profiles.names(book.drives[drive]):
            found += [f"{name}: {key}" for key in statement.depends if profiles.fitted(name, key)]
    return tuple(dict.fromkeys(found))


def counts(outcomes: Sequence[CheckedStatement]) -> dict[str, dict[str, int]]:
    """Number of statements per group and verdict; ``not measurable`` ones are counted in no other group."""
    table: dict[str, dict[str, int]] = {}
    for group in ("unfitted", "fitted", "declared", "method", "arithmetic"):
        members = [o for o in outcomes if o.group == group]
        table[group] = {verdict: sum(o.verdict == verdict for o in members) for verdict in VERDICTS}
    return table
