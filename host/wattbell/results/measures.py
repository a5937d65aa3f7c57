"""The figures by which drives are compared: for each test its rate, power and bytes per joule, and further figures of its summary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..measure.figure import Figure, Known, absent
from ..measure.point import Score
from ..suites.kind import EFFICIENCIES, RATES, JsonScore
from ..suites.kinds import ScoreSection, kind_of
from .compared import Matched
from .model import Run, TestResult

_COUNTS = ("1", "")
HIGHER_IS_BETTER = ("MB/s", "IOPS", "1/s", "MB/J", "MB/s/W", "GB")
"""Units of figures that are better if they are higher. All other figures are times, powers and energies."""
Key = tuple[str, str, str, str, str]
"""Suite, test, condition, name of the figure, unit."""


@dataclass(frozen=True)
class Measure:
    """A figure of a test. ``group``: the test's name, with the condition of the drive where that matters."""

    key: Key
    group: str
    name: str
    value: Figure


def measures(run: Run) -> list[Measure]:
    """The figures of a run that are compared, in the order of its tests."""
    return [one for test in run.tests for one in _of_test(run, test)]


def _of_test(run: Run, test: TestResult) -> Iterator[Measure]:
    kind = kind_of(test.kind)
    several = len({one.condition for one in run.tests}) > 1
    group = f"{test.name}, {test.condition}" if several and test.condition else test.name
    taken: list[Score[Known]] = []

    def made(name: str, score: Score[Known]) -> Measure:
        taken.append(score)
        key = (run.suite, test.test, test.condition, name, score.unit)
        return Measure(key, group, name, Figure(score.value.value, score.value.u, score.unit, score.value.lost))

    idle = kind.place is ScoreSection.IDLE
    for name, units in (("rate", RATES), ("power", ("W",)), ("bytes per joule", EFFICIENCIES)):
        found = [score for unit in units for score in test.scores if score.unit == unit]
        if idle and name == "power":
            yield from (made(score.name, score) for score in found)
        elif found:
            yield made(name, found[0])
    listed: list[JsonScore] = [
        {"name": s.name, "unit": s.unit, "reading": s.reading, "value": {"value": s.value.value}, "at": i}
        for i, s in enumerate(test.scores)
    ]
    for one in kind.summed_up(listed):
        score = test.scores[one["at"]]
        sure = (other for other in test.scores if other.unit == score.unit and other.value.u is not None)
        score = score if score.value.u is not None else next(sure, score)
        if score.unit not in _COUNTS and not any(score is other for other in taken):
            yield made(score.name, score)


def matched(a: Sequence[Run], b: Sequence[Run], names: tuple[str, str]) -> list[Matched]:
    """The figures of two sides, run by run, of the suites that both ran. A figure that a side lacks is refused, with its name in the
    reason."""
    both = {run.suite for run in a} & {run.suite for run in b}
    sides = [[{one.key: one for one in measures(run)} for run in runs] for runs in (a, b)]
    rows = {key: one for side in sides for run in side for key, one in run.items() if key[0] in both}
    made = []
    for key, row in _in_order(rows):
        having = [[run[key].value for run in side if key in run] for side in sides]
        refused = "; ".join(f"{name}: not measured" for name, found in zip(names, having, strict=True) if not found)
        short = [
            f"known in {len(found)} of {len(side)} runs of {name}"
            for name, found, side in zip(names, having, sides, strict=True)
            if found and len(found) < len(side)
        ]
        nothing = absent(refused, key[4])
        first, second = (found or [nothing] for found in having)
        made.append(Matched(row.group, row.name, key[4], first, second, refused=refused, remark="; ".join(short)))
    return made


def _in_order(rows: dict[Key, Measure]) -> list[tuple[Key, Measure]]:
    """Return the rows with each test's rows together, in the order of the tests."""
    tests = list(dict.fromkeys(key[:3] for key in rows))
    return sorted(rows.items(), key=lambda item: tests.index(item[0][:3]))
