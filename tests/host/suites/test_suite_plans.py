"""Scaled job files, and the plans made of suites."""

from __future__ import annotations

import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from wattbell.campaign import real, virtual
from wattbell.cli import output
from wattbell.errors import UsageError
from wattbell.suites.drive import Drive, from_profile
from wattbell.suites.jobs import scaled, sections
from wattbell.suites.manifest import load_suite
from wattbell.suites.plan import choose_tests, plan_sessions
from wattbell.suites.session import Choice, Session
from wattbell.suites.units import size_bytes, time_s
from wattbell.virtual.simulator import profiles_dir

TB = 1_000_000_000_000
DRIVE = Drive("test", TB, (0, 1), (2, 3))


def tables(session: Session) -> list[Any]:
    """The steps of a plan as TOML has them."""
    return [step.table for step in session.steps]


def plans(name: str, *tests: str, condition: str | None = None, **choice: object) -> list[Session]:
    suite = load_suite(name)
    return plan_sessions(suite, choose_tests(suite, tests, condition), DRIVE, Choice(**choice))  # type: ignore[arg-type]


def test_sizes_and_times_are_read_as_fio_reads_them() -> None:
    assert [size_bytes(t) for t in ("4k", "512", "16g", "4ki", "1M", "2kb")] == [4096, 512, 16 << 30, 4000, 1 << 20, 2048]
    assert [time_s(t) for t in ("60", "500ms", "2m", "20us")] == [60, 0.5, 120, pytest.approx(20e-6)]
    for wrong in ("", "4x", "k", "1.5g"):
        with pytest.raises(ValueError):
            size_bytes(wrong)


def test_scaling_shortens_time_and_span_and_nothing_else() -> None:
    text = "[global]\nbs=4k\nsize=64g\nio_size=32g\nruntime=60\noffset=2g\n[a]\niodepth=4\n[b]\nsize=75%\niodepth=8\n"
    assert scaled(text, 1.0, TB) == text
    a, b = sections(scaled(text, 0.01, TB))
    assert abs(int(a.options["size"]) - 0.64 * (1 << 30)) < 4096
    assert int(a.options["size"]) % 4096 == int(a.options["io_size"]) % 4096 == int(a.options["offset"]) % 4096 == 0
    assert a.options["runtime"] == "600000us"
    assert abs(int(b.options["size"]) - 0.0075 * TB) < 4096
    assert (a.depth, b.depth, a.options["bs"]) == (4, 8, "4k")
    tiny = sections(scaled(text, 1e-9, TB))[0]
    assert int(tiny.options["size"]) == 16 * 4096  # never less than a few blocks
    assert tiny.options["runtime"] == "2000us"
    assert "not the published test" in scaled(text, 0.5, TB).splitlines()[0]


def test_plans_are_toml_with_one_step_a_test_in_order() -> None:
    (session,) = [s for s in plans("anandtech-2018", condition="full") if s.name == "sustained-writes"]
    plan = tomllib.loads(session.plan)
    assert plan["condition"] == "full"
    assert [s["name"] for s in plan["step"]] == [
        "sustained-sequential-read",
        "sustained-sequential-write-rest",
        "sustained-sequential-write",
        "sustained-random-write-rest",
        "sustained-random-write",
        "sustained-sequential-read-after-random-write",
    ]
    tests = [s for s in plan["step"] if "fio" in s]
    assert all(s["duty"] == 0.5 and s["duty_idle_max_s"] == 60.0 for s in tests)
    assert set(session.files) == {s["fio"] for s in tests}
    assert all(s["idle_s"] == 180.0 and s["measured"] is False for s in plan["step"] if s not in tests)
    assert "rest" not in "".join(s.plan for s in plans("anandtech-2018", condition="test-data"))


def test_conditions_choose_tests() -> None:
    suite = load_suite("anandtech-2018")
    full = choose_tests(suite, (), "full")
    data = choose_tests(suite, (), "test-data")
    assert len(full) + len(data) == len(choose_tests(suite, (), None))
    assert {c for _, c in full} == {"full"}
    assert "full" not in {c for _, c in data}
    assert ("whole-drive-fill", "empty") in {(t.id, c) for t, c in data}
    with pytest.raises(UsageError, match="its tests: burst-random-read"):
        choose_tests(suite, ("brust",), None)
    with pytest.raises(UsageError, match="No test"):
        choose_tests(load_suite("quick"), (), "full")


def test_preconditioning_is_set_or_written() -> None:
    (session,) = plans("anandtech-2018", "burst-random-read", condition="test-data", written=True)
    purge, fill, burst = tables(session)
    assert session.start == "empty"
    assert purge["format"] == {"nsid": 1, "ses": 1}
    assert fill["fill"]["span"] == pytest.approx((16 << 30) / TB)
    assert purge["measured"] is fill["measured"] is False
    assert burst["name"] == "burst-random-read"
    (spare,) = plans("consistency-2016", "random-write-op75")
    assert [s.get("fill", {}).get("span") for s in tables(spare)] == [None, 0.75, None]
    (part,) = plans("anandtech-2018", "fill-of-a-90-percent-full-drive", written=True)
    assert [s.get("fill", {}).get("span") for s in tables(part)] == [None, 0.9, None, None]
    assert tables(part)[2] == {"name": "fill-of-a-90-percent-full-drive-rest", "idle_s": 180.0, "measured": False}
    (twice,) = plans("snia-pts", "iops", rounds=3)
    assert [s["name"] for s in tables(twice)] == ["purge", "fill#1", "fill#2", "iops#1", "iops#2", "iops#3"]


def test_a_model_is_told_how_much_its_drive_holds() -> None:
    def start(test: str, condition: str) -> tuple[str, int | None]:
        (session,) = plans("anandtech-2018", test, condition=condition)
        assert ("data_bytes" in session.plan) == (session.data_bytes is not None)
        assert not session.preconditioning
        return session.start, session.data_bytes

    assert start("sustained-random-write", "test-data") == ("test-data", 64 << 30)
    assert start("burst-random-read", "test-data") == ("test-data", 16 << 30)
    assert start("burst-random-read", "full") == ("full", None)
    assert start("fill-of-a-full-drive", "full") == ("full", None)
    assert start("fill-of-a-90-percent-full-drive", "full") == ("full", TB * 9 // 10)
    assert start("whole-drive-fill", "empty") == ("empty", None)


@pytest.mark.parametrize(
    ("suite", "test", "says"),
    [
        ("consistency-2016", "random-write", "was set to the condition full, not written"),
        ("consistency-2016", "random-write-op75", "purge, fill"),
        ("snia-pts", "iops", "purge, fill#1, fill#2"),
    ],
)
def test_a_run_says_whether_its_drive_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suite: str, test: str, says: str
) -> None:
    notes: list[str] = []
    monkeypatch.setattr(virtual, "run_model", lambda run, _: notes.extend(run.notes) or "the rig stopped")
    (session,) = plans(suite, test)
    bench = virtual.VirtualBench(profiles_dir() / "intel-660p-1tb.toml", Choice(), output)
    bench.run(session, tmp_path / "plans", tmp_path / "capture", {}, lambda *_: None)
    assert len(notes) == 1 and says in notes[0] and ("not written" in notes[0]) == ("not written" in says)


@pytest.mark.parametrize("reason", ["the rig stopped", "stopped by the user"])
def test_a_signal_ends_a_suite_also_when_the_rig_has_just_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    monkeypatch.setattr(virtual, "run_model", lambda run, _: run.stop.set() or reason)
    (session,) = plans("snia-pts", "iops")
    bench = virtual.VirtualBench(profiles_dir() / "intel-660p-1tb.toml", Choice(), output)
    with pytest.raises(KeyboardInterrupt):
        bench.run(session, tmp_path / "plans", tmp_path / "capture", {}, lambda *_: None)


@pytest.mark.parametrize(
    ("suite", "test", "settled"),
    [
        ("anandtech-2018", "active-idle", 1),
        ("anandtech-2018", "idle", 1),
        ("anandtech-2018", "idle-wake-up", 1),
        ("quick", "idle", 1),
        ("power-states", "operational", 2),
        ("power-states", "non-operational", 1),
    ],
)
def test_on_a_real_drive_idle_times_find_data_and_a_rail_at_rest(suite: str, test: str, settled: int) -> None:
    (session,) = plans(suite, test, written=True, real=True)
    purge, fill, first, *rest = tables(session)
    assert "format" in purge
    written_bytes = fill["fill"]["span"] * TB
    assert written_bytes == pytest.approx(1 << 30 if suite == "quick" else 16 << 30)
    assert "settle" in first and not {"apst", "aspm", "ps"} & set(first), "awake: what sleeps may leave its work for later"
    assert sum("settle" in step for step in tables(session)) == settled
    assert all(step["wake"]["slba"] * 512 < written_bytes for step in rest if "wake" in step)
    assert tomllib.loads(session.plan)["step"][2]["settle"]["longest_s"] > 60


def test_a_suite_that_names_no_amount_of_data_gets_some(tmp_path: Path) -> None:
    (tmp_path / "manifest.toml").write_text(
        '[[test]]\nid = "w"\nname = "W"\nkind = "wake"\nconditions = ["test-data"]\nrepeat = 10\nrepeat_min = 10\nidle_s = 1.0\n'
    )
    suite = load_suite(tmp_path)
    for scale in (1.0, 1e-4):
        (session,) = plan_sessions(suite, choose_tests(suite, (), None), DRIVE, Choice(scale, True, real=True))
        written_bytes = tables(session)[1]["fill"]["span"] * TB
        addresses = [step["wake"]["slba"] * 512 for step in tables(session) if "wake" in step]
        assert len(set(addresses)) == len(addresses) == 10
        assert written_bytes == pytest.approx(max(scale * (1 << 30), 32 << 20))
        assert max(addresses) + 4096 <= written_bytes and not any(a % 4096 for a in addresses)


def test_a_real_drive_is_planned_all_rounds_and_formatted_by_its_own_namespace() -> None:
    suite = load_suite("snia-pts")
    second = Drive("test", TB, (0,), (), nsid=2)
    (session,) = plan_sessions(suite, choose_tests(suite, ("iops",), None), second, Choice(written=True, real=True))
    assert tables(session)[0]["format"] == {"nsid": 2, "ses": 1}
    assert tables(session)[-1]["name"] == "iops#25"
    (few,) = plan_sessions(suite, choose_tests(suite, ("iops",), None), second, Choice(written=True, rounds=3, real=True))
    assert tables(few)[-1]["name"] == "iops#3"


@pytest.mark.parametrize(("suite", "test", "interval_s"), [("quick", "random-read", 1e-3), ("anandtech-2018", "idle-wake-up", 1e-5)])
def test_a_real_rig_converts_each_microsecond_and_averages(suite: str, test: str, interval_s: float) -> None:
    asked: dict[str, float] = {}
    rig: Any = SimpleNamespace(
        set_interval=lambda seconds: asked.update(interval_s=seconds), set_decimation=lambda factor: asked.update(factor=factor)
    )
    (session,) = plans(suite, test)
    real.set_sampling(rig, real.Setup("", None, None, Path()), session)
    assert asked["interval_s"] == 1e-6
    assert asked["interval_s"] * asked["factor"] == pytest.approx(interval_s)


def test_scaled_plans_keep_what_a_drive_needs_to_fall_asleep() -> None:
    (session,) = plans("anandtech-2018", "idle-wake-up", scale=0.001)
    assert len(tables(session)) == 3
    assert all(s["wake"]["idle_s"] == 3.0 and s["apst"] and s["aspm"] == "l1.2" for s in tables(session))
    assert len({s["wake"]["slba"] for s in tables(session)}) == 3
    with pytest.raises(UsageError, match="--scale 2"):
        Choice(scale=2)


def test_power_states_visits_every_state_of_the_drive() -> None:
    steps = [step for session in plans("power-states") for step in tables(session)]
    assert {s["ps"] for s in steps if "ps" in s} == {0, 1, 2, 3}
    assert {s["ps"] for s in steps if "wake" in s} == {2, 3}


def test_a_profile_tells_capacity_and_states() -> None:
    drive = from_profile(profiles_dir() / "intel-660p-1tb.toml")
    assert drive.capacity_bytes == 1_024_209_543_168
    assert (drive.operational, drive.non_operational) == ((0, 1, 2), (3, 4))
    assert drive.digest and drive.digest.startswith("sha256:")
