"""`wattbell policies`: idle tables by hand, energy against a walk through time in small steps, refusals, and the command's output."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result
from wattbell.cli.app import app
from wattbell.errors import WattbellError
from wattbell.results.declared import PowerStateDescriptor
from wattbell.results.idlepolicy import IdlePolicy, PolicyStep, drive_cost, policies_of, replay
from wattbell.results.idletrace import IdleTrace, read_idle_trace
from wattbell.results.load import read_run
from wattbell.wire.decode import Gap
from wattbell_spec.wire import BlockContent

from tests.columns import print_wide
from tests.host.conftest import MS, Builder

BASE_W, BASE_S = 0.6, 1e-4
SLEEP = {
    3: {"settled_w": 0.1, "entry_s": 4e-3, "entry_j": 2.4e-3, "exit_s": 0.011, "exit_j": 0.024},
    4: {"settled_w": 0.005, "entry_s": 6e-3, "entry_j": 3.0e-3, "exit_s": 0.047, "exit_j": 0.104},
}
STATES = [
    {"ps": 0, "max_w": 6.0, "operational": True, "entry_us": 0, "exit_us": 0},
    {"ps": 1, "max_w": 3.0, "operational": True, "entry_us": 0, "exit_us": 0},
    {"ps": 2, "max_w": 2.0, "operational": True, "entry_us": 0, "exit_us": 0},
    {"ps": 3, "max_w": 0.1, "operational": False, "entry_us": 4000, "exit_us": 10000},
    {"ps": 4, "max_w": 0.005, "operational": False, "entry_us": 4000, "exit_us": 45000},
]


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    print_wide(monkeypatch)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def known(value: float, share: float = 0.01) -> dict[str, Any]:
    return {"value": value, "u": value * share, "n_lost": 0}


@pytest.fixture
def run(samples: Any, tmp_path: Path) -> Any:
    """Writes a run of power-states. ``without``: figures of PS4 that it lacks."""

    def write(name: str = "ps", without: Sequence[str] = (), share: float = 0.01, **more: Any) -> Path:
        points = [
            {"x": {"ps": ps}, **{key: known(value, share) for key, value in found.items() if ps == 3 or key not in without}}
            for ps, found in SLEEP.items()
        ]
        scores = [
            {"name": "idle in PS0, the base of the break-even time", "unit": "W", "value": known(BASE_W, share), "reading": None},
            {"name": "mean latency of the same read when awake", "unit": "s", "value": known(BASE_S, share), "reading": None},
        ]
        test = {
            "test": "non-operational",
            "name": "Non-operational states",
            "kind": "non-operational-states",
            "condition": "test-data",
            "points": points,
            "scores": scores,
            "series": None,
        }
        drive = {"model": "X", "serial": "S", "firmware": "F", "profile": "p", "power_states": STATES}
        return Path(samples.write_results(tmp_path / name, **{"suite": "power-states", "tests": [test], "drive": drive, **more}))

    return write


def told(*arguments: object, code: int = 0) -> Result:
    found = CliRunner().invoke(app, [str(one) for one in arguments])
    if code:
        assert isinstance(found.exception, WattbellError) and found.exception.exit_code == code, (found.output, found.exception)
    else:
        assert found.exception is None, (found.output, found.exception)
    return found


def states(*sleeping: tuple[float, float]) -> list[PowerStateDescriptor]:
    """Two operational states, and non-operational ones with these entry and exit latencies in ms."""
    awake = [PowerStateDescriptor(k, True, 5.0, 0.0, 0.0) for k in range(2)]
    return awake + [PowerStateDescriptor(k, False, 0.1, a * 1e-3, b * 1e-3) for k, (a, b) in enumerate(sleeping, start=2)]


def steps(found: IdlePolicy) -> list[tuple[int, float]]:
    return [(step.state, step.after_s) for step in found.steps]


@pytest.mark.parametrize(
    ("sleeping", "tolerance_us", "due"),
    [
        # nvme_configure_apst, by hand: exit latency against the tolerance, entry and exit against 15 ms (100 ms) and 100 ms (2000 ms)
        (((4, 10), (4, 45)), 0, []),
        (((4, 10), (4, 45)), 9_999, []),
        (((4, 10), (4, 45)), 10_000, [(2, 0.1)]),
        (((4, 10), (4, 45)), 44_999, [(2, 0.1)]),
        (((4, 10), (4, 45)), 45_000, [(2, 0.1), (3, 2.0)]),
        (((5, 5), (50, 100)), 100_000, [(2, 0.1)]),  # Liteon CX2 of the commit that chose 100 ms: 150 ms together fit no class
        (((5, 5), (5, 9)), 100_000, [(3, 0.1)]),  # two of one class: the deeper
        (((60, 30),), 100_000, [(2, 2.0)]),
    ],
)
def test_linux_tables_follow_the_kernels_rule(sleeping: Any, tolerance_us: float, due: list[tuple[int, float]]) -> None:
    assert steps(policies_of(states(*sleeping), [tolerance_us])[0]) == due


def test_stornvme_takes_the_deepest_state_within_each_tolerance() -> None:
    """Microsoft's example: PS1 with 10.3 ms and PS2 with 60 ms; on battery PS1, in Modern Standby PS2."""
    found = {one.name: steps(one) for one in policies_of(states((10, 0.3), (50, 10)), [0])}
    assert found["StorNVMe, Modern Standby"] == [(3, 0.05)]
    assert found["StorNVMe, balanced, battery"] == [(2, 0.1), (3, 1.0)]
    assert found["StorNVMe, balanced, mains"] == [(2, 0.2), (3, 2.0)]
    assert found["StorNVMe, power saver, mains"] == [(3, 0.1)]
    beyond = {one.name: steps(one) for one in policies_of(states((300, 300)), [0])}
    assert set(map(len, beyond.values())) == {0}, "600 ms fit nowhere: the drive stays awake"


def walked(idle_s: float, policy: IdlePolicy, step_s: float = 1e-5) -> tuple[float, int | None]:
    """Walk through one idle time; return its energy in J, and the state that the command wakes.

    An entry that has begun goes on behind the idle time.
    """
    energy, at, state, queue, entering, arrived, since = 0.0, 0.0, None, list(policy.steps), None, 0.0, 0.0
    while at < idle_s or entering is not None:
        if entering is not None and at >= arrived - step_s / 2:
            state, since, entering = entering, arrived, None
            continue
        if entering is None and queue:
            due = queue[0].after_s + (since if queue[0].since == "state" else 0.0)
            if at >= due - step_s / 2:
                entering = queue.pop(0).state
                arrived = at + SLEEP[entering]["entry_s"]
                before_w = BASE_W if state is None else SLEEP[state]["settled_w"]
                entry_w = SLEEP[entering]["entry_j"] / SLEEP[entering]["entry_s"]
                going_w = entry_w if state is None else (entry_w + before_w) / 2
                continue
        energy += step_s * (going_w if entering is not None else BASE_W if state is None else SLEEP[state]["settled_w"])
        at += step_s
    return (energy, None) if state is None else (energy + SLEEP[state]["exit_j"] - BASE_W * BASE_S, state)


POLICIES = [
    IdlePolicy("awake", "", ()),
    IdlePolicy("apst", "", (PolicyStep(3, 0.01, "state"), PolicyStep(4, 0.05, "state"))),
    IdlePolicy("host", "", (PolicyStep(3, 0.01, "command"), PolicyStep(4, 0.05, "command"))),
    IdlePolicy("deep", "", (PolicyStep(4, 0.02, "command"),)),
]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda one: one.name)
def test_energy_and_wakes_are_those_of_a_walk_through_time(run: Any, policy: IdlePolicy) -> None:
    """Some idle times end during an entry, and some at a step."""
    random = np.random.default_rng(3)
    idle_s = np.round(np.concatenate([random.exponential(0.05, 30), [0.0, 0.005, 0.012, 0.0135, 0.052, 0.066, 0.3]]), 5) + 5e-6
    found = replay(drive_cost(read_run(run())), IdleTrace("", idle_s, 100.0), policy)
    each = [walked(float(one), policy) for one in idle_s]
    assert found.energy_j.value == pytest.approx(sum(energy for energy, _ in each), rel=1e-3)
    assert found.wakes == {state: n for state in SLEEP if (n := sum(woken == state for _, woken in each))}
    assert found.day_j.value == pytest.approx(found.energy_j.known * 864)
    assert found.wakes_a_day == pytest.approx(864 * sum(found.wakes.values()))
    assert found.waited_s.value == pytest.approx(864 * sum(SLEEP[s]["exit_s"] for _, s in each if s), abs=1e-9)


def test_uncertainties_of_one_front_end_add_up(run: Any) -> None:
    """All figures are known to 1 %. So is a sum of them, however many there are; the entry from PS3 into PS4 was not measured."""
    drive, trace = drive_cost(read_run(run())), IdleTrace("", np.full(50, 0.3), 100.0)
    alone = replay(drive, trace, POLICIES[3]).energy_j
    assert alone.u == pytest.approx(0.01 * alone.known, rel=0.01)
    chained = replay(drive, trace, POLICIES[1]).energy_j
    unknown = 50 * (SLEEP[4]["entry_j"] - SLEEP[3]["settled_w"] * SLEEP[4]["entry_s"]) / 2
    assert chained.u == pytest.approx(0.01 * chained.known + unknown, rel=0.01)


def test_a_state_that_was_not_measured_has_no_energy_and_says_so(run: Any) -> None:
    folder = run(without=("entry_j",))
    Path("idle.csv").write_text("idle_s\n5\n0.01\n")
    rows = {one["name"]: one for one in json.loads(told("policies", folder, "idle.csv", "--json").stdout)["policies"]}
    assert rows["Linux, 100 ms"]["energy_j_per_day"]["value"] is None and "PS4" in rows["Linux, 100 ms"]["why"]
    assert rows["Linux, 10 ms"]["energy_j_per_day"]["value"] > 0
    assert "not measured PS4" in told("policies", folder, "idle.csv").output


def test_the_command_prints_policies_with_conditions_and_sources(run: Any) -> None:
    """Awake, 10 s are 6 J, 51 840 J a day, by hand. From 0.1 s in PS3: 0.06 + 2.4 mJ + 0.1 (10 - 0.104) + 24 mJ - 0.06 mJ."""
    folder = run()
    Path("idle.csv").write_text('"idle_s"\r\n10\r\n\r\n')
    found = json.loads(told("policies", folder, "idle.csv", "--tolerance", "0", "--tolerance", "20ms", "--json").stdout)
    off, on, *windows = found["policies"]
    assert off["energy_j_per_day"]["value"] == pytest.approx(51_840) and off["wake_ups_per_day"] == 0
    assert on["energy_j_per_day"]["value"] == pytest.approx(8640 * (0.06 + 0.0024 + 0.1 * 9.896 + 0.024 - 0.00006))
    assert on["wake_ups"] == {"PS3": 1} and on["wake_ups_per_day"] == pytest.approx(8640) and len(windows) == 5
    assert found["trace"]["idle_times"] == 1 and any("nvme_configure_apst" in line for line in found["conditions"])
    shown = told("policies", folder, "idle.csv").output
    assert "Linux, 100 ms" in shown and "PS3 after 100 ms, PS4 after 2 s more" in shown and "StorNVMe" in shown
    assert "work is not in it" in shown and "MODEL" in shown


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "its first line is not idle_s"),
        ("seconds\n1\n", "its first line is not idle_s"),
        ("idle_s,other\n1,2\n", "its first line is not idle_s"),
        ("idle_s\n1\n-2\n", "line 3 is no idle time"),
        ("idle_s\nnan\n", "line 2 is no idle time"),
        ("idle_s\ninf\n", "line 2 is no idle time"),
        ("idle_s\n1,5\n", "line 2 is no idle time"),
        ("idle_s\n\n", "has no idle time above 0"),
        ("idle_s\n0\n", "has no idle time above 0"),
    ],
)
def test_files_that_are_no_idle_times_are_refused(run: Any, text: str, said: str) -> None:
    Path("idle.csv").write_text(text)
    assert said in str(told("policies", run(), "idle.csv", code=1).exception)


def test_what_cannot_be_replayed_is_refused(run: Any, samples: Any, tmp_path: Path) -> None:
    Path("idle.csv").write_text("idle_s\n1\n")
    other = samples.write_results(tmp_path / "other")
    assert "give a run of the suite power-states" in str(told("policies", other, "idle.csv", code=1).exception)
    told("policies", run(), "missing.csv", code=1)
    bare = run("bare", drive={"model": "X", "serial": "S", "firmware": "F", "profile": "p"})
    assert "declared power states" in str(told("policies", bare, "idle.csv", code=1).exception)
    for value in ("soon", "-1", "nan"):
        assert "--tolerance" in str(told("policies", run(), "idle.csv", f"--tolerance={value}", code=2).exception)


def test_a_captures_own_idle_times_are_used_and_loss_is_refused(run: Any, tmp_path: Path) -> None:
    """Commands begin at 10, 60 and 160 ms and last 80 us: idle times of 49.92 and 99.92 ms. No command ends the last one."""
    for name, gaps in (("capture", []), ("lossy", [Gap(BlockContent.COMMANDS, 70 * MS, 80 * MS, 3, "test")])):
        made = Builder(tmp_path / name)
        made.power(0, 0.6)
        for tick in (10 * MS, 60 * MS, 160 * MS):
            made.command(tick, 80_000)
        made.gaps += gaps
        made.write(300 * MS)
    trace = read_idle_trace(tmp_path / "capture")
    assert trace.idle_s == pytest.approx([0.04992, 0.09992]) and trace.span_s == pytest.approx(0.15)
    told("policies", run(), "capture", "--json")
    assert "lost 3 records of commands" in str(told("policies", run("other"), "lossy", code=1).exception)
