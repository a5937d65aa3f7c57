"""Scores from captures of known content, command by command."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from wattbell.capture import Capture, open_capture
from wattbell.capture.meta import seal
from wattbell.measure.depth import depth_steps
from wattbell.measure.pieces import active_span
from wattbell.measure.source import Source
from wattbell.measure.table import Commands
from wattbell.measure.throughput import find_span
from wattbell.present.suite.terminal import show
from wattbell.suites.drive import Drive
from wattbell.suites.manifest import load_suite
from wattbell.suites.outcome import REVIEWS, TOTALS, Outcome
from wattbell.suites.results import Results, read_results
from wattbell.suites.scoring import score_test
from wattbell.suites.suite import Suite, Test
from wattbell.wire.decode import Gap
from wattbell_spec.wire import BlockContent, EventType, RailFlag

from tests.host.suites.made import suite

MS = 1_000_000
US = 1_000
S = 1_000 * MS


def score(capture: Capture, made: tuple[Suite, Test], scale: float = 1.0) -> Outcome:
    return score_test(Source(capture), *made, scale)


def values(outcome: Outcome, unit: str) -> dict[tuple[str, str | None], float]:
    return {(s.name, s.reading): s.value.value for s in outcome.scores if s.unit == unit}


DEPTHS = "[global]\nbs=4k\nrw=randread\n[qd1]\niodepth=1\n[qd2]\niodepth=2\n[qd4]\niodepth=4\n"


def three_depths(builder: Any, fio: dict[int, int] | None = None) -> Capture:
    """QD1: 10 reads of 100 us at 1 W; QD2: 20 in the time of 10 at 2 W; QD4: 40 in the time of 10 at 8 W."""
    for k, (depth, watt) in enumerate(((1, 1.0), (2, 2.0), (4, 8.0)), start=1):
        start = k * 10 * MS
        builder.power(start, watt)
        builder.phase(k, start, start + 5 * MS, f"t/qd{depth}", fio_group=k)
        for i in range(10):
            for j in range(depth):
                builder.command(start + MS + i * 100 * US, 100 * US, slba=8 * (i * depth + j))
    builder.power(0, 0.5)
    builder.levels.sort()
    capture: Capture = builder.write(end=60 * MS)
    if fio:
        none = {"io_bytes": 0}
        jobs = [{"groupid": k, "read": {"io_bytes": n}, "write": none} for k, n in enumerate(fio.values(), start=1)]
        capture.workload_dir.mkdir(exist_ok=True)
        (capture.workload_dir / "fio.json").write_text(json.dumps({"jobs": jobs}))
    return capture


def test_both_readings_of_a_score_over_depths(builder: Any, tmp_path: Path) -> None:
    made = suite(tmp_path, "queue-depths", DEPTHS, score_over=[1, 2, 4])
    out = score(three_depths(builder), made)
    rates = [10 * d * 4096 / 1e6 / 1e-3 for d in (1, 2, 4)]
    assert [p["mb_per_s"].value for p in out.points] == pytest.approx(rates)
    assert [p.x for p in out.points] == [{"qd": 1}, {"qd": 2}, {"qd": 4}]
    assert [p["mean_w"].value for p in out.points] == pytest.approx([1, 2, 8], rel=1e-3)
    name = "mean of QD1, 2, 4"
    assert values(out, "MB/s")[name, REVIEWS] == pytest.approx(sum(rates) / 3)
    all_of_it = ("QD1, 2, 4 together", TOTALS)
    assert values(out, "MB/s")[all_of_it] == pytest.approx(70 * 4096 / 1e6 / 3e-3)
    assert values(out, "W")[all_of_it] == pytest.approx(11 / 3, rel=1e-3), "11 mJ in 3 ms"
    assert values(out, "MB/J")[all_of_it] == pytest.approx(70 * 4096 / 1e6 / 11e-3, rel=1e-3), "bytes over joules"
    ratios = [r / w for r, w in zip(rates, (1, 2, 8))]
    assert values(out, "MB/s/W")[name, REVIEWS] == pytest.approx(sum(ratios) / 3, rel=1e-3)
    assert [s.unit for s in out.scores][:3] == ["MB/s", "W", "MB/J"], "one row: rate, power and their ratio"
    assert all(s.value.u is not None and s.value.u > 0 for s in out.scores)


def test_lost_commands_mark_points_scores_and_the_test(builder: Any, tmp_path: Path) -> None:
    made = suite(tmp_path, "queue-depths", DEPTHS, score_over=[1, 2, 4])
    builder.gaps.append(Gap(BlockContent.COMMANDS, 21 * MS, 22 * MS, 7, "test"))
    out = score(three_depths(builder), made)
    assert out.lost == {"commands": 7}
    assert [p["iops"].lost for p in out.points] == [0, 7, 0]
    assert all(s.value.lost >= 7 for s in out.scores if s.name.startswith("mean"))


def test_what_fio_moved_and_the_wire_did_not_show_is_lost(builder: Any, tmp_path: Path) -> None:
    made = suite(tmp_path, "queue-depths", DEPTHS, score_over=[1, 2, 4])
    told = {1: 10, 2: 23, 4: 40}  # QD2: three reads more than there are records
    capture = three_depths(builder, fio={depth: n * 4096 for depth, n in told.items()})
    assert score(capture, made).lost == {"bytes_fio_moved_and_the_wire_did_not_show": 3 * 4096}


def test_bursts_are_averaged_both_ways(builder: Any, tmp_path: Path) -> None:
    for k, (count, each) in enumerate(((10, 100), (10, 300)), start=1):
        start = k * 100 * MS
        builder.phase(k, start, start + 50 * MS, f"t/burst-{k}")
        for i in range(count):
            builder.command(start + MS + i * each * US, each * US)
    builder.power(0, 1.0)
    made = suite(tmp_path, "burst", "[global]\nbs=4k\n[burst-1]\n[burst-2]\n")
    out = score(builder.write(end=300 * MS), made)
    megabytes = 10 * 4096 / 1e6
    one, two = megabytes / 1e-3, megabytes / 3e-3
    assert values(out, "MB/s")["mean of the bursts", REVIEWS] == pytest.approx((one + two) / 2)
    assert values(out, "MB/s")["all data over busy time", TOTALS] == pytest.approx(2 * megabytes / 4e-3)
    assert out.series is not None
    assert out.series["mb_per_s"].to_list() == pytest.approx([one, two])
    assert out.notes == ["busy for 1.0% of the time; rests of 99.0 ms to 99.0 ms"]


def test_consistency_is_of_the_last_seconds(builder: Any, tmp_path: Path) -> None:
    counts = [50] * 5 + [10, 20, 10, 20, 10]
    builder.phase(1, MS, 11 * S, "t")
    for second, n in enumerate(counts):
        for i in range(n):
            builder.command(10 * MS + second * S + i * (S // n), S // n - US)
    builder.command(10 * MS + 10 * S, 100 * US)
    builder.power(0, 2.0)
    made = suite(tmp_path, "consistency", "[t]\nbs=4k\n", score_last_s=4.0)
    out = score(builder.write(end=11 * S), made)
    assert out.series is not None
    assert out.series["iops"].to_list() == counts
    assert out.series["mean_w"].to_list() == pytest.approx([2.0] * 10, rel=1e-3)
    last = [20, 10, 20, 10]
    found = values(out, "IOPS") | values(out, "1")
    assert found["mean, last 4 s", None] == 15
    assert found["mean / standard deviation, last 4 s", None] == pytest.approx(15 / float(np.std(last, ddof=1)))
    assert found["lowest second, last 4 s", None] == 10


def test_the_cache_of_a_fill_is_found(builder: Any, tmp_path: Path) -> None:
    builder.phase(1, MS, 4 * S, "t")
    tick = 2 * MS
    for i in range(2000):
        tick = builder.command(tick, (100 if i < 600 else 1000) * US, opcode=1, slba=256 * i, blocks=256)
    builder.power(0, 3.0)
    made = suite(tmp_path, "fill", "[t]\nbs=128k\n")
    out = score(builder.write(end=4 * S), made)
    cache = next(s for s in out.scores if s.unit == "GB").value
    assert cache.value == pytest.approx(600 * 131072 / 1e9, abs=cache.u)
    assert cache.u <= 0.002
    found = values(out, "MB/s")
    assert found["before the rate falls", None] == pytest.approx(131072 / 100, rel=0.02)
    assert found["after the last change", None] == pytest.approx(131072 / 1000, rel=0.02)


def test_a_replay_is_scored_over_busy_and_elapsed_time(builder: Any, tmp_path: Path) -> None:
    builder.phase(1, MS, 200 * MS, "t", kind="trace")
    for i in range(5):
        start = 2 * MS + i * 25 * MS
        builder.command(start, 200 * US, opcode=2)
        builder.command(start + 100 * US, 300 * US, opcode=1, blocks=16)  # overlaps: busy for 400 us in all
    builder.power(0, 1.5)
    made = suite(tmp_path, "trace", trace="light")
    out = score(builder.write(end=200 * MS), made)
    megabytes = 5 * (4096 + 8192) / 1e6
    assert values(out, "MB/s")["data over busy time", REVIEWS] == pytest.approx(megabytes / (5 * 400e-6))
    assert values(out, "MB/s")["data over elapsed time", TOTALS] == pytest.approx(megabytes / (100.4e-3))
    assert values(out, "MB/J")["all data over all energy", TOTALS] == pytest.approx(megabytes / (1.5 * 100.4e-3), rel=0.01)
    found = values(out, "s")
    assert found["mean latency, all", None] == pytest.approx(250e-6)
    assert found["mean latency, reads", None] == pytest.approx(200e-6)
    assert found["mean latency, writes", None] == pytest.approx(300e-6)
    assert found["99th percentile of latency, all", None] is None  # ten commands do not bound it
    assert values(out, "J")["energy", None] == pytest.approx(1.5 * 100.4e-3, rel=0.01)


def in_rounds(builder: Any, counts: list[int], blocks: int = 8) -> Capture:
    """Rounds of 1 ms with this many commands back to back."""
    for k, count in enumerate(counts, start=1):
        builder.phase(k, k * 10 * MS, k * 10 * MS + 5 * MS, f"t#{k}")
        for i in range(count):
            builder.command(k * 10 * MS + MS + i * (MS // count), MS // count, blocks=blocks)
    builder.power(0, 1.0)
    written: Capture = builder.write(end=(len(counts) + 2) * 10 * MS)
    return written


def test_rounds_stop_at_the_first_steady_window(builder: Any, tmp_path: Path) -> None:
    keys = {"rounds_max": 9, "rounds_first": 5, "track": ["m"], "quantity": "iops", "fill": {"times": 2}}
    made = suite(tmp_path, "rounds", "[m]\nbs=4k\n", **keys)
    out = score(in_rounds(builder, [40, 30, 20, 20, 20, 20, 20]), made)
    assert not out.unfinished
    assert "rounds 3 to 7 of 7" in out.notes[0]
    assert values(out, "IOPS")["m", None] == pytest.approx(20_000, rel=1e-3)


@pytest.mark.parametrize(("counts", "steady"), [([40] * 5 + [20], False), ([40] * 5 + [20] * 5, True)])
def test_write_saturation_is_not_steady_before_its_end(builder: Any, tmp_path: Path, counts: list[int], steady: bool) -> None:
    made = suite(tmp_path, "rounds", "[m]\nbs=4k\n", rounds_max=20, rounds_first=5, track=["m"], quantity="iops")
    out = score(in_rounds(builder, counts), made)
    assert out.unfinished is not steady
    if steady:
        assert "rounds 6 to 10 of 10" in out.notes[0]
        assert values(out, "IOPS")["m", None] == pytest.approx(20_000, rel=1e-3)
    else:
        assert "no steady state within 6 rounds" in out.notes[0] and "range 55.6%" in out.notes[1]


def test_iops_are_those_of_the_host_where_commands_are_smaller(builder: Any, tmp_path: Path) -> None:
    """1 MiB as eight commands of 128 KiB: 40 commands in 1 ms are 5 I/Os."""
    keys = {"rounds_max": 5, "rounds_first": 5, "track": ["m"], "quantity": "iops", "fill": {}}
    out = score(in_rounds(builder, [40] * 5, blocks=256), suite(tmp_path, "rounds", "[m]\nbs=1024k\n", **keys))
    assert values(out, "IOPS")["m", None] == pytest.approx(5_000, rel=1e-3)
    assert out.points[0]["mb_per_s"].value == pytest.approx(40 * 131072 / 1e6 / 1e-3, rel=1e-3)
    assert "IOPS counts I/Os of the host" in out.notes[-1]


def test_rounds_go_on_while_there_are_some_left(builder: Any, tmp_path: Path) -> None:
    def run(rounds_max: int) -> Outcome:
        keys = {"rounds_max": rounds_max, "rounds_first": 5, "track": ["m"], "quantity": "iops"}
        return score(capture, suite(tmp_path, "rounds", "[m]\nbs=4k\n", **keys))

    for k, count in enumerate([40, 30, 20, 10, 5], start=1):
        builder.phase(k, k * 10 * MS, k * 10 * MS + 5 * MS, f"t#{k}")
        for i in range(count):
            builder.command(k * 10 * MS + MS + i * 20 * US, 20 * US)
        builder.command(k * 10 * MS + 3 * MS, 20 * US)
    builder.power(0, 1.0)
    capture = builder.write(end=100 * MS)
    assert run(9).unfinished
    assert not run(5).unfinished
    assert "no steady state" in run(5).notes[0]


def asleep(builder: Any, name: Callable[[int], str]) -> Capture:
    """Two waking reads: 10 ms at 0.5 W into 50 mW, CLKREQ# 80 us before the doorbell, 6 ms to the CQE at 0.8 W."""
    for k in (1, 2):
        start = k * S
        builder.phase(k, start, start + 900 * MS, name(k), kind="wake")
        doorbell = start + 800 * MS
        builder.events.append((doorbell - 80 * US, EventType.CLKREQ, 0, 0))
        builder.command(doorbell, 6 * MS)
        builder.power(start + 5 * US, 0.5)
        builder.power(start + 5 * US + 10 * MS, 0.05)
        builder.power(doorbell - 80 * US, 0.8)
        builder.power(doorbell + 6 * MS, 0.5)
    builder.levels.insert(0, (0, 0.5))
    return builder


def test_wake_up_is_from_the_doorbell_and_from_clkreq(builder: Any, tmp_path: Path) -> None:
    made = suite(tmp_path, "wake", repeat=2, idle_s=0.8)
    out = score(asleep(builder, lambda k: f"t#{k}").write(end=3 * S), made)
    found = values(out, "s")
    assert found["mean, doorbell to completion", None] == pytest.approx(6e-3)
    assert found["longest, CLKREQ# to completion", None] == pytest.approx(6.08e-3)


def test_transitions_and_break_even_time(builder: Any, tmp_path: Path) -> None:
    asleep(builder, lambda k: f"t-ps3#{k}")
    builder.phase(9, 3 * S, 3 * S + 500 * MS, "t-awake", kind="idle")
    capture = builder.write(end=4 * S)
    out = score(capture, suite(tmp_path, "non-operational-states", "[b]\nbs=4k\n"))
    (row,) = out.points
    assert row.x == {"ps": 3}
    assert row["settled_w"].value == pytest.approx(0.05, rel=0.01)
    assert row["entry_s"].value == pytest.approx(10e-3, abs=30e-6)
    assert row["exit_s"].value == pytest.approx(6.08e-3, abs=1e-6)
    assert row["entry_j"].value == pytest.approx(5e-3, rel=0.01)
    assert row["exit_j"].value == pytest.approx(0.8 * 6.08e-3, rel=0.01)
    # by hand: 5 mJ + 0.05 W (T - 10 ms) + 4.864 mJ = 0.5 W x T
    assert row["break_even_s"].value == pytest.approx((5e-3 + 4.864e-3 - 0.5e-3) / 0.45, rel=0.01)


def test_idle_power_is_of_the_level_that_the_drive_settled_at(builder: Any, tmp_path: Path) -> None:
    builder.phase(1, 100 * MS, 1100 * MS, "t", kind="idle")
    builder.power(0, 0.6)
    builder.power(300 * MS, 0.01)
    out = score(builder.write(end=1200 * MS), suite(tmp_path, "idle", idle_s=1.0))
    found = values(out, "W")
    assert found == {("settled", None): pytest.approx(0.01, rel=1e-3)}
    assert [p["mean_w"].value for p in out.points] == pytest.approx([0.6, 0.01], rel=2e-3)


def test_a_capture_without_the_test_says_so(builder: Any, tmp_path: Path) -> None:
    builder.phase(1, MS, 2 * MS, "other")
    builder.power(0, 1.0)
    out = score(builder.write(end=3 * MS), suite(tmp_path, "queue-depths", DEPTHS, score_over=[1]))
    assert out.scores == []
    assert "nothing was measured" in out.notes[0]


def test_results_are_written_whole_and_shown_with_their_scale(builder: Any, tmp_path: Path) -> None:
    made, test = suite(tmp_path, "queue-depths", DEPTHS, score_over=[1, 2, 4])
    capture = three_depths(builder)
    out_folder = tmp_path / "out"
    out_folder.mkdir()
    results = Results(out_folder, made, Drive("p", 10**12, (0,), ()), 0.01, {"fidelity": "rtl"})
    outcome = score(capture, (made, test), 0.01)
    outcome.lost["commands"] = 3
    results.add(test, "empty", outcome, out_folder / "captures" / "x", 1.0)
    results.describe(capture)
    results.write()
    data = read_results(out_folder)
    assert (data["format"], data["suite"], data["scale"], data["scaled"]) == (1, "s", 0.01, True)
    assert data["suite_hash"].startswith("sha256:")
    assert data["lost"] == {"commands": 3}
    assert set(data["tests"][0]["points"][0]["mb_per_s"]) == {"value", "u", "n_lost"}
    stream = StringIO()
    show(data, Console(file=stream, width=200))
    text = stream.getvalue()
    assert "SCALED x 0.01: not the published test" in text
    assert "lost under this test: commands 3" in text
    assert REVIEWS in text and TOTALS in text
    json.dumps(data, allow_nan=False)


def test_every_kind_of_every_suite_can_be_scored(builder: Any) -> None:
    builder.power(0, 1.0)
    source = Source(builder.write(end=3 * MS))
    for name in ("anandtech-2018", "snia-pts", "power-states", "consistency-2016"):
        made = load_suite(name)
        for test in made.tests:
            assert not score_test(source, made, test, 1.0).points


INTERVAL = st.tuples(st.integers(0, 400), st.integers(1, 60))


@given(st.lists(INTERVAL, min_size=1, max_size=12), st.integers(1, 50))
def test_the_active_span_is_that_of_the_depth(intervals: list[tuple[int, int]], gap: int) -> None:
    intervals.sort()
    start = np.array([a for a, _ in intervals], np.int64)
    end = np.array([a + b for a, b in intervals], np.int64)
    found = active_span(Commands({"start_tick": start, "cqe_tick": end}), gap)
    expected = find_span(depth_steps(start, end), gap)
    assert found is not None and expected is not None
    assert found.bursts.tolist() == expected.bursts.tolist()


def test_power_beyond_the_adc_is_marked_and_has_no_uncertainty(builder: Any, tmp_path: Path) -> None:
    made = suite(tmp_path, "queue-depths", DEPTHS, score_over=[1, 2, 4])
    capture = three_depths(builder)
    path = capture.path / "rail_blocks.parquet"
    blocks = pl.read_parquet(path)
    over = pl.col("first_tick").is_between(20 * MS, 26 * MS)  # QD2
    flag = pl.when(over).then(int(RailFlag.OVERLOAD_I)).otherwise(0).cast(pl.UInt16).alias("flags")
    blocks.with_columns(flag).write_parquet(path)
    seal(capture.path)
    out = score(open_capture(capture.path), made)
    assert list(out.lost) == ["rail_blocks_current_beyond_the_adc"]
    assert [p["mean_w"].u is None for p in out.points] == [False, True, False]
    assert [p["mean_w"].lost > 0 for p in out.points] == [False, True, False]
    assert all(s.value.lost for s in out.scores if s.unit in ("W", "MB/J", "MB/s/W"))
