"""Any text as a trace: entries that fio and the model can take, or an error with the file's name."""

from __future__ import annotations

import json
import random
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattbell.errors import SimError, UsageError
from wattbell.hostlog.iolog import read_iolog, write_iolog
from wattbell.suites.traces.blkparse import read_blkparse
from wattbell.suites.traces.statistics import statistics
from wattbell.virtual.bustrace import read_header

from tests.host.fuzzing import examples

IOLOG_3 = ["fio version 3 iolog", "0 d add", "0 d open", "5 d write 4096 8192", "9 d read 0 512", "9 d trim 0 4096", "12 d sync 0 0"]
IOLOG_2 = ["fio version 2 iolog", "d add", "d open", "d write 4096 8192", "d wait 100 0", "d read 0 512", "d datasync 0 0", "d close"]
BLKPARSE = [
    "  8,0    3        1     0.000072500   697  Q   R 223490 + 8 [fio]",
    "  8,0    3        2     0.000082500   697  D   R 223490 + 8 [fio]",
    "  8,0    1        3     0.100000000   697  D  WS 0 + 256 [fio]",
    "  8,0    1        4     0.200000000   697  D FWFSM 90 + 8 [fio]",
    "  8,0    1        5     0.300000000   697  D  FN [fio]",
    "CPU0 (8,0):",
    " Reads Queued:           1,        4KiB",
]
NUMBERS = ["0", "-1", "1e5", "4611686018427387903", "99999999999999999999", "\u0663", "nan"]
WORDS = [*NUMBERS, "read", "wait", "sync", "D", "R", "+", "8,1", "", "\x00"]


def mixed(lines: list[str], seed: int, changes: int) -> str:
    draw = random.Random(seed)
    words = [line.split(" ") for line in lines * draw.choice((1, 1, 3))]
    for _ in range(changes):
        line = draw.choice(words)
        at = draw.randrange(len(line) + 1)
        line[at : at + draw.choice((0, 1))] = [draw.choice(WORDS) if draw.random() < 0.7 else chr(draw.randrange(0xD800))]
    return "\n".join(" ".join(line) for line in words)


def believable(frame: pl.DataFrame) -> None:
    assert len(frame) and dict(frame.schema) == {"t_us": pl.Int64, "action": pl.String, "offset": pl.Int64, "length": pl.Int64}
    assert frame["t_us"].min() == 0 and frame.null_count().sum_horizontal().item() == 0
    assert (frame["offset"] >= 0).all() and (frame["length"] >= 0).all()
    found = statistics(frame)
    assert found["read_bytes"] >= 0 and found["write_bytes"] >= 0
    json.dumps(found, allow_nan=False)


@examples(500)
@given(seed=st.integers(0, 2**32), changes=st.integers(0, 4), version=st.sampled_from([IOLOG_2, IOLOG_3]), free=st.text(max_size=20))
def test_any_iolog(tmp_path: Path, seed: int, changes: int, version: list[str], free: str) -> None:
    path = tmp_path / "t.iolog"
    path.write_bytes((mixed(version, seed, changes) + free).encode("utf-8", "surrogatepass"))
    try:
        frame = read_iolog(path)
    except UsageError as error:
        assert "t.iolog" in str(error)
        return
    believable(frame)
    again = tmp_path / "again.iolog"
    write_iolog(again, frame)
    assert read_iolog(again).equals(frame.with_columns(pl.col("t_us") - pl.col("t_us").min()))


@examples(500)
@given(seed=st.integers(0, 2**32), changes=st.integers(0, 4), free=st.binary(max_size=20))
def test_any_blkparse(tmp_path: Path, seed: int, changes: int, free: bytes) -> None:
    path = tmp_path / "t.txt"
    path.write_bytes(mixed(BLKPARSE, seed, changes).encode() + free)
    try:
        frame = read_blkparse(path)
    except UsageError as error:
        assert "t.txt" in str(error)
        return
    believable(frame)


def test_waits_that_add_up_to_more_than_fits_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.iolog"
    path.write_text("fio version 2 iolog\nd add\n" + "d wait 4000000000000000000 0\n" * 3 + "d read 0 512\n")
    with pytest.raises(UsageError, match=r"t\.iolog:4: the waits"):
        read_iolog(path)


HEADER = b'{"profile": "p", "timing": "model", "source": "s", "notes": ["n"], "phases": [{"phase": 1, "name": "x"}]}'


@examples(500)
@given(data=st.binary(max_size=20), cut=st.integers(0, 120), drop=st.integers(0, 20), length=st.none() | st.integers(0, 2**32 - 1))
def test_any_header_of_a_bus_trace(tmp_path: Path, data: bytes, cut: int, drop: int, length: int | None) -> None:
    header = HEADER[:cut] + data + HEADER[cut + drop :]
    path = tmp_path / "t.wbt"
    path.write_bytes(b"WBBT\x01\0\0\0" + (len(header) if length is None else length).to_bytes(4, "little") + header)
    try:
        found = read_header(path)
    except SimError as error:
        assert "t.wbt" in str(error)
        return
    assert all(isinstance(note, str) for note in found.get("notes", []))
    assert all(isinstance(phase, dict) for phase in found.get("phases") or [])
