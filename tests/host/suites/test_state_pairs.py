"""The test of all ordered pairs of states: its path, its rests, and the plan that the drive model reads."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from wattbell.errors import UsageError
from wattbell.suites.drive import Drive, from_profile
from wattbell.suites.kinds.state_pairs import path_of
from wattbell.suites.outlook import look_ahead
from wattbell.suites.plan import choose_tests, plan_sessions
from wattbell.suites.planfile import read_plan
from wattbell.suites.session import Choice, Session
from wattbell.virtual.profiles import find_profile

from tests.host.suites.made import suite


def planned(tmp_path: Path, drive: Drive, **keys: Any) -> Session:
    made, _ = suite(tmp_path, "state-pairs", idle_s=0.3, idle_min_s=0.1, repeat=2, **keys)
    (session,) = plan_sessions(made, choose_tests(made, (), None), drive, Choice())
    return session


@pytest.mark.parametrize("states", [(0,), (0, 1), (0, 3), (0, 1, 2, 3, 4), tuple(range(32))])
def test_a_path_takes_each_ordered_pair_once_and_ends_where_it_began(states: tuple[int, ...]) -> None:
    path = path_of(states)
    pairs = list(zip(path[:-1], path[1:], strict=True))
    assert len(pairs) == len(set(pairs)) == len(states) * (len(states) - 1) and all(a != b for a, b in pairs)
    assert set(path) == set(states) and path[0] == path[-1] == states[0]


def test_each_repetition_goes_on_from_where_the_last_one_ended(tmp_path: Path) -> None:
    """Three states have six pairs, visited twice: one step to begin with and twelve. A rest is 8 x 65 ms + 50 ms, longer than 0.3 s."""
    session = planned(tmp_path, Drive("d", 1 << 30, (0,), (3, 4), slowest_transition_s=0.065))
    states = [step.ps for step in session.steps]
    pairs = list(zip(states[:-1], states[1:], strict=True))
    assert len(states) == 13 and len(set(pairs)) == 6 and all(pairs.count(pair) == 2 for pair in pairs)
    assert all(step.rest_s == pytest.approx(0.57) and step.apst is False for step in session.steps)
    assert look_ahead([session], 1 << 30, Choice()).seconds() == pytest.approx(13 * 0.57)


def test_the_model_gets_a_rest_behind_a_phase_without_io(tmp_path: Path) -> None:
    """The model refuses keys that it does not know, and rests behind a job file alone."""
    session = planned(tmp_path, Drive("d", 1 << 30, (0, 1), ()))
    plan = tomllib.loads(session.write(tmp_path / "plans", 1.0, 1).read_text())
    assert all("rest_s" not in step and "idle_s" not in step for step in plan["step"])
    assert {step["duty_idle_max_s"] for step in plan["step"]} == {0.3} and {step["ps"] for step in plan["step"]} == {0, 1}
    job = (tmp_path / "plans" / plan["step"][0]["fio"]).read_text()
    assert "io_size=0" in job and "write" not in job


def test_a_drive_of_one_state_is_left_alone_once(tmp_path: Path) -> None:
    assert [step.ps for step in planned(tmp_path, Drive("d", 1 << 30, (0,), ())).steps] == [0]


def test_the_slowest_declared_transition_of_a_profile() -> None:
    """The profile of the 660p declares 5 ms to enter PS3 and PS4, and 9 ms to leave PS4."""
    assert from_profile(find_profile("intel-660p-1tb")).slowest_transition_s == pytest.approx(0.014)


def test_apst_and_a_rest_in_a_plan_of_the_user_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="apst = false"):
        planned(tmp_path, Drive("d", 1 << 30, (0, 1), ()), apst=True)
    (tmp_path / "p.toml").write_text("[[step]]\nidle_s = 1\nrest_s = 1\n")
    with pytest.raises(UsageError, match="exactly one of"):
        read_plan(tmp_path / "p.toml")
