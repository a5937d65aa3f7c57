"""Traces that cannot be played to their end: a clear and timely error, and never a complete capture."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sim.rig.rig_process import Rig, find, run
from tests.sim.rig.rig_trace import encode, end, rail

HOUR_US = 3.6e9
ROWS = [rail(1, 3.3, 0.1), rail(1000, 3.3, 0.2)]


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "WATTBELL_RUNTIME": str(folder / "runtime")}


def wattbell(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "wattbell", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, env=environment(folder), check=False)


def play(folder: Path, trace: bytes, *options: str) -> subprocess.CompletedProcess[str]:
    """Play a trace into a file; a rig that hangs is a failure."""
    (folder / "trace.wbt").write_bytes(trace)
    command = [find("wattbell-rig"), "play", folder / "trace.wbt", "--output", folder / "o", "--autostart", "--exit-on-done", *options]
    return subprocess.run(command, capture_output=True, text=True, env=environment(folder), check=False)


@pytest.mark.parametrize("fidelity", ["fast", "rtl"])
def test_a_time_stamp_months_ahead_is_refused_with_its_record(tmp_path: Path, fidelity: str) -> None:
    trace = encode([*ROWS, rail(2000 * HOUR_US, 3.3, 0.3), end(2001 * HOUR_US)])
    done = play(tmp_path, trace, "--fidelity", fidelity)
    assert done.returncode == 1
    assert "record 3 " in done.stderr and "2000.0 h after" in done.stderr and "--longest-gap" in done.stderr
    assert (tmp_path / "o").stat().st_size > 0, "what came before is played"


@pytest.mark.parametrize("fidelity", ["fast", "rtl"])
@pytest.mark.parametrize("time_ps", [1 << 63, (1 << 64) - 1, (1 << 64) - 1001])
def test_a_time_that_no_trace_can_have_is_refused_whatever_is_allowed(tmp_path: Path, fidelity: str, time_ps: int) -> None:
    kind, flags, _, body = ROWS[1]
    done = play(tmp_path, encode([ROWS[0], (kind, flags, time_ps, body), end(1)]), "--fidelity", fidelity, "--longest-gap", "1e9")
    assert done.returncode == 1
    assert f"its time {time_ps} ps is beyond" in done.stderr


def test_a_pause_as_long_as_allowed_is_played(tmp_path: Path) -> None:
    trace = encode([*ROWS, rail(1000 + 0.36e6, 3.3, 0.3), end(1001 + 0.36e6)])
    assert play(tmp_path, trace, "--fidelity", "fast", "--longest-gap", "1e-4").returncode == 0
    assert play(tmp_path, trace, "--fidelity", "fast", "--longest-gap", "0.9e-4").returncode == 1
    for hours in ("0", "-1", "nan"):
        done = play(tmp_path, trace, "--longest-gap", hours)
        assert done.returncode == 1 and "--longest-gap must be hours" in done.stderr


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([*ROWS, (77, 0, 3_000_000_000, b""), end(4000)], "unknown record type 77"),
        ([*ROWS, rail(2000 * HOUR_US, 3.3, 0.3), end(2001 * HOUR_US)], "--longest-gap"),
    ],
)
def test_a_trace_that_breaks_off_is_no_success(tmp_path: Path, rows: list[tuple[int, int, int, bytes]], says: str) -> None:
    (tmp_path / "trace.wbt").write_bytes(encode(rows))
    done = wattbell(tmp_path, "sim", "replay", "--bus-trace", tmp_path / "trace.wbt", "--out", tmp_path / "capture")
    assert done.returncode == 1
    assert done.stderr.count("error:") == 1 and says in done.stderr and "Traceback" not in done.stderr
    notes = json.loads((tmp_path / "capture/meta.json").read_text())["conditions"]["notes"]
    assert any("broke off" in note and says in note for note in notes), "what was recorded is kept, and marked"


def test_a_recorder_says_why_its_rig_ended(rig: type[Rig], tmp_path: Path) -> None:
    (tmp_path / "trace.wbt").write_bytes(encode([*ROWS, (77, 0, 3_000_000_000, b""), end(4000)]))
    broken = rig(tmp_path / "trace.wbt", "--serial", "BROKEN", "--fidelity", "fast", ports=False)
    broken.control.close()
    done = wattbell(tmp_path, "record", "--rig", "BROKEN", "--out", tmp_path / "capture")
    assert done.returncode == 1
    assert done.stderr.count("error:") == 1 and "unknown record type 77" in done.stderr and "Traceback" not in done.stderr
    meta = json.loads((tmp_path / "capture/meta.json").read_text())
    assert meta["rail"]["samples"] > 0, "what came before is kept"
    assert any("broke off" in note and "unknown record type 77" in note for note in meta["conditions"]["notes"])


def test_summaries_are_refused_before_a_rig_is_started_and_played_when_asked_for(tmp_path: Path) -> None:
    job, trace = tmp_path / "job.fio", tmp_path / "summaries.wbt"
    job.write_text("[a]\nrw=randread\nbs=4k\ndirect=1\nsize=16m\nnumber_ios=20\n")
    run([find("wattbell-ssd"), "run", "--job", job, "--trace", trace, "--summaries"])
    for words in (("start", "--trace", trace), ("replay", "--bus-trace", trace, "--out", tmp_path / "none")):
        done = wattbell(tmp_path, "sim", *words)
        assert done.returncode == 2 and "add --fidelity fast" in done.stderr, done.stderr
    assert not (tmp_path / "none").exists()
    done = wattbell(tmp_path, "sim", "replay", "--bus-trace", trace, "--out", tmp_path / "capture", "--fidelity", "fast", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["commands"] > 20
    assert json.loads((tmp_path / "capture/meta.json").read_text())["conditions"]["fidelity"] == "fast"
