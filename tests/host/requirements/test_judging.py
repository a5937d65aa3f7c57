"""Verdicts from observations: limits, conditions, several subjects, exit codes, and the file for CI systems."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from junitparser import Error, Failure, JUnitXml, Properties, Skipped
from wattbell.errors import ResultsError
from wattbell.measure.figure import Figure, absent
from wattbell.origin import Origin
from wattbell.requirements.judging import DEFAULT_CODES, JudgedRow, Verdicts, exit_code, judge_all
from wattbell.requirements.junit import junit
from wattbell.requirements.measurands import Observation, Subject
from wattbell.requirements.model import Requirement, RequirementFile
from wattbell.results.declared import PowerStateDescriptor

PS0 = PowerStateDescriptor(0, True, 5.0, None, None)
PS3 = PowerStateDescriptor(3, False, 0.03, 0.005, None)


def requirement(**given: Any) -> Requirement:
    base = {"id": "R", "clause": "1", "text": "Text.", "measurand": "largest-mean-power", "window_s": 1.0, "limit": 5.0, "unit": "W"}
    return msgspec.convert({k: v for k, v in {**base, **given}.items() if v is not None}, Requirement)


def subject(observe: Callable[[Requirement], list[Observation]], source: str = "a", model: str = "M", **more: Any) -> Subject:
    about = {"serial": "S", "firmware": "F", "origin": Origin.MEASURED, "states": [PS0, PS3], **more}
    return Subject(source=source, model=model, observe=observe, **about)


def judged(seen: list[Observation], one: Requirement, **more: Any) -> list[JudgedRow]:
    file = RequirementFile(name="f", title="", source="", requirement=(one,), parameters={"cap": 4.0})
    (found,) = judge_all([subject(lambda asked: seen)], [file], **more)
    return list(found.rows)


def alone(seen: Observation, one: Requirement, **more: Any) -> tuple[str, str]:
    (row,) = judged([seen], one, **more)
    return row.verdict, row.why


def w(value: float | None, u: float | None = 0.1, lost: int = 0) -> Figure:
    return Figure(value, u, "W", lost)


@pytest.mark.parametrize(
    ("figure", "given", "verdict", "why"),
    [
        (w(4.0), {}, "pass", ""),
        (w(4.95), {}, "conditional pass", "closer to the limit"),
        (w(5.05), {}, "conditional fail", "closer"),
        (w(5.2), {}, "fail", "1.04 times the limit"),
        (w(4.0, None), {}, "not measured", "without an uncertainty"),
        (absent("no rail", "W"), {}, "not measured", "no rail"),
        (w(4.0, lost=2), {}, "conditional pass", "lost"),
        (w(9.0, lost=2), {}, "conditional fail", "lost"),
        (w(4.85), {"guard": 2.0}, "conditional pass", "closer"),
        (w(4.95), {"guard": 0.0}, "pass", ""),
        (w(4.0), {"limit": "parameter.cap"}, "conditional pass", "closer"),
        (w(4.0), {"limit": "parameter.other"}, "not measured", "give --set other=VALUE"),
        (w(6.0), {"side": "at least"}, "pass", ""),
        (w(4.0), {"applies": "parameter.cap < 3"}, "not applicable", "does not hold"),
        (w(4.0), {"applies": "parameter.cap > 3"}, "pass", ""),
        (w(4.0), {"applies": "declared.workload"}, "not applicable", "not declared"),
        (w(5.3), {"slack": 0.3}, "conditional fail", "closer to the limit than can be told"),
        (w(5.5), {"slack": 0.3}, "fail", "times"),
        (w(0.0, 0.0), {"limit": 0}, "pass", ""),
        (w(0.2), {"limit": 0}, "fail", "above a limit of 0"),
        (w(0.2), {"limit": 0, "side": "at least"}, "pass", ""),
        (w(4.0), {"limit": "declared.max_power_w * 0", "states": "each"}, "not applicable", "declared"),
        (w(4.0), {"limit": "parameter.cap - 5"}, "not measured", "the limit works out at -1"),
        (w(4.0), {"limit": "parameter.cap * 1e308 * 1e308", "side": "at least"}, "not measured", "the limit has no finite value"),
    ],
)
def test_a_figure_against_a_limit(figure: Figure, given: dict[str, Any], verdict: str, why: str) -> None:
    found = alone(Observation("", figure), requirement(**given))
    assert found[0] == verdict and why in found[1] and bool(found[1]) is bool(why)


def test_a_guard_band_for_all() -> None:
    assert alone(Observation("", w(4.95)), requirement(), guard=0.0)[0] == "pass"
    assert alone(Observation("", w(4.85)), requirement(), guard=2.0)[0] == "conditional pass"


def test_a_parameter_of_the_call_goes_before_the_files() -> None:
    assert alone(Observation("", w(4.0)), requirement(limit="parameter.cap"), parameters={"cap": 9.0})[0] == "pass"


@pytest.mark.parametrize(
    ("value", "seen_s", "sampling_s", "verdict", "why"),
    [
        (4.0, 900.0, 0.002, "pass", ""),
        (4.0, 890.0, 0.002, "conditional pass", "observed for 890 s of 900 s"),
        (6.0, 1.0, 0.002, "fail", "1.2 times the limit"),  # any second above it refutes
        (4.0, 900.0, 0.01, "conditional pass", "sampled every 0.01 s, not every 0.002 s"),
        (6.0, 900.0, 0.01, "conditional fail", "sampled"),
        (4.0, None, 0.002, "conditional pass", "observed for 0 s"),
    ],
)
def test_conditions_of_the_measurement(value: float, seen_s: float | None, sampling_s: float, verdict: str, why: str) -> None:
    one = requirement(duration_s=900.0, sampling_s=0.002)
    found = alone(Observation("", w(value), seen_s=seen_s, sampling_s=sampling_s), one)
    assert found[0] == verdict and why in found[1]


def test_a_limit_that_was_measured_too_briefly_proves_nothing() -> None:
    """The average over a short time is too low, and with it the limit of the peak."""
    one = requirement(limit="1.5 * measured.average_w", window_s=1e-4, duration_s=900.0)

    def observe(asked: Requirement) -> list[Observation]:
        return [Observation("", w(2.0) if asked.window_s == 1.0 else w(9.0), seen_s=10.0)]

    file = RequirementFile(name="f", title="", source="", requirement=(one,))
    (found,) = judge_all([subject(observe)], [file])
    (row,) = found.rows
    assert (row.verdict, row.limit.value, row.limit.u) == ("conditional fail", pytest.approx(3.0), pytest.approx(0.15))
    assert "observed for 10 s" in row.why


@pytest.mark.parametrize(
    ("average", "verdict"), [(w(10.0, 0.0), "pass"), (w(10.0, 1.0), "conditional pass"), (w(10.0, 0.0, lost=1), "conditional pass")]
)
def test_the_uncertainty_and_the_losses_of_a_measured_limit_count(average: Figure, verdict: str) -> None:
    """9.5 +- 0.1 W against 10 W, and against 10 +- 1 W."""
    one = requirement(limit="measured.average_w", window_s=1e-4)

    def observe(asked: Requirement) -> list[Observation]:
        return [Observation("", average if asked.window_s == 1.0 else w(9.5))]

    file = RequirementFile(name="f", title="", source="", requirement=(one,))
    (found,) = judge_all([subject(observe)], [file])
    assert found.rows[0].verdict == verdict


def test_a_declared_limit_of_each_state() -> None:
    seen = [Observation("PS0", w(4.0), PS0), Observation("PS3", w(0.05, 0.001), PS3)]
    found = judged(seen, requirement(limit="declared.max_power_w", states="each"))
    assert [(row.scope, row.verdict, row.limit.value) for row in found] == [("PS0", "pass", 5.0), ("PS3", "fail", 0.03)]
    found = judged(
        seen, requirement(limit="declared.exit_latency_s", states="each", measurand="state-exit-latency", window_s=None, unit="s")
    )
    assert [(row.verdict, row.why) for row in found] == [("not applicable", "declared.exit_latency_s is not declared")] * 2
    (asleep,) = judged(seen[1:], requirement(limit="declared.last_operational_power_w"))
    assert asleep.limit.value == 5.0


def test_a_doubt_of_the_observation_makes_it_conditional_and_a_remark_does_not() -> None:
    assert alone(Observation("", w(4.0), doubt="the link was awake"), requirement()) == ("conditional pass", "the link was awake")
    (row,) = judged([Observation("", w(4.0), remark="the longest of 3")], requirement())
    assert (row.verdict, row.why, row.remark) == ("pass", "", "the longest of 3")


def test_what_no_rig_can_judge_says_so() -> None:
    (row,) = judged([], requirement(measurand=None, limit=None, window_s=None, not_measured="stands on the label"))
    assert (row.verdict, row.why) == ("not measured", "stands on the label")


@pytest.mark.parametrize(
    ("first", "second", "verdict", "value"),
    [
        (w(4.0), w(6.0), "fail", 6.0),
        (w(6.0), absent("no"), "fail", 6.0),
        (absent("no"), w(4.0), "pass", 4.0),
        (w(4.95), w(4.0), "conditional pass", 4.95),
        (absent("no"), absent("no"), "not measured", None),
        (w(3.0), w(4.5), "pass", 4.5),
        (w(7.0), w(6.0), "fail", 7.0),
    ],
)
def test_subjects_of_one_drive_are_judged_together(first: Figure, second: Figure, verdict: str, value: float | None) -> None:
    file = RequirementFile(name="f", title="", source="", requirement=(requirement(),))
    pair = [subject(lambda _: [Observation("", first)]), subject(lambda _: [Observation("", second)], "b")]
    for subjects in (pair, pair[::-1]):
        (found,) = judge_all(subjects, [file])
        (row,) = found.rows
        assert (row.verdict, row.measured.value) == (verdict, value)


def test_a_state_that_one_subject_knows_and_another_does_not() -> None:
    """A capture without Identify says nothing of states; beside one that has them it takes no row."""
    one = requirement(limit="declared.max_power_w", states="each")
    blind = subject(lambda _: [Observation("", absent("nobody saw Identify"))])
    file = RequirementFile(name="f", title="", source="", requirement=(one,))
    (found,) = judge_all([blind, subject(lambda _: [Observation("PS0", w(4.0), PS0)], "b")], [file])
    assert [(row.scope, row.verdict, row.sources) for row in found.rows] == [("PS0", "pass", ("b",))]
    (found,) = judge_all([blind], [file])
    # unknown declarations are no missing ones
    assert [(row.scope, row.verdict, row.why) for row in found.rows] == [("", "not measured", "nobody saw Identify")]


@pytest.mark.parametrize("other", [{"model": "N"}, {"serial": "T"}, {"firmware": "G"}, {"origin": Origin.VIRTUAL}, {"model": ""}])
def test_different_drives_are_judged_apart(other: dict[str, Any]) -> None:
    file = RequirementFile(name="f", title="", source="", requirement=(requirement(),))
    pair = [subject(lambda _: [Observation("", w(4.0))]), subject(lambda _: [Observation("", w(6.0))], "b", **other)]
    assert [found.rows[0].verdict for found in judge_all(pair, [file])] == ["pass", "fail"]


def test_nothing_to_judge_is_refused() -> None:
    with pytest.raises(ResultsError, match="nothing to judge"):
        judge_all([], [])


def verdicts(*figures: Figure, **given: Any) -> Verdicts:
    file = RequirementFile(name="f", title="", source="", requirement=(requirement(states="each", limit="declared.max_power_w", **given),))
    (found,) = judge_all([subject(lambda _: [Observation(f"S{k}", one, PS0) for k, one in enumerate(figures)])], [file])
    return found


@pytest.mark.parametrize(
    ("figures", "given", "code"),
    [
        ((w(4.0), w(1.0)), {}, 0),
        ((w(4.0), w(6.0)), {}, 3),
        ((w(6.0), absent("no")), {}, 3),
        ((w(4.0), absent("no")), {}, 4),
        ((w(4.0), w(4.95)), {}, 4),
        ((w(5.05),), {}, 4),
        ((w(6.0),), {"severity": "informative"}, 0),
        ((), {}, 0),
    ],
)
def test_the_exit_code_is_that_of_the_worst_verdict(figures: tuple[Figure, ...], given: dict[str, Any], code: int) -> None:
    assert exit_code([verdicts(*figures, **given)], DEFAULT_CODES) == code


def test_exit_codes_can_be_set() -> None:
    codes = {**DEFAULT_CODES, "conditional pass": 0, "fail": 9}
    assert exit_code([verdicts(w(4.95))], codes) == 0 and exit_code([verdicts(w(4.95), w(6.0))], codes) == 9


def test_a_parser_of_others_reads_the_junit_file() -> None:
    """The text has markup, which must not end an element."""
    figures = (w(4.0), w(4.95), w(5.05), w(6.0), absent("no <rail> & \x1b[0m"), Figure(1.0, 0.1, "W", 2))
    read = JUnitXml.fromstring(junit([verdicts(*figures)]))
    (suite,) = read
    assert suite.name == "f: M S F" and (suite.tests, suite.failures, suite.skipped, suite.errors) == (6, 2, 1, 0)
    cases = list(suite)
    kinds = [[type(result) for result in case.result] for case in cases]
    assert kinds == [[], [], [Failure], [Failure], [Skipped], []] and not any(Error in found for found in kinds)
    assert [case.name for case in cases] == [f"R S{k}" for k in range(6)] and {case.classname for case in cases} == {"wattbell.f"}
    told = [{one.name: one.value for one in case.child(Properties)} for case in cases]
    words = ["pass", "conditional pass", "conditional fail", "fail", "not measured", "conditional pass"]
    assert [one["verdict"] for one in told] == words
    assert told[3]["measured"] == "6.00(10) W" and told[3]["limit"] == "5.0000 W" and "w = U" in told[3]["rule"]
    assert "measured" not in told[4] and "no <rail> & " in cases[4].result[0].message and "\x1b" not in cases[4].result[0].message
    assert cases[1].system_out == "closer to the limit than the uncertainty"
