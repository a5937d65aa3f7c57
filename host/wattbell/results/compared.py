"""One figure of two sides: the difference, how large it would have to be, and a verdict where runs were repeated."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ..measure.figure import Figure, absent, mean, ratio
from .spread import LEAST_RUNS, means_apart, spread_u

Verdict = Literal["higher", "lower", "unseen", "no repeats", "no verdict", "not comparable", ""]
"""Verdict on B. Unseen: no difference larger than ``seen_from``. Empty: a figure that is not judged."""
LOST = "records were lost under it"
NO_U = "no uncertainty is known"


@dataclass(frozen=True)
class Matched:
    """A figure of both sides, run by run.

    group: a phase, a test or a state
    besides: possible difference for a reason of no interest
    refused: why they cannot be compared
    remark: a remark that a reader of both needs
    shown: not judged at all
    """

    group: str
    name: str
    unit: str
    a: Sequence[Figure]
    b: Sequence[Figure]
    besides: float = 0.0
    refused: str = ""
    remark: str = ""
    shown: bool = False

    @property
    def complete(self) -> bool:
        """Both sides have a value in every run, and nothing speaks against a comparison."""
        return bool(self.a and self.b) and not self.refused and all(one.value is not None for one in (*self.a, *self.b))

    @property
    def judged(self) -> bool:
        """A verdict is given: both sides were repeated, and every run knows its uncertainty and lost nothing."""
        if not self.complete or self.shown or min(len(self.a), len(self.b)) < LEAST_RUNS:
            return False
        return all(one.u is not None and not one.lost for one in (*self.a, *self.b))


@dataclass(frozen=True)
class Compared:
    """One figure of both sides.

    a, b: means over the runs of a side
    runs: number of runs
    difference: B less A
    seen_from: the least difference that would get a verdict, None if unknown
    at_least: ``seen_from`` has only the instrument's error, and the spread between runs is unknown
    p: of Welch's test, before correction for the number of rows
    """

    group: str
    name: str
    unit: str
    a: Figure
    b: Figure
    difference: Figure
    verdict: Verdict
    why: str = ""
    runs: tuple[int, int] = (1, 1)
    seen_from: float | None = None
    at_least: bool = False
    p: float | None = field(default=None)

    @property
    def ratio(self) -> Figure:
        """B over A, as uncertain as the difference is."""
        quotient = ratio(self.b, self.a)
        if quotient.value is None or self.difference.value is None:
            return absent("one of the two is missing, or A is not positive")
        u = None if self.difference.u is None else self.difference.u / abs(self.a.known)
        return Figure(quotient.value, u, "", quotient.lost)


def number_judged(rows: Iterable[Matched]) -> int:
    """How many rows get a verdict: the level of each is divided by that."""
    return sum(row.judged for row in rows)


def compared(row: Matched, rows: int) -> Compared:
    """A row with its verdict; ``rows``: how many are judged together with it."""
    runs = (len(row.a), len(row.b))
    a, b = (_over(side, row.unit) for side in (row.a, row.b))
    if row.shown:
        return Compared(row.group, row.name, row.unit, a, b, absent("", row.unit), "", row.remark, runs)
    if not row.complete:
        missing = [str(one.conditions.get("absent") or "") for one in (*row.a, *row.b) if one.value is None]
        why = row.refused or "; ".join(dict.fromkeys(filter(None, missing)))
        return Compared(row.group, row.name, row.unit, a, b, absent(why, row.unit), "not comparable", why, runs)
    found = means_apart([one.known for one in row.a], [one.known for one in row.b], rows)
    instrument = _instrument(row)
    lost = sum(one.lost for one in (*row.a, *row.b))
    u = instrument if found.u is None or instrument is None else math.hypot(found.u, instrument)
    difference = Figure(found.difference, u, row.unit, lost)
    seen_from = instrument
    if instrument is not None and found.seen_from is not None:
        seen_from = max(found.seen_from, instrument)
    verdict, why = _verdict(row, found.difference, seen_from)
    at_least = found.seen_from is None
    return Compared(row.group, row.name, row.unit, a, b, difference, verdict, why, runs, seen_from, at_least, found.p)


def _verdict(row: Matched, difference: float, seen_from: float | None) -> tuple[Verdict, str]:
    if any(one.lost for one in (*row.a, *row.b)):
        return "no verdict", LOST
    if min(len(row.a), len(row.b)) < LEAST_RUNS:
        return "no repeats", row.remark
    if seen_from is None:
        return "no verdict", row.remark or NO_U
    if abs(difference) <= seen_from:
        return "unseen", row.remark
    return "higher" if difference > 0 else "lower", row.remark


def _instrument(row: Matched) -> float | None:
    """Return the error of the difference from the instrument and from ``besides``; None unless it is known of every run.

    The uncertainties of one side's runs come from one instrument and do not average out. The uncertainties of the two sides are taken as
    independent. If one front end measured both, its error is in both, and the result is rather too wide.
    """
    sides = [[one.u for one in side] for side in (row.a, row.b)]
    if any(u is None for side in sides for u in side):
        return None
    return math.hypot(*(sum(u for u in side if u is not None) / len(side) for side in sides)) + row.besides


def _over(side: Sequence[Figure], unit: str) -> Figure:
    """The mean over a side's runs; as uncertain as one run, and as the mean of runs that differ so."""
    if len(side) == 1:
        return side[0]
    if not side:
        return absent("", unit)
    whole = mean(side)
    if whole.value is None:
        return next(one for one in side if one.value is None)
    spread = spread_u([one.known for one in side])
    u = None if whole.u is None else math.hypot(whole.u, spread or 0.0)
    return Figure(whole.value, u, unit, whole.lost)
