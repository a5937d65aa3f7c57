"""Tests that a suite takes from another, and job files whose test says how long they run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from wattbell.errors import UsageError
from wattbell.suites.drive import Drive
from wattbell.suites.jobs import lasting, sections
from wattbell.suites.listing import test_names as names_of
from wattbell.suites.manifest import load_suite, parse_manifest
from wattbell.suites.plan import plan_sessions
from wattbell.suites.session import Choice
from wattbell.suites.suite import Suite
from wattbell.suites.units import time_s

JOB = """[global]
filename=${WATTBELL_DRIVE}
runtime=7
time_based=1
stonewall=1
[a]
rw=read
[b]
rw=write
runtime=3s
[c]
rw=randread
"""


def made(folder: Path, *entries: dict[str, Any]) -> Suite:
    (folder / "manifest.toml").write_text("")
    return parse_manifest({"name": "mine", "test": list(entries)}, folder)


def test_a_borrowed_test_is_the_lenders(tmp_path: Path) -> None:
    lender = load_suite("power-states")
    suite = made(tmp_path, {"id": "idle-power", "of": "power-states"}, {"id": "active-power", "of": "power-states", "session": "x"})
    assert suite.test("idle-power") == lender.test("idle-power") and suite.test("active-power").session == "x"
    assert suite.job_text(suite.test("active-power")) == lender.job_text(lender.test("active-power"))
    assert [job.name for job in suite.sections(suite.test("active-power")).values()] == ["workload-2"]
    alone = made(tmp_path, {"id": "cold", "of": "power-on"})
    assert len({suite.digest, alone.digest, lender.digest}) == 3, "the hash is of the lender's files, too"


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"id": "idle", "of": "../quick"}, "of = ../quick is no suite of Wattbell"),
        ({"id": "idle", "of": "/etc"}, "of = /etc is no suite of Wattbell"),
        ({"id": "nap", "of": "power-states"}, "power-states has no test nap"),
        ({"id": "idle", "of": "quick", "idle_s": 3}, "has the keys id, of and session, and no others"),
        ({"of": "quick"}, "has the keys id, of and session, and no others"),
        ({"id": 3, "of": "quick"}, "has the keys id, of and session, and no others"),
        ({"id": "cold", "of": "conformance"}, "conformance has tests of other suites itself, and lends none"),
        ({"id": "idle", "of": "quick", "session": "../x"}, "session = ../x"),
    ],
)
def test_what_cannot_be_borrowed_is_told_in_one_line(tmp_path: Path, entry: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError) as caught:
        made(tmp_path, entry)
    assert told in str(caught.value) and "\n" not in str(caught.value)


def test_the_names_of_borrowed_tests_are_listed() -> None:
    listed = names_of("conformance")
    assert listed["idle-power"] == "Idle power (IDLP)" and listed["cold"] == "Cold start" and all(listed.values())


def test_sections_share_the_time_that_the_test_says() -> None:
    jobs = sections(lasting(JOB, 10.0))
    assert [(job.name, job.options["rw"]) for job in jobs] == [("a", "read"), ("b", "write"), ("c", "randread")]
    times = [time_s(job.options["runtime"]) for job in jobs]
    assert times == [pytest.approx(10 / 3, abs=2e-6)] * 3 and sum(times) >= 10.0


@pytest.mark.parametrize("line", ["time_based=1\n", "stonewall=1\n", "runtime=7\n"])
def test_a_section_that_ends_by_itself_cannot_share_a_time(line: str) -> None:
    with pytest.raises(UsageError, match="job a needs runtime, time_based=1 and stonewall=1"):
        lasting(JOB.replace(line, ""), 10.0, "f.fio")


def test_ps0_alone_and_the_scale(tmp_path: Path) -> None:
    (tmp_path / "j.fio").write_text(JOB)
    entry = {"id": "l", "name": "L", "kind": "operational-states", "conditions": ["empty"], "jobs": "j.fio", "load_s": 30, "idle_s": 1}
    for only, states in ((True, [0]), (False, [0, 2])):
        suite = made(tmp_path, {**entry, "only_ps0": only, "rail_interval_s": 4e-6})
        (session,) = plan_sessions(suite, [(suite.tests[0], "empty")], Drive("d", 1 << 40, (0, 2), (3,)), Choice(0.1))
        assert [step.ps for step in session.steps if step.fio] == states
        assert sum(time_s(job.options["runtime"]) for job in sections(session.files["j.fio"])) == pytest.approx(3.0)
        assert session.rail_interval_s == 4e-6, "a scale makes no interval longer"
