"""Rest after each group of jobs: measured between the phases' markers."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

JOB = """[global]
direct=1
rw=randread
bs=4k
size=1g
stonewall
[short]
io_size=128k
[long]
io_size=1m
"""


@pytest.fixture(scope="module")
def program(sim_program: Callable[[str], Path]) -> Path:
    return sim_program("wattbell-ssd")


def run(program: Path, folder: Path, keys: str) -> subprocess.CompletedProcess[str]:
    (folder / "jobs.fio").write_text(JOB)
    (folder / "plan.toml").write_text(f'[[step]]\nname = "a"\nfio = "jobs.fio"\n{keys}\n[[step]]\nname = "b"\nidle_s = 0.001\n')
    outputs = [f"--{name}={folder / name}" for name in ("trace", "truth", "phases")]
    return subprocess.run([program, "run", f"--plan={folder / 'plan.toml'}", *outputs], capture_output=True, text=True)


def phases(program: Path, folder: Path, keys: str) -> list[dict[str, Any]]:
    told = run(program, folder, keys)
    assert told.returncode == 0, told.stderr
    listed = json.loads((folder / "phases").read_text())
    true = json.loads((folder / "truth").read_text())["phases"]
    return [{**a, **b} for a, b in zip(listed, true)]


def test_rest_is_in_proportion_to_the_time_busy(program: Path, tmp_path: Path) -> None:
    found = phases(program, tmp_path, "duty = 0.2")
    assert [p["name"] for p in found] == ["a/short", "a/long", "b"]
    for one, after in zip(found[:-1], found[1:]):
        busy = one["end_tick"] - one["start_tick"]
        rest = after["start_tick"] - one["end_tick"]
        assert rest == pytest.approx(4 * busy, rel=0.01)
        assert one["idle_after_s"] == pytest.approx(4e-9 * busy, rel=1e-6)


def test_rest_has_a_longest_time(program: Path, tmp_path: Path) -> None:
    short, long, after = phases(program, tmp_path, "duty = 0.2\nduty_idle_max_s = 0.01")
    assert long["start_tick"] - short["end_tick"] < 9e6
    assert after["start_tick"] - long["end_tick"] == pytest.approx(10e6, rel=0.01)


@pytest.mark.parametrize("keys", ["duty = 0", "duty = 1.5", "duty_idle_max_s = 1.0", "duty = 0.5\nduty_idle_max_s = -1"])
def test_a_duty_that_makes_no_sense_is_refused(program: Path, tmp_path: Path, keys: str) -> None:
    told = run(program, tmp_path, keys)
    assert told.returncode == 1
    assert "step 1" in told.stderr
