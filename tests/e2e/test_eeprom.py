"""A virtual rig's EEPROM keeps its content across a restart, with a user's commands: calibrate, switch off, switch on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import serial

from tests.patience import PATIENCE_S
from tests.sim.rig.rig_trace import encode, end, rail

DWELL_US = 20_000
POINTS = [(1.0, 0.0), (4.5, 3.5)]
CHIP = 8192
"""Size of a 24LC64 in bytes."""


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Write a trace of a source at one point, then at the other."""
    path = tmp_path / "source.wbt"
    path.write_bytes(encode([*(rail(n * DWELL_US, *point) for n, point in enumerate(POINTS)), end(1e6)]))
    return path


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "WATTBELL_RUNTIME": str(tmp_path / "runtime")}


@contextmanager
def started(trace: Path, env: dict[str, str], *options: object) -> Iterator[list[dict[str, str]]]:
    """Run `wattbell sim start` until Ctrl-C; return the list of `wattbell rigs`."""
    command = [sys.executable, "-m", "wattbell", "sim", "start", "--trace", str(trace), *map(str, options)]
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not (listed := wattbell(env, "rigs", "--json")):
            assert process.poll() is None and time.monotonic() < deadline, process.stderr and process.stderr.read()
            time.sleep(0.1)
        yield listed
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0


def wattbell(env: dict[str, str], *words: object) -> list[dict[str, str]]:
    done = subprocess.run([sys.executable, "-m", "wattbell", *map(str, words)], env=env, capture_output=True, text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else []


def ask(listed: list[dict[str, str]], line: str) -> str:
    with serial.Serial(listed[0]["control"], 115200, timeout=PATIENCE_S) as port:
        port.write(line.encode() + b"\n")
        return port.readline().decode().strip()


CONSTANTS = "*IDN?;:CAL:VOLT:DATA?;:CAL:CURR:DATA?;:CAL:COUN?"


def test_a_calibration_outlives_the_rig(trace: Path, env: dict[str, str], tmp_path: Path) -> None:
    chip = tmp_path / "board.eeprom"
    with started(trace, env, "--serial", "BENCH7", "--eeprom", chip) as listed:
        factory = ask(listed, CONSTANTS)
        assert chip.stat().st_size == CHIP
        points = [word for volts, amps in POINTS for word in ("--point", f"{volts},{amps}")]
        timing = ("--dwell", DWELL_US * 1e-6, "--seconds", 0.015, "--settle", 0.002)
        found = wattbell(env, "calibrate", "--rig", "BENCH7", *points, *timing, "--json")
        assert found, "wattbell calibrate failed"
        calibrated = ask(listed, CONSTANTS)
    assert factory != calibrated and calibrated.endswith(";2") and "BENCH7" in calibrated
    with started(trace, env, "--eeprom", chip) as listed:
        assert listed[0]["serial"] == "BENCH7"
        assert ask(listed, CONSTANTS) == calibrated
        assert ask(listed, "CAL:STAT?") == "1"
    with started(trace, env, "--serial", "BENCH7") as listed:
        assert ask(listed, CONSTANTS) == factory


def test_a_file_that_is_no_chip_is_refused(trace: Path, env: dict[str, str], tmp_path: Path) -> None:
    chip = tmp_path / "notes.txt"
    chip.write_text("not an EEPROM")
    command = [sys.executable, "-m", "wattbell", "sim", "start", "--trace", str(trace), "--eeprom", str(chip)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "notes.txt has 13 bytes, the EEPROM 8192" in done.stderr
    assert chip.read_text() == "not an EEPROM"
