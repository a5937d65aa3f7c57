"""The recorder, its disk and its rig under attack: rows of the matrix (faultmatrix.py) in a short form, one try of each."""

from __future__ import annotations

import os
import queue
import random
import tempfile
from pathlib import Path

import numpy as np
import pytest
from wattbell.analysis import analyze
from wattbell.capture import CaptureWriter, open_capture
from wattbell.capture.journal import Journal
from wattbell.errors import CaptureError, RigError
from wattbell.rig.reader import Later, LineState, StreamReader
from wattbell.wire.decode import StreamDecoder

from tests.faults import faultdisk, faultmemory, faultpower, faultrate, faultstranger
from tests.faults.faultoracle import NotHere
from tests.faults.faultstream import make
from tests.faults.faulttrial import record
from tests.host.wire import encoder
from tests.patience import PATIENCE_S

root = pytest.mark.skipif(not faultpower.possible(), reason="needs root and loop devices: run in the bare root of CI, or as root")


def rng(seed: int = 44) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("cut", [True, False], ids=["behind a cut", "without a cut"])
@pytest.mark.parametrize("seed", [1, 2, 5])  # 5: the recorder is killed while the other rig sends
def test_nothing_of_another_rig_is_recorded(cut: bool, seed: int, tmp_path: Path) -> None:
    assert faultstranger.other_rig(rng(seed), tmp_path, cut=cut).silent == []


def test_a_recorder_that_was_stopped_tells_what_the_rig_lost(tmp_path: Path) -> None:
    verdict = faultstranger.long_stop(rng(), tmp_path, stop_s=4.0)
    assert verdict.lost and verdict.silent == []


@pytest.mark.parametrize("away_s", [59, 75, 3600])
def test_a_stop_longer_than_any_silence_is_no_restart(away_s: int) -> None:
    """After the stop the recorder first finds blocks that had waited: their time does not measure how long it was away."""
    decoder, now_ns, sequence = StreamDecoder(), 10**18, 0

    def feed(tick: int, at_ns: int) -> list[int]:
        nonlocal sequence
        sequence += 1
        return [batch.epoch for batch in decoder.feed(encoder.status(sequence, tick, run_id=7), at_ns)]

    for number in range(100):
        feed(10**9 + number * 10**8, now_ns + number * 10**8)
    stopped = 10**9 + 99 * 10**8
    back_ns = now_ns + 99 * 10**8 + away_s * 10**9
    for number in range(1, 6):  # data that had waited in the rig
        feed(stopped + number * 10**8, back_ns)
    epochs = [epoch for number in range(5) for epoch in feed(stopped + away_s * 10**9 + number * 10**8, back_ns + number * 10**8)]
    assert set(epochs) == {0} and decoder.counters.restarts == 0


def test_a_counter_that_jumps_further_than_the_recorder_was_away_is_a_restart() -> None:
    decoder = StreamDecoder()
    for number in range(100):
        decoder.feed(encoder.status(number, 10**9 + number * 10**8, run_id=7), 10**18 + number * 10**8)
    for number in range(3):
        decoder.feed(encoder.status(100 + number, 10**12 + number * 10**8, run_id=7), 10**18 + 100 * 10**8 + 75 * 10**9 + number * 10**8)
    assert decoder.counters.restarts == 1


@pytest.mark.parametrize("way", faultrate.WAYS)
def test_samples_at_another_rate_than_stated_are_true_or_marked(way: str, tmp_path: Path) -> None:
    assert faultrate.contradicting(rng(), tmp_path, way).silent == []


def test_energy_does_not_believe_a_period_that_its_own_counts_contradict(tmp_path: Path) -> None:
    """A unit of the accumulator lasts one conversion: with ten times the period the energy would be ten times as large."""
    _, true_w = faultrate.recorded(rng(), tmp_path / "c", "STATUS states a tenth of the conversions")
    power = analyze(open_capture(tmp_path / "c"))["power"]
    covered_s = power["energy_j"]["conditions"]["covered_s"]
    assert power["energy_j"]["value"] == pytest.approx(true_w * covered_s, rel=0.05)
    assert power["energy_j"]["conditions"]["source"] == "samples"


@pytest.mark.parametrize("times", [0.1, 0.7, 1.0, 10.0])
@pytest.mark.parametrize("stop_s", [0.0, 2.0, 18.0])
def test_a_clock_that_is_not_the_hosts_is_marked(times: float, stop_s: float, tmp_path: Path) -> None:
    verdict = faultrate.wrong_clock(rng(), tmp_path, times, stop_s)
    assert verdict.told == (times != 1) and verdict.silent == []


def test_a_flood_of_samples_and_events_is_recorded_whole(tmp_path: Path) -> None:
    assert faultrate.flood(rng(), tmp_path, rounds=2000).silent == []


def test_memory_that_runs_out_is_one_line_and_loses_no_second(tmp_path: Path) -> None:
    assert faultmemory.address_space(rng(1), tmp_path).silent == []


@root
def test_a_recorder_that_the_kernel_kills_for_memory_loses_no_second(tmp_path: Path) -> None:
    try:
        verdict = faultmemory.group_killed(rng(), tmp_path)
    except NotHere as reason:
        pytest.skip(str(reason))
    assert verdict.silent == []


@root
@pytest.mark.needs("mkfs.btrfs")
def test_a_quota_is_named_and_loses_nothing_silently(tmp_path: Path) -> None:
    assert faultdisk.quota(rng(1), tmp_path).silent == []


@root
def test_a_file_system_that_turns_read_only_is_named(tmp_path: Path) -> None:
    assert faultdisk.read_only(rng(1), tmp_path).silent == []


MODES = [(0o027, "new", True), (0o077, "empty", False), (0o000, "new", True), (0o777, "new", False), (0o022, "foreign", False)]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")
@pytest.mark.parametrize(("mask", "kind", "killed"), MODES)
def test_no_file_is_more_open_than_the_umask_says(mask: int, kind: str, killed: bool, tmp_path: Path) -> None:
    assert faultdisk.modes(rng(), tmp_path, mask, kind, killed).silent == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")
@pytest.mark.parametrize("owner", [1234, 0])
def test_force_leaves_the_capture_of_another_user_alone(owner: int) -> None:
    with tempfile.TemporaryDirectory(prefix="wattbell-force-") as folder:  # pytest's own folders are closed to other users
        shared = Path(folder)
        record([make(rng(), scale=0.3)], shared / "capture")
        shared.chmod(0o1777)
        for path in (shared / "capture", *(shared / "capture").rglob("*")):
            os.chown(path, owner, owner)
        before = {path: path.read_bytes() for path in (shared / "capture").iterdir()}
        os.seteuid(2345)
        try:
            with pytest.raises(CaptureError, match="belongs to .* --force replaces only your own"):
                CaptureWriter(shared / "capture", overwrite=True)
        finally:
            os.seteuid(0)
        assert {path: path.read_bytes() for path in (shared / "capture").iterdir()} == before
        assert [path.name for path in shared.iterdir()] == ["capture"]


class Fast:
    """A rig that has sent everything before decoding begins."""

    def __init__(self, data: bytes) -> None:
        self._rest = memoryview(data)
        self.cut = False

    def read_into(self, buffer: memoryview) -> int:
        if not self._rest:
            raise RigError("gone")
        count = min(len(self._rest), len(buffer), 300_000)
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def reopen(self) -> bool:
        self.cut = True
        return False


def test_a_backlog_lies_in_the_journal_and_not_in_memory(tmp_path: Path) -> None:
    data = random.Random(1).randbytes(150 << 20)
    journal = Journal(tmp_path)
    reader = StreamReader(Fast(data), journal.append)
    reader.start()
    found, in_memory, pieces = 0, 0, []
    while True:  # everything is queued before the first read
        item = reader.items.get(timeout=PATIENCE_S)
        if item is LineState.CUT:
            break
        pieces.append(item)
    for item in pieces:
        assert isinstance(item, memoryview | Later)
        piece = journal.read(item.offset, item.size) if isinstance(item, Later) else bytes(item)
        assert piece == data[found : found + len(piece)]
        found += len(piece)
        in_memory += len(item.obj) if isinstance(item, memoryview) else 0  # type: ignore[arg-type]
    reader.stop()
    journal.close(remove=True)
    assert found == len(data) and in_memory <= 64 << 20


def test_a_reader_without_memory_says_so() -> None:
    def none_left(_: memoryview) -> None:
        raise MemoryError

    reader = StreamReader(Fast(b"abc"), none_left)
    reader.start()
    assert isinstance(reader.items.get(timeout=PATIENCE_S), MemoryError)
    reader.stop()
    with pytest.raises(queue.Empty):
        reader.items.get_nowait()


def test_a_restart_that_a_dead_recorder_asked_nobody_about_is_in_doubt(tmp_path: Path) -> None:
    """The journal has blocks of another run from an unknown rig: they are kept, and every figure over them is marked."""
    first, second = make(rng(1)), make(rng(2), run=1)
    writer = CaptureWriter(tmp_path / "c", rig={"serial": "A"}, lba_size_bytes=512)
    writer.stream.ask_sender(lambda: "A")
    writer.feed(first)
    writer.save_meta()
    writer.journal_append(second)  # killed before decoding
    writer.abandon()
    capture = open_capture(tmp_path / "c")
    assert "it is not known which rig sent this" in capture.table("gaps").collect()["reason"].to_list()
    assert all(figure["lost"] for figure in analyze(capture)["rates"].values() if isinstance(figure, dict) and "lost" in figure)
