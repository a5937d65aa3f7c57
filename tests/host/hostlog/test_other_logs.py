"""Logs without tracepoints: requests of the block layer, blktrace's records, and fio's logs as they appear."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

import numpy as np
import pytest
from wattbell.capture.hostcommands import HostCommands
from wattbell.capture.schema import SeenBy
from wattbell.errors import CaptureError, DriveError
from wattbell.hostlog.blktrace import BlktraceLog, parse, to_raw
from wattbell.hostlog.block import Request, RequestPairing
from wattbell.hostlog.files import read_log
from wattbell.hostlog.fiolog import FioLog
from wattbell.hostlog.target import Target

from tests.host.hostlog.recorded import recorded

DRIVE = Target("/dev/nvme0n1", 0, 1, ("nvme0n1",), 4096)


def rows(pairing: RequestPairing, *events: Request) -> list[tuple[int, int, int, int, int, int]]:
    table = pairing.add(events).table
    names = ("doorbell_tick", "cqe_tick", "opcode", "slba", "blocks", "status")
    return list(zip(*(table[name].to_pylist() for name in names)))


def test_a_completion_is_of_the_oldest_request_of_its_place() -> None:
    pairing = RequestPairing()
    found = rows(
        pairing,
        Request(1, "C", "read", 8, 8),
        Request(2, "D", "read", 8, 8),
        Request(3, "D", "write", 8, 8),
        Request(4, "D", "read", 8, 16),
        Request(5, "D", "sync", 0, 0),
        Request(6, "C", "read", 8, 8),
        Request(7, "C", "read", 8, 16),
        Request(8, "C", "write", 8, 8, 5),
        Request(9, "C", "sync", 77, 0),
    )
    assert found == [(2, 6, 2, 8, 8, 0), (4, 7, 2, 8, 16, 0), (3, 8, 1, 8, 8, 6), (5, 9, 0, 0, 0, 0)]
    assert pairing.unstarted == 1 and pairing.failed == 1 and pairing.in_flight == 0 and len(pairing.notes()) == 3


def test_a_request_that_is_put_back_counts_from_its_second_issue() -> None:
    pairing = RequestPairing(4096)
    found = rows(pairing, *(Request(ns, action, "write", 80, 16) for ns, action in ((1, "D"), (2, "R"), (5, "D"), (9, "C"))))
    assert found == [(5, 9, 1, 10, 2, 0)] and pairing.in_flight == 0


def test_a_request_that_is_completed_in_parts_ends_with_its_last() -> None:
    """The second part begins behind the first. A later request of the same place is another. An error of a part is the request's."""
    pairing = RequestPairing(4096)
    found = rows(
        pairing,
        Request(1, "D", "read", 80, 24),
        Request(2, "D", "write", 96, 8),
        Request(10, "C", "read", 80, 16),
        Request(11, "D", "read", 80, 8),
        Request(12, "C", "write", 96, 8),
        Request(13, "C", "read", 96, 8),
        Request(20, "C", "read", 80, 8),
        Request(30, "D", "read", 8, 16),
        Request(31, "C", "read", 8, 8, 5),
        Request(32, "C", "read", 16, 8),
    )
    assert found == [(2, 12, 1, 12, 1, 0), (1, 13, 2, 10, 3, 0), (11, 20, 2, 10, 1, 0), (30, 32, 2, 1, 2, 6)]
    assert pairing.failed == 1 and pairing.in_flight == 0 and "2 completions are of a part of a request" in " ".join(pairing.notes())


def test_blkparses_text_with_lines_of_others(tmp_path: Path) -> None:
    """Reads of 100 us; a shell's prompt, a message, an event that is cut; what blktrace says that it dropped, in both of its words."""
    events = [f"259,0 0 {n} 0.{n:03}{ns:06} 1 {action} R {8 * n} + 8 [f]" for n in (1, 2, 3) for ns, action in ((0, "D"), (100_000, "C"))]
    path = tmp_path / "b.txt"

    def read(*lines: str) -> HostCommands:
        path.write_text("".join(f"{line}\n" for line in lines), encoding="latin-1")
        return read_log(path)

    whole = read(*events)
    assert len(whole) == 3 and whole.lost == [] and len(whole.notes) == 1
    found = read(
        "$ blkparse \xe9", *events[:2], "259,0 0 9 0.001500000 1 m N cfq", "259,0 0 2 0.002", *events[2:], "CPU0 (259,0):", " Reads"
    )
    assert found.table.equals(whole.table) and [(gap.first_tick, gap.count) for gap in found.lost] == [(1_100_000, 1)]
    assert found.notes[1:] == ["2 lines are not blkparse's and were skipped; the first is line 1: $ blkparse \ufffd"]
    for said, count in (("You have 7 dropped events", 4), ("Skips: 2 forward (9 -   0.1%)", 5)):
        (gap,) = read(*events, "CPU0 (259,0):", said).lost
        assert (gap.first_tick, gap.last_tick, gap.count) == (1_000_000, 3_100_000, count)
    assert read(*events, "Total (259,0):", "Skips: 0 forward (0 -   0.0%)").lost == []


def record(ns: int, action: int, category: int, sector: int, size: int, error: int = 0, data: bytes = b"") -> bytes:
    """``struct blk_io_trace``: the action in the lower half, its categories in the upper."""
    return struct.pack("<IIQQIIIIIHH", 0x65617407, 1, ns, sector, size, category << 16 | action, 7, 259 << 20, 0, error, len(data)) + data


READ, WRITE, FLUSH, FS, PC, NOTIFY, DISCARD = 1, 2, 4, 1 << 8, 1 << 9, 1 << 10, 1 << 13


def test_blktraces_records() -> None:
    raw = b"".join(
        [
            record(1, 1, NOTIFY, 0, 0, data=b"fio\0"),
            record(2, 1, READ | FS, 8, 4096),  # queued: not wanted
            record(3, 7, READ | FS, 8, 4096),
            record(4, 7, WRITE | FS, 16, 512),
            record(5, 7, WRITE | DISCARD | FS, 32, 65536),
            record(6, 7, FLUSH | WRITE, 0, 0),
            record(7, 7, READ | PC, 0, 4096, data=b"\2" * 16),
            record(8, 8, READ | PC, 0, 4096),
            record(9, 8, READ | FS, 8, 4096, error=5),
            record(10, 6, WRITE | FS, 16, 512),
        ]
    )
    found, used, passed = parse(raw + record(11, 8, READ, 1, 512)[:20])
    assert used == len(raw) and passed == 1
    assert found == [
        Request(3, "D", "read", 8, 8),
        Request(4, "D", "write", 16, 1),
        Request(5, "D", "trim", 32, 128),
        Request(6, "D", "sync", 0, 0),
        Request(9, "C", "read", 8, 8, 5),
        Request(10, "R", "write", 16, 1),
    ]
    with pytest.raises(CaptureError, match="magic"):
        parse(b"x" * 48)


def test_times_of_a_slewed_clock_follow_it() -> None:
    """CLOCK_MONOTONIC runs 400 ppm fast for the first second and 100 ppm slow after it."""
    clock = np.array([(5_000_000_000, 9_000_000_000), (6_000_400_000, 10_000_000_000), (7_000_300_000, 11_000_000_000)], np.int64)
    assert to_raw(np.array([5_500_200_000, 6_500_350_000]), clock).tolist() == [9_500_000_000, 10_500_000_000]


def test_blktrace_is_refused_where_it_cannot_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(DriveError, match="apt install blktrace"):
        BlktraceLog(DRIVE).start()
    with pytest.raises(DriveError, match="follows a namespace"):
        BlktraceLog(Target("/dev/nvme0", 0, None, ())).start()


def test_blktrace_that_fails_is_told_with_its_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "blktrace"
    program.write_text("#!/bin/sh\necho 'BLKTRACESETUP(2) /dev/nvme0n1 failed: 25' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(DriveError, match=r"BLKTRACESETUP\(2\) .* failed: 25"):
        BlktraceLog(DRIVE).start()


def test_fios_logs_are_taken_once_when_they_are_whole(tmp_path: Path) -> None:
    log = FioLog(DRIVE, tmp_path / "logs")
    with log:
        first, second = log.fio_options(), log.fio_options()
        assert first[1:] == second[1:] == ("log_offset=1", "log_alternate_epoch=1", "log_alternate_epoch_clock_id=4")
        names = [Path(options[0].removeprefix("write_lat_log=")) for options in (first, second)]
        assert names[0] != names[1]
        one, two = (Path(f"{name}_lat.1.log") for name in names)
        for path in (one, two):
            path.write_bytes(recorded("fio_lat.1.log"))
            Path(f"{path}".replace("_lat.1", "_clat.1")).write_bytes(recorded("fio_clat.1.log"))
        os.utime(one, (time.time() - 60,) * 2)
        found = log.take()
        # the other may still be written to
        assert len(found) == 400 and found.source == SeenBy.FIO_LOG and found.clock == "mono_raw"
        assert found.table["blocks"].unique().to_pylist() == [1]
        assert len(log.stop()) == 400 and len(log.stop()) == 0
    assert log.about["notes"]
