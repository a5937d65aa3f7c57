"""Logs that end within a line, or hold lines without a figure: each is left out and told, never misread.

Written by hand: reads of 4 KiB, 80 us each, one a millisecond, one behind the other.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from wattbell.capture.hostcommands import HostCommands
from wattbell.errors import CaptureError
from wattbell.hostlog.files import read_log

from .test_trace_text import SETUP, read, rows, trace

FIO = "".join(f"{n}, 80000, 0, 4096, {4096 * n}\n" for n in range(2, 5))
BLK = "".join(f"259,0 3 1 0.00{n}000000 697 D R {8 * n} + 8 [fio]\n259,0 3 2 0.00{n}080000 697 C R {8 * n} + 8 [0]\n" for n in range(2, 5))
IOLOG = "fio version 3 iolog\n0 d add\n0 d open\n" + "".join(f"{n} d read {4096 * n} 4096\n" for n in range(2, 5))


def found(folder: Path, text: str, name: str) -> HostCommands:
    (folder / name).write_text(text)
    return read_log(folder / name)


@pytest.mark.parametrize(("text", "name"), [(FIO, "run_lat.1.log"), (BLK, "blk.txt")])
@pytest.mark.parametrize("cut", [1, 3, 5])
def test_a_last_line_without_an_end_is_left_out(tmp_path: Path, text: str, name: str, cut: int) -> None:
    """``4, 80000, 0, 4096, 16384`` without its last letters is an address that the host never read."""
    assert [row[2] for row in rows(found(tmp_path, text, name))] == [16, 24, 32]
    log = found(tmp_path, text[:-cut], name)
    assert [row[2] for row in rows(log)] == [16, 24]
    assert any("the last one, has no end and is left out" in note for note in log.notes)


@pytest.mark.parametrize("cut", [1, 2, 4])
def test_an_iolog_without_an_end_is_refused(tmp_path: Path, cut: int) -> None:
    """It is replayed, too, where a note would come late."""
    assert len(found(tmp_path, IOLOG, "x.iolog")) == 3
    with pytest.raises(CaptureError, match="x.iolog:6: the last line has no end"):
        found(tmp_path, IOLOG[:-cut], "x.iolog")


def test_an_iolog_of_two_drives_is_refused(tmp_path: Path) -> None:
    text = IOLOG.replace(" d ", " /dev/nvme0n1 ") + "9 /dev/sda read 0 4096\n"
    with pytest.raises(CaptureError, match="x.iolog:7: I/Os of /dev/sda among those of /dev/nvme0n1.*grep -v '/dev/sda ' "):
        found(tmp_path, text, "x.iolog")


def test_a_completion_that_is_cut_in_its_status_is_no_success(tmp_path: Path) -> None:
    """``status=0x4281`` loses ``281``: 4h is another status."""
    lines = trace()
    (tmp_path / "trace.txt").write_text("\n".join([*lines[:-1], lines[-1].replace("status=0x0", "status=0x4")]))
    log = read_log(tmp_path / "trace.txt")
    assert rows(log) == [(100, 2, 0, 8), (200, 2, 8, 8)]
    assert any("line 6, the last one, is cut" in note for note in log.notes)


def test_completions_that_cannot_be_read_are_not_asked_for_again(tmp_path: Path) -> None:
    with pytest.raises(CaptureError) as error:
        read(tmp_path, *trace(done="nvme0: disk=nvme0n1, qid=1, cmdid={cid}, status=Success"))
    assert "3 events cannot be read, the first in line 2" in str(error.value) and "record nvme_complete_rq" not in str(error.value)


def test_zone_appends_are_told_to_be_in_no_rate(tmp_path: Path) -> None:
    log = read(tmp_path, *trace(setup=SETUP.replace("nvme_cmd_read", "nvme_cmd_zone_append")))
    assert any("3 Zone Append commands are not in the bytes" in note for note in log.notes)
    assert not any("Zone Append" in note for note in read(tmp_path, *trace()).notes)


def test_a_line_of_zeros_is_no_averaged_log(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="line 4: a line of zeros: fio lost entries"):
        found(tmp_path, FIO + "0, 0, 0, 0, 0\n", "run_lat.1.log")


def test_perfs_own_file_is_called_so(tmp_path: Path) -> None:
    (tmp_path / "perf.data").write_bytes(b"PERFILE2" + bytes(96))
    with pytest.raises(CaptureError, match="perf script --ns -i "):
        read_log(tmp_path / "perf.data")
