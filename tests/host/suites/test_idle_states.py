"""Idle power by the state that the drive reached, and idle times that are long enough for the drive's own APST table.

The oracles are the drives' profiles (``sim/profiles``), read here by a reader of their own, and captures with levels written by hand.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from wattbell.analysis.reached import reached
from wattbell.measure.source import Source
from wattbell.suites.drive import from_profile
from wattbell.suites.manifest import load_suite
from wattbell.suites.outcome import Outcome
from wattbell.suites.plan import choose_tests, plan_sessions
from wattbell.suites.scoring import score_test
from wattbell.suites.session import Choice
from wattbell.virtual.profiles import known_profiles
from wattbell_spec.wire import EventType

from tests.host.suites.made import suite

MS, S = 1_000_000, 1_000_000_000
"""Ticks of a builder's capture."""
PROFILES = Path(__file__).parents[3] / "sim" / "profiles"


def scored(builder: Any, tmp_path: Path, end: int, kind: str = "idle", **keys: Any) -> Outcome:
    return score_test(Source(builder.write(end=end)), *suite(tmp_path, kind, idle_s=1.0, **keys), 1.0)


def test_each_level_has_its_power_its_time_and_how_long_it_was_held(builder: Any, tmp_path: Path) -> None:
    """600 mW for 0.2 s, 96 mW for 1.3 s, 5 mW for 0.5 s: the second half is a mean over a change, and no figure."""
    builder.phase(1, 100 * MS, 2100 * MS, "t", kind="idle")
    builder.levels += [(0, 0.6), (300 * MS, 0.096), (1600 * MS, 0.005)]
    out = scored(builder, tmp_path, 2200 * MS)
    assert [p["mean_w"].value for p in out.points] == pytest.approx([0.6, 0.096, 0.005], rel=3e-3)
    assert [p["reached_s"].value for p in out.points] == pytest.approx([0.0, 0.2, 1.5], abs=1e-3)
    assert [p["held_s"].value for p in out.points] == pytest.approx([0.2, 1.3, 0.5], abs=2e-3)
    (settled,) = (s.value for s in out.scores if s.unit == "W")
    assert settled.value == pytest.approx(0.005, rel=5e-3) and settled.u is not None and settled.u < 2e-5


def test_the_time_before_an_uncertain_end_counts(builder: Any, tmp_path: Path) -> None:
    """The end may be 60 ms off: the power leaves out 120 ms and two samples before it, and the time is as uncertain as the end."""
    builder.phase(1, 100 * MS, 2100 * MS, "t", kind="idle", edge_u_s=0.06)
    builder.levels += [(0, 0.6), (300 * MS, 0.005), (2050 * MS, 1.2)]
    awake, asleep = scored(builder, tmp_path, 2300 * MS).points
    assert asleep["mean_w"].value == pytest.approx(0.005, rel=5e-3)
    assert awake["held_s"].value == pytest.approx(0.2, abs=2e-3) and awake["held_s"].u < 3e-3
    assert abs(asleep["held_s"].value - 1.75) <= asleep["held_s"].u < 0.07


def test_a_begin_that_no_command_tells_is_as_uncertain_as_its_edge(builder: Any) -> None:
    """Without a command the times count from the edge, else from the completion before the idle time."""
    builder.levels += [(0, 0.6), (1300 * MS, 0.005)]
    builder.command(900 * MS, 100 * MS)
    source = Source(builder.write(end=3 * S))
    at_edge = reached(source, 1050 * MS, 2900 * MS, 0.06)[1].after
    behind_command = reached(source, 950 * MS, 2900 * MS, 0.06)[1].after
    assert at_edge.value == pytest.approx(0.25, abs=2e-3) and at_edge.u == pytest.approx(0.06, rel=0.01)
    assert behind_command.value == pytest.approx(0.3, abs=2e-3) and behind_command.u < 3e-3


@pytest.mark.parametrize(
    ("levels", "why"),
    [
        ([(0, 0.6), (2080 * MS, 0.005)], "20 ms before the end"),
        ([(0, 0.6), *((100 * MS + k * 100 * MS, (0.6, 0.1)[k % 2]) for k in range(20))], "reached, left and reached again"),
        ([(0, 0.6), *((100 * MS + k * 20 * MS, 0.6 * 0.97**k) for k in range(100))], "not settled"),
    ],
)
def test_what_did_not_settle_says_so_and_has_no_score(builder: Any, tmp_path: Path, levels: list[tuple[int, float]], why: str) -> None:
    builder.phase(1, 100 * MS, 2100 * MS, "t", kind="idle")
    builder.levels += levels
    out = scored(builder, tmp_path, 2200 * MS)
    assert [s.value.value for s in out.scores if s.unit == "W"] == [None]
    assert any(note.startswith("NO SCORE: not settled") and why in note for note in out.notes), out.notes


@pytest.mark.parametrize(("wait_ms", "settled"), [(3000, False), (1000, True)])
def test_an_idle_time_too_short_for_the_table_has_no_score(builder: Any, tmp_path: Path, wait_ms: int, settled: bool) -> None:
    """The table sends the drive on after 3 s, and 2 s were recorded: whatever it drew until then is not where it settles."""
    builder.phase(1, 100 * MS, 2100 * MS, "t", kind="idle", apst=True, apst_table=[[0, 3, 100], [3, 4, wait_ms - 100]])
    builder.levels += [(0, 0.6), (200 * MS, 0.096)]
    out = scored(builder, tmp_path, 2200 * MS, apst=True)
    (power,) = (s.value for s in out.scores if s.unit == "W")
    assert (power.value is not None) is settled
    assert any("by APST's table PS4 follows after 3.00 s" in note for note in out.notes) is not settled


def test_a_mean_over_waking_from_two_states_is_none(builder: Any, tmp_path: Path) -> None:
    """PS3 and PS4 asked for by the host; each state has its own mean."""
    states = [(0, 6.0, False), (1, 3.0, False), (2, 2.0, False), (3, 0.1, True), (4, 0.005, True)]
    for k, (state, watt, took) in enumerate(((3, 0.096, 5 * MS), (4, 0.005, 50 * MS)), start=1):
        base = k * S
        builder.phase(k, base, base + 900 * MS, f"t#{k}", kind="wake")
        builder.command(base + MS // 10, MS // 50, qid=0, opcode=9, slba=2, blocks=state)
        builder.events.append((base + 3 * MS // 25, EventType.POWER_STATE, state, 0))
        builder.levels += [(base, 0.6), (base + 10 * MS, watt), (base + 800 * MS, 1.0), (base + 870 * MS, 0.6)]
        builder.command(base + 800 * MS, took)
    builder.levels.insert(0, (0, 0.6))
    capture = builder.write(end=4 * S)
    capture.meta["drive"] = {
        "power_states": [{"state": n, "max_power_w": w, "non_operational": asleep, "exit_latency_s": 0.01} for n, w, asleep in states]
    }
    out = score_test(Source(capture), *suite(tmp_path, "wake", repeat=2, idle_s=0.8), 1.0)
    found = {s.name: s.value.value for s in out.scores}
    assert found["mean, doorbell to completion from PS3"] == pytest.approx(5e-3)
    assert found["mean, doorbell to completion from PS4"] == pytest.approx(50e-3)
    assert "mean, doorbell to completion" not in found and any(note.startswith("NO SCORE over all") for note in out.notes)


def linux(path: Path) -> tuple[float, int]:
    """(when, where to) Linux's defaults send a drive, by the documentation of ``nvme_configure_apst``: 100 ms of idle time into what enters
    and leaves within 15 ms, 2 s into what does within 100 ms, the deepest of either kind."""
    states = tomllib.loads(path.read_text())["power_state"]
    number = {key: [one[key]["value"] for one in states] for key in ("entry_us", "exit_us")}
    fast, slow = [], []
    for state, one in enumerate(states):
        total = number["entry_us"][state] + number["exit_us"][state]
        if not one["operational"]:
            (fast if total <= 15_000 else slow if total <= 100_000 else []).append(state)
    steps = []
    if fast:
        steps.append((0.1, max(fast)))
    if slow and (not fast or max(slow) > max(fast)):
        steps.append((2.0, max(slow)))
    return sum(wait + number["entry_us"][state] * 1e-6 for wait, state in steps), steps[-1][1] if steps else 0


@pytest.mark.parametrize("name", [profile["profile"] for profile in known_profiles()])
@pytest.mark.parametrize("scale", [1.0, 0.01])
def test_an_idle_time_is_long_enough_for_the_drives_own_table(name: str, scale: float) -> None:
    drive = from_profile(PROFILES / f"{name}.toml")
    after_s, _ = linux(PROFILES / f"{name}.toml")
    assert drive.settled_after_s == pytest.approx(after_s)
    quick = load_suite("quick")
    (session,) = plan_sessions(quick, choose_tests(quick, ("idle", "idle-wake-up", "active-idle"), None), drive, Choice(scale=scale))
    idle = next(step.idle_s for step in session.steps if step.name == "idle")
    wakes = [step.wake.idle_s for step in session.steps if step.wake is not None]
    assert idle is not None and min([idle, *wakes]) >= max(3.0, after_s + 0.5)


def test_a_slow_table_makes_the_idle_time_longer(tmp_path: Path) -> None:
    """Like a drive with states that take 99 ms each: a table of 2 s goes beyond an idle time of 1 s."""
    text = (PROFILES / "wd-sn750.toml").read_text()
    path = tmp_path / "slow.toml"
    path.write_text(text.replace("entry_us = { value = 4000,", "entry_us = { value = 49000,"))
    assert from_profile(path).settled_after_s == pytest.approx(2.049)
