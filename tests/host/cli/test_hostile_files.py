"""A named pipe, gigabytes of holes or a hostile table in place of any file that a command reads: one error, and no hang."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from wattbell.capture import CaptureWriter, open_capture
from wattbell.capture import meta as metafile
from wattbell.errors import CaptureError

HANG_S = 120
"""A command that takes longer waits for the pipe, or reads the holes."""
FOLDERS = {
    "capture": "meta.json commands.parquet events.parquet",
    "suite": "manifest.toml jobs.fio",
    "results": "results.json",
}
MANIFEST = """
format = 1
name = "mine"
title = "Mine"
[[test]]
id = "one"
kind = "burst"
jobs = "jobs.fio"
"""
WAVE = "time,current,voltage\n0,1,3.3\n1,1,3.3\n2,1,3.3\n"
READERS: list[tuple[str, list[str]]] = [
    ("wave.csv", ["import", "X", "--out", "o"]),
    ("fio.json", ["import", "wave", "--interval", "1s", "--fio", "X", "--out", "o"]),
    ("log.txt", ["import", "wave", "--trace", "X", "--out", "o"]),
    ("identify.json", ["import", "wave", "--identify", "X", "--out", "o"]),
    ("capture/meta.json", ["info", "capture"]),
    ("capture/commands.parquet", ["analyze", "capture"]),
    ("capture/commands.parquet", ["check", "capture"]),
    ("capture/events.parquet", ["analyze", "capture"]),
    ("capture/commands.parquet", ["export", "csv", "capture", "--out", "o"]),
    ("results/results.json", ["results", "import", "results"]),
    ("results/results.json", ["compare", "results"]),
    ("store.sqlite", ["results", "list", "--store", "X"]),
    ("suite/manifest.toml", ["run", "./suite", "--virtual", "intel-660p-1tb", "--out", "o"]),
    ("work.fio", ["run", "X", "--virtual", "intel-660p-1tb", "--out", "o"]),
    ("work.toml", ["run", "X", "--virtual", "intel-660p-1tb", "--out", "o"]),
    ("profile.toml", ["run", "good.fio", "--virtual", "X", "--out", "o"]),
    ("trace.iolog", ["trace", "show", "X"]),
    ("trace.txt", ["trace", "convert", "X", "--out", "o"]),
    ("trace.wbt", ["sim", "start", "--trace", "X"]),
    ("config.toml", ["info", "capture"]),
]


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _holes(path: Path) -> None:
    with open(path, "wb") as file:
        file.truncate(10**13)


def _parquet(path: Path) -> None:
    """A real table of another kind, and nested: where a table of a capture, a document or a database is expected."""
    pq.write_table(pa.table({"cqe_tick": [[{"a": 1}]], "tick": [{"b": "x" * 1000}]}), path)


@pytest.fixture
def wattbell(tmp_path: Path) -> Any:
    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "WATTBELL_RUNTIME": str(tmp_path / "runtime"), "XDG_DATA_HOME": str(tmp_path / "home"), **variables}
        for name in ("WATTBELL_DEBUG", "WATTBELL_STORE"):
            env.pop(name, None)
        command = [sys.executable, "-m", "wattbell", *arguments]
        return subprocess.run(command, env=env, cwd=tmp_path, text=True, capture_output=True, timeout=HANG_S, check=False)

    return run


@pytest.mark.parametrize("make", [_fifo, _holes, _parquet])
@pytest.mark.parametrize(("name", "arguments"), READERS, ids=[f"{a[0]}-{n.replace('/', '-')}" for n, a in READERS])
def test_a_hostile_file_is_one_error(wattbell: Any, tmp_path: Path, make: Callable[[Path], None], name: str, arguments: list[str]) -> None:
    with CaptureWriter(tmp_path / "capture", conditions={"virtual": True}) as writer:
        writer.add_rows(
            "commands",
            {
                "cqe_tick": [20_000],
                "doorbell_tick": [10_000],
                "fetch_tick": [10_500],
                "opcode": [2],
                "qid": [1],
                "nsid": [1],
                "blocks": [8],
                "slba": [0],
            },
        )
    for folder in ("suite", "results"):
        (tmp_path / folder).mkdir()
    (tmp_path / "suite/manifest.toml").write_text(MANIFEST)
    (tmp_path / "wave").write_text(WAVE)
    (tmp_path / "good.fio").write_text("[a]\nrw=read\nsize=4k\n")
    bad = tmp_path / name
    bad.unlink(missing_ok=True)
    make(bad)
    more = {"WATTBELL_CONFIG": str(bad)} if name == "config.toml" else {}
    done = wattbell(*(name if word == "X" else word for word in arguments), **more)
    if arguments[0] == "check":
        assert done.returncode == 1 and "commands.parquet" in done.stderr + done.stdout and "Traceback" not in done.stderr, done.stderr
        assert "bug:" not in done.stderr
        return
    assert done.returncode in (1, 2), (done.stdout, done.stderr)
    lines = done.stderr.strip().splitlines()
    assert lines[-1].startswith("error: ") and "Traceback" not in done.stderr, done.stderr
    assert sum(line.startswith("error: ") for line in lines) == 1 and "bug:" not in done.stderr
    assert Path(name).name in lines[-1], lines[-1]
    if make is _fifo:
        assert any(word in lines[-1] for word in ("pipe", "not a file", "no plain file")), lines[-1]
    assert not (tmp_path / "o/meta.json").exists()


def _damage(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]


def test_a_hostile_table_in_a_sealed_capture_is_one_error_or_harmless(tmp_path: Path) -> None:
    """Who makes the table can make its hash: every byte of its footer is turned over, and the capture sealed again."""
    with CaptureWriter(tmp_path / "capture", conditions={"virtual": True}) as writer:
        writer.add_rows(
            "commands",
            {
                "cqe_tick": [20_000],
                "doorbell_tick": [10_000],
                "fetch_tick": [10_500],
                "opcode": [2],
                "qid": [1],
                "nsid": [1],
                "blocks": [8],
                "slba": [0],
            },
        )
    table = tmp_path / "capture/commands.parquet"
    data = table.read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    refused = 0
    for place in [*range(footer, len(data), 7), *range(4, footer, 61)]:
        table.write_bytes(_damage(data, place))
        meta = metafile.load(tmp_path / "capture")
        metafile.seal(tmp_path / "capture", meta)
        try:
            capture = open_capture(tmp_path / "capture")
            capture.command_rows(0, 1 << 40)
            assert capture.commands.collect().height <= 1
        except CaptureError as error:
            refused += 1
            assert "commands.parquet" in str(error)
    assert refused > 20
