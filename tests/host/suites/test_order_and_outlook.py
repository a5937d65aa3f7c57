"""The order of work on a real drive, the forecast before it, and the remaining work meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
from wattbell.campaign.eta import Eta, about
from wattbell.suites.drive import Drive
from wattbell.suites.manifest import load_suite
from wattbell.suites.order import order_sessions
from wattbell.suites.outlook import Outlook, expect, look_ahead, writes_data
from wattbell.suites.plan import choose_tests, plan_sessions
from wattbell.suites.session import Choice, Session
from wattbell.suites.step import FormatNvm, Rest, Restart, Step, Wake, Writing

TB = 10**12
DRIVE = Drive("d", TB, (0, 1), (2, 3))
REAL = Choice(written=True, real=True)


def outlook(suite: str, tests: tuple[str, ...] = (), done: Any = frozenset()) -> Outlook:
    loaded = load_suite(suite)
    return look_ahead(order_sessions(plan_sessions(loaded, choose_tests(loaded, tests, None), DRIVE, REAL)), TB, REAL, done)


def chains(seen: Outlook) -> list[list[str]]:
    """Titles of the sessions on each filling of the drive."""
    out: list[list[str]] = []
    for part in seen.parts:
        if not part.goes_on:
            out.append([])
        out[-1].append(part.session.title)
    return out


def test_the_drive_is_filled_once_for_reads_and_what_begins_with_a_rest_after_them() -> None:
    found = chains(outlook("anandtech-2018"))
    assert found[0] == ["burst-random-read-test-data", "active-idle-test-data", "idle-test-data", "idle-wake-up-test-data"]
    assert [chain for chain in found if len(chain) > 1][1:] == [
        ["burst-random-read-full", "burst-random-write-full"],
        ["burst-sequential-read-full", "burst-sequential-write-full"],
        ["sustained-random-read-full", "fill-of-a-full-drive-full"],
    ]
    heads = [chain[0].rpartition("-")[2] for chain in found]
    assert heads == sorted(heads, key=lambda condition: condition == "full"), "drives that are to be full come last"
    assert chains(outlook("power-states")) == [
        ["non-operational-test-data", "idle-power-test-data", "operational-test-data"],
        ["active-power-test-data"],
    ]


@pytest.mark.parametrize("suite", ["anandtech-2018", "power-states", "consistency-2014", "snia-pts", "quick", "power-on"])
def test_every_session_runs_on_what_its_own_fill_would_leave(suite: str) -> None:
    """An account of our own: the data on a drive, whether it was only read since, and whether it was left alone before the first load."""
    loaded = load_suite(suite)
    plain = plan_sessions(loaded, choose_tests(loaded, (), None), DRIVE, REAL)
    seen = outlook(suite)
    assert sorted(part.session.title for part in seen.parts) == sorted(session.title for session in plain), "none is left out or doubled"
    holds: list[tuple[str, float]] = []
    for part in seen.parts:
        wanted = [("format", 0.0)] + [("fill", step.fill.span) for step in part.session.steps if step.fill is not None]
        if part.goes_on:
            assert holds == wanted
            first = part.runs[0][0]
            assert first.settle is not None or (first.idle_s or 0) >= 180
        else:
            assert [step.name for step, _ in part.runs[: len(wanted)]] == [s.name for s in part.session.steps[: len(wanted)]]
            holds = wanted
        texts = "".join(part.session.files.values())
        if part.session.traces or "write" in texts or "rw=rw" in texts or "randrw" in texts or any(s.restart for s, _ in part.runs):
            holds = []


def test_what_is_written_beforehand() -> None:
    """Worked out by hand: 1 TB of fill; 16 GiB; the 32 GiB of a mix whose 60 s are not over at 2 GB/s, or their content."""
    full = outlook("anandtech-2018", ("burst-random-read",))
    assert (full.written_bytes(), full.exact, full.erasures, full.writes) == (TB + (16 << 30), True, 2, True)
    assert expect(Step(name="f", fill=Writing(0.5)), {}, TB).written_bytes == TB // 2
    job = "[a]\nfilename=${WATTBELL_DRIVE}\nrw=randrw\nrwmixread=25\nbs=128k\niodepth=8\nio_size=1g\n"
    found = expect(Step(name="j", fio="j"), {"j": job}, TB)
    assert found.written_bytes == pytest.approx(0.75 * 2**30) and not found.exact and found.writes
    timed = expect(Step(name="j", fio="j"), {"j": job + "runtime=10\ntime_based\nrate_iops=100\n"}, TB)
    assert timed.written_bytes == pytest.approx(0.75 * 1000 * 131072) and timed.known_s == pytest.approx(10, abs=1)
    whole = expect(Step(name="j", fio="j"), {"j": "[a]\nfilename=${WATTBELL_DRIVE}\nrw=write\nbs=1m\nsize=50%\nloops=2\nnumjobs=2\n"}, TB)
    assert (whole.written_bytes, whole.exact) == (2 * TB, True) and whole.data_s == pytest.approx(2000)


def test_times_of_a_plan_are_known() -> None:
    assert expect(Step(name="i", idle_s=12.5), {}, TB).seconds == 12.5
    assert expect(Step(name="w", wake=Wake(3.0)), {}, TB).seconds == 3
    two = "[global]\nfilename=${WATTBELL_DRIVE}\nrw=randread\nruntime=20\ntime_based\n[a]\n[b]\n[c]\nstonewall\n"
    assert expect(Step(name="j", fio="j"), {"j": two}, TB).seconds == pytest.approx(40, abs=2), "a and b run together"
    duty = Step(name="j", fio="j", duty=0.2, duty_idle_max_s=50.0)
    assert expect(duty, {"j": two}, TB).seconds == pytest.approx(140, abs=2)


def test_rounds_that_may_not_be_needed_are_told_apart() -> None:
    seen = outlook("snia-pts", ("iops",))
    (part,) = seen.parts
    needed = [step.name for step, expected in part.runs if not expected.optional]
    assert needed[-5:] == [f"iops#{k}" for k in range(1, 6)] and len(part.runs) > len(needed)
    assert seen.written_bytes() < seen.written_bytes(most=True) and seen.seconds() < seen.seconds(most=True)


def test_a_session_that_was_done_before_leaves_the_next_one_to_fill_the_drive() -> None:
    tests = ("active-idle", "idle", "idle-wake-up")
    assert [part.goes_on for part in outlook("anandtech-2018", tests).parts] == [False, True, True]
    seen = outlook("anandtech-2018", tests, {("active-idle", "test-data")})
    assert [(part.done, part.goes_on) for part in seen.parts] == [(True, False), (False, False), (False, True)]
    assert seen.written_bytes() == 16 << 30 and seen.parts[0].runs == []


@pytest.mark.parametrize(
    ("step", "writes"),
    [
        (Step(name="s", format=FormatNvm()), True),
        (Step(name="s", fill=Writing()), True),
        (Step(name="s", sanitize="block"), True),
        (Step(name="s", trace="heavy-like.iolog"), True),
        (Step(name="s", idle_s=1.0), False),
        (Step(name="s", wake=Wake(1.0)), False),
        (Step(name="s", settle=Rest()), False),
        (Step(name="s", idle_s=1.0, write_cache=False), True),
        (Step(name="s", ps=3, idle_s=1.0), False),
        (Step(name="s", restart=Restart()), True),
    ],
)
def test_what_counts_as_writing(step: Step, writes: bool) -> None:
    assert writes_data(step, {}) is writes


@pytest.mark.parametrize("pattern", ["write", "trim", "randwrite", "randtrim", "rw", "readwrite", "randrw"])
@pytest.mark.parametrize("option", ["rw", "readwrite"])
def test_a_job_that_may_write_is_found_in_any_section(option: str, pattern: str) -> None:
    job = f"[global]\nfilename=${{WATTBELL_DRIVE}}\nrw=randread\n[a]\n[b]\n{option}={pattern}\nrwmixread=100\n"
    assert writes_data(Step(name="s", fio="j"), {"j": job})
    assert not writes_data(Step(name="s", fio="j"), {"j": job.replace(f"{option}={pattern}", "rw=read")})


# -- what is left ----------------------------------------------------------------------------------------------------


class Clock:
    """Seconds that pass when a test says so."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def two_fills(real_time: bool) -> tuple[Eta, Clock]:
    steps = [Step(name="fill", fill=Writing(0.1)), Step(name="idle", idle_s=50.0)]
    sessions = [Session(name, "full", [], 1e-3, steps=list(steps)) for name in "ab"]
    clock = Clock()
    return Eta(look_ahead(sessions, TB, REAL), real_time, clock), clock


def test_what_is_left_follows_the_clock_and_the_drives_own_speed() -> None:
    eta, clock = two_fills(real_time=True)
    assert eta.left_s == pytest.approx(2 * (100 + 50), abs=2) and eta.share == 0
    eta.session(0, "a")
    eta.step("fill")
    clock.now += 60
    assert eta.left_s == pytest.approx(240, abs=2)
    clock.now += 140  # twice as long as was reckoned: it is still going on, and no time is taken back
    assert eta.left_s == pytest.approx(200, abs=2)
    eta.step("idle")
    assert eta.left_s == pytest.approx(50 + 200 + 50, abs=3), "the other fill takes as long"
    clock.now += 50
    eta.over()
    assert eta.left_s == pytest.approx(250, abs=3) and eta.share == pytest.approx(0.5, abs=0.01)
    eta.session(1, "b")
    eta.step("fill")
    clock.now += 200
    eta.step("idle")
    clock.now += 50
    eta.over()
    assert eta.left_s == 0 and eta.share == 1


def test_a_step_that_is_left_out_takes_no_time_and_teaches_nothing() -> None:
    eta, clock = two_fills(real_time=True)
    eta.session(0, "a")
    eta.step("fill", left_out=True)
    clock.now += 1000
    eta.step("idle")
    assert eta.left_s == pytest.approx(50 + 150, abs=2)


def test_of_a_virtual_bench_nothing_is_said_before_a_session_is_over() -> None:
    eta, clock = two_fills(real_time=False)
    eta.session(0, "a")
    clock.now += 30
    assert eta.left_s is None and eta.share == 0
    eta.over()
    assert eta.left_s == pytest.approx(30)
    eta.session(1, "b")
    clock.now += 10
    assert eta.left_s == pytest.approx(20)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "about 1 s"),
        (89, "about 89 s"),
        (91, "about 2 min"),
        (3600, "about 60 min"),
        (5500, "about 1 h 30 min"),
        (7300, "about 2 h"),
        (80_000, "about 22 h"),
    ],
)
def test_times_in_words(seconds: float, words: str) -> None:
    assert about(seconds) == words
