"""A disk that refuses writes gives one clear error, and the recorded data is kept. With the real recorder process."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from wattbell.capture import CaptureWriter, open_capture
from wattbell.capture.rail import RailWriter
from wattbell.capture.reserve import Reserve
from wattbell.errors import CaptureError

from tests.e2e import stream_maker as maker
from tests.e2e.test_record import Bench, finished, wait_for

LIMITED = (
    "import resource, runpy, sys; n = int(sys.argv.pop(1)); resource.setrlimit(resource.RLIMIT_FSIZE, (n, n)); "
    "runpy.run_module('wattbell', run_name='__main__')"
)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.end()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a disk of 4 MiB that :func:`grow` enlarges."""
    path = tmp_path / "disk"
    path.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(path)], capture_output=True)
    if mounted.returncode:
        pytest.skip("needs the right to mount")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


def grow(path: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=200m", str(path)], check=True)


def failed(process: subprocess.Popen[str], *words: str) -> str:
    """Return the one error that a process ended with."""
    _, err = process.communicate()
    assert process.returncode == 1, err
    assert "Traceback" not in err
    assert "bug" not in err
    assert "Exception ignored" not in err
    assert err.count("error:") == 1, err
    for word in words:
        assert word in " ".join(err.split()), err
    return err


def test_a_file_that_may_not_grow_is_noticed_and_the_capture_is_whole_on_another_disk(bench: Bench, tmp_path: Path) -> None:
    """The writer of the waveform reports nothing. FAT32 does this at 4 GiB. The waveform is the first file to get there."""
    stream = b"".join(maker.stream(2500))
    limit = 2_900_000
    assert 2500 * maker.SAMPLES_A_BLOCK * 12 > limit > len(stream)
    bench.feeder(stream)
    record = bench.start([sys.executable, "-c", LIMITED, str(limit), "record", "--out", str(tmp_path / "cap")])
    failed(record, "rail.jls", "File too large", "another one")
    assert json.loads((tmp_path / "cap" / "meta.json").read_text())["state"] == "recording"
    capture = open_capture(tmp_path / "cap")
    assert capture.state == "recovered"
    size = (tmp_path / "cap" / "stream.wbs").stat().st_size
    rounds = size * 2500 // len(stream)
    commands = capture.commands.select(pl.len()).collect().item()
    assert rounds - 2 <= commands // maker.COMMANDS_A_BLOCK <= rounds + 1
    assert capture.rail is not None
    assert np.isfinite(capture.rail.read().power).all()
    assert len(capture.rail) >= (rounds - 2) * maker.SAMPLES_A_BLOCK


def test_a_full_disk_is_one_error_and_there_is_no_guess_whether_a_rebuild_fits(bench: Bench, small_disk: Path) -> None:
    stream = b"".join(maker.stream(6000))
    bench.feeder(stream)
    out = small_disk / "cap"
    failed(bench.wattbell("record", "--out", str(out)), "No space left", "free some space")
    kept = (out / "stream.wbs").stat().st_size
    assert kept > 500_000
    (small_disk / "other").write_bytes(bytes(os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize))
    failed(bench.wattbell("info", str(out)), "rebuilt", "more than are free")
    assert (out / "stream.wbs").stat().st_size == kept
    grow(small_disk)
    told = json.loads(finished(bench.wattbell("info", str(out), "--json"))[0])
    assert told["state"] == "recovered"
    assert told["loss"]["bytes_in"] == kept
    ticks = open_capture(out).commands.collect()["slba"].to_list()
    assert len(ticks) >= (kept * 6000 // len(stream) - 2) * maker.COMMANDS_A_BLOCK
    assert ticks == [k * 80 + i * 8 for k in range(len(ticks) // 10 + 1) for i in range(10)][: len(ticks)]


@pytest.mark.parametrize("room", [0, 2000, 20_000])
def test_a_disk_that_is_full_from_the_beginning(bench: Bench, small_disk: Path, room: int) -> None:
    bench.feeder(b"".join(maker.stream(50)))
    about = os.statvfs(small_disk)
    (small_disk / "other").write_bytes(bytes(max(0, about.f_bavail * about.f_frsize - room // 4096 * 4096)))
    failed(bench.wattbell("record", "--out", str(small_disk / "cap")), "No space left")


STREAM = maker.stream(3000)


@pytest.mark.parametrize("limit", [100, 1000, 5000, 30_000, 100_000, 400_000, 1_000_000, 3_000_000, 3_600_000])
def test_wherever_a_file_ends_it_is_an_error_that_leaves_the_capture_unfinished(tmp_path: Path, limit: int) -> None:
    """Each file is the first to hit the limit somewhere. None of these captures may pass for complete."""
    path = tmp_path / "c"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    writer = None
    try:
        with pytest.raises(CaptureError, match="File too large"):
            writer = CaptureWriter(path, journal=limit > 3_000_000)
            for start in range(0, len(STREAM), 200):
                writer.feed(b"".join(STREAM[start : start + 200]))
            writer.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    if writer:
        writer.abandon()
        writer.abandon()  # a recorder gives up, and closing it raises again
        assert json.loads((path / "meta.json").read_text())["state"] == "recording"


def test_a_write_error_that_passes_is_an_error_all_the_same(tmp_path: Path) -> None:
    """The disk is full for a moment: later chunks of the waveform are written, and its length looks right."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    writer = CaptureWriter(tmp_path / "c")
    writer.feed(b"".join(STREAM[:3000]))
    writer._rail._writer._jls.flush()  # type: ignore[union-attr]
    resource.setrlimit(resource.RLIMIT_FSIZE, ((tmp_path / "c" / "stream.wbs").stat().st_size + 10, before[1]))
    try:
        with pytest.raises(CaptureError, match="rail.jls"):
            for block in STREAM[3000:4000]:
                writer.decode(block)
            writer._rail._writer._jls.flush()  # type: ignore[union-attr]
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            writer.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    writer.abandon()
    assert json.loads((tmp_path / "c" / "meta.json").read_text())["state"] == "recording"


@pytest.mark.parametrize("room", [40_000, 1_240_000])
def test_what_the_library_could_not_write_is_noticed_at_the_latest_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    """The reserved space is not usable (a failing disk). The library's own messages show it, and the file's content does."""
    monkeypatch.setattr(Reserve, "require", lambda *_: None)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    writer = RailWriter(tmp_path, 1000, 1000, "X")
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
        samples = np.zeros(100_000, np.float32)
        with pytest.raises(CaptureError, match="rail.jls"):
            writer.append(samples, samples, samples)
            writer.close([])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_capture_that_is_recorded_to_the_end_has_no_such_error(bench: Bench, tmp_path: Path) -> None:
    bench.feeder(b"".join(maker.stream(300)))
    record = bench.start([sys.executable, "-c", LIMITED, str(50_000_000), "record", "--out", str(tmp_path / "cap")])
    wait_for(lambda: record.poll() is not None, "the recorder")
    finished(record)
    assert open_capture(tmp_path / "cap").state == "complete"
