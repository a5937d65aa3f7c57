"""A guest that still prints, reads or writes is not hung, however slow the machine is."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from run import SignsOfLife, watch
from stack import GuestError

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
READ = [sys.executable, "-c", "while True: open('/proc/self/stat').read(); __import__('time').sleep(0.05)"]
PRINT = [sys.executable, "-c", "import time\nfor n in range(20): print(n, flush=True); time.sleep(0.1)\nprint('GUEST: END', flush=True)"]


def test_a_guest_that_prints_goes_on(tmp_path: Path) -> None:
    console = tmp_path / "console.txt"
    with console.open("wb") as file, subprocess.Popen(PRINT, stdout=file) as guest:
        watch(guest, console, [], SignsOfLife([console], []), 1.0)  # the guest takes 2 s
    assert console.read_text().endswith("19\nGUEST: END\n")


def test_a_guest_that_does_nothing_is_ended(tmp_path: Path) -> None:
    began = time.monotonic()
    with subprocess.Popen(SLEEP) as guest, pytest.raises(GuestError, match=r"hangs: no sign of life for 1 s \(--quiet\)"):
        watch(guest, tmp_path / "none", [], SignsOfLife([tmp_path / "none"], []), 1.0)
    assert guest.returncode == -9 and time.monotonic() - began > 1


def sees_a_sign(signs: SignsOfLife) -> bool:
    """Return whether a sign of life comes within ten seconds."""
    last_s = signs.quiet_s()
    for _ in range(200):
        time.sleep(0.05)
        if (now_s := signs.quiet_s()) < last_s:
            return True
        last_s = now_s
    return False


def test_what_is_read_for_the_guest_counts() -> None:
    server, still = subprocess.Popen(READ), subprocess.Popen(SLEEP)
    try:
        quiet = SignsOfLife([], [still])
        while quiet.quiet_s() < 1:  # Python has started
            time.sleep(0.05)
        assert sees_a_sign(SignsOfLife([], [server]))
        assert not sees_a_sign(quiet)
    finally:
        for process in (server, still):
            process.kill()
            process.wait()
