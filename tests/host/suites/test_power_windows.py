"""IDLP and ACTP over the specification's windows, from waveforms with known means; and the verdicts on declared values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from wattbell.errors import UsageError
from wattbell.measure.figure import Known
from wattbell.measure.source import Source
from wattbell.present.suite.powerstates import declared_and_measured, verdict
from wattbell.results.model import parse
from wattbell.suites.drive import Drive
from wattbell.suites.manifest import load_suite
from wattbell.suites.plan import choose_tests, plan_sessions
from wattbell.suites.scoring import score_test
from wattbell.suites.session import Choice

from tests.host.conftest import MS, Builder
from tests.host.suites.made import suite

S = 1000 * MS


@pytest.fixture
def coarse(tmp_path: Path) -> Builder:
    """A rail with a sample every millisecond."""
    return Builder(tmp_path / "capture", MS)


def test_idle_power_is_the_mean_of_thirty_seconds_after_ten(coarse: Builder, tmp_path: Path) -> None:
    """2 W for the first 10 s and 5 W after the 40th; between them 0.5 W, and 1 W for 3 s: 0.55 W."""
    coarse.power(0, 2.0)
    coarse.power(11 * S, 0.5)
    coarse.power(20 * S, 1.0)
    coarse.power(23 * S, 0.5)
    coarse.power(41 * S, 5.0)
    coarse.phase(1, S, 41 * S + 500 * MS, "t#3", kind="idle")
    out = score_test(Source(coarse.write(42 * S)), *suite(tmp_path, "idle-power", idle_s=40.5), 1.0)
    (point,) = out.points
    assert point.x == {"ps": 3} and point["idlp_w"].value == pytest.approx(0.55, rel=2e-4) and point["idlp_w"].u is not None
    assert not [n for n in out.notes if "scaled" in n or "not idle" in n]


def test_a_command_in_the_window_is_told(coarse: Builder, tmp_path: Path) -> None:
    coarse.power(0, 0.5)
    coarse.command(20 * S, MS, qid=0, opcode=2)
    coarse.phase(1, S, 41 * S + 500 * MS, "t#3", kind="idle")
    out = score_test(Source(coarse.write(42 * S)), *suite(tmp_path, "idle-power", idle_s=40.5), 1.0)
    assert any(n.startswith("PS3 was not idle: 1 commands") for n in out.notes)


def test_a_scaled_idle_time_keeps_the_proportion_and_says_so(coarse: Builder, tmp_path: Path) -> None:
    """Splits 1 s: 0.245 s to settle, 0.735 s measured."""
    coarse.power(0, 2.0)
    coarse.power(S + 245 * MS, 0.5)
    coarse.power(S + 985 * MS, 4.0)
    coarse.phase(1, S, 2 * S, "t#0", kind="idle")
    out = score_test(Source(coarse.write(3 * S)), *suite(tmp_path, "idle-power", idle_s=40.5), 0.01)
    assert out.points[0]["idlp_w"].value == pytest.approx(0.5, rel=0.01)
    assert any(n.startswith("scaled: 0.735 s after 0.245 s") for n in out.notes)


def burst(builder: Builder, busy: int) -> Any:
    """Idle for 11 s at 0.5 W, `busy` at 3 W with writes, idle for 11 s."""
    begin = 12 * S
    end = begin + busy
    builder.power(0, 0.5)
    builder.power(begin, 3.0)
    builder.power(end, 0.5)
    builder.phase(1, S, begin - 2 * MS, "t-before#0", kind="idle")
    builder.phase(2, begin - MS, end + MS, "t#0")
    builder.phase(3, end + 2 * MS, end + 11 * S, "t-after#0", kind="idle")
    for k in range(busy // (100 * MS)):
        builder.command(begin + k * 100 * MS, 100 * MS, opcode=1, blocks=256)
    return builder.write(end + 12 * S)


@pytest.mark.parametrize(("busy_s", "largest"), [(4, (4 * 3 + 6 * 0.5) / 10), (14, 3.0)])
def test_active_power_is_the_largest_mean_of_ten_seconds(coarse: Builder, tmp_path: Path, busy_s: int, largest: float) -> None:
    capture = burst(coarse, busy_s * S)
    out = score_test(Source(capture), *suite(tmp_path, "active-power", "[w]\nrw=write\n", workload=2, idle_s=11.0), 1.0)
    (point,) = out.points
    assert point["actp2_w"].value == pytest.approx(largest, rel=1e-3) and point["actp2_w"].u is not None
    assert point["workload_2_w"].value == pytest.approx(3.0, rel=1e-3)
    assert point["workload_2_mb_per_s"].value == pytest.approx(0.131072 / 0.1, rel=0.02)
    assert any("less than 10 s in PS0" in n for n in out.notes) == (busy_s < 10)


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("idle-power", {"idle_s": 40.0}),
        ("active-power", {"idle_s": 11.0}),
        ("active-power", {"workload": 3, "idle_s": 11.0}),
        ("active-power", {"workload": 2, "idle_s": 5.0}),
    ],
)
def test_a_manifest_that_leaves_no_room_for_the_window_is_refused(tmp_path: Path, kind: str, keys: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=f"a test of kind {kind} needs"):
        suite(tmp_path, kind, "[w]\nrw=write\n", **keys)


def test_the_plan_leaves_each_state_alone_for_the_whole_window_and_lets_the_link_sleep_with_the_drive() -> None:
    states = load_suite("power-states")
    drive = Drive("p", 10**12, (0, 1), (2, 3))
    sessions = {s.name: s for s in plan_sessions(states, choose_tests(states, (), None), drive, Choice())}
    assert "active-power-burst" not in sessions, "half an hour of idle is asked for by name"
    assert [(s.ps, s.aspm, s.idle_s) for s in sessions["idle-power"].steps] == [
        (0, "off", 40.5),
        (1, "off", 40.5),
        (2, "l1.2", 40.5),
        (3, "l1.2", 40.5),
    ]
    active = sessions["active-power"].steps
    assert [(s.name, s.ps, s.idle_s) for s in active[:3]] == [
        ("active-power-before#0", 0, 11.0),
        ("active-power#0", 0, None),
        ("active-power-after#0", 0, 11.0),
    ]
    (session,) = plan_sessions(states, choose_tests(states, ("active-power-burst",), None), drive, Choice())
    assert [s.idle_s for s in session.steps[:3]] == [300.0, None, 30.0]
    (text,) = session.files.values()
    assert "rw=randwrite" in text and "bs=1m" in text and "io_size=32m" in text


@pytest.mark.parametrize(
    ("declared", "value", "u", "slack", "said"),
    [
        (None, 1.0, 0.1, 0.0, ""),
        (2.0, None, None, 0.0, ""),
        (0.0, 1.0, None, 0.0, ""),
        (2.0, 1.0, 0.1, 0.0, "pass ×0.50"),
        (2.0, 2.05, 0.1, 0.0, "conditional fail ×1.02"),
        (2.0, 1.95, 0.1, 0.0, "conditional pass ×0.97"),
        (2.0, 2.2, 0.1, 0.0, "fail ×1.10"),
        (2.0, 2.2, None, 0.0, "not measured ×1.10, measured without an uncertainty"),
        (2.0, 1.0, None, 0.0, "not measured ×0.50, measured without an uncertainty"),
        (5e-3, 5.05e-3, 1e-6, 1e-4, "conditional fail ×1.01"),
        (5e-3, 5.2e-3, 1e-6, 1e-4, "fail ×1.04"),
        (1.0, 55.0, 1.0, 0.0, "fail ×55"),
    ],
)
def test_a_verdict_is_given_where_both_exist(declared: float | None, value: float | None, u: float | None, slack: float, said: str) -> None:
    found = verdict(declared, None if value is None else Known(value, u), slack)
    assert (found if isinstance(found, str) else found.text) == said


def test_the_table_sets_each_declared_figure_beside_the_measured_one() -> None:
    def known(value: float) -> dict[str, Any]:
        return {"value": value, "u": 0.001 * value, "n_lost": 0}

    states = [
        {"state": 0, "max_power_w": 3.0, "non_operational": False, "idle_power_w": 0.5, "active_power_w": 2.0, "active_power_workload": 2},
        {"state": 1, "max_power_w": 2.0, "non_operational": False, "active_power_w": 1.0, "active_power_workload": 1},
        {"state": 4, "max_power_w": 0.004, "non_operational": True, "entry_latency_s": 5e-3, "exit_latency_s": 9e-3},
    ]
    points = [
        {"x": {"ps": 0}, "idlp_w": known(0.63), "idle_w": known(9.0), "read_w": known(2.5), "actp2_w": known(1.9)},
        {"x": {"ps": 1}, "actp2_w": known(1.7)},
        {"x": {"ps": 4}, "settled_w": known(0.010), "idlp_w": known(0.009), "longest_entry_s": known(4e-3), "longest_exit_s": known(55e-3)},
    ]
    test = {"test": "t", "name": "t", "points": points}
    document = {"format": 1, "suite": "s", "suite_hash": "h", "drive": {"power_states": states}, "tests": [test]}
    run = parse(document, "here")
    rows = [[c if isinstance(c, str) else c.text for c in row] for row in declared_and_measured(run, [run]).rows]
    assert [(row[0], row[1], row[2], row[4]) for row in rows] == [
        ("PS 0", "MP", "3.00 W", "pass ×0.83"),
        ("", "IDLP", "500 mW", "fail ×1.26"),
        ("", "ACTP, workload #2", "2.00 W", "pass ×0.95"),
        ("PS 1", "MP", "2.00 W", "pass ×0.85"),
        ("", "ACTP, workload #1", "1.00 W", ""),
        ("", "ACTP, workload #2", "–", ""),
        ("PS 4 (idle)", "MP", "4.00 mW", "fail ×2.50"),
        ("", "IDLP", "–", ""),
        ("", "ENLAT", "5.00 ms", "pass ×0.80"),
        ("", "EXLAT", "9.00 ms", "fail ×6.11"),
    ]
