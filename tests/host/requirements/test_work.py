"""The work for requirements: each row of the package's sets has some, no test twice, and none shorter than asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wattbell.errors import UsageError
from wattbell.requirements.files import load, load_all, set_names
from wattbell.requirements.measurands import MEASURANDS
from wattbell.requirements.model import Requirement, RequirementFile
from wattbell.requirements.work import NO_TEST, TESTS, RequiredWork, required_work
from wattbell.suites.drive import Drive
from wattbell.suites.jobs import sections
from wattbell.suites.outlook import look_ahead
from wattbell.suites.plan import choose_tests, plan_sessions
from wattbell.suites.session import Choice, Session
from wattbell.suites.units import time_s

DRIVE = Drive("d", 1 << 40, (0, 1, 2), (3, 4), "M", "S", settled_after_s=7.0)
WITH_TESTS = {
    *(
        "largest-mean-power",
        "asleep-power",
        "idle-power",
        "state-maximum-power",
        "state-idle-power",
        "state-active-power",
        "state-entry-latency",
    ),
    *(
        "state-exit-latency",
        "state-transition-time",
        "apst-early",
        "apst-late",
        "lowest-voltage",
        "highest-voltage",
        "warning-temperature",
        "critical-temperature",
        "admin-latency",
        "io-latency",
        "slow-io-per-hour",
        "enable-to-identify",
        "enable-to-io",
        "shutdown-time",
    ),
}
STATES = ("any", "each", "operational", "non-operational")


def asked(measurand: str, **keys: Any) -> Requirement:
    needs = {"window_s": 0.1, "threshold_s": 2.0, "states": "each"}
    more = {name: needs[name] for name in MEASURANDS[measurand].needs} | keys
    return Requirement(id="R", clause="", text="r.", measurand=measurand, limit=1.0, unit=MEASURANDS[measurand].unit, **more)


def file(*ones: Requirement, name: str = "lab") -> RequirementFile:
    return RequirementFile(name=name, title="", source="", requirement=ones)


def sessions(work: RequiredWork, scale: float = 1.0, drive: Drive = DRIVE) -> list[Session]:
    return plan_sessions(work.suite, choose_tests(work.suite, (), None), drive, Choice(scale))


def seconds(work: RequiredWork, drive: Drive = DRIVE) -> float:
    return look_ahead(sessions(work, drive=drive), drive.capacity_bytes, Choice()).seconds()


def loaded_s(session: Session) -> dict[int | None, float]:
    """Seconds of load by power state, added up from the job files that fio gets."""
    found: dict[int | None, float] = {}
    for step in session.steps:
        if step.fio is not None:
            jobs = sections(session.files[step.fio])
            assert all(job.options["time_based"] == "1" and job.options["stonewall"] == "1" for job in jobs)
            found[step.ps] = sum(time_s(job.options["runtime"]) for job in jobs)
    return found


def test_each_measurand_has_work() -> None:
    assert set(TESTS) == set(MEASURANDS) and not set(NO_TEST) & WITH_TESTS and set(NO_TEST) | WITH_TESTS == set(MEASURANDS)
    for name in sorted(WITH_TESTS):
        measurand = MEASURANDS[name]
        for states in STATES if "states" in (*measurand.takes, *measurand.needs) else ("any",):
            work = required_work([file(asked(name, states=states))])
            assert work.needs[0].tests == tuple(test.id for test in work.suite.tests if test.id in work.needs[0].tests)
            assert work.needs[0].tests and not work.needs[0].why, (name, states)


def test_each_row_of_the_package_has_work_or_a_reason() -> None:
    work = required_work(load_all(set_names()))
    ids = {test.id for test in work.suite.tests}
    for need in work.needs:
        assert bool(need.tests) != bool(need.why) and set(need.tests) <= ids, need.id
        assert (need.requirement.measurand in WITH_TESTS) == bool(need.tests), need.id
    assert {test for need in work.needs for test in need.tests} == ids, "no test that nobody asked for"


def test_the_durations_and_intervals_of_ocp_are_kept() -> None:
    """15 minutes in each operational state at 4 us or less, and one hour at a queue depth of 1: from the documents, by hand."""
    made = {session.name: session for session in sessions(required_work([load("ocp")]))}
    by_state, depth_1 = made["load-by-state"], made["depth-1"]
    assert loaded_s(by_state) == {state: pytest.approx(15 * 60) for state in (0, 1, 2)}
    assert loaded_s(depth_1) == {None: pytest.approx(3600)} and by_state.rail_interval_s <= 4e-6
    (job,) = {step.fio for step in by_state.steps if step.fio}
    profiles = sections(by_state.files[job])
    assert len({(p.options["rw"], p.options["bs"]) for p in profiles}) == 5 and {p.depth for p in profiles} == {32}
    assert {p.depth for p in sections(depth_1.files["depth-1.fio"])} == {1}
    (idle,) = made["idle"].steps
    assert idle.apst and idle.idle_s == pytest.approx(40.5)
    assert "load" not in made, "the run by state is one of 15 minutes in PS0, too"


def test_an_idle_time_is_long_enough_for_the_drives_own_table() -> None:
    slow = Drive("d", 1 << 40, (0,), (1,), settled_after_s=70.0)
    ((idle,),) = (session.steps for session in sessions(required_work([file(asked("idle-power"))]), drive=slow))
    assert idle.idle_s == pytest.approx(70.5)


def test_the_longest_and_the_finest_win() -> None:
    work = required_work(
        [
            file(
                asked("largest-mean-power", states="operational", window_s=1.0, duration_s=30.0, sampling_s=2e-3),
                asked("largest-mean-power", states="operational", window_s=1e-3, duration_s=80.0),
            ),
            file(asked("largest-mean-power", window_s=1e-4, sampling_s=7.7e-6, duration_s=50.0), name="other"),
        ]
    )
    (session,) = sessions(work)
    assert loaded_s(session) == {state: pytest.approx(80.0, abs=1e-4) for state in (0, 1, 2)}
    assert session.rail_interval_s == pytest.approx(7e-6)
    assert min(sum(time_s(j.options["runtime"]) for j in sections(text)) for text in session.files.values()) >= 80.0


def test_a_longer_load_of_all_time_together_stays_by_itself() -> None:
    """In each of many states it would take longer than both together."""
    short = asked("largest-mean-power", states="operational", duration_s=10.0)
    long = asked("largest-mean-power", duration_s=100.0)
    work = required_work([file(short), file(long, name="other")])
    assert [(test.id, test.load_s) for test in work.suite.tests] == [("load-by-state", 10.0), ("load", 100.0)]
    assert loaded_s(sessions(work)[1]) == {0: pytest.approx(100.0)}


@pytest.mark.parametrize(("load_s", "tests"), [(29.0, ["load-by-state", "operational"]), (31.0, ["load-by-state"])])
def test_a_load_of_half_a_minute_measures_the_highest_mean_of_work_too(load_s: float, tests: list[str]) -> None:
    """The loads of the test `operational` take three times 10 s."""
    map_ = asked("largest-mean-power", states="operational", duration_s=load_s)
    work = required_work([file(map_), file(asked("state-maximum-power", states="operational"), name="other")])
    assert [test.id for test in work.suite.tests] == tests and work.needs[1].tests == (tests[-1],)


ANY = st.builds(
    lambda name, states, duration, window: asked(
        name,
        **({"states": states} if "states" in (*MEASURANDS[name].takes, *MEASURANDS[name].needs) else {}),
        **({"duration_s": duration} if duration and "duration_s" in MEASURANDS[name].takes else {}),
        **({"window_s": window} if "window_s" in MEASURANDS[name].needs else {}),
    ),
    st.sampled_from(sorted(WITH_TESTS)),
    st.sampled_from(STATES),
    st.sampled_from([None, 1.0, 25.0, 40.0, 900.0]),
    st.sampled_from([1e-4, 1.0]),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(ANY, min_size=1, max_size=6))
def test_together_they_take_no_longer_than_one_by_one(ones: list[Requirement]) -> None:
    files = [file(one, name=f"f{k}") for k, one in enumerate(ones)]
    alone = [required_work([each]) for each in files]
    together = required_work(files)
    assert seconds(together) <= sum(map(seconds, alone)) + 1e-3
    assert seconds(together) >= max(seconds(work) for work in alone) - 41 * 5, "at most the loads of `operational` are left out"
    for need in together.needs:
        kept = {test.id: test for test in together.suite.tests}
        for test in (kept[name] for name in need.tests):
            asks = need.requirement.duration_s or 0.0
            assert not test.load_s or test.load_s >= asks
            assert need.requirement.window_s is None or test.rail_interval_s <= need.requirement.window_s


def test_the_hash_is_of_the_work() -> None:
    def digest(duration: float) -> str:
        return required_work([file(asked("io-latency", duration_s=duration))]).suite.digest

    assert digest(10.0) == digest(10.0) != digest(11.0)


def test_what_the_bench_cannot_run_has_its_reason() -> None:
    work = required_work([load("ocp")], {"cold": "the rig does not switch"})
    told = {need.id: need.why for need in work.needs if need.requirement.measurand in WITH_TESTS and not need.tests}
    assert told == dict.fromkeys(("ocp/TTR-1", "ocp/TTR-2", "ocp/TTR-5"), "the rig does not switch")
    assert "cold" not in {test.id for test in work.suite.tests}


def test_requirements_without_work_are_refused(tmp_path: Path) -> None:
    none = Requirement(id="R", clause="", text="r.", not_measured="no")
    with pytest.raises(UsageError, match=r"^No requirement of lab needs work; `wattbell requirements` says why\.$"):
        required_work([file(none)])
