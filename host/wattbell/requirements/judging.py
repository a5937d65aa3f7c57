"""Verdicts of subjects against requirements."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..errors import ResultsError
from ..measure.figure import Figure, absent
from ..measure.judge import DecisionRule, Judgement, Verdict, judge
from ..origin import Origin
from .expression import Missing, Names, evaluate, names_in
from .measurands import DECLARED, DRIVE_FIELDS, SCOPE_FIELDS, Observation, Subject, drive_fields
from .model import FAILS, Requirement, RequirementFile, Severity

ORDER: tuple[Verdict, ...] = ("fail", "conditional fail", "not measured", "conditional pass", "pass", "not applicable")
"""Verdicts, the worst first."""
DEFAULT_CODES: dict[Verdict, int] = {
    "pass": 0,
    "not applicable": 0,
    "fail": 3,
    "conditional fail": 4,
    "conditional pass": 4,
    "not measured": 4,
}
"""Exit code of the program by its worst verdict."""


@dataclass(frozen=True)
class JudgedRow:
    """A requirement, judged in one scope of one drive.

    limit : the limit's figure; its value is None where there is none.
    limit_text : the limit as the file has it.
    sources : the subjects with a figure.
    guard : width of the guard band in units of U.
    """

    file: str
    requirement: Requirement
    revision: str
    scope: str
    measured: Figure
    limit: Figure
    limit_text: str
    verdict: Verdict
    why: str
    rule: str
    sources: tuple[str, ...]
    remark: str = ""
    guard: float = 1.0

    @property
    def band(self) -> float | None:
        """Return the width of the guard band in the unit of the limit; None without an uncertainty."""
        if self.measured.u is None or self.limit.u is None:
            return None
        return self.guard * math.hypot(self.measured.u, self.limit.u)

    @property
    def id(self) -> str:
        """``ocp/PCM-1``."""
        return f"{self.file}/{self.requirement.id}"

    @property
    def severity(self) -> Severity:
        return self.requirement.severity


@dataclass(frozen=True)
class Verdicts:
    """The verdicts on one drive."""

    drive: str
    origin: Origin
    sources: tuple[str, ...]
    rows: tuple[JudgedRow, ...]

    @property
    def warning(self) -> str:
        """Caption for figures that were not measured; empty for a measured drive."""
        return self.origin.warning

    @property
    def counts(self) -> dict[Verdict, int]:
        """Number of rows by verdict, those that occur."""
        return {verdict: n for verdict in ORDER if (n := sum(row.verdict == verdict for row in self.rows))}


def judge_all(
    subjects: Sequence[Subject],
    files: Sequence[RequirementFile],
    parameters: Mapping[str, float] | None = None,
    guard: float | None = None,
) -> list[Verdicts]:
    """Return the verdicts on each drive, with the figures of all its subjects together.

    parameters : values for ``parameter.NAME``; they override the values in the files.
    guard : width of the guard band in U for every requirement; None: each requirement's own.

    Raises ResultsError where no subject was given.
    """
    if not subjects:
        raise ResultsError("There is nothing to judge: give a capture or a suite's results.")
    out = []
    for mine in _by_drive(subjects):
        rows: list[JudgedRow] = []
        for file in files:
            names = {f"parameter.{k}": Figure(v, 0.0) for k, v in {**file.parameters, **(parameters or {})}.items()}
            for one in file.requirement:
                rows += _rows(mine, file, one, names, one.guard if guard is None else guard)
        out.append(Verdicts(mine[0].drive, mine[0].origin, tuple(one.source for one in mine), tuple(rows)))
    return out


def _by_drive(subjects: Sequence[Subject]) -> list[list[Subject]]:
    """Return the subjects of each drive and firmware. A subject without a model is a drive of its own."""
    groups: dict[tuple[str, ...], list[Subject]] = {}
    for one in subjects:
        key = (one.origin, one.model, one.serial, one.firmware) if one.model else (one.source,)
        groups.setdefault(key, []).append(one)
    return list(groups.values())


def _rows(subjects: Sequence[Subject], file: RequirementFile, one: Requirement, names: Names, guard: float) -> Iterator[JudgedRow]:
    rule = DecisionRule(guard)
    if one.not_measured:
        yield _row(file, one, "", absent(one.not_measured, one.unit), absent(""), "", Judgement("not measured", one.not_measured), rule, ())
        return
    scopes: dict[str, list[JudgedRow]] = {}
    for subject in subjects:
        for seen in subject.observe(one):
            scopes.setdefault(seen.scope if seen.among is None else seen.among, []).append(_judged(subject, seen, file, one, names, rule))
    whole = scopes.pop("", [])
    if not scopes or any(row.measured.value is not None for row in whole):
        scopes = {"": whole, **scopes}
    for found in scopes.values():
        if found:
            yield _decisive(found)


def _decisive(rows: Sequence[JudgedRow]) -> JudgedRow:
    """Return the row that decides among the subjects' rows of one scope: the worst verdict, and the least favourable figure of these.

    A subject without a figure says nothing where another has one.
    """
    measured = [row for row in rows if row.verdict not in ("not measured", "not applicable")]
    worst = min(measured or rows, key=lambda row: (ORDER.index(row.verdict), _room(row)))
    return replace(worst, sources=tuple(dict.fromkeys(source for row in measured or [worst] for source in row.sources)))


def _room(row: JudgedRow) -> float:
    """Return the distance from a figure to its limit, negative beyond it; 0 without either."""
    if row.measured.value is None or row.limit.value is None:
        return 0.0
    room = row.limit.value - row.measured.value
    return room if row.requirement.side == "at most" else -room


def _judged(subject: Subject, seen: Observation, file: RequirementFile, one: Requirement, names: Names, rule: DecisionRule) -> JudgedRow:
    known = {**names, **_declared(subject, seen)}
    sources = (subject.source,)
    measured = replace(seen.figure, unit=one.unit)
    refused = _not_applicable(one, known, seen)
    if refused is not None:
        return _row(file, one, seen.scope, measured, absent(""), "", refused, rule, sources)
    text = str(one.limit) if isinstance(one.limit, str) else ""
    try:
        limit = _limit(subject, seen, one, known)
    except Missing as missing:
        verdict: Verdict = "not applicable" if missing.name.startswith("declared.") else "not measured"
        why = f"{missing.name} {missing.reason}"
        if _unseen(missing, seen):
            verdict, why = "not measured", str(measured.conditions.get("absent", why))
        if missing.name.startswith("parameter."):
            why += f": give --set {missing.name.partition('.')[2]}=VALUE"
        return _row(file, one, seen.scope, measured, absent(why, one.unit), text, Judgement(verdict, why), rule, sources)
    found = _against(measured, limit, one, rule)
    for doubt in _doubts(seen, one, found):
        found = found.weakened(doubt)
    return _row(file, one, seen.scope, measured, limit, text, found, rule, sources, "" if found.why and seen.among is None else seen.remark)


def _unseen(missing: Missing, seen: Observation) -> bool:
    """Whether nobody looked whether the drive declares a field: of the whole drive, of two states, or of a state that nobody knows."""
    name = missing.name.removeprefix("declared.")
    known = name in seen.limits if name not in DECLARED else seen.state is not None
    return name in (*DRIVE_FIELDS, *SCOPE_FIELDS, *DECLARED) and not known and seen.figure.value is None


def _not_applicable(one: Requirement, known: Names, seen: Observation) -> Judgement | None:
    """Return why a requirement does not apply, or why that is not known; None if it applies."""
    if not one.applies:
        return None
    try:
        return None if evaluate(one.applies, known).value else Judgement("not applicable", f"{one.applies} does not hold")
    except Missing as missing:
        if _unseen(missing, seen):
            return Judgement("not measured", str(seen.figure.conditions.get("absent", f"{missing.name} {missing.reason}")))
        return Judgement("not applicable", f"{missing.name} {missing.reason}")


def _declared(subject: Subject, seen: Observation) -> dict[str, Figure]:
    state, of_drive = seen.state, drive_fields(subject)
    values: dict[str, float | None] = {name: of_drive.get(name) for name in DRIVE_FIELDS}
    values |= {name: get(state) if state is not None else None for name, get in DECLARED.items()}
    found = {name: absent("is not declared") if value is None else Figure(value, 0.0) for name, value in values.items()}
    return {f"declared.{name}": figure for name, figure in {**found, **seen.limits}.items()}


def _limit(subject: Subject, seen: Observation, one: Requirement, known: Names) -> Figure:
    """Return the limit's figure. Raises :class:`.expression.Missing`."""
    if not isinstance(one.limit, str):
        assert one.limit is not None
        return Figure(float(one.limit), 0.0, one.unit)
    wanted = {name for name in names_in(one.limit) if name.startswith("measured.")}
    measured = {name: _average(subject, seen, one) for name in wanted}
    return replace(evaluate(one.limit, {**known, **measured}), unit=one.unit)


def _average(subject: Subject, seen: Observation, one: Requirement) -> Figure:
    """Return ``measured.average_w`` in the scope of an observation."""
    asked = Requirement(
        id="average", clause="", text="average", measurand="largest-mean-power", limit=0.0, unit="W", window_s=1.0, states=one.states
    )
    for other in subject.observe(asked):
        if other.scope == seen.scope:
            return other.figure
    return absent("was not measured")


def _against(measured: Figure, limit: Figure, one: Requirement, rule: DecisionRule) -> Judgement:
    """Judge a figure against a limit that may be uncertain itself. Uncertainties add in squares."""
    declared = isinstance(one.limit, str) and any(name.startswith("declared.") for name in names_in(one.limit))
    if limit.value is None:
        return Judgement("not measured", "the limit has no finite value")
    if declared and limit.value == 0:
        return Judgement("not applicable", "the limit is 0: nothing is declared")
    if limit.value < 0:
        return Judgement("not measured", f"the limit works out at {limit.value:g}, which no figure can keep to")
    if measured.value is None:
        return Judgement("not measured", str(measured.conditions.get("absent", "")))
    if measured.u is None or limit.u is None:
        return judge(limit.value, replace(measured, u=None), one.slack, one.side, rule, declared)
    both = replace(measured, u=(measured.u**2 + limit.u**2) ** 0.5, lost=measured.lost + limit.lost)
    return judge(limit.value, both, one.slack, one.side, rule, declared)


def _doubts(seen: Observation, one: Requirement, found: Judgement) -> Iterable[str]:
    """Yield the reasons that make a verdict conditional."""
    if seen.doubt:
        yield seen.doubt
    if seen.brief and "pass" in found.verdict:
        yield seen.brief
    if seen.over and "fail" in found.verdict:
        yield seen.over
    if one.sampling_s is not None and seen.sampling_s is not None and seen.sampling_s > one.sampling_s * (1 + 1e-6):
        yield f"sampled every {seen.sampling_s:g} s, not every {one.sampling_s:g} s"
    refutable = isinstance(one.limit, str) and any(name.startswith("measured.") for name in names_in(one.limit))
    short = one.duration_s is not None and (seen.seen_s or 0.0) < one.duration_s * (1 - 1e-6)
    if short and ("pass" in found.verdict or refutable):  # a limit that was measured as briefly may be too low
        yield f"observed for {seen.seen_s or 0.0:.3g} s of {one.duration_s:g} s"


def _row(
    file: RequirementFile,
    one: Requirement,
    scope: str,
    measured: Figure,
    limit: Figure,
    text: str,
    found: Judgement,
    rule: DecisionRule,
    sources: tuple[str, ...],
    remark: str = "",
) -> JudgedRow:
    return JudgedRow(
        file.name,
        one,
        one.revision or file.revision,
        scope,
        measured,
        limit,
        text,
        found.verdict,
        found.why,
        str(rule),
        sources,
        remark,
        rule.guard,
    )


def that_count(found: Sequence[Verdicts]) -> list[JudgedRow]:
    """Return the rows that count (:data:`.model.FAILS`), the worst verdict first."""
    rows = [row for one in found for row in one.rows if row.severity in FAILS]
    return sorted(rows, key=lambda row: ORDER.index(row.verdict))


def exit_code(found: Sequence[Verdicts], codes: Mapping[Verdict, int]) -> int:
    """Return the exit code of the worst verdict among the rows that count; 0 without any."""
    return next((codes[row.verdict] for row in that_count(found) if codes[row.verdict]), 0)
