"""The live summary of a capture: the part that another process sees while it is recorded."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from wattbell.capture import CaptureWriter, blocks, open_capture
from wattbell.capture import live as layout
from wattbell.capture.live import LiveReader
from wattbell.errors import CaptureError
from wattbell.wire.decode import Gap
from wattbell_spec.wire import BlockContent, CommandFlag

from tests.host.capture.streams import run
from tests.host.wire import encoder

MS = 1_000_000
SECOND = 1000 * MS
INTERVAL = 7_000
"""Interval of the samples: no divisor of a bin's width."""


def rows(doorbell: np.ndarray, latency: np.ndarray, opcode: int = 2, count: int = 8, **more: object) -> dict[str, object]:
    n = len(doorbell)
    made = {"cqe_tick": doorbell + latency, "doorbell_tick": doorbell, "opcode": [opcode] * n, "qid": [1] * n, "blocks": [count] * n}
    return {**made, **more}


class Recording:
    """A writer with a live summary that is up to date whenever it is asked."""

    def __init__(self, path: Path, **options: object) -> None:
        self.writer = CaptureWriter(path, journal=False, **options)  # type: ignore[arg-type]
        self.live = self.writer.begin_live()

    def rail(self, first: int, voltage: np.ndarray, current: np.ndarray) -> None:
        self.writer.add_rail_source(blocks(first, INTERVAL, voltage.astype(np.float32), current.astype(np.float32)))

    def commands(self, **columns: object) -> None:
        from wattbell.capture.tables import rows_table

        class Source:
            def table(self):  # type: ignore[no-untyped-def]
                return rows_table("commands", columns)  # type: ignore[arg-type]

        self.writer.add_command_source(Source())

    def reader(self) -> LiveReader:
        self.live.flush()
        return LiveReader(self.writer.path)


@pytest.fixture
def recording(tmp_path: Path):  # type: ignore[no-untyped-def]
    made = Recording(tmp_path / "capture", lba_size_bytes=4096)
    yield made
    made.writer.abandon()


def wave(count: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(1)
    return 3.3 + random.normal(0, 0.01, count), 1 + random.random(count)


def test_rail_points_are_the_samples_statistics_whatever_the_pieces(recording: Recording) -> None:
    voltage, current = wave(400_000)  # 2.8 s
    at = 0
    for size in (1, 142, 143, 10_000, 77_777, 1_000_000):
        recording.rail(5 * MS + at * INTERVAL, voltage[at : at + size], current[at : at + size])
        at += size
        recording.live.flush()
    with recording.reader() as reader:
        ticks = 5 * MS + np.arange(400_000) * INTERVAL
        for begin, end, points in ((0, 10 * SECOND, 100), (SECOND, SECOND + 50 * MS, 50), (0, 3 * SECOND, 1)):
            seen = reader.rail(begin, end, points)
            assert 1 <= len(seen.t) <= points + 1
            assert seen.t[0] - seen.width_ticks // 2 <= max(begin, 5 * MS)
            assert seen.t[-1] + seen.width_ticks // 2 >= min(end, ticks[-1])
            for k, middle in enumerate(seen.t.tolist()):
                low = middle - seen.width_ticks // 2
                inside = (ticks >= low) & (ticks < low + seen.width_ticks)
                power = voltage[inside].astype(np.float32) * current[inside].astype(np.float32)
                assert seen.power.mean[k] == pytest.approx(power.mean(), rel=1e-6)
                assert (seen.power.min[k], seen.power.max[k]) == (power.min(), power.max())
                assert seen.voltage.max[k] == pytest.approx(voltage[inside].max(), rel=1e-6)
                assert seen.current.min[k] == pytest.approx(current[inside].min(), rel=1e-6)


def test_gap_of_the_rail_stays_a_gap(recording: Recording) -> None:
    voltage, current = wave(20_000)
    recording.rail(0, voltage, current)
    recording.rail(700 * MS, voltage, current)
    with recording.reader() as reader:
        seen = reader.rail(0, SECOND, 1000)
        assert np.isnan(seen.power.mean[(seen.t > 141 * MS) & (seen.t < 699 * MS)]).all()
        assert not np.isnan(seen.power.mean[(seen.t < 140 * MS) | ((seen.t > 701 * MS) & (seen.t < 839 * MS))]).any()
        latest = reader.latest()
    assert latest is not None
    assert latest.missing_s == pytest.approx(0.56, abs=1e-5)
    assert latest.lost


def test_samples_without_a_value_count_nowhere(recording: Recording) -> None:
    voltage, current = wave(1000)
    current[100:400] = np.nan
    recording.rail(0, voltage, current)
    with recording.reader() as reader:
        seen = reader.rail(0, SECOND, 1000)
        latest = reader.latest()
    assert np.nansum(seen.power.mean) > 0
    assert np.isnan(seen.power.mean[1])
    assert latest is not None
    assert latest.samples == 700
    known = ~np.isnan(current)
    assert latest.energy_j == pytest.approx((voltage[known] * current[known]).sum() * INTERVAL * 1e-9, rel=1e-6)


def test_slow_meter_has_a_value_at_every_point(tmp_path: Path) -> None:
    made = Recording(tmp_path / "capture")
    count, interval = 100, 16 * MS + 1
    made.writer.add_rail_source(blocks(0, interval, np.full(count, 3.3, np.float32), np.arange(count, dtype=np.float32)))
    with made.reader() as reader:
        seen = reader.rail(0, count * interval, 2000)
    assert not np.isnan(seen.power.mean).any()
    assert seen.current.max.max() == count - 1
    made.writer.abandon()


def test_load_counts_at_the_completion_and_depth_is_exact(recording: Recording) -> None:
    random = np.random.default_rng(2)
    doorbell = np.sort(random.integers(0, 2 * SECOND, 30_000))
    latency = random.integers(50_000, 30 * MS, 30_000)
    order = np.argsort(doorbell + latency)
    doorbell, latency = doorbell[order], latency[order]
    for piece in np.array_split(np.arange(30_000), 7):
        recording.commands(**rows(doorbell[piece], latency[piece]))
        recording.live.flush()
    recording.commands(**rows(np.array([SECOND]), np.array([MS]), opcode=1, count=2))
    recording.commands(**rows(np.array([SECOND]), np.array([MS]), opcode=0x0C, count=2, qid=[0]))  # the admin queue
    recording.commands(**rows(np.array([SECOND]), np.array([MS]), opcode=0, count=99))  # a flush has no bytes
    recording.commands(**rows(np.array([SECOND]), np.array([MS]), opcode=2, count=99, flags=[int(CommandFlag.NO_SQE)]))
    cqe = doorbell + latency
    with recording.reader() as reader:
        for points in (2000, 21, 1):
            seen = reader.load(0, 3 * SECOND, points)
            width = seen.width_ticks
            lows = seen.t - width // 2
            edges = np.append(lows, lows[-1] + width)
            reads = np.histogram(cqe, edges)[0]
            assert seen.read_mb_per_s == pytest.approx(reads * 8 * 4096 / (width * 1e-9) / 1e6)
            assert seen.iops.sum() * width * 1e-9 == pytest.approx(30_003)
            assert seen.write_mb_per_s.sum() * width * 1e-9 == pytest.approx(2 * 4096 / 1e6)
            for k in range(0, len(lows), max(1, len(lows) // 50)):
                low, high = lows[k], lows[k] + width
                busy = np.clip(np.minimum(cqe, high) - np.maximum(doorbell, low), 0, None).sum()
                busy += 3 * np.clip(min(SECOND + MS, high) - max(SECOND, low), 0, None)
                whole = high <= reader.end  # the last point may go on past the data
                assert not whole or seen.depth_mean[k] == pytest.approx(busy / width, abs=1e-6)
        latest = reader.latest()
    assert latest is not None
    assert latest.commands == 30_003
    assert latest.read_bytes == 30_000 * 8 * 4096


def test_p99_is_that_of_the_commands_around_a_point(recording: Recording) -> None:
    doorbell = np.arange(10_000) * 300_000  # 3 s
    latency = np.where(np.arange(10_000) % 50 == 0, 9 * MS, 80_000)
    latency[5_000:] *= 2
    recording.commands(**rows(doorbell, latency))
    with recording.reader() as reader:
        seen = reader.load(0, 3 * SECOND, 30)
        early, late = seen.p99_s[3], seen.p99_s[25]
        assert early == pytest.approx(9e-3, rel=0.03)
        assert late == pytest.approx(18e-3, rel=0.03)
        latest = reader.latest()
    assert latest is not None
    assert latest.p99_s == pytest.approx(18e-3, rel=0.03)


def test_few_commands_have_no_p99(recording: Recording) -> None:
    recording.commands(**rows(np.arange(99) * MS, np.full(99, 80_000)))
    with recording.reader() as reader:
        latest = reader.latest()
        assert np.isnan(reader.load(0, SECOND, 1).p99_s).all()
    assert latest is not None
    assert latest.p99_s is None


@pytest.mark.parametrize("ticks", [1, 2, 3, 15, 16, 17, 1000, 1023, 1024, 123_456, 2**31, 2**33])
def test_a_latency_is_known_to_its_bucket(ticks: int) -> None:
    from wattbell.capture.livewriter import _bucket

    counts = np.bincount(_bucket(np.full(100, ticks)), minlength=layout.BUCKETS)
    found = layout.quantile_ticks(counts, 0.99)
    assert found == pytest.approx(min(ticks, 2**32), rel=0.03)


def test_a_day_is_kept_by_coarser_bins_and_the_file_stays_small(recording: Recording) -> None:
    hour = 3600 * SECOND
    for k in range(25):
        recording.commands(**rows(np.arange(1000) * MS + k * hour, np.full(1000, 100_000)))
        recording.live.flush()
    with recording.reader() as reader:
        seen = reader.load(0, 25 * hour, 100)
        assert seen.iops.sum() * seen.width_ticks * 1e-9 == pytest.approx(25_000)
        near = reader.load(24 * hour, 24 * hour + SECOND, 1000)
        assert near.width_ticks == MS
        assert near.iops.sum() * 1e-3 == pytest.approx(1000)
        assert (recording.writer.path / layout.NAME).stat().st_size <= 24e6


def test_an_old_bin_is_not_taken_for_a_later_one(recording: Recording) -> None:
    """The ring has gone round, and nothing was written into that slot since."""
    span = layout.SLOTS * MS
    recording.commands(**rows(np.arange(1000) * MS, np.full(1000, 100_000)))
    recording.live.flush()
    recording.commands(**rows(np.array([span + 5000 * MS]), np.array([100_000])))
    with recording.reader() as reader:
        seen = reader.load(span, span + 1000 * MS, 1000)
        assert seen.width_ticks == MS
        assert seen.iops.sum() == 0


def test_commands_that_are_all_older_than_what_is_kept_change_nothing(recording: Recording) -> None:
    """A meter's session has its commands at the end, all at once."""
    recording.commands(**rows(np.array([layout.SLOTS * 10 * MS]), np.array([100_000])))
    recording.live.flush()
    recording.commands(**rows(np.arange(100) * MS, np.full(100, 100_000)))
    with recording.reader() as reader:
        assert reader.load(0, layout.SLOTS * 10 * MS, 10).iops.sum() > 0


def test_lost_commands_show_at_their_place(recording: Recording) -> None:
    recording.commands(**rows(np.arange(1000) * MS, np.full(1000, 100_000)))
    recording.writer.add_gap(Gap(BlockContent.COMMANDS, 300 * MS, 310 * MS, 5, "lost"))
    with recording.reader() as reader:
        seen = reader.load(0, SECOND, 1000)
        latest = reader.latest()
    assert set(seen.t[seen.lost] // MS) == set(range(300, 311))
    assert latest is not None
    assert latest.lost == ("1 gap (commands)",)


def test_figures_of_the_last_second(recording: Recording) -> None:
    count = 3 * SECOND // INTERVAL
    power = np.where(np.arange(count) * INTERVAL < 1.5 * SECOND, 1.0, 2.0)
    recording.rail(0, np.full(count, 4.0), power / 4)
    recording.commands(**rows(np.arange(30_000) * 100_000, np.full(30_000, 80_000)))
    with recording.reader() as reader:
        latest = reader.latest()
        assert reader.begin == 0
        assert reader.end == pytest.approx(3 * SECOND, abs=2 * INTERVAL)
    assert latest is not None
    assert latest.w == pytest.approx(2)
    assert latest.v == pytest.approx(4)
    assert latest.a == pytest.approx(0.5)
    assert latest.iops == pytest.approx(10_000)
    assert latest.depth == pytest.approx(0.8, rel=1e-3)
    assert latest.read_mb_per_s == pytest.approx(10_000 * 8 * 4096 / 1e6)
    assert latest.energy_j == pytest.approx(1.5 + 3, rel=1e-5)
    assert latest.lost == ()


def test_the_summary_goes_with_the_recording(tmp_path: Path) -> None:
    made = Recording(tmp_path / "capture")
    made.rail(0, *wave(1000))
    reader = made.reader()
    assert reader.recording
    made.writer.close()
    assert not reader.recording
    assert len(reader.rail(0, SECOND, 10).t)  # who has it open may finish
    assert not (tmp_path / "capture" / layout.NAME).exists()
    assert "live.bin" not in open_capture(tmp_path / "capture").meta["files"]
    with pytest.raises(CaptureError, match="not being recorded"):
        LiveReader(tmp_path / "capture")
    reader.close()


def test_a_capture_that_is_given_up_leaves_no_summary(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), CaptureWriter(tmp_path / "c") as writer:
        writer.begin_live()
        raise KeyboardInterrupt
    assert (tmp_path / "c").is_dir()
    assert not (tmp_path / "c" / layout.NAME).exists()


def test_a_killed_recorder_leaves_a_summary_that_goes_with_the_rebuilding(tmp_path: Path) -> None:
    writer = CaptureWriter(tmp_path / "capture")
    live = writer.begin_live()
    for piece in run(encoder.commands(2, MS, [encoder.Command(MS)]), commands=1):
        writer.feed(piece)
    live.flush()
    with pytest.raises(CaptureError, match="still being recorded"):
        open_capture(tmp_path / "capture")
    shutil.copytree(tmp_path / "capture", tmp_path / "left")
    writer.abandon()
    with LiveReader(tmp_path / "left") as reader:
        assert not reader.recording
        latest = reader.latest()
    assert latest is not None
    assert latest.commands == 1
    assert open_capture(tmp_path / "left").state == "recovered"
    assert not (tmp_path / "left" / layout.NAME).exists()


def test_a_meters_capture_is_not_taken_for_a_broken_one(recording: Recording) -> None:
    recording.rail(0, *wave(10))
    with pytest.raises(CaptureError, match="still being recorded"):
        open_capture(recording.writer.path)


def test_a_summary_without_data_has_no_figures(recording: Recording) -> None:
    with recording.reader() as reader:
        assert reader.latest() is None
        assert not len(reader.rail(0, SECOND, 100).t)
        assert not len(reader.load(0, SECOND, 100).t)
        assert reader.recording


def test_a_full_disk_ends_the_summary_and_not_the_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Recording(tmp_path / "capture")
    made.rail(0, *wave(1000))
    made.live.flush()

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "pwrite", full)
    made.rail(1000 * INTERVAL, *wave(1000))
    made.live.flush()
    monkeypatch.undo()
    assert made.live.latest is not None
    assert made.live.latest.samples == 2000
    made.writer.close()
    capture = open_capture(tmp_path / "capture")
    assert capture.rail is not None
    assert len(capture.rail) == 2000


def test_no_summary_where_there_is_little_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        f_bavail, f_frsize = 100, 4096

    monkeypatch.setattr(os, "statvfs", lambda _path: Full)
    made = Recording(tmp_path / "capture")
    assert not (tmp_path / "capture" / layout.NAME).exists()
    monkeypatch.undo()
    made.rail(0, *wave(1000))
    made.writer.close()
    assert made.live.latest is not None


@pytest.mark.parametrize(
    "content", [b"", b"x" * 10_000, layout.START.pack(layout.MAGIC, 1, 5), layout.START.pack(layout.MAGIC, 2, 1 << 30)]
)
def test_what_is_no_summary_is_refused(tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "_RETRY_S", 0)
    (tmp_path / layout.NAME).write_bytes(content)
    with pytest.raises(CaptureError, match="live summary"):
        LiveReader(tmp_path)
