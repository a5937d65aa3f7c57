"""The `wattbell` command with virtual rigs, for the tests of this folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from wattbell.errors import SimError
from wattbell.virtual import simulator

from tests.patience import PATIENCE_S


def built() -> bool:
    try:
        return all(simulator.find_program(name) for name in ("wattbell-rig", "wattbell-ssd"))
    except SimError:
        return False


MARKS = [
    # CI builds everything first, so a missing program is a failure there and no reason to skip.
    pytest.mark.needs_built(built, "make sim rtl"),
    pytest.mark.xdist_group("virtual-rig"),
]


def wattbell(folder: Path, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "wattbell", *map(str, arguments)],
        env={**os.environ, "WATTBELL_RUNTIME": str(folder / "runtime")},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def finished(process: subprocess.Popen[str], code: int = 0) -> tuple[str, str]:
    out, err = process.communicate()
    assert process.returncode == code, err
    assert "Traceback" not in err
    return out, err


def recorded(capture: Path) -> int:
    """Return the bytes in the journal of a capture in progress."""
    try:
        return (capture / "stream.wbs").stat().st_size
    except FileNotFoundError:
        return 0


def stop_in(process: subprocess.Popen[str], capture: Path, how: signal.Signals) -> None:
    """Send a signal while `capture` is recorded, with data in its journal: an empty capture is removed."""
    while not recorded(capture):
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.002)
    process.send_signal(how)


def wait_for_no_rig(runtime: Path) -> None:
    """Wait until the virtual rig of a killed recorder ends, too."""
    deadline = time.monotonic() + PATIENCE_S
    while left := list(runtime.glob("rigs/*")):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
