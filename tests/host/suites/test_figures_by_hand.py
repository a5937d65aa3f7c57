"""Figures of suites to the last digit: captures with commands and power that are simple enough to work out every number by hand."""

from __future__ import annotations

import math
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from wattbell.capture.meta import save
from wattbell.errors import UsageError
from wattbell.measure.encode import quantity_json
from wattbell.measure.phase import measure, measure_whole
from wattbell.measure.pieces import tally
from wattbell.measure.source import Source
from wattbell.measure.table import Commands
from wattbell.suites.changepoint import find_changes
from wattbell.suites.drive import Drive
from wattbell.suites.jobs import JobSection, scaled, sections
from wattbell.suites.kinds import KINDS
from wattbell.suites.manifest import parse_manifest
from wattbell.suites.outcome import REVIEWS, TOTALS, Outcome
from wattbell.suites.plan import choose_tests, plan_sessions
from wattbell.suites.results import Results, read_results
from wattbell.suites.scoring import score_test
from wattbell.suites.session import Choice, Session
from wattbell.suites.steady import window
from wattbell.suites.suite import Suite
from wattbell.suites.units import LARGEST, size_bytes, time_s
from wattbell.wire.decode import Gap
from wattbell_spec.wire import BlockContent, CommandFlag, EventType

from tests.host.suites.made import suite

US, MS, S = 1_000, 1_000_000, 1_000_000_000
WATT = 165_000 * 20e-6 * 500e-9
"""Power of one unit of current at 3.3 V: the builder's power is a whole number of these."""


def tables(session: Session) -> list[Any]:
    """The steps of a plan as TOML has them."""
    return [step.table for step in session.steps]


def scores(outcome: Outcome) -> dict[tuple[str, str], Any]:
    """Values by name and unit."""
    return {(s.name, s.unit): s.value.value for s in outcome.scores}


def drawn(watts: float) -> float:
    """Power of a builder level with a whole number of units of current."""
    return round(watts / 3.3 / 500e-9) * WATT


# -- units, jobs, plans ------------------------------------------------------------------------------------------------


def test_every_unit_of_time_and_size() -> None:
    seconds = {"": 3, "us": 3e-6, "usec": 3e-6, "ms": 3e-3, "msec": 3e-3, "s": 3, "SEC": 3, "m": 180, "min": 180, "h": 10_800, "d": 259_200}
    for unit, value in seconds.items():
        assert time_s(f" 3{unit} ") == pytest.approx(value, rel=1e-12)
    for k, unit in enumerate("kmgtp", start=1):
        assert (size_bytes(f"3{unit}"), size_bytes(f"3{unit.upper()}b"), size_bytes(f"3{unit}i")) == (3 * 1024**k, 3 * 1024**k, 3 * 1000**k)
    assert size_bytes("7b") == 7 and size_bytes("8191p") == 8191 << 50 and LARGEST == 2**63 - 1
    with pytest.raises(ValueError, match="more than 8 EiB"):
        size_bytes("8192p")
    for length, shown in ((40, "x" * 40), (41, "x" * 37 + "...")):
        with pytest.raises(ValueError, match=f"^`{shown}` is not a size"):
            size_bytes("x" * length)
        with pytest.raises(ValueError, match=f"^`{shown}` is not a time"):
            time_s("x" * length)


@pytest.mark.parametrize(
    ("option", "least", "most"),
    [
        ("iodepth", 1, 65535),
        ("iodepth_low", 1, 65535),
        ("iodepth_batch_submit", 1, 65535),
        ("iodepth_batch_complete_min", 0, 65535),
        ("iodepth_batch_complete_max", 1, 65535),
        ("numjobs", 1, 1024),
        ("loops", 1, 2**63 - 1),
        ("thinktime_blocks", 1, 2**63 - 1),
        ("number_ios", 0, 2**63 - 1),
        ("rwmixread", 0, 100),
        ("rwmixwrite", 0, 100),
        ("dedupe_percentage", 0, 100),
        ("direct", 0, 1),
    ],
)
def test_what_an_option_may_be(option: str, least: int, most: int) -> None:
    for value, good in ((least, True), (most, True), (least - 1, False), (most + 1, False)):
        if good:
            assert sections(f"[a]\n{option}={value}")[0].options == {option: str(value)}
        else:
            with pytest.raises(UsageError, match=rf"^The job file:2: option `{option}`: `{value}` is"):
                sections(f"[a]\n{option}={value}")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("size=101%", "not a whole number from 0 to 100"),
        ("bs=4k,4k,4k,4k", "more than three"),
        ("bs=0", "at least 1 byte"),
        ("bs=,4k", "not a size"),
        ("rw=sideways", "none of read, write"),
        ("ioengine=external:x", "none of libaio"),
        ("runtime=1y", "not a time"),
        ("direct=2", "neither 0"),
        ("description=" + "a" * 201, "may hold letters"),
        ("filename=/dev/sda", "none of"),
        ("rate=1q", "not a size"),
        ("exec_prerun=ls", "may set"),
    ],
)
def test_what_it_may_not_be(line: str, why: str) -> None:
    with pytest.raises(UsageError, match=f"^here:3: .*{why}"):
        sections(f"[a]\n\n{line}\n", "here")


def test_a_job_file_is_read_line_by_line() -> None:
    text = "; a\n[global]\nbs = 4k,8k # b\n direct\n[a-1]\r\niodepth=8\n[b]\nbs=16k\n"
    assert sections(text) == [
        JobSection("a-1", {"bs": "4k,8k", "direct": "1", "iodepth": "8"}),
        JobSection("b", {"bs": "16k", "direct": "1"}),
    ]
    for wrong, why in (
        ("[globally]\n", "as .global."),
        ("[.a]\n", "is no .section."),
        ("bs=4k\n[a]\n", ":1: option `bs` stands before"),
        ("[a]\n[a]\n", ":2: two jobs are called a"),
        ("[global]\n", "has no job"),
        ("[a]\nbs=4k\x07\n", ":2: .*not printable"),
        (f"[a]\n;{'x' * 1000}\n", ":2: the line is longer than 1000"),
        (f"[{'a' * 101}]\n", "`.{60}` is no|`.{57}\\.\\.\\.` is no"),
    ):
        with pytest.raises(UsageError, match=why):
            sections(wrong)
    assert sections(f"[{'a' * 100}]\n;{'x' * 999}\n")[0].name == "a" * 100


@pytest.mark.parametrize(
    ("options", "share"),
    [
        ({}, 0.0),
        ({"rw": "read"}, 0.0),
        ({"rw": "randwrite"}, 1.0),
        ({"rw": "rw"}, 0.5),
        ({"rw": "randrw", "rwmixread": "70"}, 0.3),
        ({"rw": "readwrite", "rwmixwrite": "35"}, 0.35),
        ({"rw": "trim"}, 0.0),
        ({"rwmixwrite": "35"}, 0.0),
    ],
)
def test_the_share_of_writes_of_a_job(options: dict[str, str], share: float) -> None:
    assert JobSection("a", options).write_share == pytest.approx(share)
    assert JobSection("a", options).depth == 1 and JobSection("a", {"iodepth": "32"}).depth == 32


def test_a_scaled_job_file_line_by_line() -> None:
    text = "[global]\nbs=4k,8k\nsize=10%\n[a]\nbs=16k\nio_size=1m\noffset=100k\nruntime=10ms\n"
    assert scaled(text, 0.3, 10 << 20) == (
        "; Scaled by 0.3: not the published test.\n[global]\nbs=4k,8k\nsize=311296\n[a]\nbs=16k\n"
        "io_size=311296\noffset=16384\nruntime=3000us\n"
    )  # 10 % of 10 MiB and 0.3 of 1 MiB: 314572 and the same, down to whole 16 KiB; 30 720 bytes of offset
    assert "io_size=262144\noffset=0\nruntime=2000us\n" in scaled(text, 0.01, 10 << 20)  # 16 blocks, none, 2 ms


def every_kind(folder: Path) -> Suite:
    """A suite with a test of each kind, each in a session of its own except the first two."""
    folder.mkdir()
    (folder / "manifest.toml").write_text("")
    (folder / "a.fio").write_text("[a]\nbs=4k\nsize=1m\n")
    common: dict[str, Any] = {"conditions": ["empty"], "rail_interval_s": 4e-5}
    tests = [
        {"id": "burst", "kind": "burst", "jobs": "a.fio", "session": "one", "duty": 0.25, "idle_max_s": 8.0, "rail_interval_s": 1e-3},
        {"id": "mixes", "kind": "mixes", "jobs": "a.fio", "session": "one", "aspm": "l1", "rail_interval_s": 1e-4},
        {
            "id": "rounds",
            "kind": "rounds",
            "jobs": "a.fio",
            "rounds_max": 9,
            "rounds_first": 3,
            "track": ["a"],
            "quantity": "iops",
            "purge": True,
            "fill": {"span": 0.5, "times": 2},
        },
        {"id": "idle", "kind": "idle", "idle_s": 4.0, "idle_min_s": 1.0, "apst": True},
        {"id": "wake", "kind": "wake", "idle_s": 4.0, "repeat": 5, "repeat_min": 2, "apst": True, "aspm": "l1.2"},
        {"id": "trace", "kind": "trace", "trace": "light", "trace_idle_cut_s": 0.5},
        {"id": "ops", "kind": "operational-states", "jobs": "a.fio", "idle_s": 2.0},
        {"id": "nops", "kind": "non-operational-states", "jobs": "a.fio", "idle_s": 2.0, "repeat": 2, "repeat_min": 2},
    ]
    return parse_manifest({"name": "s", "test": [{**common, "name": "N", **test} for test in tests]}, folder)


def test_the_steps_of_every_kind(tmp_path: Path) -> None:
    made = every_kind(tmp_path / "s")
    drive = Drive("d", 1 << 30, (0, 2), (3,), nsid=5)
    sessions = {s.name: s for s in plan_sessions(made, choose_tests(made, (), None), drive, Choice(0.5))}
    assert list(sessions) == ["one", "rounds", "idle", "wake", "trace", "ops", "nops"]
    assert [s.rail_interval_s for s in sessions.values()] == pytest.approx([5e-5, *[2e-5] * 6])
    steps = {name: tables(session) for name, session in sessions.items()}
    assert steps["one"] == [
        {"name": "burst", "fio": "a.fio", "duty": 0.25, "duty_idle_max_s": 4.0},
        {"name": "mixes", "fio": "a.fio", "aspm": "l1"},
    ]
    purge = {"name": "purge", "format": {"nsid": 5, "ses": 1}, "measured": False}
    fills = [{"name": f"fill#{k}", "fill": {"span": 0.25, "bs": "128k"}, "measured": False} for k in (1, 2)]
    assert steps["rounds"] == [purge, *fills, *({"name": f"rounds#{k}", "fio": "a.fio"} for k in (1, 2, 3))]
    assert sessions["rounds"].preconditioning == ["purge", "fill#1", "fill#2"] and sessions["rounds"].written_bytes == 1 << 28
    assert steps["idle"] == [{"name": "idle", "idle_s": 2.0, "apst": True}]
    # 4096 blocks on, then 997 pages each; the drive less a page has 262 143 pages
    assert steps["wake"] == [
        {"name": f"wake#{k + 1}", "wake": {"idle_s": 2.0, "slba": 4096 + 7976 * k}, "apst": True, "aspm": "l1.2"} for k in range(2)
    ]
    assert steps["trace"] == [{"name": "trace", "trace": "light-like.iolog", "trace_idle_cut_s": 0.5}]
    assert sessions["trace"].traces == {"light-like.iolog": "light"}
    assert steps["ops"] == [
        step
        for ps in (0, 2)
        for step in ({"name": f"ops-idle#{ps}", "idle_s": 1.0, "ps": ps}, {"name": f"ops#{ps}", "fio": "a.fio", "ps": ps})
    ]
    assert steps["nops"] == [
        {"name": "nops-baseline", "fio": "a.fio"},
        {"name": "nops-awake", "idle_s": 1.0},
        *({"name": f"nops-ps3#{k + 1}", "wake": {"idle_s": 1.0, "slba": 4096 + 7976 * k}, "ps": 3} for k in range(2)),
    ]
    assert sessions["one"].files == {"a.fio": "; Scaled by 0.5: not the published test.\n[a]\nbs=4k\nsize=524288\n"}
    assert "\n".join(sessions["rounds"].plan.splitlines()[-3:]) == '[[step]]\nname = "rounds#3"\nfio = "a.fio"'
    assert 'fill = { span = 0.25, bs = "128k" }\nmeasured = false' in sessions["rounds"].plan


def test_on_a_real_drive_there_is_a_rest_before_what_is_measured_at_rest(tmp_path: Path) -> None:
    made = every_kind(tmp_path / "s")
    drive = Drive("d", 1 << 30, (0, 2), (3,))
    sessions = {s.name: s for s in plan_sessions(made, choose_tests(made, (), None), drive, Choice(real=True, written=True))}
    rest = {"settle": {"window_s": 10.0, "range_share": 0.05, "longest_s": 600.0}, "measured": False}
    found = {name: [(k, step) for k, step in enumerate(tables(session)) if "settle" in step] for name, session in sessions.items()}
    assert found == {
        "one": [],
        "rounds": [],
        "trace": [],
        "idle": [(1, {"name": "idle-settle", **rest})],
        "wake": [(1, {"name": "wake-settle", **rest})],
        "ops": [(1, {"name": "ops-settle#0", **rest}), (4, {"name": "ops-settle#2", **rest})],
        "nops": [(1, {"name": "nops-settle", **rest})],
    }
    assert len([s for s in tables(sessions["rounds"]) if "fio" in s]) == 9  # all that there may be
    assert all(session.start == "empty" and tables(session)[0]["name"] == "purge" for session in sessions.values())
    one = plan_sessions(made, choose_tests(made, ("rounds",), None), drive, Choice(rounds=4))[0]
    assert [s["name"] for s in tables(one) if "fio" in s] == [f"rounds#{k}" for k in (1, 2, 3, 4)]


@pytest.mark.parametrize(("span_bytes", "pages"), [(1 << 30, 262_143), (8 << 30, 262_144), (4096 * 3, 2), (4096 * 3 + 512, 2)])
def test_waking_reads_wrap_at_the_end_of_what_they_may_read(tmp_path: Path, span_bytes: int, pages: int) -> None:
    made, test = suite(tmp_path, "wake", repeat=400, idle_s=1.0)
    (session,) = plan_sessions(made, [(test, "empty")], Drive("d", span_bytes, (0,), ()), Choice())
    assert [step["wake"]["slba"] for step in tables(session)] == [(4096 + 7976 * k) % (8 * pages) for k in range(400)]
    assert all(type(step["wake"]["slba"]) is int for step in tables(session))


def test_a_full_drive_is_written_all_over_once(tmp_path: Path) -> None:
    made, test = suite(tmp_path, "idle", idle_s=1.0)
    (session,) = plan_sessions(made, [(test, "full")], Drive("d", 1 << 40, (0,), ()), Choice(written=True))
    assert tables(session)[1] == {"name": "fill", "fill": {"span": 1.0, "bs": "128k"}, "measured": False} and session.start == "empty"


def test_idle_times_and_repetitions_of_a_scale(tmp_path: Path) -> None:
    _, test = suite(tmp_path, "wake", idle_s=10.0, idle_min_s=3.0, repeat=20, repeat_min=4)
    assert [test.idle_at(scale) for scale in (1.0, 0.5, 0.3, 0.1)] == [10.0, 5.0, 3.0, 3.0]
    assert [test.repeats_at(scale) for scale in (1.0, 0.5, 0.2, 0.1)] == [20, 10, 4, 4]
    _, short = suite(tmp_path, "wake", idle_s=1.0, idle_min_s=3.0, repeat=2, repeat_min=4)
    assert (short.idle_at(0.1), short.repeats_at(0.1)) == (1.0, 2)
    for wrong in (0.0, -0.1, 1.01):
        with pytest.raises(UsageError, match="above 0 and at most 1"):
            Choice(wrong)


# -- steady state and changes of level ---------------------------------------------------------------------------------


def test_a_window_by_hand() -> None:
    found = window([9, 100, 110, 90, 105, 95, 9], 2)
    # the least-squares slope of (100, 110, 90, 105, 95) is (-2 x 100 - 110 + 105 + 2 x 95) / 10 = -1.5
    assert (found.first, found.mean, found.range_share, found.slope_share) == (2, 100.0, 0.2, pytest.approx(0.06))
    with pytest.raises(ValueError, match="5 rounds"):
        window([1, 2, 3, 4, 5], 2)
    assert window([-1, 0, 1, 0, 0], 1).range_share == math.inf


@pytest.mark.parametrize(
    ("first", "purged", "rounds", "done"),
    [
        (5, False, 5, True),
        (6, False, 5, False),
        (5, False, 4, False),
        (5, True, 5, True),
        (6, True, 6, True),
    ],
)
def test_enough_rounds(tmp_path: Path, first: int, purged: bool, rounds: int, done: bool) -> None:
    keys = {"rounds_max": 9, "rounds_first": first, "track": ["m"], "quantity": "iops", **({"fill": {}} if purged else {})}
    _, test = suite(tmp_path, "rounds", "[m]\nbs=4k\n", **keys)
    enough = KINDS[test.kind].enough
    assert enough(test, [[100.0] * rounds]) is done
    assert enough(test, []) is False and enough(test, [[100.0] * rounds, [100.0] * (first - 1)]) is False


def test_a_step_without_noise_is_found_where_it_is() -> None:
    """8 bins at 100, 12 at 25: the split costs nothing, so its interval is the one bin."""
    rate = np.repeat([100.0, 25.0], [8, 12])
    for found, wanted in ((find_changes(rate), (8, 8, 8, 8.0, 100.0, 25.0)), (find_changes(rate[::-1]), (12, 12, 12, 12.0, 25.0, 100.0))):
        (change,) = found
        assert astuple(change) == pytest.approx(wanted)


def test_a_level_has_three_bins_at_least_and_differs_by_a_sixth() -> None:
    def changes(*bins: tuple[float, int]) -> list[int]:
        return [change.at for change in find_changes(np.repeat([rate for rate, _ in bins], [n for _, n in bins]))]

    assert changes((100, 3), (50, 3)) == [3]
    assert changes((100, 3), (50, 2)) == []
    assert changes((701, 20), (600, 20)) == [20] and changes((699, 20), (600, 20)) == []
    assert changes((100, 10), (40, 10), (100, 10), (10, 10)) == [10, 20, 30]


@pytest.mark.parametrize("seed", [4, 6, 22, 24, 30, 39])
def test_the_interval_of_a_change_grows_with_the_noise(seed: int) -> None:
    """Worked out by hand: residuals of the splits around the true one against the noise's variance times 3.84."""
    rng = np.random.default_rng(seed)
    logs = np.repeat([0.7, 0.0], [30, 30]) + 0.45 * rng.standard_normal(60)
    (change,) = find_changes(np.exp(logs))
    variance = (np.median(np.abs(np.diff(logs))) / (0.6745 * math.sqrt(2))) ** 2

    def cost(k: int) -> float:
        return float(sum(((part - part.mean()) ** 2).sum() for part in (logs[:k], logs[k:]) if len(part)))

    near = [k for k in range(61) if cost(k) <= cost(change.at) + 3.84 * variance]
    assert (change.low, change.high) == (min(near), max(near)) and change.low < change.at < change.high
    assert change.at == min(range(3, 58), key=cost)
    rate = np.exp(logs)
    assert change.before == pytest.approx(1 / np.mean(1 / rate[: change.at - 1]))
    assert change.after == pytest.approx(1 / np.mean(1 / rate[change.at + 1 :]))


@pytest.mark.parametrize(("variances", "seen"), [(11.7, False), (12.3, True)])
def test_a_split_takes_twelve_times_the_noise_from_the_residuals(variances: float, seen: bool) -> None:
    """Two levels of 20 bins, h apart: 10 h^2. Bins alternate a above and below: neighbours differ by 2 a, and the noise is as large."""
    h = 0.2
    noise = 10 * h * h / variances
    a = math.sqrt(noise) * 0.6745 * math.sqrt(2) / 2
    logs = np.repeat([h, 0.0], 20) + a * np.tile([1.0, -1.0], 20)
    assert [change.at for change in find_changes(np.exp(logs))] == ([20] if seen else [])


def test_the_place_of_a_change_is_within_its_two_bins() -> None:
    for middle, place in ((100.0, 11.0), (25.0, 10.0), (1 / (0.5 / 100 + 0.5 / 25), 10.5)):
        rate = np.array([100.0] * 10 + [middle] + [25.0] * 10)
        (change,) = find_changes(rate)
        assert change.place == pytest.approx(place)


# -- phases ------------------------------------------------------------------------------------------------------------


def test_phases_are_found_by_step_section_and_number(builder: Any) -> None:
    names = ["b/x", "a", "b#2/y", "b#1/y", "b#2", "c-b#1", "b/w"]
    for k, name in enumerate(names, start=1):
        builder.phase(k, k * MS, k * MS + MS // 2, name)
    builder.power(0, 1.0)
    source = Source(builder.write(end=20 * MS))
    assert [(section, phase.number) for section, phase in source.named("b")] == [("x", 1), ("w", 7)]
    assert [(number, section, phase.number) for number, section, phase in source.numbered("b")] == [(2, "y", 3), (1, "y", 4), (2, "", 5)]
    assert source.named("c") == [] and list(source.numbered("a")) == []


def test_commands_belong_to_the_phase_they_began_in(builder: Any) -> None:
    """A command begins at its doorbell, else at its fetch, and takes up to a minute."""
    builder.phase(1, 100 * MS, 200 * MS, "t")
    builder.command(100 * MS - 1, 50 * MS, slba=1)
    builder.command(100 * MS, 50, slba=2)
    builder.command(200 * MS - 1, 50 * S, slba=3)
    builder.command(200 * MS, 50, slba=4)
    builder.command(150 * MS, 10_000, slba=5, doorbell_tick=None)
    builder.command(150 * MS, 60 * S + 50 * MS, slba=9)
    builder.command(150 * MS, 60 * S + 50 * MS + 1, slba=6)
    builder.command(160 * MS, 10, slba=7, flags=int(CommandFlag.NO_SQE))
    builder.command(160 * MS, 10, slba=8, qid=0)
    builder.power(0, 1.0)
    source = Source(builder.write(end=300 * MS))
    (phase,) = source.phases.values()
    assert sorted(source.commands(phase).slba.tolist()) == [2, 3, 5, 7, 8, 9]
    measured = measure(source, phase)
    assert isinstance(measured.count, int) and measured.count == 4
    ticks = measured.latency_ticks().tolist()
    assert sorted(ticks) == [50, 50 * S, 60 * S + 50 * MS]  # no latency without a doorbell


def test_a_point_by_hand(builder: Any) -> None:
    """Two bursts 100 ms apart: 4 reads of 1 ms back to back at 2 W, and 6 writes of 0.5 ms at 3 W; 1 W between them."""
    builder.phase(1, 10 * MS, 400 * MS, "t")
    builder.levels += [(0, 1.0), (20 * MS, 2.0), (24 * MS, 1.0), (124 * MS, 3.0), (127 * MS, 1.0)]
    for k in range(4):
        builder.command(20 * MS + k * MS, MS, blocks=256)
    for k in range(6):
        builder.command(124 * MS + k * MS // 2, MS // 2, opcode=1, blocks=16)
    builder.gaps.append(Gap(BlockContent.COMMANDS, 30 * MS, 31 * MS, 2, "test"))
    capture = builder.write(end=500 * MS)
    capture.meta["rig"]["error_model"] = {"gain": 1e-3, "offset_a": 5e-6, "timebase": 1e-4, "tick_resolution_s": 0.0, "instant_s": 1e-6}
    save(capture.path, capture.meta)
    source = Source(capture)
    (phase,) = source.phases.values()
    point = measure(source, phase).point({"qd": 1})
    nbytes = 4 * 131072 + 6 * 8192
    joules = 4e-3 * drawn(2.0) + 3e-3 * drawn(3.0)
    clocks = 2 * 1e-6 * math.sqrt(2 / 3)
    u_7ms = math.hypot(clocks, 1e-4 * 7e-3) / 7e-3
    assert (point.x, point.bytes, point.active_s) == ({"qd": 1}, nbytes, pytest.approx(7e-3))
    rate = nbytes / 1e6 / 7e-3
    assert quantity_json(point["mb_per_s"]) == {"value": pytest.approx(rate), "u": pytest.approx(rate * u_7ms), "n_lost": 2}
    assert quantity_json(point["iops"]) == {"value": pytest.approx(10 / 7e-3), "u": pytest.approx(10 / 7e-3 * u_7ms), "n_lost": 2}
    assert point["energy_j"].value == pytest.approx(joules, rel=1e-3) and point["energy_j"].lost == 2
    assert point["mean_w"].value == pytest.approx(joules / 7e-3, rel=1e-3)
    assert point["mb_per_j"].value == pytest.approx(point["mb_per_s"].value / point["mean_w"].value)
    assert point["mean_latency_s"].value == pytest.approx((4 * 1e-3 + 6 * 5e-4) / 10)
    assert quantity_json(point["p99_latency_s"]) == {"value": None, "u": None, "n_lost": 2}
    whole = measure_whole(source, phase)
    assert whole.latency(2)[0].value == pytest.approx(1e-3) and whole.latency(1)[0].value == pytest.approx(5e-4)
    assert source.power_u(2.0) == pytest.approx(math.hypot(2e-3, 5e-6 * 3.3))
    energy, mean = source.energy(30 * MS, 120 * MS, lost=4)
    assert energy.value == pytest.approx(90e-3 * drawn(1.0), rel=1e-6) and (energy.lost, mean.lost) == (4, 4)
    assert energy.u == pytest.approx(mean.u * 90e-3)
    assert [figure.value for figure in source.energy(20, 20)] == [None, None]


def test_without_a_rail_there_is_no_power_and_everything_else(builder: Any) -> None:
    builder.phase(1, 10 * MS, 400 * MS, "t")
    builder.command(20 * MS, MS)
    source = Source(builder.write())
    point = measure(source, source.phases["t"]).point({})
    assert point["energy_j"].value is point["mean_w"].value is None and point["mb_per_j"].value is None
    assert point["iops"].value == pytest.approx(1e3) and source.power_u(2.0) > 0 and source.doubtful_blocks(0, MS) == {}


def test_a_phase_without_commands_has_no_figures(builder: Any) -> None:
    builder.phase(1, 10 * MS, 400 * MS, "t")
    builder.power(0, 1.0)
    source = Source(builder.write(end=500 * MS))
    point = measure(source, source.phases["t"]).point({})
    assert (point.bytes, point.active_s) == (0, 0.0)
    assert all(point[key].value is None for key in ("mb_per_s", "iops", "mean_w", "energy_j", "mean_latency_s"))


# -- scores ------------------------------------------------------------------------------------------------------------


def test_more_on_the_wire_than_fio_moved_is_noted(builder: Any, tmp_path: Path) -> None:
    builder.phase(1, MS, 50 * MS, "t/a", fio_group=0)
    for k in range(3):
        builder.command(2 * MS + k * MS, MS)
    builder.power(0, 1.0)
    capture = builder.write(end=60 * MS)
    capture.workload_dir.mkdir()
    (capture.workload_dir / "fio.json").write_text('{"jobs": [{"groupid": 0, "read": {"io_bytes": 4096}, "write": {"io_bytes": 4096}}]}')
    out = score_test(Source(capture), *suite(tmp_path, "mixes", "[a]\nbs=4k\nrw=randrw\nrwmixwrite=40\n"), 1.0)
    assert out.notes == ["t/a: the wire shows 4096 bytes more than fio moved: other traffic"] and out.lost == {}
    assert [p.x for p in out.points] == [{"write_share": 0.4}]
    assert {name for name, _ in scores(out)} == {"mixes together", "all mixes"} and len(out.scores) == 6


def test_a_depth_that_was_not_run_gives_no_score(builder: Any, tmp_path: Path) -> None:
    builder.phase(1, MS, 50 * MS, "t/a")
    builder.command(2 * MS, MS)
    builder.power(0, 1.0)
    capture = builder.write(end=60 * MS)
    made = suite(tmp_path, "queue-depths", "[a]\niodepth=2\n[b]\niodepth=4\n", score_over=[2, 4])
    out = score_test(Source(capture), *made, 1.0)
    assert out.scores == [] and out.notes == ["no score: not every queue depth it needs was run"] and len(out.points) == 1
    out = score_test(Source(capture), *suite(tmp_path, "queue-depths", "[a]\niodepth=2\n", score_over=[2]), 1.0)
    assert ("highest, at QD2", "MB/s") in scores(out) and ("mean of QD2", "W") in scores(out)


def test_pooled_bursts_by_hand(builder: Any, tmp_path: Path) -> None:
    """10 reads in 1 ms at 2 W, 5 of 8 KiB in 4 ms at 1 W."""
    builder.levels += [(0, 0.5), (20 * MS, 2.0), (21 * MS, 0.5), (120 * MS, 1.0), (124 * MS, 0.5)]
    builder.phase(1, 10 * MS, 50 * MS, "t/a")
    builder.phase(2, 110 * MS, 150 * MS, "t/b")
    for k in range(10):
        builder.command(20 * MS + k * 100 * US, 100 * US)
    for k in range(5):
        builder.command(120 * MS + k * 800 * US, 800 * US, blocks=16)
    capture = builder.write(end=200 * MS)
    capture.meta["rig"]["error_model"] = {"timebase": 1e-3, "tick_resolution_s": 0.0, "instant_s": 0.0}
    save(capture.path, capture.meta)
    out = score_test(Source(capture), *suite(tmp_path, "burst", "[a]\niodepth=4\n[b]\niodepth=4\n"), 1.0)
    (point,) = out.points
    nbytes, joules = 10 * 4096 + 5 * 8192, 1e-3 * drawn(2.0) + 4e-3 * drawn(1.0)
    assert (point.x, point.bytes, point.active_s) == ({"qd": 4}, nbytes, pytest.approx(5e-3))
    rate = nbytes / 1e6 / 5e-3
    # each rate's u weighted by its share of time: both are 1e-3 of their rate, in shares of 0.2 and 0.8
    assert quantity_json(point["mb_per_s"]) == {"value": pytest.approx(rate), "u": pytest.approx(rate * 1e-3), "n_lost": 0}
    assert point["iops"].value == pytest.approx(15 / 5e-3) and point["iops"].u == pytest.approx(15 / 5e-3 * 1e-3)
    assert point["energy_j"].value == pytest.approx(joules, rel=2e-3) and point["mean_w"].value == pytest.approx(joules / 5e-3, rel=2e-3)
    assert point["mean_latency_s"].value == pytest.approx((100e-6 + 800e-6) / 2)
    assert out.series is not None and out.series["burst"].to_list() == [1, 2]
    assert out.notes == ["busy for 1.0% of the time; rests of 99.0 ms to 99.0 ms"]
    found = {(s.name, s.unit, s.reading) for s in out.scores}
    assert found == {
        ("mean of the bursts", "MB/s", REVIEWS),
        ("all data over busy time", "MB/s", TOTALS),
        ("power while busy", "W", TOTALS),
        ("all data over all energy", "MB/J", TOTALS),
    }


def test_a_fill_bin_by_bin(builder: Any, tmp_path: Path) -> None:
    """400 writes of 128 KiB, the first 150 in 1 ms each, then 250 in 4 ms, at 2 W and 1 W: bins of two writes, points of seven bins."""
    builder.phase(1, MS, 2 * S, "t")
    tick = 10 * MS
    for k in range(400):
        tick = builder.command(tick, MS if k < 150 else 4 * MS, opcode=1, slba=256 * k, blocks=256)
    builder.levels += [(0, 2.0), (160 * MS, 1.0)]
    out = score_test(Source(builder.write(end=2 * S)), *suite(tmp_path, "fill", "[t]\nbs=128k\n"), 1.0)
    assert out.series is not None and len(out.series) == 200
    two = 2 * 131072
    assert out.series["gb"].to_list() == pytest.approx([two * (k + 1) / 1e9 for k in range(200)])
    assert out.series["t_s"].to_list() == pytest.approx([2e-3 * (k + 1) if k < 75 else 0.15 + 8e-3 * (k - 74) for k in range(200)])
    assert out.series["mb_per_s"].to_list() == pytest.approx([two / 1e6 / (2e-3 if k < 75 else 8e-3) for k in range(200)])
    assert out.series["mean_w"].to_list() == pytest.approx([drawn(2.0) if k < 75 else drawn(1.0) for k in range(200)], rel=6e-3)
    assert out.series["energy_j"].sum() == pytest.approx(0.15 * drawn(2.0) + 1.0 * drawn(1.0), rel=1e-4)
    assert len(out.points) == 50 and [p.x["gb"] for p in out.points] == pytest.approx([4 * two * (k + 1) / 1e9 for k in range(50)])
    last = out.points[-1]
    assert last["mb_per_s"].value == pytest.approx(two / 8e3) and last["mean_w"].value == pytest.approx(drawn(1.0), rel=1e-3)
    assert last["energy_j"].value == pytest.approx(32e-3 * drawn(1.0), rel=1e-3) and last["iops"].value is None
    assert last["mb_per_j"].value == pytest.approx(last["mb_per_s"].value / last["mean_w"].value)
    found = scores(out)
    assert found["written before the rate falls (SLC cache)", "GB"] == pytest.approx(150 * 131072 / 1e9)
    assert found["before the rate falls", "MB/s"] == pytest.approx(131.072) and found["after the last change", "MB/s"] == pytest.approx(
        32.768
    )
    cache = next(s for s in out.scores if s.unit == "GB").value
    assert cache.u == pytest.approx(two / 2 / 1e9)  # the split is exact: half a bin is left
    assert found["whole fill", "MB/s"] == pytest.approx(400 * 131072 / 1e6 / 1.15)
    # 0.15 s at 2 W and 131 MB/s, then 1 s at 1 W and 33 MB/s; a quarter is 287.5 ms, of which commands end in whole 18 ms
    assert out.notes == [
        "t: power not steady: quarters of the window from 1.00 W to 1.52 W; the uncertainty has it in it",
        "whole fill: rate not steady: quarters of the window from 32.4 MB/s to 83.9 MB/s; the uncertainty has it in it",
    ]
    whole = {(s.name, s.unit): s.value for s in out.scores}
    assert whole["whole fill", "W"].u == pytest.approx(1.52 - whole["whole fill", "W"].known, abs=0.01)
    assert found["before the rate falls", "W"] == pytest.approx(drawn(2.0), rel=1e-3)
    assert found["after the last change", "W"] == pytest.approx(drawn(1.0), rel=1e-3)
    assert whole["before the rate falls", "W"].u == pytest.approx(2e-3, rel=0.2), "of one level, as good as the instrument"
    assert found["energy of the fill", "J"] == pytest.approx(0.15 * drawn(2.0) + 1.0 * drawn(1.0), rel=1e-4)


@pytest.mark.parametrize(("writes", "series"), [(399, False), (400, True)])
def test_a_fill_of_too_little_is_one_point(builder: Any, tmp_path: Path, writes: int, series: bool) -> None:
    builder.phase(1, MS, 2 * S, "t")
    for k in range(writes):
        builder.command(10 * MS + k * MS, MS, opcode=1, blocks=256)
    builder.power(0, 1.0)
    out = score_test(Source(builder.write(end=2 * S)), *suite(tmp_path, "fill", "[t]\nbs=128k\n"), 1.0)
    assert (out.series is not None) is series and len(out.points) == (50 if series else 1)
    if series:
        assert out.notes == [f"the write rate has one level: no SLC cache smaller than {400 * 131072 / 1e9:.4g} GB was seen"]


def test_three_levels_of_a_fill_are_noted(builder: Any, tmp_path: Path) -> None:
    builder.phase(1, MS, 9 * S, "t")
    tick = 10 * MS
    for k in range(1200):
        tick = builder.command(tick, (1 if k < 300 else 4 if k < 900 else 10) * MS, opcode=1, blocks=256)
    builder.power(0, 1.0)
    out = score_test(Source(builder.write(end=9 * S)), *suite(tmp_path, "fill", "[t]\nbs=128k\n"), 1.0)
    assert out.notes[0].startswith("whole fill: rate not steady") and out.notes[1:] == [
        "several levels after the first: 33 MB/s from 0.03932 GB, 13 MB/s from 0.118 GB"
    ]
    assert scores(out)["after the last change", "MB/s"] == pytest.approx(13.1072)


def test_consistency_by_hand(builder: Any, tmp_path: Path) -> None:
    """Bins of half a second: 4, 2, 6, 2, 4 commands of 2 MiB; the last four count; 1 W, in the last second 2 W."""
    builder.phase(1, MS, 9 * S, "t")
    for b, n in enumerate((4, 2, 6, 2, 4)):
        for k in range(n):
            builder.command(10 * MS + b * S // 2 + k * (S // 2 // n), S // 2 // n - US, blocks=4096)
    builder.command(10 * MS + 5 * S // 2, 100 * US)
    builder.levels += [(0, 1.0), (10 * MS + 3 * S // 2, 2.0)]
    made = suite(tmp_path, "consistency", "[t]\nbs=4k\n", score_last_s=4.0, series_s=1.0)
    out = score_test(Source(builder.write(end=3 * S)), *made, 0.5)
    assert out.series is not None and out.series["t_s"].to_list() == [0.0, 0.5, 1.0, 1.5, 2.0]
    assert out.series["iops"].to_list() == [8, 4, 12, 4, 8]
    assert out.series["mb_per_s"].to_list() == pytest.approx([n * (2 << 20) / 1e6 / 0.5 for n in (4, 2, 6, 2, 4)])
    found = scores(out)
    assert found["mean, last 2 s", "IOPS"] == 7 and found["lowest second, last 2 s", "IOPS"] == 4
    assert found["highest second, last 2 s", "IOPS"] == 12
    assert found["mean / standard deviation, last 2 s", "1"] == pytest.approx(7 / math.sqrt((9 + 25 + 9 + 1) / 3))
    assert found["power, last 2 s", "W"] == pytest.approx((2 * drawn(1.0) + 2 * drawn(2.0)) / 4, rel=1e-3)
    assert ("mean latency, whole run", "s") in found and out.points[0].x == {"t_s": 0.0}


def test_a_run_too_short_for_a_score_says_so(builder: Any, tmp_path: Path) -> None:
    builder.phase(1, MS, 9 * S, "t")
    builder.command(10 * MS, S + US)
    builder.power(0, 1.0)
    out = score_test(Source(builder.write(end=3 * S)), *suite(tmp_path, "consistency", "[t]\nbs=4k\n", score_last_s=4.0), 1.0)
    assert out.notes == ["too short for a score"] and out.scores == [] and len(out.points) == 1


def test_every_score_of_a_replay(builder: Any, tmp_path: Path) -> None:
    """Writes of 8 KiB, 400 us, and reads of 4 KiB, 100 us in their middle; every 20 ms, ten times, at 1.5 W."""
    builder.phase(1, MS, 400 * MS, "t", kind="trace")
    for k in range(10):
        builder.command(10 * MS + k * 20 * MS, 400 * US, opcode=1, blocks=16)
        builder.command(10 * MS + k * 20 * MS + 100 * US, 100 * US)
    builder.power(0, 1.5)
    out = score_test(Source(builder.write(end=400 * MS)), *suite(tmp_path, "trace", trace="light"), 1.0)
    found, elapsed, busy = scores(out), 180.4e-3, 4e-3
    megabytes = 10 * 12288 / 1e6
    assert found["elapsed", "s"] == pytest.approx(elapsed) and found["power", "W"] == pytest.approx(drawn(1.5), rel=1e-4)
    assert found["energy", "J"] == pytest.approx(drawn(1.5) * elapsed, rel=1e-4)
    assert found["data over busy time", "MB/s"] == pytest.approx(megabytes / busy)
    assert found["data over elapsed time", "MB/s"] == pytest.approx(megabytes / elapsed)
    assert found["mean latency, all", "s"] == pytest.approx(250e-6) and found["mean latency, writes", "s"] == pytest.approx(400e-6)
    (point,) = out.points
    assert point.x == {"t_s": 0.0} and point.active_s == pytest.approx(elapsed) and point.bytes == 10 * 12288
    assert point["iops"].value == pytest.approx(20 / elapsed) and point["mb_per_s"].value == pytest.approx(megabytes / elapsed)
    assert point["mb_per_j"].value == pytest.approx(megabytes / elapsed / drawn(1.5), rel=1e-4)
    assert point["energy_j"].value == found["energy", "J"] and point["mean_latency_s"].value == pytest.approx(250e-6)


def test_rounds_are_the_mean_of_their_window(builder: Any, tmp_path: Path) -> None:
    """Five rounds of 20, 21, 19, 20, 20 reads of 50 us back to back: 20 000 IOPS in each, whatever their number."""
    for k, (n, watts) in enumerate(zip((20, 21, 19, 20, 20), (1.0, 2.0, 3.0, 2.0, 2.0)), start=1):
        builder.phase(k, k * 10 * MS, k * 10 * MS + 8 * MS, f"t#{k}/m")
        builder.power(k * 10 * MS, watts)
        for i in range(n):
            builder.command(k * 10 * MS + MS + i * 50 * US, 50 * US)
    builder.levels.insert(0, (0, 1.0))
    keys = {"rounds_max": 9, "rounds_first": 5, "track": ["m"], "quantity": "iops"}
    out = score_test(Source(builder.write(end=70 * MS)), *suite(tmp_path, "rounds", "[m]\nbs=4k\nrw=randwrite\niodepth=2\n", **keys), 1.0)
    (point,) = out.points
    assert point.x == {"write_share": 1.0, "block_bytes": 4096, "qd": 2} and point["iops"].value == pytest.approx(20_000)
    assert point["mean_w"].value == pytest.approx(sum(map(drawn, (1.0, 2.0, 3.0, 2.0, 2.0))) / 5, rel=1e-3)
    assert point["mb_per_j"].value == pytest.approx(point["mb_per_s"].value / point["mean_w"].value)
    assert out.notes == ["steady in rounds 1 to 5 of 5: m range 0.0%, slope 0.0% (limits 20% and 10%)"] and not out.unfinished
    assert scores(out) == {("m", "IOPS"): pytest.approx(20_000), ("rounds run", "1"): 5.0}
    assert out.series is not None and out.series["round"].to_list() == [1, 2, 3, 4, 5] and set(out.series["section"]) == {"m"}


def test_too_few_rounds(builder: Any, tmp_path: Path) -> None:
    builder.phase(1, 10 * MS, 18 * MS, "t#1/m")
    builder.command(11 * MS, MS)
    builder.power(0, 1.0)
    keys = {"rounds_max": 1, "rounds_first": 1, "track": ["m"], "quantity": "iops"}
    capture = builder.write(end=30 * MS)
    out = score_test(Source(capture), *suite(tmp_path, "rounds", "[m]\nbs=4k\n", **keys), 1.0)
    assert out.notes == ["no steady state within 1 round: the figures are of the last 1"] and not out.unfinished
    with pytest.raises(UsageError, match=r"phase t#1/m is from a job that is not in j.fio"):
        score_test(Source(capture), *suite(tmp_path, "rounds", "[n]\nbs=4k\n", **{**keys, "track": ["n"]}), 1.0)


def test_operational_states_and_what_they_declared(builder: Any, tmp_path: Path) -> None:
    """PS0 declares 4 W and draws 5 W under load; PS1 declares nothing."""
    for k, (ps, watts) in enumerate(((0, 5.0), (1, 3.0)), start=1):
        base = k * 100 * MS
        builder.phase(2 * k, base, base + 20 * MS, f"t-idle#{ps}", kind="idle")
        builder.phase(2 * k + 1, base + 30 * MS, base + 60 * MS, f"t#{ps}/seq-read")
        builder.levels += [(base, 0.2 * k), (base + 30 * MS, watts)]
        builder.command(base + 40 * MS, 10 * MS, blocks=2048)
    builder.levels.insert(0, (0, 1.0))
    out = score_test(Source(builder.write(end=300 * MS)), *suite(tmp_path, "operational-states", "[seq-read]\nbs=1m\n"), 1.0)
    assert [p.x for p in out.points] == [{"ps": 0}, {"ps": 1}]
    assert [p["idle_w"].value for p in out.points] == pytest.approx([drawn(0.2), drawn(0.4)], rel=1e-3)
    assert [p["seq_read_w"].value for p in out.points] == pytest.approx([drawn(5.0), drawn(3.0)], rel=1e-3)
    assert [p["seq_read_mb_per_s"].value for p in out.points] == pytest.approx([(1 << 20) / 1e6 / 10e-3] * 2)
    assert out.notes == ["PS0 draws 5 W on average, more than the declared 4 W"]


def test_what_was_seen_of_the_rest_before_an_idle_time_is_noted(builder: Any, tmp_path: Path) -> None:
    said = (
        {"settled": True, "after_s": 42.3, "window_s": 10.0, "mean_w": 0.12345, "range_w": 0.0012345},
        {"settled": False, "after_s": 600.4, "window_s": 10.0, "mean_w": 1.5, "range_w": 0.4},
        {"settled": False, "after_s": 601.0, "window_s": 10.0, "mean_w": None, "range_w": None},
    )
    for k, (name, seen) in enumerate(zip(("t-settle", "t-settle#0", "t-settle#1"), said), start=1):
        builder.phase(k, k * 10 * MS, k * 10 * MS + 5 * MS, name, settling=seen)
    builder.phase(7, 70 * MS, 80 * MS, "t-settle#2")
    builder.phase(9, 100 * MS, 200 * MS, "t", kind="idle")
    builder.levels += [(0, 1.0), (150 * MS, 0.5)]
    out = score_test(Source(builder.write(end=300 * MS)), *suite(tmp_path, "idle", idle_s=0.1), 1.0)
    assert out.notes == [
        "at rest before the idle time: 123.5 mW, its seconds within 1.2 mW over 10 s, after 42 s",
        "NOT AT REST before the idle time (t-settle#0): 1.500 W, its seconds within 400 mW over 10 s, after 600 s of waiting",
        "NOT KNOWN to be at rest before the idle time (t-settle#1): no whole seconds of the rail in 601 s",
    ]
    assert scores(out) == {
        ("settled", "W"): pytest.approx(drawn(0.5), rel=1e-3),
        ("idle for", "s"): pytest.approx(0.1),
    }


def test_power_management_that_was_not_in_force_is_noted(builder: Any, tmp_path: Path) -> None:
    """On a real drive: each phase has its setting."""
    found: dict[str, object] = {"apst": "the drive has none", "aspm": "off: the link has no L1"}
    builder.phase(1, 50 * MS, 90 * MS, "t#0", kind="idle", conditions={"apst": True, "aspm": "l1.2"})
    builder.phase(2, 100 * MS, 200 * MS, "t", kind="idle", conditions=found)
    builder.levels += [(0, 1.0)]
    asked = {"idle_s": 0.1, "apst": True, "aspm": "l1.2"}
    assert score_test(Source(builder.write(end=300 * MS)), *suite(tmp_path, "idle", **asked), 1.0).notes == [
        "ASPM L1.2 was asked for and not in force: off: the link has no L1",
        "APST was asked for and not in force: the drive has none",
    ]


def test_wake_ups_one_by_one(builder: Any, tmp_path: Path) -> None:
    """Three waking reads of 2, 4 and 9 ms; CLKREQ# 1 ms before the doorbell of the last two."""
    for k, took in enumerate((2, 4, 9), start=1):
        builder.phase(k, k * S, k * S + 900 * MS, f"t#{k}", kind="wake")
        builder.command(k * S + 800 * MS, took * MS)
        if k > 1:
            builder.events.append((k * S + 799 * MS, EventType.CLKREQ, 0, 0))
    builder.power(0, 1.0)
    out = score_test(Source(builder.write(end=4 * S)), *suite(tmp_path, "wake", repeat=3, idle_s=0.8), 1.0)
    found = scores(out)
    assert found == {
        ("mean, doorbell to completion", "s"): pytest.approx(5e-3),
        ("median, doorbell to completion", "s"): pytest.approx(4e-3),
        ("longest, doorbell to completion", "s"): pytest.approx(9e-3),
        ("mean, CLKREQ# to completion", "s"): pytest.approx(7.5e-3),
        ("median, CLKREQ# to completion", "s"): pytest.approx(7.5e-3),
        ("longest, CLKREQ# to completion", "s"): pytest.approx(10e-3),
    }
    assert out.series is not None and out.series["wake"].to_list() == [1, 2, 3]
    assert out.series["from_clkreq_s"].to_list() == [None, pytest.approx(5e-3), pytest.approx(10e-3)]
    # from the completion of the marker, 5 us into the phase
    assert out.series["idle_s"].to_list() == pytest.approx([0.8 - 5e-6, 0.799 - 5e-6, 0.799 - 5e-6])


@pytest.mark.parametrize(
    ("kind", "keys", "notes"), [("wake", {"idle_s": 1.0}, ["no waking read was seen"]), ("trace", {"trace": "light"}, [])]
)
def test_a_phase_in_which_nothing_came(builder: Any, tmp_path: Path, kind: str, keys: dict[str, Any], notes: list[str]) -> None:
    builder.phase(1, MS, 50 * MS, "t#1" if kind == "wake" else "t")
    builder.power(0, 1.0)
    out = score_test(Source(builder.write(end=60 * MS)), *suite(tmp_path, kind, **keys), 1.0)
    assert (out.points, out.scores) == ([], []) and out.notes[: len(notes)] == notes


def test_judged_against_what_the_drive_declares(builder: Any, tmp_path: Path) -> None:
    builder.levels.append((0, 0.5))
    builder.phase(21, 300 * MS, 800 * MS, "t-awake", kind="idle")
    builder.phase(1, S, S + 900 * MS, "t-ps3#1", kind="wake")
    builder.command(S + 800 * MS, 6 * MS)
    builder.levels += [(S + 10 * MS, 0.05), (S + 800 * MS, 0.8), (S + 806 * MS, 0.5)]
    capture = builder.write(end=2 * S)
    capture.meta["drive"]["power_states"] = [{"state": 3, "entry_latency_s": 5e-3, "exit_latency_s": 2e-3, "non_operational": True}]
    save(capture.path, capture.meta)
    out = score_test(Source(capture), *suite(tmp_path, "non-operational-states", "[b]\nbs=4k\n"), 1.0)
    found = scores(out)
    assert found["PS3 exit, measured / declared", "1"] == pytest.approx(3.0)
    assert found["PS3 entry, measured / declared", "1"] == pytest.approx(2.0, rel=0.01)
    assert found["idle in PS0, the base of the break-even time", "W"] == pytest.approx(drawn(0.5), rel=1e-3)
    (row,) = out.points
    assert row["settled_w"].value == pytest.approx(drawn(0.05), rel=2e-3) and row["entry_s"].u is None


def test_no_power_is_told_of_a_rest_in_which_no_level_lasts(builder: Any, tmp_path: Path) -> None:
    """A level is found from five bins of 1 ms: the drive rests for six and for four, after the marker's completion."""
    for k, rest in ((1, 6 * MS), (2, 4 * MS)):
        builder.phase(k, k * S, k * S + 500 * MS, f"t-ps{k + 2}#1", kind="wake")
        builder.command(k * S + 5 * US + rest, 6 * MS)
    builder.power(0, 0.5)
    out = score_test(Source(builder.write(end=3 * S)), *suite(tmp_path, "non-operational-states", "[b]\nbs=4k\n"), 1.0)
    assert [("settled_w" in row.figures, row.x) for row in out.points] == [(True, {"ps": 3}), (False, {"ps": 4})]
    assert [row["exit_s"].value for row in out.points] == pytest.approx([6e-3, 6e-3])


@pytest.mark.parametrize("ticks", [0, 2**32 - 1, 2**32, 2**33])
def test_latencies_beyond_32_bits_stay_whole(ticks: int) -> None:
    one = Commands(
        {
            "start_tick": np.array([5]),
            "doorbell_tick": np.array([5]),
            "cqe_tick": np.array([5 + ticks]),
            "status": np.array([0]),
            "flags": np.array([0], np.uint8),
            "nbytes": np.array([7]),
            "opcode": np.array([2], np.uint8),
        }
    )
    found = tally([one, one], 10)
    assert found.ticks.tolist() == [ticks, ticks] and (found.bytes, found.count, found.opcode.tolist()) == (14, 2, [2, 2])


# -- results -----------------------------------------------------------------------------------------------------------


def test_results_entry_by_entry(builder: Any, tmp_path: Path) -> None:
    made, test = suite(tmp_path, "mixes", "[a]\nbs=4k\n")
    folder = tmp_path / "out"
    folder.mkdir()
    drive = Drive("p", 10**12, (0,), (), "M", "S", "F", "sha256:0", "Title")
    results = Results(folder, made, drive, 1.0, {"a": 1, "notes": ["x"]}, [(test, "empty")], {"model": "v"})
    assert results.data["versions"]["model"] == "v" and results.data["versions"]["gateware"] is None
    assert results.data["planned"] == [["t", "empty"]] and results.data["scaled"] is False and results.data["virtual"] is True
    assert results.data["drive"] == {
        "title": "Title",
        "model": "M",
        "serial": "S",
        "firmware": "F",
        "profile": "p",
        "profile_hash": "sha256:0",
        "capacity_bytes": 10**12,
    }
    outcome = Outcome(series=pl.DataFrame({"a": [1, 2]}), notes=["n"])
    entry = results.add(test, "empty", outcome, folder / "captures" / "c", 1.23456)
    assert entry == {
        "test": "t",
        "name": "T",
        "kind": "mixes",
        "condition": "empty",
        "points": [],
        "scores": [],
        "peaks": {},
        "series": "series/t-empty.parquet",
        "notes": ["n"],
        "lost": {},
        "capture": "captures/c",
        "wall_s": 1.235,
    }
    assert pl.read_parquet(folder / "series" / "t-empty.parquet")["a"].to_list() == [1, 2]
    assert results.add(test, "full", Outcome(series=pl.DataFrame({"a": []})), folder / "c", 1.0)["series"] is None
    capture = builder.write()
    capture.meta["rig"] = {"gateware": "1.2.3", "error_model": {"gain": 0.5}}
    capture.meta["workload"] = {"model": "m2", "phases": []}
    capture.meta["conditions"]["notes"] = ["x", "y"]
    capture.meta["drive"] = {"source": "identify", "namespaces": [], "model": "Real", "serial": None}
    results.describe(capture)
    results.describe(capture)
    data = read_results(results.write())
    assert data["versions"]["gateware"] == "1.2.3" and data["versions"]["model"] == "m2" and data["versions"]["firmware"] is None
    assert data["conditions"] == {"a": 1, "notes": ["x", "y"]} and data["uncertainty"]["gain"] == 0.5
    assert (data["drive"]["model"], data["drive"]["serial"], "source" in data["drive"]) == ("Real", "S", False)
    again = Results(folder, made, drive, 1.0, {})
    again.take_up(data)
    assert again.data == data
    for text, why in (
        ("[]", "no results of format 1"),
        ('{"format": 2, "tests": []}', "no results"),
        ('{"format": 1}', "no results"),
        ("{", "not JSON"),
    ):
        (folder / "results.json").write_text(text)
        with pytest.raises(UsageError, match=why):
            read_results(folder)
    with pytest.raises(UsageError, match="cannot be read"):
        read_results(tmp_path / "nothing")
