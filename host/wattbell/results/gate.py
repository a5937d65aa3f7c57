"""Judge whether a drive became worse by more than a gate: side A before a change of its firmware, side B after it.

Each figure is judged by its change (:mod:`.change`), with a guard band on both sides of the gate (:mod:`..measure.judge`):

- *pass*, no regression larger than the gate: so says the 95 % interval of the change. No correction for the number of figures is needed. A
  comparison passes if each of its figures does, so it passes falsely in at most 2.5 % of cases (an intersection-union test: Berger,
  Technometrics 24, 1982).
- *fail*, a regression: the change lies beyond the gate by a one-sided test, corrected for the number of figures (Holm, Scandinavian Journal
  of Statistics 6, 1979). A comparison without a regression has any *fail* in at most 2.5 % of cases.
- *conditional pass*, *conditional fail*, undecided: neither.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ..errors import ResultsError
from ..measure.figure import Figure, absent, mean
from ..measure.judge import LOST, NO_U, Judgement
from .change import Inseparable, SampledChange, change
from .compared import Matched
from .comparison import matched_sides
from .measures import HIGHER_IS_BETTER
from .model import Run
from .sides import DriveSide, sides_of, work_of

LEVEL = 0.025
"""Chance of a false *fail* in a comparison without regression, and of a false pass."""
RULE = "guard band: pass by the 95 % interval, fail by a one-sided test at 2.5 % corrected for the number of figures (Holm)"
CLOSE = "too close to the gate"


@dataclass(frozen=True)
class GatedFigure:
    """One figure, judged.

    a, b : means over the runs of a side
    worse : the direction that a regression has
    change : None if the runs cannot tell it; ``judgement`` says why
    low, high : ends of the 95 % interval of B / A - 1, the instrument's error included
    p : chance of such a change if the true change equals the gate; ``p_holm``: corrected for the number of figures
    """

    group: str
    name: str
    unit: str
    a: Figure
    b: Figure
    worse: str
    judgement: Judgement
    change: SampledChange | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    p_holm: float | None = None

    @property
    def share(self) -> Figure:
        """B / A - 1 in percent. ``u``: the half of the interval on its wider side."""
        if self.change is None or self.low is None or self.high is None:
            return absent(self.judgement.why, "%")
        value = math.expm1(self.change.value)
        return Figure(100 * value, 100 * max(value - self.low, self.high - value), "%", self.a.lost + self.b.lost)


@dataclass(frozen=True)
class GatedSides:
    """Both sides, judged. ``gate``: the largest accepted regression, as a share; ``samples``: serial numbers of each side."""

    a: DriveSide
    b: DriveSide
    gate: float
    rows: Sequence[GatedFigure]
    samples: tuple[tuple[str, ...], tuple[str, ...]]

    @property
    def tested(self) -> int:
        """Number of figures that Holm's correction is for."""
        return sum(row.change is not None for row in self.rows)


# -- the sides --------------------------------------------------------------------------------------------------------


def gated_sides(groups: Sequence[Sequence[Run]], *, given: bool) -> tuple[DriveSide, DriveSide]:
    """Return side A and side B.

    groups : the runs of each reference, or of each side where the user ``given`` them

    Without given sides, the firmware revision tells them apart, and the side of the first run is A. Raises ResultsError for runs that this
    does not tell apart, or that did not do the same work.
    """
    if given:
        if len(groups) != 2:
            raise ResultsError(f"--gate judges one change: give two sides, with one --with between them, not {len(groups)}.")
    else:
        groups = _by_firmware([run for group in groups for run in group])
    runs = [run for group in groups for run in group]
    for what, of in _ALIKE:
        found = dict.fromkeys(of(run) for run in runs)
        if len(found) > 1:
            raise ResultsError(f"--gate takes runs that differ in the firmware alone, and these differ in {what}. {_ADVICE}")
    a, b = sides_of(groups, given=True)
    return a, b


_ALIKE: tuple[tuple[str, Callable[[Run], str]], ...] = (
    ("the drive's model", lambda run: json.dumps([str(run.drive.get(key) or "").strip() for key in ("model", "profile")])),
    ("being measured or modelled", lambda run: run.origin.value),
    ("the suite, its version or its scale", lambda run: json.dumps([run.suite, run.suite_hash, run.scale])),
    ("their conditions", work_of),
)
_ADVICE = "Leave the others out."


def _by_firmware(runs: Sequence[Run]) -> list[list[Run]]:
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(run.firmware, []).append(run)
    if "" in found:
        raise ResultsError(f"{_named(found[''][0])} does not say its firmware revision. Put --with before the runs of the second side.")
    if len(found) == 2:
        return list(found.values())
    text = f"All runs have firmware {runs[0].firmware}" if len(found) == 1 else f"The runs have {len(found)} revisions of "
    text += "" if len(found) == 1 else f"firmware ({', '.join(found)})"
    advice = "Put --with before the runs of the second side" if len(found) == 1 else "Give the runs of two"
    raise ResultsError(f"{text}, and --gate compares two. {advice}.")


def sample_of(run: Run) -> str:
    """Serial number of the run's drive. Raises ResultsError if the run does not say it."""
    found = str(run.drive.get("serial") or "").strip()
    if not found:
        raise ResultsError(f"{_named(run)} does not say the drive's serial number, so --gate cannot tell which runs are of one sample.")
    return found


def _named(run: Run) -> str:
    return run.source or run.id or run.content_hash[:12]


# -- the figures ------------------------------------------------------------------------------------------------------


def judge_change(a: DriveSide, b: DriveSide, gate: float) -> GatedSides:
    """Judge each figure of both sides. ``gate``: the largest accepted regression, as a share. Raises ResultsError for a run without a
    serial number.
    """
    samples = [[sample_of(run) for run in side.runs] for side in (a, b)]
    parts = matched_sides(a, b)
    rows = [row for row in (*parts.measures, *parts.commands, *parts.alone, *parts.states) if not row.shown]
    named = [tuple(dict.fromkeys(side)) for side in samples]
    return GatedSides(a, b, gate, judge_rows(rows, samples, gate), (named[0], named[1]))


def judge_rows(rows: Sequence[Matched], samples: Sequence[Sequence[str]], gate: float) -> list[GatedFigure]:
    """Judge figures together. ``samples``: serial number of each run of side A, and of side B."""
    return list(_judged([_begun(row, samples, gate) for row in rows], gate))


@dataclass(frozen=True)
class _Begun:
    """A figure with its change, or with the reason why there is none. ``instrument``: its largest error, as a share."""

    row: Matched
    change: SampledChange | None = None
    instrument: float = 0.0
    why: str = ""
    p: float = 1.0

    @property
    def sign(self) -> int:
        return -1 if self.row.unit in HIGHER_IS_BETTER else 1

    def limit(self, gate: float) -> float:
        """The gate on the scale of ``sign * change.value``."""
        return math.log1p(gate) if self.sign > 0 else -math.log1p(-gate)


def _begun(row: Matched, samples: Sequence[Sequence[str]], gate: float) -> _Begun:
    sides = (row.a, row.b)
    if not row.complete:
        missing = [str(one.conditions.get("absent") or "") for side in sides for one in side if one.value is None]
        return _Begun(row, why=row.refused or "; ".join(dict.fromkeys(filter(None, missing))) or "it has no value in a run")
    if any(len(side) < len(of) for side, of in zip(sides, samples, strict=True)):
        return _Begun(row, why=row.remark or "known in some runs alone")
    if any(one.u is None for side in sides for one in side):
        return _Begun(row, why=row.remark or NO_U)
    if any(one.known <= 0 for side in sides for one in side):
        return _Begun(row, why="a run has a value of 0 or below, of which there is no share")
    logs: list[dict[str, list[float]]] = [{}, {}]
    for made, side, of in zip(logs, sides, samples, strict=True):
        for one, sample in zip(side, of, strict=True):
            made.setdefault(sample, []).append(math.log(one.known))
    try:
        found = change(logs[0], logs[1])
    except Inseparable as error:
        return _Begun(row, why=str(error))
    instrument = _instrument(row)
    begun = _Begun(row, found, instrument)
    return _Begun(row, found, instrument, p=found.p_beyond(begun.sign * found.value - begun.limit(gate), instrument))


def _instrument(row: Matched) -> float:
    """Return the instrument's error of ln(B / A). The uncertainties of a side's runs do not average out; the sides' add in squares."""
    sides = [sum((one.u or 0.0) / one.known for one in side) / len(side) for side in (row.a, row.b)]
    return math.hypot(*sides) + row.besides / abs(row.a[0].known)


def _judged(rows: Sequence[_Begun], gate: float) -> Iterator[GatedFigure]:
    tested = [one.p for one in rows if one.change is not None]
    corrected = iter(holm(tested))
    for one in rows:
        row, worse = one.row, "lower" if one.sign < 0 else "higher"
        a, b = (_over(side, row.unit) for side in (row.a, row.b))
        if one.change is None:
            yield GatedFigure(row.group, row.name, row.unit, a, b, worse, Judgement("not measured", one.why))
            continue
        p_holm = next(corrected)
        half = math.hypot(one.change.half_width(LEVEL), one.instrument)
        judgement = _verdict(one, half, p_holm, gate, len(tested))
        if a.lost + b.lost:
            judgement = judgement.weakened(LOST)
        low, high = (math.expm1(one.change.value + side * half) for side in (-1, 1))
        yield GatedFigure(row.group, row.name, row.unit, a, b, worse, judgement, one.change, low, high, one.p, p_holm)


def _verdict(one: _Begun, half: float, p_holm: float, gate: float, tested: int) -> Judgement:
    assert one.change is not None
    beyond = one.sign * one.change.value - one.limit(gate)
    if beyond + half <= 0:
        return Judgement("pass")
    if p_holm <= LEVEL:
        return Judgement("fail")
    more = one.change.more(abs(beyond), one.instrument, LEVEL if beyond <= 0 else LEVEL / tested)
    return Judgement("conditional pass" if beyond <= 0 else "conditional fail", f"{CLOSE}; {more}")


def holm(p: Sequence[float]) -> list[float]:
    """Return the chances ``p`` corrected for their number (Holm's step-down method), in the same order."""
    order = sorted(range(len(p)), key=lambda i: p[i])
    out, least = [0.0] * len(p), 0.0
    for rank, i in enumerate(order):
        least = max(least, min(1.0, (len(p) - rank) * p[i]))
        out[i] = least
    return out


def _over(side: Sequence[Figure], unit: str) -> Figure:
    found = mean(side)
    return found if found.value is not None else next((one for one in side if one.value is None), absent("", unit))
