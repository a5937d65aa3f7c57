"""Ctrl-C in the middle of a virtual run: the capture is kept and marked as cut short."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S
from tests.sim.rig.rig_trace import encode, end, rail

pytestmark = pytest.mark.xdist_group("virtual-rig")

HOURS = 10 * 3600


def cut_short(folder: Path, *words: object) -> tuple[int, str]:
    """Run the program and stop it with SIGINT once it records; return exit code and stderr."""
    environment = {**os.environ, "WATTBELL_RUNTIME": str(folder / "runtime")}
    command = [sys.executable, "-m", "wattbell", *map(str, words), "--out", str(folder / "capture")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment) as process:
        late = threading.Timer(PATIENCE_S, process.kill)
        late.start()
        journal = folder / "capture" / "meta.json"
        while not (journal.exists() and recording(folder / "capture")):
            assert process.poll() is None, process.stderr.read() if process.stderr else ""
            late.join(0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
        late.cancel()
    return process.returncode, said


def recording(capture: Path) -> bool:
    """Return whether a part of the stream is on disk."""
    return sum(path.stat().st_size for path in capture.rglob("*") if path.is_file() and path.name != "meta.json") > 100_000


def check(folder: Path, code: int, said: str) -> dict[str, object]:
    assert code == 130, said
    assert said.count("the run was cut short") >= 1 and "Traceback" not in said and "bug:" not in said
    meta = json.loads((folder / "capture/meta.json").read_text())
    assert meta["workload"]["interrupted"] is True
    assert any("cut short" in note for note in meta["conditions"]["notes"])
    command = [sys.executable, "-m", "wattbell", "analyze", str(folder / "capture"), "--json"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    assert any("cut short" in warning for warning in json.loads(shown.stdout)["warnings"]), "figures say so"
    return dict(meta["workload"])


def test_a_plan(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(f'condition = "test-data"\n[[step]]\nname = "idle"\nidle_s = {HOURS}\n')
    words = ["run", tmp_path / "plan.toml", "--virtual", "intel-660p-1tb", "--fidelity", "fast"]
    workload = check(tmp_path, *cut_short(tmp_path, *words))
    assert (workload["job"], workload["profile"]) == ("plan.toml", "intel-660p-1tb")


def test_a_replayed_trace(tmp_path: Path) -> None:
    (tmp_path / "trace.wbt").write_bytes(encode([rail(1, 3.3, 0.1), rail(HOURS * 1e6, 3.3, 0.2), end(HOURS * 1e6 + 1)]))
    check(tmp_path, *cut_short(tmp_path, "sim", "replay", "--bus-trace", tmp_path / "trace.wbt"))
