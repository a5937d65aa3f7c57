"""A gap of hours is a row in a table and no samples in the file; readers still find every sample at its time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyjls
import pytest
from wattbell.capture import Capture, CaptureWriter, open_capture
from wattbell.capture.rail import SIGNALS, jls_time

from tests.e2e import stream_maker as maker
from tests.host.capture.streams import recorded, recorded_in_time, run
from tests.host.wire import encoder as e

HOUR = 3600 * 10**9
STEP = 1000
N = 100


def rail(number: int, tick: int, level: int) -> bytes:
    made: bytes = e.rail(number, tick, [(165_000, level)] * N, interval=STEP)
    return made


@pytest.fixture
def gapped(tmp_path: Path) -> Capture:
    """At 1 MSPS: blocks, an hour, blocks, 20 s, blocks, a millisecond, blocks."""
    starts = [1000, 1000 + N * STEP]
    for away in (HOUR, 20 * 10**9, 10**6):
        starts += [starts[-1] + N * STEP + away, starts[-1] + 2 * N * STEP + away]
    blocks = [rail(2 + k, tick, 1000 * (k + 1)) for k, tick in enumerate(starts)]
    return recorded_in_time(tmp_path / "c", *run(*blocks, last=starts[-1] + N * STEP))


def test_the_file_stays_small(gapped: Capture) -> None:
    assert (gapped.path / "rail.jls").stat().st_size < 200_000
    about = gapped.meta["rail"]
    assert about["samples"] == 8 * N + 3_600_000_000 + 20_000_000 + 1000
    assert about["missing_samples"] == about["samples"] - 8 * N
    assert about["breaks"] == 2
    assert about["stored_samples"] < 10_000


def test_each_gap_is_one_row_that_has_its_samples(gapped: Capture) -> None:
    rows = gapped.gaps.filter(kind="RAIL").collect()
    assert rows["count"].to_list() == [3_600_000_000, 20_000_000, 1000]
    assert ((rows["last_tick"] - rows["first_tick"]) // STEP + 1 == rows["count"]).all()


def test_every_sample_is_at_its_tick(gapped: Capture) -> None:
    reader = gapped.rail
    assert reader is not None
    for k, tick in enumerate(gapped.rail_blocks.collect()["first_tick"].to_list()):
        first = reader.sample_at(tick)
        assert reader.tick_of(first) == tick
        part = reader.read(first, first + N)
        assert part.current == pytest.approx(np.full(N, 1000 * (k + 1) * 500e-9), rel=1e-6)
        assert reader.power(first, first + N) == pytest.approx(part.voltage * part.current, rel=1e-6)


def test_a_gap_reads_as_missing_and_a_read_across_its_edges_as_both(gapped: Capture) -> None:
    reader = gapped.rail
    assert reader is not None
    assert np.isnan(reader.power(1_000_000_000, 1_000_001_000)).all()
    behind = 2 * N + 3_600_000_000
    edges = reader.read(behind - 5000, behind + 3)
    assert np.isnan(edges.voltage[:-3]).all()
    assert edges.current[-3:] == pytest.approx([3000 * 500e-9] * 3, rel=1e-6)
    before = reader.power(2 * N - 3, 2 * N + 5000)
    assert np.flatnonzero(np.isfinite(before)).tolist() == [0, 1, 2]
    assert len(reader.read(len(reader) - 5, len(reader) + 5)) == 5
    stored = list(reader.stored(0, len(reader)))
    assert stored[0][0] == 0
    assert stored[-1][1] == len(reader)
    assert [start for start, _ in stored[1:]] == [behind, behind + 2 * N + 20_000_000]
    assert list(reader.stored(1_000_000_000, 1_000_000_001)) == []


def test_statistics_across_a_gap_are_of_what_is_there(gapped: Capture) -> None:
    reader = gapped.rail
    assert reader is not None
    behind = 2 * N + 3_600_000_000
    (around,) = reader.overview("current", 0, behind + 2 * N, 1)
    wanted = np.repeat([1, 2, 3, 4], N) * 1000 * 500e-9
    assert around[0] == pytest.approx(wanted.mean(), rel=1e-3)
    assert (around[2], around[3]) == pytest.approx((wanted.min(), wanted.max()), rel=1e-6)
    empty, full = reader.overview("current", behind - 2 * N, behind + 2 * N, 2)
    assert np.isnan(empty[0])
    assert full[0] == pytest.approx(3500 * 500e-9, rel=1e-6)


def test_place_in_the_file_is_what_the_table_says_and_other_programs_get_the_time(gapped: Capture) -> None:
    rows = gapped.rail_blocks.collect()
    anchor = gapped.meta["clock"]["utc_anchor"]
    with pyjls.Reader(str(gapped.path / "rail.jls")) as jls:
        for number, (tick, place) in enumerate(rows.select("first_tick", "sample_id").iter_rows()):
            for signal, name, _ in SIGNALS:
                if name == "current":
                    assert jls.fsr(signal, place, N) == pytest.approx(np.full(N, 1000 * (number + 1) * 500e-9), rel=1e-6)
                wanted = jls_time(anchor["utc_ns"] + tick - anchor["tick"])
                assert abs(jls.sample_id_to_timestamp(signal, place) - wanted) < (1 << 30) // 10**5  # 10 us


def test_a_step_of_the_hosts_clock_while_the_rig_restarts(tmp_path: Path) -> None:
    """Two time bases are joined by the elapsed time as seen by the host."""
    first, second = b"".join(maker.stream(20, stop=False)), b"".join(maker.stream(20))
    with CaptureWriter(tmp_path / "c") as writer:
        writer.feed(first, 10**18)
        writer.reconnected()
        writer.feed(second, 10**18 + HOUR)
    capture = open_capture(tmp_path / "c")
    assert (tmp_path / "c" / "rail.jls").stat().st_size < 200_000
    reader = capture.rail
    assert reader is not None
    assert reader.samples == pytest.approx(3_600_000_000, rel=0.01)
    assert np.isfinite(reader.power(len(reader) - 20 * maker.SAMPLES_A_BLOCK)).all()


def test_the_hosts_clock_is_not_asked_for_what_passed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from wattbell.capture import writer as module

    asked: list[int] = []
    monkeypatch.setattr(module, "now_ns", lambda: (asked.append(10**18), 10**18)[1])
    first, second = b"".join(maker.stream(20, stop=False)), b"".join(maker.stream(20))
    with CaptureWriter(tmp_path / "c") as writer:
        writer.feed(first)
        writer.reconnected()
        writer.feed(second)
        assert len(asked) == 1
    capture = open_capture(tmp_path / "c")
    assert capture.rail is not None
    assert capture.rail.samples < 60_000_000


def test_blocks_that_cannot_be_placed_are_gaps_and_break_nothing(tmp_path: Path) -> None:
    blocks = [
        e.rail(2, 1000, [], interval=STEP),
        e.rail(3, 1000, [(1, 1)] * 5, interval=0),
        rail(4, 2000, 1000),
        e.rail(5, 2000 + N * STEP, [], interval=STEP),
        rail(6, 2000 + N * STEP, 2000),
        e.rail(7, (1 << 63) + 5, [(1, 1)] * 5, interval=STEP),
        rail(8, 2000 + 2 * N * STEP, 3000),
    ]
    capture = recorded(tmp_path / "c", *run(*blocks, last=2000 + 3 * N * STEP))
    reader = capture.rail
    assert reader is not None
    assert (reader.first_tick, len(reader)) == (2000, 3 * N)
    assert np.isfinite(reader.read().power).all()
    assert capture.meta["loss"]["lossless"] is False
    # each of them is a gap: reported by the decoder or, where that let it through, by the recorder
    assert capture.gaps.select("count").collect().height >= 4
    assert (capture.gaps.collect()["count"] == -1).all()


def test_a_waveform_that_does_not_fit_its_table_is_an_error(gapped: Capture) -> None:
    import polars as pl
    from wattbell.capture.rail import RailReader
    from wattbell.errors import CaptureError

    path = gapped.path / "rail_blocks.parquet"
    rows = pl.read_parquet(path)
    rows.with_columns(sample_id=pl.col("sample_id") + 10**6).write_parquet(path)
    with pytest.raises(CaptureError, match="does not fit"):
        RailReader(gapped.path, 1000, STEP, 1000, gapped.meta["rail"]["stored_samples"], breaks=2)
