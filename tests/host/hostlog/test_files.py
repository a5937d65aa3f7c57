"""Logs that somebody else made: what real programs wrote is read right, and anything else gets one error with its line."""

from __future__ import annotations

import random
import re
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattbell.capture.hostcommands import HostCommands
from wattbell.capture.schema import COMMANDS, SeenBy
from wattbell.errors import CaptureError, UsageError, WattbellError
from wattbell.hostlog.files import detect, read_log

from tests.host.fuzzing import examples
from tests.host.hostlog.recorded import recorded, text, unpacked

FILES = {"whole.txt": "trace", "trace-cmd.txt": "trace", "blkparse.txt": "blkparse", "fio_lat.1.log": "fio-log", "fio.iolog": "iolog"}


def table(commands: HostCommands) -> pl.DataFrame:
    found = pl.from_arrow(commands.table)
    assert isinstance(found, pl.DataFrame)
    return found


def made(folder: Path, name: str, *lines: str) -> Path:
    path = folder / name
    path.write_text("".join(line + "\n" for line in lines))
    return path


@pytest.mark.parametrize(("name", "kind"), FILES.items())
def test_a_format_is_told_by_its_content(tmp_path: Path, name: str, kind: str) -> None:
    unpacked(tmp_path, name)
    assert detect((tmp_path / name).rename(tmp_path / "log")).name == kind


def test_the_kernels_text(tmp_path: Path) -> None:
    found = read_log(unpacked(tmp_path, "whole.txt"))
    rows = table(found)
    # what fio and nvme-cli were told to do
    io = rows.filter(pl.col("qid") > 0)
    assert dict(io.group_by("opcode").len().rows()) == {0: 4, 1: 117, 2: 499, 8: 1, 9: 16}
    assert io.filter(pl.col("opcode") == 8).select("slba", "blocks").rows() == [(100, 8)]
    assert [value for _, value in found.markers] == [0x101, 0x102, 0x103]
    refused = rows.filter((pl.col("qid") == 0) & (pl.col("opcode") == 6) & (pl.col("status") > 0))
    assert refused["status"].to_list() == [0x4002]
    assert found.lost == [] and found.notes == [] and found.source == SeenBy.TRACEPOINT
    assert rows["instant_u_ns"].unique().to_list() == [500]
    settings = rows.filter((pl.col("qid") == 0) & (pl.col("opcode") == 9)).select("slba", "blocks").rows()
    assert settings == [(2, 1), (2, 0)]


def test_the_same_ios_in_fios_own_log_are_no_shorter(tmp_path: Path) -> None:
    """fio's first job: 400 reads; its clat log and lat log are of the same I/Os."""
    reads = (pl.col("opcode") == 2) & (pl.col("blocks") == 8) & (pl.col("qid") > 0)
    kernel = table(read_log(unpacked(tmp_path, "whole.txt"))).filter(reads)
    lat, clat = (read_log(unpacked(tmp_path, f"fio_{kind}.1.log")) for kind in ("lat", "clat"))
    fio = table(lat)
    assert sorted(fio["slba"].to_list()) == sorted(kernel["slba"].to_list()) and fio["blocks"].unique().to_list() == [8]
    both = fio.with_columns(took=pl.col("cqe_tick") - pl.col("doorbell_tick")).join(
        kernel.with_columns(took=pl.col("cqe_tick") - pl.col("doorbell_tick")), on="slba", suffix="_kernel"
    )
    unique = both.filter(pl.col("slba").is_unique())
    assert len(unique) > 300 and (unique["took"] >= unique["took_kernel"] - 1000).all()
    # the job was told to log the clock that the kernel's trace ran on
    assert ((unique["cqe_tick"] - unique["cqe_tick_kernel"]) > -1_000_000).all()
    assert any("_clat" in note for note in clat.notes) and lat.source == SeenBy.FIO_LOG


def test_what_overran_is_lost(tmp_path: Path) -> None:
    found = read_log(unpacked(tmp_path, "overrun.txt"))
    (gap,) = found.lost
    written = re.search(r"entries-written: (\d+)/(\d+)", text("overrun.txt"))
    assert written and gap.count * 2 >= int(written[2]) - int(written[1]) - 4
    assert [n for n in found.notes if "NO_SQE" in n]


def test_lost_events_within_a_text_are_a_gap(tmp_path: Path) -> None:
    lines = [line for line in text("whole.txt").splitlines() if ": nvme_" in line]
    for said in ("CPU:1 [LOST 44 EVENTS]", "CPU:1 [44 EVENTS DROPPED]"):
        found = read_log(made(tmp_path, "t.txt", *lines[:100], said, *lines[101:]))
        (gap,) = found.lost
        assert gap.count in (21, 22)


def test_trace_cmds_text(tmp_path: Path) -> None:
    found = read_log(unpacked(tmp_path, "trace-cmd.txt"))
    rows = table(found)
    assert len(rows) == len(text("trace-cmd.txt").splitlines()) // 2
    assert [value for _, value in found.markers] == [0x101] and rows["instant_u_ns"].unique().to_list() == [1]
    assert rows.filter(pl.col("qid") == 0)["status"].to_list()[0] == 0x4002
    assert rows.filter(pl.col("qid") == 2)["slba"].to_list()[0] == 0x15040
    assert rows.filter(pl.col("opcode").is_in([1, 2]) & (pl.col("qid") > 0))["blocks"].unique().to_list() == [8]


def test_blkparse(tmp_path: Path) -> None:
    found = read_log(unpacked(tmp_path, "blkparse.txt"))
    rows = table(found)
    # blkparse's own summary
    assert dict(rows.group_by("opcode").len().rows()) == {2: 23, 1: 27}
    assert "Reads Completed:       23" in text("blkparse.txt") and "Writes Completed:       27" in text("blkparse.txt")
    assert rows["slba"].to_list()[0] in (128056, 113496, 86080, 67672)
    assert (rows["cqe_tick"] > rows["doorbell_tick"]).all() and rows["blocks"].unique().to_list() == [8]
    assert read_log(tmp_path / "blkparse.txt", 4096).table["blocks"].unique().to_pylist() == [1]


def test_an_iolog_has_no_latency(tmp_path: Path) -> None:
    found = read_log(unpacked(tmp_path, "fio.iolog"))
    rows = table(found)
    assert len(rows) == text("fio.iolog").count(" read ") + text("fio.iolog").count(" write ") == 200
    assert rows["doorbell_tick"].null_count() == 200 and rows["instant_u_ns"].unique().to_list() == [(1 << 32) - 1]
    assert rows["blocks"].unique().to_list() == [32]


def test_fio_without_offsets_and_with_priorities(tmp_path: Path) -> None:
    four = read_log(made(tmp_path, "a_lat.1.log", "1, 80000, 0, 4096", "2, 70000, 1, 8192", "3, 9, 2, 4096"))
    assert table(four).select("opcode", "blocks", "slba").rows() == [(2, 8, 0), (1, 16, 0), (9, 8, 0)]
    assert any("no offsets" in note for note in four.notes)
    five = read_log(made(tmp_path, "b_lat.1.log", "1, 80000, 0, 4096, 0x4001", "2, 70000, 1, 8192, 0x0000"))
    assert table(five)["slba"].to_list() == [0, 0]
    offset = read_log(made(tmp_path, "c_lat.1.log", "1, 80000, 0, 4096, 8192", "2, 70000, 1, 8192, 0"))
    assert table(offset).select("slba", "cqe_tick", "doorbell_tick").rows() == [(16, 2_000_000, 1_920_000), (0, 3_000_000, 2_930_000)]


BAD = [
    ("", "", "is empty"),
    ("a.txt", "hello\nworld\n", "line 1: no log of commands that is known"),
    ("a_lat.log", "1, 2, 0, 4096\n1, 2, 0\n", "line 2: 3 fields of 4"),
    ("a_lat.log", "1, 2, 0, 4096\n1, -2, 0, 4096\n", "line 2: -2 is not a whole number"),
    ("a_lat.log", "1, 2, 0, 0\n", "line 1: a size of 0: fio averaged"),
    ("a_bw.1.log", "1, 2, 0, 4096\n", "fio's log of bw"),
    ("t.txt", "# tracer: nop\n#\n", "there is no event nvme_setup_cmd"),
    ("t.txt", "# tracer: nop\nwhat is this\nand this\n", "line 2: no line of a trace: what is this"),
    ("b.txt", "259,0 0 1 0.000000001 229 Q R 128056 + 8 [fio]\n", "no request is completed"),
    ("b.txt", "259,0 0 1 0.000000001 229 D R 8 + 8 [fio]\nnothing of the kind\n", "line 2: no line of blkparse: nothing of the kind"),
    ("i.log", "fio version 3 iolog\n1 f read x 4096\n", ":2: `x` is not a whole number"),
    ("t.txt", "\xff\xfe", "UTF-16"),
    ("t.txt", "# tracer: nop\n\xff\n", "line 2: byte 0xff is not UTF-8"),
    ("t.txt", "# tracer: nop\na\0b\n", "line 2: a byte of zeros"),
    ("t.dat", "\x17\x08Dtracing\0", "trace-cmd report -t"),
    ("t.gz", "\x1f\x8b\x08", "unpack it first"),
    ("t.blktrace.0", "\x07tae\0\0", "blkparse -i"),
]


def took_us(log: HostCommands) -> list[float]:
    """Latencies in us."""
    frame = pl.DataFrame(pl.from_arrow(log.table)).select((pl.col("cqe_tick") - pl.col("doorbell_tick")) / 1000)
    return frame.to_series().to_list()


def test_a_log_of_fio_2_is_in_microseconds(tmp_path: Path) -> None:
    """At depth 1, I/Os of 80 us end one behind another: 25 in the first 2 ms."""
    log = read_log(made(tmp_path, "a_lat.1.log", *(f"{80 * k // 1000}, 80, 0, 4096" for k in range(1, 26))))
    assert took_us(log) == [80.0] * 25 and any("read as us" in note for note in log.notes)
    epoch = read_log(made(tmp_path, "b_lat.1.log", *(f"{1_700_000_000_000 + k}, 120, 1, 4096, {4096 * k}" for k in range(9))))
    assert took_us(epoch) == [120.0] * 9 and any("read as us" in note for note in epoch.notes)


@pytest.mark.parametrize("tail", ["", ", 8192"], ids=["4 fields", "5 fields"])
def test_a_log_of_fio_3_is_in_nanoseconds(tmp_path: Path, tail: str) -> None:
    """I/Os of 9 us that end in the first 2 ms cannot have taken 9 ms."""
    log = read_log(made(tmp_path, "a_lat.1.log", *(f"{k // 100}, 9{k:03}, 0, 4096{tail}" for k in range(200))))
    assert took_us(log) == pytest.approx([9 + k / 1000 for k in range(200)]) and not any("read as us" in note for note in log.notes)


def test_a_log_that_may_be_in_either_unit_is_refused(tmp_path: Path) -> None:
    """32 I/Os of 5 ms in flight, logged in us; or I/Os of 5 us with pauses, logged in ns."""
    lines = [f"{5 + 160 * k // 1000}, {5000 + k}, 1, 131072" for k in range(200)]
    with pytest.raises(CaptureError, match=r"its latencies, 5100 in the middle, may be ns, or us as fio before 3.0.*log_offset=1"):
        read_log(made(tmp_path, "a_lat.1.log", *lines))
    six = read_log(made(tmp_path, "b_lat.1.log", *(f"{line}, 0, 0" for line in lines)))
    assert took_us(six)[:2] == [5.0, 5.001]


@pytest.mark.parametrize(("name", "content", "says"), BAD)
def test_what_is_no_log_gets_one_error(tmp_path: Path, name: str, content: str, says: str) -> None:
    path = tmp_path / (name or "e.log")
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(CaptureError, match=re.escape(says)) as error:
        read_log(path)
    assert path.name in str(error.value) and "\n" not in str(error.value)


def test_several_drives_in_one_text_are_refused(tmp_path: Path) -> None:
    lines = [line for line in text("whole.txt").splitlines() if ": nvme_" in line]
    with pytest.raises(UsageError, match="commands of nvme0 and nvme3; filter it"):
        read_log(made(tmp_path, "t.txt", *lines[:6], *(line.replace(": nvme0:", ": nvme3:") for line in lines[6:12])))
    with pytest.raises(UsageError, match="devices 259,0 and 8,0"):
        two = [f"{device} 0 1 0.{ns:09d} 1 {action} R 8 + 8 [f]" for device in ("259,0", "8,0") for ns, action in ((1, "D"), (9, "C"))]
        read_log(made(tmp_path, "b.txt", *two))


def test_a_cut_last_line_is_told_and_the_rest_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    whole = "\n".join(line for line in text("whole.txt").splitlines() if ": nvme_" in line)
    path.write_text(whole[:-40])
    found = read_log(path)
    assert len(found) == 644 and any("the last one, is cut" in note for note in found.notes)


@examples(150)
@given(st.sampled_from(sorted(FILES)), st.integers(0, 2**32), st.integers(1, 6))
def test_any_damage_gives_commands_or_one_error(tmp_path: Path, name: str, seed: int, changes: int) -> None:
    draw = random.Random(seed)
    lines = recorded(name).split(b"\n")
    start = draw.randrange(max(1, len(lines) - 40))
    lines = lines[:3] + lines[start : start + 40]
    raw = bytearray(b"\n".join(lines))
    for _ in range(changes):
        at = draw.randrange(len(raw))
        what = draw.choice([b"", b"\n", b"-", b"9" * 25, b",", bytes([draw.randrange(256)]), b"0x", "é".encode()])
        raw[at : at + draw.choice((0, 1, 5))] = what
    path = tmp_path / name
    path.write_bytes(bytes(raw[: draw.randrange(1, len(raw) + 1)] if draw.random() < 0.3 else raw))
    try:
        found = read_log(path)
    except WattbellError as error:
        assert name in str(error) and "\n" not in str(error)
        return
    assert found.table.schema.equals(COMMANDS) and len(found)
    assert (table(found)["cqe_tick"].diff().drop_nulls() >= 0).all()
