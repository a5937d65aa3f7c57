"""A session with a meter's rail and the kernel's commands, which does not end as it should: the real command in a process
of its own. The data of its journals are in the capture, and missing data are reported."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest
from wattbell.analysis import analyze
from wattbell.capture import Capture, open_capture
from wattbell.capture.arrowjournal import records
from wattbell.capture.schema import COMMANDS

from tests.host.meters.measuring import wait_for

JOURNAL = "commands.arrow"
READ = (pl.col("qid") == 1) & (pl.col("opcode") == 2)


def reads_by_record(folder: Path) -> list[int]:
    """Number of reads in each record of a capture's journal."""
    if not (folder / JOURNAL).exists():
        return []
    return [sum(qid > 0 for qid in batch["qid"].to_pylist()) for batch, _ in records(folder / JOURNAL, COMMANDS)]


def reads(folder: Path) -> int:
    return sum(reads_by_record(folder))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "disk"
    path.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "none", str(path)], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("needs the right to mount")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Begins `wattbell run` with its capture in a folder, of a command that lasts until there is a file `over`."""
    running: list[subprocess.Popen[str]] = []

    def begin(out: Path) -> subprocess.Popen[str]:
        command = f"while [ ! -e {tmp_path}/over ]; do sleep 0.05; done"
        work = ["--drive", "/dev/nvme9n2", "--meter", "ppk2:x,volts=3", "--commands", "trace", "--out", str(out), "--", "sh", "-c", command]
        program = [sys.executable, "-m", "tests.host.drive.session_to_kill", str(tmp_path), *work]
        running.append(subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return running[-1]

    yield begin
    (tmp_path / "over").touch()
    for process in running:
        process.kill()
        process.communicate()


def until(process: subprocess.Popen[str], happened: Callable[[], bool]) -> None:
    wait_for(lambda: process.poll() is not None or happened(), 60)
    assert process.poll() is None, process.communicate()[1]


def is_told(capture: Capture, at_least: int) -> None:
    """All that the journal had is there, on the meter's clock, and that more is missing."""
    assert capture.meta["state"] == "recovered" and not capture.meta["loss"]["lossless"]
    found = capture.commands.filter(READ).collect()
    assert found["slba"].to_list() == [8 * k for k in range(len(found))] and len(found) >= at_least
    assert 0 < capture.meta["conditions"]["alignment_u_s"] < 0.02
    assert (found["cqe_tick"] - found["doorbell_tick"]).unique().to_list() in ([50], [50, 51])  # ticks of 1 us
    gap = capture.gaps.filter(pl.col("kind") == "COMMANDS").collect().to_dicts()[-1]
    assert gap["count"] == -1 and gap["reason"] == "the recorder ended without completing the capture"
    assert found["cqe_tick"].max() <= gap["first_tick"] <= gap["last_tick"]
    assert "1 commands were in flight when the log ended; they are not in it." in capture.meta["conditions"]["host_log"]["notes"]
    (phase,) = json.loads(json.dumps(analyze(capture)))["phases"]
    assert (phase["name"], phase["kind"]) == ("sh (broke off)", "precondition")
    in_it = found.filter(pl.col("doorbell_tick") >= phase["first_tick"])  # the others came before the command began
    assert len(in_it) - 1 <= phase["commands"]["all"]["count"] <= len(in_it) + 1 and len(in_it) > at_least / 10
    assert phase["loss_here"]["gaps_of_unknown_size"] >= 1
    assert phase["rates"]["iops"]["lost"] >= 1
    assert phase["power"]["mean_w"]["value"] == pytest.approx(0.5, rel=1e-3)


def test_kill_9_loses_no_command_that_was_in_the_journal(start: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    process, out = start(tmp_path / "out"), tmp_path / "out"
    until(process, lambda: reads(out) > 3000)
    process.kill()
    process.wait()
    there = reads_by_record(out)
    shutil.copytree(out, tmp_path / "cut")
    is_told(open_capture(out), sum(there))
    # the last record of a journal may be half written
    cut = tmp_path / "cut" / JOURNAL
    os.truncate(cut, cut.stat().st_size - 300)
    assert reads_by_record(tmp_path / "cut") == there[:-1]
    is_told(open_capture(tmp_path / "cut"), reads(tmp_path / "cut"))


def test_a_full_disk_ends_the_session_with_one_error_and_what_was_recorded_is_kept(
    start: Callable[..., subprocess.Popen[str]], small_disk: Path, tmp_path: Path
) -> None:
    out = small_disk / "out"
    process = start(out)
    until(process, lambda: reads(out) > 3000)
    filler = small_disk / "filler"
    with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    (tmp_path / "over").touch()
    _, said = process.communicate()
    assert process.returncode == 1 and said.count("error:") == 1 and "Traceback" not in said and "Exception ignored" not in said, said
    assert "cannot be written (No space left on device); free some space." in " ".join(said.split())
    there = reads(out)
    assert there > 3000
    filler.unlink()
    is_told(open_capture(out), there)
