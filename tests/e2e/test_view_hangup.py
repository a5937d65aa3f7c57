"""`wattbell view RIG` is killed, or its terminal closed: no process and no folder stays, and the capture is completed."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from wattbell.capture import open_capture

from tests.e2e import stream_maker as maker
from tests.e2e.test_record import Bench, wait_for
from tests.patience import PATIENCE_S


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    (tmp_path / "tmp").mkdir()
    made.env["TMPDIR"] = str(tmp_path / "tmp")
    stream = b"".join(maker.stream(2000))
    made.feeder(stream, "--rate", str(len(stream) / 120))
    yield made
    made.end()


def _own_terminal() -> None:
    """Take the terminal of standard input, and heed its end: tests may run below ``nohup``."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


class InTerminal:
    """A shell in its own terminal, which runs ``wattbell view`` of a rig; ready once the rig is recorded and the page served."""

    def __init__(self, bench: Bench, out: Path) -> None:
        self.near, far = pty.openpty()
        view = [sys.executable, "-m", "wattbell", "view", "FEED1", "--out", str(out), "--no-browser"]
        self.shell = subprocess.Popen(
            ["bash", "-c", '"$@"; true', "bash", *view],
            env=bench.env,
            stdin=far,
            stdout=far,
            stderr=far,
            start_new_session=True,
            preexec_fn=_own_terminal,
        )
        os.close(far)
        self.said = ""
        wait_for(lambda: self._read("Ctrl-C ends the view"), "the page")
        self.all = psutil.Process(self.shell.pid).children(recursive=True)
        (self.view,) = (process for process in self.all if "view" in process.cmdline())
        (self.recorder,) = (process for process in self.all if "record" in process.cmdline())

    def _read(self, text: str) -> bool:
        if select.select([self.near], [], [], 0)[0]:
            self.said += os.read(self.near, 4096).decode(errors="replace")
        return text in self.said

    def url(self) -> str:
        found = re.search(r"http://\S+", self.said)
        assert found
        return found[0]


def check(bench: Bench, seen: InTerminal, out: Path) -> None:
    """Check that none of its processes is left, and that the recorder has closed the capture, as after Ctrl-C (test_view_rig.py)."""
    assert psutil.wait_procs(seen.all, timeout=PATIENCE_S)[1] == []
    assert not (out / "live.bin").exists() and not (out / "stream.wbs").exists(), "nothing is left to be rebuilt"
    capture = open_capture(out)
    assert capture.state in ("complete", "incomplete") and capture.rail is not None and capture.rail.samples > 0


@pytest.mark.needs("bash")
@pytest.mark.parametrize("how", ["terminal closed", "shell killed", pytest.param("hung up twice", marks=pytest.mark.long)])
def test_a_closed_terminal_ends_view_and_recorder(bench: Bench, tmp_path: Path, how: str) -> None:
    seen = InTerminal(bench, tmp_path / "cap")
    if how == "shell killed":
        seen.shell.kill()  # the leader of the session: the kernel hangs up on who is in the foreground
    elif how == "hung up twice":
        seen.view.send_signal(signal.SIGHUP)
        seen.view.send_signal(signal.SIGHUP)
    else:
        os.close(seen.near)
    check(bench, seen, tmp_path / "cap")
    if how != "terminal closed":
        os.close(seen.near)
    seen.shell.wait()
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.needs("bash")
def test_a_killed_view_ends_its_recorder_and_the_next_one_removes_its_folder(bench: Bench, tmp_path: Path) -> None:
    seen = InTerminal(bench, tmp_path / "cap")
    wait_for(lambda: list((tmp_path / "tmp").iterdir()), "the folder")
    before = list((tmp_path / "tmp").iterdir())
    seen.view.kill()
    check(bench, seen, tmp_path / "cap")
    os.close(seen.near)
    seen.shell.wait()
    assert list((tmp_path / "tmp").iterdir()) == before, "nobody was left to remove it"
    view = bench.wattbell("view", str(tmp_path / "cap"), "--no-browser")
    assert view.stdout is not None and view.stdout.readline().startswith("http://")
    wait_for(lambda: before[0] not in (tmp_path / "tmp").iterdir(), "the removal")
    view.send_signal(signal.SIGINT)
    view.communicate()
    assert list((tmp_path / "tmp").iterdir()) == []
