"""Generated traces against the published table; parsers against fio's own log, and against arbitrary input."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wattbell.errors import UsageError
from wattbell.hostlog.iolog import SCHEMA, parse_iolog, read_iolog, write_iolog
from wattbell.suites.traces.blkparse import parse_blkparse, read_blkparse
from wattbell.suites.traces.generate import footprint_bytes, make_trace
from wattbell.suites.traces.statistics import statistics

from tests import needs

K = 1024
# As published: reads, writes, GB read, GB written, sizes (0: below 4 KiB), sequential share.
PUBLISHED = {
    "destroyer": (38.83e6, 10.98e6, 1583.02, 875.62, {}, 0.67),
    "heavy": (
        2.17e6,
        1.78e6,
        48.63,
        106.32,
        {0: 0.078, 4: 0.292, 8: 0.035, 16: 0.103, 32: 0.108, 64: 0.041, 128: 0.217},
        0.43,
    ),
    "light": (
        372_630,
        459_709,
        17.97,
        23.25,
        {0: 0.062, 4: 0.276, 8: 0.024, 16: 0.08, 32: 0.065, 64: 0.048, 128: 0.264},
        0.70,
    ),
}
LIGHT_DEPTHS = ((1, 1, 73.4), (2, 2, 16.8), (3, 3, 2.6), (4, 5, 2.3), (6, 10, 3.1), (11, 20, 1.5), (21, 32, 0.2))
MEAN_DEPTHS = {"destroyer": 5.5, "heavy": 4.6}
SCALE = {"destroyer": 0.0005, "heavy": 0.01, "light": 0.04}


@pytest.fixture(scope="module", params=sorted(PUBLISHED))
def trace(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    path = tmp_path_factory.mktemp("traces") / "t.iolog"
    make_trace(request.param, path, SCALE[request.param], seed=3)
    return request.param, path


def lines(path: Path) -> list[tuple[int, str, int, int]]:
    """The I/Os of a log, parsed here without the package."""
    out = []
    for line in path.read_text().splitlines()[1:]:
        fields = line.split()
        if len(fields) == 5:
            out.append((int(fields[0]), fields[2], int(fields[3]), int(fields[4])))
    return out


def test_a_generated_trace_has_the_published_statistics(trace: tuple[str, Path]) -> None:
    """Counts to rounding, bytes to 1 %, sizes to 0.1 %, sequential share to 0.5 %, depths to 0.2 % (points) or 2 % (mean)."""
    name, path = trace
    scale = SCALE[name]
    reads, writes, gb_read, gb_written, sizes, sequential = PUBLISHED[name]
    ios = lines(path)
    n = len(ios)
    assert sum(a == "read" for _, a, _, _ in ios) == round(reads * scale)
    assert sum(a == "write" for _, a, _, _ in ios) == round(writes * scale)
    for action, gigabytes in (("read", gb_read), ("write", gb_written)):
        moved = sum(length for _, a, _, length in ios if a == action)
        assert moved == pytest.approx(gigabytes * 1e9 * scale, rel=0.01)
    found = Counter(0 if length < 4 * K else length // K if length % K == 0 else -1 for *_, length in ios)
    for size, share in sizes.items():
        assert found[size] / n == pytest.approx(share, abs=0.001), f"{size} KiB"
    ends: dict[str, int] = {}
    follows = 0
    for _, action, offset, length in ios:
        follows += ends.get(action) == offset
        ends[action] = offset + length
    assert follows / n == pytest.approx(sequential, abs=0.005)
    depths: Counter[int] = Counter()
    place, before = 0, -1
    for stamp, *_ in ios:
        assert stamp >= before
        place = place + 1 if stamp == before else 1
        before = stamp
        depths[place] += 1
    if name == "light":
        for low, high, percent in LIGHT_DEPTHS:
            share = sum(depths[d] for d in range(low, high + 1)) / n
            assert share == pytest.approx(percent / 100, abs=0.002), f"depth {low} to {high}"
    else:
        assert sum(d * k for d, k in depths.items()) / n == pytest.approx(MEAN_DEPTHS[name], rel=0.02)
    top = footprint_bytes(name, scale)
    assert all(offset >= 0 and offset + length <= top and offset % 512 == 0 for _, _, offset, length in ios)


def test_the_packages_own_statistics_agree(trace: tuple[str, Path]) -> None:
    _, path = trace
    ios = lines(path)
    found = statistics(read_iolog(path))
    assert found["ios"] == len(ios)
    assert found["write_bytes"] == sum(length for _, a, _, length in ios if a == "write")
    assert sum(found["sizes"].values()) == pytest.approx(1)
    assert sum(found["depth"].values()) == pytest.approx(1)


def test_a_trace_is_reproducible_and_refuses_to_be_tiny(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        make_trace("light", tmp_path / name, 0.005, seed)
    a, b, c = ((tmp_path / name).read_bytes() for name in "abc")
    assert a == b != c
    with pytest.raises(UsageError, match="take at least"):
        make_trace("light", tmp_path / "d", 1e-6)


def fio(folder: Path, *arguments: str) -> dict[str, Any]:
    program = needs.program("fio")
    common = ("--name=j", "--ioengine=psync", "--size=1m", "--output-format=json")
    told = subprocess.run([program, *common, *arguments], capture_output=True, text=True, cwd=folder)
    assert told.returncode == 0, told.stderr + told.stdout
    found: dict[str, Any] = json.loads(told.stdout[told.stdout.index("{") :])["jobs"][0]
    return found


def test_fio_replays_what_we_write(tmp_path: Path) -> None:
    entries = pl.DataFrame(
        {
            "t_us": [5, 10, 10, 200_010],
            "action": ["write", "read", "write", "read"],
            "offset": [0, 8192, 4096, 0],
            "length": [4096, 512, 8192, 4096],
        }
    )
    (tmp_path / "drive").write_bytes(bytes(1 << 20))
    write_iolog(tmp_path / "ours", entries)
    job = fio(tmp_path, f"--read_iolog={tmp_path}/ours", f"--replay_redirect={tmp_path}/drive")
    assert (job["read"]["total_ios"], job["read"]["io_bytes"]) == (2, 512 + 4096)
    assert (job["write"]["total_ios"], job["write"]["io_bytes"]) == (2, 4096 + 8192)
    assert job["job_runtime"] >= 200  # fio waits according to the timestamps: they are microseconds


def test_we_read_what_fio_logs(tmp_path: Path) -> None:
    job = fio(tmp_path, "--rw=randrw", "--bs=4k", "--io_size=256k", f"--write_iolog={tmp_path}/theirs")
    found = statistics(read_iolog(tmp_path / "theirs"))
    for action in ("read", "write"):
        assert found[f"{action}s"] == job[action]["total_ios"]
        assert found[f"{action}_bytes"] == job[action]["io_bytes"]


BLKPARSE = """\
259,0    3        1     0.000000000   697  Q   R 223490 + 8 [fio]
259,0    3        2     0.000000812   697  G   R 223490 + 8 [fio]
259,0    3        3     0.000004110   697  D   R 223490 + 8 [fio]
259,0    1       11     0.000250000     0  C   R 223490 + 8 [0]
259,0    3        4     0.001004110   697  D  WS 4096 + 256 [fio]
259,0    3        5     0.002004110   697  D  DS 8192 + 2048 [fstrim]
259,0    3        6     0.003004110   697  D  FN [fsync]
CPU3 (nvme0n1):
 Reads Queued:           1,        4KiB  Writes Queued:           1,      128KiB
"""


def test_blkparse_text_becomes_entries(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text(BLKPARSE)
    assert read_blkparse(tmp_path / "t.txt").rows() == [
        (0, "read", 223490 * 512, 4096),
        (1000, "write", 4096 * 512, 131072),
        (2000, "trim", 8192 * 512, 1 << 20),
        (3000, "sync", 0, 0),
    ]
    queued = "\n".join(line for line in BLKPARSE.splitlines() if " D " not in line)
    assert parse_blkparse(queued.splitlines(), "t").rows() == [(0, "read", 223490 * 512, 4096)]
    two = BLKPARSE + BLKPARSE.replace("259,0", "8,16")
    with pytest.raises(UsageError, match="--device"):
        parse_blkparse(two.splitlines(), "t")
    assert len(parse_blkparse(two.splitlines(), "t", "8,16")) == 4
    with pytest.raises(UsageError, match="no I/O"):
        parse_blkparse(["nothing"], "t")
    (tmp_path / "t.blktrace.0").write_bytes(b"\x07\x74\x61\x65\0\0\0")
    with pytest.raises(UsageError, match="blkparse -i"):
        read_blkparse(tmp_path / "t.blktrace.0")


def test_iologs_of_version_2_wait(tmp_path: Path) -> None:
    text = "fio version 2 iolog\nf add\nf open\nf read 0 4096\nf wait 250 0\nf write 4096 512\nf close\n"
    assert parse_iolog(iter(text.splitlines(keepends=True)), "t").rows() == [(0, "read", 0, 4096), (250, "write", 4096, 512)]
    for bad, says in (
        ("", "first line"),
        ("fio version 4 iolog\n", "first line"),
        ("fio version 3 iolog\n", "no I/O"),
        ("fio version 3 iolog\nx f read 0 1\n", "t:2: `x`"),
        ("fio version 3 iolog\n0 f hop 0 1\n", "t:2: action `hop`"),
        ("fio version 3 iolog\n0 f read -4 1\n", "`-4`"),
        ("fio version 3 iolog\n0 f read 4\n", "not an entry"),
    ):
        with pytest.raises(UsageError, match=says):
            parse_iolog(iter(bad.splitlines(keepends=True)), "t")


ENTRY = st.tuples(
    st.integers(0, 10**12),
    st.sampled_from(["read", "write", "trim", "sync"]),
    st.integers(0, 1 << 45),
    st.integers(0, 1 << 24),
)


@settings(deadline=None)
@given(st.lists(ENTRY, min_size=1, max_size=20))
def test_any_entries_are_written_as_fio_writes_them_and_read_back(rows: list[tuple[int, str, int, int]]) -> None:
    """Lines as fio's documentation has them (HOWTO, "Trace file format v3"): time, file, action, offset and length."""
    rows.sort(key=lambda r: r[0])
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "t.iolog"
        write_iolog(file, pl.DataFrame(rows, schema=SCHEMA, orient="row"))
        header, add, open_, *lines = file.read_text().splitlines()
        name = add.split()[1]
        assert (header, add, open_) == ("fio version 3 iolog", f"0 {name} add", f"0 {name} open")
        assert lines == [f"{t} {name} {action} {offset} {length}" for t, action, offset, length in rows]
        # The reader counts from the first entry.
        assert read_iolog(file).rows() == [(t - rows[0][0], a, o, n) for t, a, o, n in rows]


WORDS = st.sampled_from(["fio", "version", "3", "iolog", "f", "read", "write", "add", "0", "-1", "9" * 30, "²", "+", "8,0", "D", "R"])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.one_of(WORDS, st.text(max_size=6)), max_size=8), max_size=8), st.booleans())
def test_any_text_gives_entries_or_one_clear_error(words: list[list[str]], header: bool) -> None:
    text = ["fio version 3 iolog"] * header + [" ".join(w) for w in words]
    for parse in (parse_iolog, parse_blkparse):
        try:
            frame = parse(iter(text), "t")
        except UsageError as error:
            assert "t:" in str(error)
        else:
            assert len(frame)


@settings(deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(0, 999_999_999),
    st.sampled_from(["R", "W", "WS", "RA", "RM", "WFS", "D"]),
    st.integers(0, 1 << 40),
    st.integers(1, 1 << 16),
)
def test_any_blkparse_event_is_read(s: int, ns: int, rwbs: str, sector: int, count: int) -> None:
    text = f"8,0  3  17 {s:5d}.{ns:09d} 697  D {rwbs:>3s} {sector} + {count} [a b]"
    ((_, action, offset, length),) = parse_blkparse([text], "t").rows()
    assert (offset, length) == (sector * 512, count * 512)
    assert action == {"R": "read", "W": "write", "D": "trim"}[rwbs[0]]
