"""The parts of a capture one by one: disk space, the waveform's pieces, row groups, repair, Identify."""

from __future__ import annotations

import ctypes
import errno
import json
import logging
import os
import resource
import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from wattbell.capture import CaptureWriter, hashes, identify, jlsfaults, memory, open_capture, recover, reserve, room, schema, tables
from wattbell.capture import repair as repairs
from wattbell.capture.check import Health, check
from wattbell.capture.identify import memory_write, parse_controller, parse_namespace, parse_power_state
from wattbell.capture.journal import JournalReader
from wattbell.capture.meta import NAME, save
from wattbell.capture.rail import RailReader, grid_index, jls_time, padded
from wattbell.capture.reserve import Reserve
from wattbell.errors import CaptureError

from tests.e2e import stream_maker as maker
from tests.host.capture.streams import recorded, run
from tests.host.wire import encoder as e

MB = 1 << 20


# -- room --------------------------------------------------------------------------------------------------------------


class Disk:
    """Replaces the C library: records calls, and fails with an error number."""

    def __init__(self, refuses: int = 0, above: int = -1) -> None:
        self.asked: list[tuple[int, int, int]] = []
        self._refuses, self._above = refuses, above

    def fallocate(self, _fd: int, mode: int, start: Any, length: Any) -> int:
        self.asked.append((mode, start.value, length.value))
        if self._refuses and start.value + length.value > self._above:
            ctypes.set_errno(self._refuses)
            return -1
        return 0


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "f").write_bytes(b"x" * 10)
    return tmp_path / "f"


def test_room_is_taken_in_steps_that_leave_the_size_alone(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk()
    monkeypatch.setattr(reserve, "_libc", disk)
    taken = Reserve(file)
    for end in (100, 50, 100 + 32 * MB, 101 + 32 * MB):
        taken.require(end)
    assert disk.asked == [(1, 0, 100 + 32 * MB), (1, 100 + 32 * MB, 1 + 32 * MB)]
    taken.close()
    taken.close()
    assert file.read_bytes() == b"x" * 10


def test_where_the_step_does_not_fit_what_is_needed_is_taken(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(errno.ENOSPC, above=1000)
    monkeypatch.setattr(reserve, "_libc", disk)
    taken = Reserve(file)
    taken.require(1000)
    assert disk.asked == [(1, 0, 1000 + 32 * MB), (1, 0, 1000)]
    with pytest.raises(OSError) as told:
        taken.require(1001)
    assert told.value.errno == errno.ENOSPC
    taken.require(1000)
    taken.close()


@pytest.mark.parametrize("without", [True, False])
def test_a_disk_that_cannot_put_room_aside_is_asked_what_is_free(file: Path, monkeypatch: pytest.MonkeyPatch, without: bool) -> None:
    free = [991]
    monkeypatch.setattr(reserve, "_libc", object() if without else Disk(errno.EOPNOTSUPP))
    monkeypatch.setattr(reserve, "free_bytes", lambda _place: free[0])
    taken = Reserve(file)
    taken.require(1001)  # 10 of them are there
    free[0] = 992
    with pytest.raises(OSError) as told:
        taken.require(1003)
    assert told.value.errno == errno.ENOSPC
    free[0] = 993
    taken.require(1003)
    taken.close()


def test_a_limit_of_file_sizes_is_kept(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk()
    monkeypatch.setattr(reserve, "_libc", disk)
    monkeypatch.setattr(reserve.resource, "getrlimit", lambda what: (5000, 6000) if what == resource.RLIMIT_FSIZE else (0, 0))
    taken = Reserve(file)
    taken.require(4000)
    assert disk.asked == [(1, 0, 5000)]
    taken.require(5000)
    with pytest.raises(OSError) as told:
        taken.require(5001)
    assert told.value.errno == errno.EFBIG and len(disk.asked) == 1
    taken.close()


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "No space left on device); free some space. What was recorded so far is kept and is rebuilt"),
        (errno.EDQUOT, "exceeded); your quota of this disk is used up: free some space"),
        (errno.EFBIG, "too large); this disk takes no larger file.*copy the capture"),
        (errno.EROFS, "Read-only file system); the file system is read-only now"),
        (None, "Input/output error); see that"),
    ],
)
def test_what_a_failed_write_is_told_as(tmp_path: Path, number: int | None, words: str) -> None:
    with pytest.raises(CaptureError, match=f"^{tmp_path} cannot be written .*{words.replace(')', '[)]')}"), room.writing(tmp_path):
        raise OSError(number, "x") if number else OSError("x")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount")
def test_an_error_of_a_disk_that_is_read_only_now_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ext4 gives up its journal before it turns read-only, and a flush between the two fails with EIO."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
        assert "the file system is read-only now" in str(room.write_error(folder / "events.arrow", OSError(errno.EIO, "x")))
    finally:
        subprocess.run(["umount", folder], check=True)
    assert "see that the disk is well" in str(room.write_error(folder / "events.arrow", OSError(errno.EIO, "x")))


def test_a_file_that_did_not_grow_is_full_or_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "f").touch()
    for free, size, number in ((MB - 1, 0, errno.ENOSPC), (MB, (1 << 32) - MB, errno.EFBIG), (MB, 0, errno.EIO)):
        monkeypatch.setattr(room, "free_bytes", lambda _place, free=free: free)
        os.truncate(tmp_path / "f", size)
        assert room.refused_growth(tmp_path / "f").errno == number
        assert (tmp_path / "f").stat().st_size == size
    monkeypatch.undo()
    found = os.statvfs(tmp_path)
    assert room.free_bytes(tmp_path) == pytest.approx(found.f_bavail * found.f_frsize, rel=0.05)


@pytest.mark.parametrize(
    ("rail", "counts", "bytes_in", "wanted"),
    [
        ({}, None, 0, int(10_000 * 12.6 / 6) + MB),  # nothing converted yet: as if everything were samples
        ({"samples": 100, "stored_samples": 80}, {"commands": 10}, 5000, 2 * (80 * 12.6 + 10 * 40 + (5000 - 480 - 440) * 1.2) + MB),
        ({"samples": 100}, {"commands": 10}, 5000, 2 * (100 * 12.6 + 10 * 40 + (5000 - 600 - 440) * 1.2) + MB),
        ({"samples": 100}, {}, 20_000, 100 * 12.6 + (20_000 - 600) * 1.2 + MB),  # a journal truncated since: no less than was made
        ({"samples": 5000}, {}, 10_000, 5000 * 12.6 + MB),
    ],
)
def test_a_rebuild_asks_for_the_room_that_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rail: dict[str, int], counts: dict[str, int] | None, bytes_in: int, wanted: float
) -> None:
    (tmp_path / "stream.wbs").write_bytes(bytes(10_000))
    old = {"loss": {"bytes_in": bytes_in}, "rail": rail, "counts": counts}
    monkeypatch.setattr(recover, "free_bytes", lambda _place: int(wanted))
    recover._require_room(tmp_path, old)  # just enough
    monkeypatch.setattr(recover, "free_bytes", lambda _place: int(wanted) - 7)
    with pytest.raises(CaptureError, match=f"needs about {int(wanted)} bytes, 7 more than are free"):
        recover._require_room(tmp_path, old)


def test_freed_memory_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """M_TRIM_THRESHOLD -1, M_TOP_PAD -2, M_MMAP_THRESHOLD -3 in glibc's malloc.h; elsewhere there is no such call."""
    asked: dict[int, int] = {}

    class Library:
        def mallopt(self, option: int, value: int) -> None:
            asked[option] = value

    monkeypatch.setattr(memory.ctypes, "CDLL", lambda _name: Library())
    memory.keep_freed_memory()
    assert asked == {-1: 256 * MB, -2: 16 * MB, -3: 1024 * MB}
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda _name: object())
    memory.keep_freed_memory()


def test_what_the_library_of_the_waveform_says_of_errors_is_counted_and_not_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    printed: list[logging.LogRecord] = []
    handler = logging.Handler()
    monkeypatch.setattr(handler, "emit", printed.append)
    monkeypatch.setattr(logging.getLogger(), "handlers", [handler])
    watch, library = jlsfaults.Watch(), logging.getLogger("pyjls.c")
    library.warning("a warning")
    assert not watch.seen()
    library.error("a write failed")
    assert watch.seen() and not jlsfaults.Watch().seen()
    other = jlsfaults.Watch()
    library.warning("thread msg 3 returned 5")
    assert other.seen() and not printed


# -- the waveform ------------------------------------------------------------------------------------------------------


def test_times_and_places_of_samples() -> None:
    epoch = 1_514_764_800 * 10**9  # 2018-01-01 UTC
    assert [jls_time(epoch + ns) for ns in (0, 10**9, 1_500_000_000, -(10**9))] == [0, 1 << 30, 3 << 29, -(1 << 30)]
    assert grid_index(np.array([995, 1004, 1005, 1014, 1015], np.int64), 1000, 10).tolist() == [0, 0, 1, 1, 2]
    chunk = 128 * 640
    for samples, more in (
        (1, 0),
        (chunk - 1, 0),
        (chunk, 0),
        (chunk + 1, 127),
        (chunk + 127, 1),
        (chunk + 128, 0),
        (20 * chunk + 1, 2559),
        (20 * chunk + 2559, 1),
        (400 * chunk + 1, 51_199),
    ):
        assert padded(samples) == samples + more


def gapped(path: Path) -> RailReader:
    """Samples 0 to 99 (i mA), a gap of a million, 100 samples more, a gap of 50, and 100 more; 1 us apart."""

    def block(number: int, at: int, base: int) -> bytes:
        return bytes(e.rail(number, 1000 * (1 + at), [(165_000, 2000 * (base + i)) for i in range(100)]))

    reader = recorded(path, *run(block(2, 0, 0), block(3, 1_000_100, 100), block(4, 1_000_250, 200), last=2 * 10**9)).rail
    assert reader is not None
    return reader


def test_reads_and_stretches_across_gaps(tmp_path: Path) -> None:
    reader = gapped(tmp_path / "c")
    far, end = 1_000_100, 1_000_350
    assert (len(reader), reader.interval_s, reader.first_tick) == (end, pytest.approx(1e-6), 1000)
    assert list(reader.stored(0, end)) == [(0, 100), (far, end)]
    assert list(reader.stored(99, far + 1)) == [(99, 100), (far, far + 1)] and list(reader.stored(200_000, far)) == []
    assert list(reader.chunks(50, far + 120, 60)) == [
        (50, 100, True),
        (100, far, False),
        (far, far + 60, True),
        (far + 60, far + 120, True),
    ]
    assert list(reader.chunks(0, 200_000, 1000)) == [(0, 100, True), (100, 200_000, False)]
    current = reader.read(far - 2, far + 3).current
    assert np.isnan(current[:2]).all() and current[2:] == pytest.approx([0.1, 0.101, 0.102], rel=1e-6)
    assert reader.power(98, 102)[:2] == pytest.approx([3.3 * 0.098, 3.3 * 0.099], rel=1e-6)
    assert [len(reader.power(a, b)) for a, b in ((-5, 3), (end - 2, end + 9), (7, 3))] == [3, 2, 0]
    middle = reader.read(far + 90, far + 160)
    assert np.isnan(middle.current[10:60]).all() and middle.current[60] == pytest.approx(0.2, rel=1e-6) and middle.start == far + 90
    for tick, sample in ((0, 0), (1000, 0), (1001, 1), (2000, 1), (10**12, end)):
        assert reader.sample_at(tick) == sample
    assert reader.tick_of(7) == 8000
    assert len(reader.power()) == len(reader.read()) == len(reader) and reader.power()[0] == 0.0 and reader.read().start == 0


def test_statistics_of_stretches(tmp_path: Path) -> None:
    reader = gapped(tmp_path / "c")
    amps = np.arange(100) * 1e-3
    halves = reader.overview("current", 0, 100, 2)
    for row, part in zip(halves, (amps[:50], amps[50:])):
        assert row == pytest.approx([part.mean(), part.std(), part.min(), part.max()], rel=2e-2)
    assert reader.overview("voltage", 10, 20, 100).shape == (10, 4)
    (row,) = reader.overview("current", 50, 1_000_100 + 50, 1)
    both = np.concatenate((amps[50:], 0.1 + amps[:50]))
    assert row == pytest.approx([both.mean(), both.std(), both.min(), both.max()], rel=1e-2)
    assert np.isnan(reader.overview("power", 1000, 2000, 4)).all() and reader.overview("power", 1000, 2000, 4).shape == (4, 4)


@pytest.mark.parametrize(
    "change",
    [
        {"sample_id": [0, 10**6, 0]},
        {"count": [2000, 100, 100]},
        {"first_tick": [1000, 1100, 1_000_351_000]},
    ],
)
def test_a_table_of_blocks_that_does_not_fit_the_waveform(tmp_path: Path, change: dict[str, list[int]]) -> None:
    reader = gapped(tmp_path / "c")
    path = tmp_path / "c" / "rail_blocks.parquet"
    rows = pl.read_parquet(path)
    stored = json.loads((tmp_path / "c" / NAME).read_text())["rail"]["stored_samples"]
    assert len(RailReader(tmp_path / "c", 1000, 1000, 1000, stored, breaks=1)) == len(reader)
    rows.with_columns(**{name: pl.Series(values, dtype=rows[name].dtype) for name, values in change.items()}).write_parquet(path)
    with pytest.raises(CaptureError, match="does not fit"):
        RailReader(tmp_path / "c", 1000, 1000, 1000, stored, breaks=1)


@pytest.mark.parametrize(("samples", "breaks"), [(1 << 16, 0), ((1 << 16) + 1, 1)])
def test_a_gap_of_65536_samples_is_filled_and_a_longer_one_left_out(tmp_path: Path, samples: int, breaks: int) -> None:
    second = 1000 * (11 + samples)
    capture = recorded(tmp_path / "c", *run(e.rail(2, 1000, [(1, 1)] * 10), e.rail(3, second, [(1, 1)] * 10), last=second + 10_000))
    about = capture.meta["rail"]
    assert about["breaks"] == breaks and about["samples"] == 20 + samples and about["missing_samples"] == samples
    assert about["stored_samples"] == (20 + 1024 if breaks else 20 + samples)
    assert capture.rail_blocks.collect()["sample_id"].to_list() == [0, 10 + 1024 if breaks else 10 + samples]


@pytest.mark.parametrize(("late", "place"), [(0, 10), (499, 10), (500, 11), (-500, 10), (-501, -1)])
def test_a_block_lies_at_the_nearest_sample_of_the_grid(tmp_path: Path, late: int, place: int) -> None:
    capture = recorded(tmp_path / "c", *run(e.rail(2, 1000, [(1, 1)] * 10), e.rail(3, 11_000 + late, [(1, 1)] * 10), last=90_000))
    assert capture.rail_blocks.collect()["sample_id"].to_list() == [0, place]
    counts = dict(capture.gaps.collect().select("reason", "count").rows())
    assert counts == (
        {} if place == 10 else {"blocks lost on the way to the host": 1} if place == 11 else {"came too late for the waveform": 10}
    )


@pytest.mark.parametrize(("tick", "placed"), [((1 << 60) - 1, True), (1 << 60, False)])
def test_no_grid_begins_after_36_years(tmp_path: Path, tick: int, placed: bool) -> None:
    capture = recorded(tmp_path / "c", e.rail(0, tick, [(1, 1)] * 3), e.status(1, tick))
    assert (capture.rail is not None) is placed


def test_a_restarted_rail_says_so(tmp_path: Path) -> None:
    blocks = [e.rail(2, 1000, [(1, 1)] * 10, flags=0x10), e.rail(3, 31_000, [(1, 1)] * 10, flags=0x10)]
    capture = recorded(tmp_path / "c", *run(*blocks, last=90_000))
    assert capture.gaps.collect().rows() == [("RAIL", 11_000, 30_000, 20, "the rig was not capturing")]


# -- tables ------------------------------------------------------------------------------------------------------------


def test_which_columns_of_the_commands_may_be_null() -> None:
    instants = {"doorbell_tick", "fetch_tick", "first_data_tick", "last_data_tick", "msix_tick", "cq_head_tick"}
    assert {field.name for field in schema.COMMANDS if field.nullable} == {*instants, "nsid"}


def test_commands_are_read_by_groups_of_rows_that_may_hold_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six groups of 10 commands, 1000 ticks apart; groups that cannot hold a match are not read."""
    monkeypatch.setattr(tables, "_ROW_GROUP", 10)
    with CaptureWriter(tmp_path / "c", journal=False) as writer:
        for group in range(6):
            writer.add_rows("commands", {"cqe_tick": [1000 * group + k for k in range(10)], "slba": [group] * 10})
    capture = open_capture(tmp_path / "c")
    assert pq.read_metadata(tmp_path / "c" / "commands.parquet").num_row_groups == 6

    def pieces(first: int, last: int, rows: int) -> list[list[int]]:
        return [piece["cqe_tick"].to_list() for piece in capture.command_pieces(first, last, ["cqe_tick"], rows)]

    group = [[1000 * g + k for k in range(10)] for g in range(6)]
    whole = [tick for part in group for tick in part]
    assert pieces(0, 10**6, 10) == group and pieces(0, 10**6, 9) == group and pieces(0, 10**6, 100) == [whole]
    assert pieces(0, 10**6, 20) == [group[0] + group[1], group[2] + group[3], group[4] + group[5]]
    assert pieces(1009, 3000, 100) == [group[1] + group[2] + group[3]] and pieces(1010, 2999, 100) == [group[2]]
    assert [capture.command_rows(*span) for span in ((1009, 3000), (1010, 1999), (0, 0), (-5, -1))] == [30, 0, 10, 0]


def test_rows_are_written_in_large_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_ROW_GROUP", 10)
    sink = tables.TableSink(tmp_path, "events")
    for n in (4, 5, 0, 1, 3, 25):
        sink.add(tables.rows_table("events", {"tick": list(range(n)), "type": [1] * n}))
    assert sink.rows == 38
    sink.close()
    about = pq.read_metadata(tmp_path / "events.parquet")
    assert [about.row_group(k).num_rows for k in range(about.num_row_groups)] == [10, 20, 8]
    told = {about.row_group(0).column(k).path_in_schema: about.row_group(0).column(k).statistics for k in range(about.num_columns)}
    assert [name for name, statistics in told.items() if statistics is not None] == ["tick"]


def test_columns_that_are_not_given(tmp_path: Path) -> None:
    made = tables.rows_table("commands", {"cqe_tick": [5]}).to_pylist()[0]
    assert made == {
        **dict.fromkeys(schema.COMMANDS.names, 0),
        "cqe_tick": 5,
        **dict.fromkeys([f.name for f in schema.COMMANDS if f.nullable]),
    }
    assert tables.rows_table("tlps", {"tick": [5]}).to_pylist() == [{"tick": 5, "direction": 0, "flags": 0, "bytes": b""}]
    assert tables.rows_table("gaps", {"count": [1]}).to_pylist()[0]["reason"] == ""


def test_a_path_is_a_name_and_no_pattern(tmp_path: Path) -> None:
    """A capture's folder may have any name: readers of tables take it literally."""
    capture = recorded(tmp_path / "a[b]*", *run(e.commands(2, 1000, [e.Command(1000)]), commands=1, last=9000))
    recorded(tmp_path / "ab", *run(e.commands(2, 1000, [e.Command(1000)] * 3), commands=3, last=9000))
    assert capture.commands.select(pl.len()).collect().item() == 1 and capture.state == "complete"


# -- hashes, checks, repairs -------------------------------------------------------------------------------------------


def test_progress_of_hashing_and_checking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashes, "_PIECE", 1000)
    path = tmp_path / "c"
    with CaptureWriter(path, keep_stream=True) as writer:
        writer.feed(b"".join(maker.stream(20)))
    sizes = {name: (path / name).stat().st_size for name in hashes.names(path)}
    assert list(sizes)[:2] == ["commands.parquet", "rail_blocks.parquet"] and list(sizes)[-2:] == ["rail.jls", "stream.wbs"]
    told: list[tuple[int, int]] = []
    check(path, lambda done, total: told.append((done, total)))
    assert told[-1] == (sum(sizes.values()),) * 2 and {total for _, total in told} == {sum(sizes.values())}
    assert [done for done, _ in told] == sorted(done for done, _ in told) and len(told) > sum(sizes.values()) // 1000
    assert hashes.of_file(path / "stream.wbs")["bytes"] == sizes["stream.wbs"]


def test_what_a_check_says_of_each_file(tmp_path: Path) -> None:
    recorded(tmp_path / "c", *run(e.rail(2, 1000, [(1, 1)] * 10), last=90_000))
    path = tmp_path / "c"
    (path / "workload").mkdir()
    (path / "workload" / "later.txt").write_text("x")
    (path / "tlps.parquet").unlink()
    size = (path / "events.parquet").stat().st_size
    os.truncate(path / "events.parquet", size - 1)
    found = {file.name: (file.health, file.detail) for file in check(path).files}
    assert found["tlps.parquet"] == (Health.missing, "") and found["rail.jls"] == (Health.whole, "")
    assert found["events.parquet"] == (Health.damaged, f"{size - 1} bytes of {size}")
    assert found["workload/later.txt"] == (Health.no_hash, "not among the hashes in meta.json")
    told = check(path).to_json()
    assert (told["state"], told["whole"], told["hashes"], told["unfinished"], told["set_aside"]) == ("complete", False, True, False, [])
    damaged = [file for file in told["files"] if "remedy" in file]
    assert [(file["file"], file["health"], file["remedy"]) for file in damaged] == [
        ("events.parquet", "damaged", "set_aside"),
        ("tlps.parquet", "missing", "set_aside"),
    ]


def test_an_older_waveform_is_read_to_its_end(tmp_path: Path) -> None:
    """Without hashes, all samples of a capture are read: a hole in its middle shows, though its length and ends are fine."""
    path = tmp_path / "c"
    with CaptureWriter(path, journal=False) as writer:
        for k in range(20):
            writer.add_rail(50_000 * 1000 * k, 1000, np.random.default_rng(k).normal(3.3, 1, 50_000), np.full(50_000, 1.0))
    meta = json.loads((path / NAME).read_text())
    (path / NAME).write_text(json.dumps({key: value for key, value in meta.items() if key not in ("files", "self")}))
    assert check(path).whole
    data = bytearray((path / "rail.jls").read_bytes())
    data[len(data) // 2 : len(data) // 2 + MB] = bytes(MB)
    (path / "rail.jls").write_bytes(data)
    assert [file.name for file in check(path).damaged] == ["rail.jls"]


def test_the_gap_of_a_lost_table_spans_what_is_left(tmp_path: Path) -> None:
    blocks = [e.commands(2, 5000, [e.Command(5000), e.Command(7000)]), e.rail(3, 2000, [(1, 1)] * 10, interval=3000)]
    recorded(tmp_path / "c", *run(*blocks, commands=2, first=3000, last=20_000))
    path = tmp_path / "c"
    for name in ("commands", "events"):
        os.truncate(path / f"{name}.parquet", 9)
    done = repairs.repair(check(path))
    assert [(name, remedy.name) for name, remedy in done] == [("commands.parquet", "set_aside"), ("events.parquet", "set_aside")]
    capture = open_capture(path)
    # the rail begins at 2000; the end of its last sample is a step after it: 2000 + 10 x 3000
    assert sorted(capture.gaps.collect().rows()) == [
        ("COMMANDS", 2000, 32_000, 2, "commands.parquet was damaged after the recording"),
        ("EVENTS", 2000, 32_000, -1, "events.parquet was damaged after the recording"),
        ("RAIL", 2000, 29_000, -1, "samples came at another rate than the rig states"),
    ]
    assert capture.meta["counts"]["commands"] == capture.meta["counts"]["events"] == 0 and capture.meta["counts"]["gaps"] == 3
    assert capture.meta["loss"]["gaps"] == {"COMMANDS": 1, "EVENTS": 1, "RAIL": 1} and capture.meta["loss"]["lossless"] is False
    assert "damaged after the recording, and lost: commands.parquet, events.parquet" in capture.meta["conditions"]["notes"]


def test_a_lost_table_of_blocks_takes_a_waveform_with_breaks_with_it(tmp_path: Path) -> None:
    reader = gapped(tmp_path / "c")
    samples = len(reader)
    os.truncate(tmp_path / "c" / "rail_blocks.parquet", 9)
    repairs.repair(check(tmp_path / "c"))
    capture = open_capture(tmp_path / "c")
    assert capture.rail is None and capture.meta["rail"]["samples"] == capture.meta["rail"]["breaks"] == 0
    lost = [row[3:] for row in capture.gaps.filter(kind="RAIL").collect().rows() if "damaged" in row[4]]
    assert lost == [(-1, "rail_blocks.parquet was damaged after the recording"), (samples, "rail.jls was damaged after the recording")]


def test_a_journal_in_pieces(tmp_path: Path) -> None:
    (tmp_path / "stream.wbs").write_bytes(bytes(range(100)))
    journal = JournalReader(tmp_path)
    pieces = list(journal.chunks([70, 30], size=25))
    assert b"".join(data for data, _ in pieces) == bytes(range(100))
    assert [(len(data), cut) for data, cut in pieces] == [(25, False), (5, False), (25, True), (15, False), (25, True), (5, False)]
    journal.close()
    journal = JournalReader(tmp_path)
    assert [(len(data), cut) for data, cut in journal.chunks([0, 100], size=1000)] == [(100, False)]
    journal.close()


def test_a_meta_that_is_saved_is_saved_whole(tmp_path: Path) -> None:
    recorded(tmp_path / "c", *run(last=9000))
    meta = open_capture(tmp_path / "c").meta
    save(tmp_path / "c", meta)
    assert not (tmp_path / "c" / f"{NAME}.tmp").exists() and open_capture(tmp_path / "c").meta["counts"] == meta["counts"]


# -- Identify ----------------------------------------------------------------------------------------------------------


def test_every_field_of_a_controller() -> None:
    data = bytearray(4096)
    struct.pack_into("<H", data, 0, 0x8086)
    data[4:24], data[24:64], data[64:72] = b"SER\x07IAL".ljust(20), b"A MODEL".ljust(40), b"FW\0\0    "
    struct.pack_into("<I", data, 80, 0x00010302)
    struct.pack_into("<HH", data, 266, 350, 360)
    struct.pack_into("<I", data, 272, 5)
    data[263] = 1
    bare = {"apst": False, "hctm": False, "nopspm": False, "volatile_write_cache": False}
    for offset, value, key in ((265, 1, "apst"), (322, 1, "hctm"), (96, 2, "nopspm"), (525, 1, "volatile_write_cache")):
        flagged = bytearray(data)
        flagged[offset] = value
        assert {name: parse_controller(bytes(flagged))[name] for name in bare} == {**bare, key: True}
        flagged[offset] = 0xFF ^ value
        assert {name: parse_controller(bytes(flagged))[name] for name in bare} == bare
    struct.pack_into("<H", data, 2048, 900)
    struct.pack_into("<H", data, 2080, 50)
    found = parse_controller(bytes(data))
    assert (found["vendor_id"], found["serial"], found["model"], found["firmware"]) == (0x8086, "SER\ufffdIAL", "A MODEL", "FW")
    assert (found["nvme_version"], found["warning_temperature_c"], found["critical_temperature_c"]) == ("1.3.2", 77, 87)
    assert found["hmb_preferred_bytes"] == 5 * 4096 and found["source"] == "identify"
    assert [(state["state"], state["max_power_w"]) for state in found["power_states"]] == [(0, 9.0), (1, 0.5)]
    data[4:72] = b"S" * 20 + b"M" * 40 + b"F" * 8  # to the last character of each
    full = parse_controller(bytes(data))
    assert (full["serial"], full["model"], full["firmware"]) == ("S" * 20, "M" * 40, "F" * 8)
    none = parse_controller(bytes(4096))
    assert (none["nvme_version"], none["warning_temperature_c"], none["critical_temperature_c"]) == (None, None, None)
    assert len(none["power_states"]) == 1 and none["power_states"][0]["max_power_w"] is None
    with pytest.raises(CaptureError, match="has 4095 bytes, expected 4096"):
        parse_controller(bytes(4095))


def test_every_field_of_a_power_state() -> None:
    data = bytearray(32)
    struct.pack_into("<H", data, 0, 1234)
    struct.pack_into("<II", data, 4, 5, 7_000_000)
    struct.pack_into("<HxxHxx", data, 16, 300, 400)
    wanted = {
        "state": 3,
        "max_power_w": 12.34,
        "non_operational": False,
        "entry_latency_s": 5e-6,
        "exit_latency_s": 7.0,
        "idle_power_w": None,
        "active_power_w": None,
        "active_power_workload": None,
    }
    assert parse_power_state(3, bytes(data)) == wanted
    data[3] = 1
    assert parse_power_state(3, bytes(data)) == {**wanted, "max_power_w": 0.1234}
    data[3] = 2
    assert parse_power_state(3, bytes(data)) == {**wanted, "non_operational": True}
    for scale, unit in ((1, 1e-4), (2, 1e-2)):
        data[18], data[22] = scale << 6, scale << 6 | 5
        found = parse_power_state(3, bytes(data))
        assert found["idle_power_w"] == pytest.approx(300 * unit) and found["active_power_w"] == pytest.approx(400 * unit)
        assert found["active_power_workload"] == 5
    data[18] = data[22] = 3 << 6
    assert parse_power_state(3, bytes(data))["active_power_w"] is None


def test_every_field_of_a_namespace() -> None:
    for form in range(64):
        data = bytearray(4096)
        struct.pack_into("<QQ", data, 0, 1000, 900)
        data[26] = form & 0xF | (form >> 4) << 5 | 0x10
        struct.pack_into("<HB", data, 128 + 4 * form, 8 + form, 12)
        assert parse_namespace(7, bytes(data)) == {
            "nsid": 7,
            "size_blocks": 1000,
            "capacity_blocks": 900,
            "lba_size_bytes": 4096,
            "metadata_bytes": 8 + form,
        }
    for exponent, size in ((8, None), (9, 512), (20, 1 << 20), (21, None)):
        data = bytearray(4096)
        data[130] = exponent
        assert parse_namespace(1, bytes(data))["lba_size_bytes"] == size
    assert identify.assumed(4096) == {"source": "--lba-size", "power_states": [], "namespaces": [{"nsid": 1, "lba_size_bytes": 4096}]}


def test_a_memory_write_is_read_by_its_header() -> None:
    narrow = bytes([0x40, 0, 0, 1, 0, 0, 0, 0, 0x12, 0x34, 0x56, 0x7B]) + b"DATA"
    assert memory_write(narrow) == (0x12345678, b"DATA") and memory_write(narrow + b"digest") == (0x12345678, b"DATA")
    assert memory_write(narrow[:-1]) is None and memory_write(narrow[:11]) is None
    wide = bytes([0x60, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 4]) + b"DATADATA"
    assert memory_write(wide) == (0x1_0000_0004, b"DATADATA")
    assert memory_write(bytes([0x40, 0, 0, 0]) + bytes(8) + bytes(4096)) == (0, bytes(4096))  # 0 is 1024 words
    assert memory_write(bytes([0x40, 0, 1, 4]) + bytes(8) + bytes(1040)) == (0, bytes(1040))
    assert memory_write(bytes([0x40, 0, 0, 0]) + bytes(8) + bytes(4095)) is None
    for kind in (0x00, 0x20, 0x42, 0x44, 0x4A, 0xC0):
        assert memory_write(bytes([kind]) + narrow[1:]) is None


def test_whole_numbers_of_any_width_are_taken_and_other_types_are_not(tmp_path: Path) -> None:
    blocks = run(e.rail(2, 1000, [(1, 1)] * 10), e.rail(4, 90_000, [(1, 1)] * 10), last=200_000)
    recorded(tmp_path / "c", *blocks)
    about = json.loads((tmp_path / "c" / NAME).read_text())
    path = tmp_path / "c" / "gaps.parquet"
    rows = pl.read_parquet(path)
    assert rows.height

    def read(*changed: pl.Expr) -> pl.DataFrame:
        rows.with_columns(*changed).write_parquet(path)
        save(tmp_path / "c", {**about, "files": {}})
        return open_capture(tmp_path / "c").gaps.collect()

    assert read(pl.col("count").cast(pl.Int16))["count"].to_list() == rows["count"].to_list()
    with pytest.raises(CaptureError, match="holds Binary in the column reason; it was not written by wattbell"):
        read(pl.col("reason").cast(pl.Binary))
    with pytest.raises(CaptureError, match="holds Float64 in the column count"):
        read(pl.col("count").cast(pl.Float64))
