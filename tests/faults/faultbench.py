"""Real processes: a rig's two ports with the fault on its data line (tests/e2e/feeder.py), and ``wattbell record``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

from tests.faults.faultline import CUT, Pieces
from tests.patience import PATIENCE_S

FEEDER = Path(__file__).parents[1] / "e2e" / "feeder.py"
_SERIAL = "FAULT"


class Bench:
    """A feeder and recorders in one folder; ``end`` stops those still running."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.capture = folder / "capture"
        self.env = {**os.environ, "WATTBELL_RUNTIME": str(folder / "runtime"), "WATTBELL_STORE": str(folder / "results.sqlite")}
        self.processes: list[subprocess.Popen[str]] = []
        self.size = 0

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.communicate()

    def start(self, command: Sequence[str], **options: Any) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command, env=self.env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, **options
        )
        self.processes.append(process)
        return process

    def feed(self, pieces: Pieces, *options: str, **how: Any) -> subprocess.Popen[str]:
        """Start the rig: it plays the pieces after INITiate and cuts the line (once) at the cut."""
        data = b"".join(piece for piece in pieces if piece is not CUT)
        (self.folder / "stream").write_bytes(data)
        self.size = len(data)
        more = list(options)
        if CUT in pieces:
            at = sum(len(piece) for piece in pieces[: pieces.index(CUT)] if piece is not CUT)
            more += ["--cut-at", str(at), "--cut-seconds", "0.3"]
        command = [sys.executable, str(FEEDER), "--stream", str(self.folder / "stream"), "--serial", _SERIAL]
        process = self.start([*command, "--sent", str(self.folder / "sent"), *more], **how)
        wait_for((self.folder / "runtime" / "rigs" / f"{_SERIAL}.json").exists, "the feeder")
        return process

    @property
    def sent(self) -> int:
        """Return the bytes written by the feeder so far."""
        try:
            return int((self.folder / "sent").read_text() or 0)
        except (OSError, ValueError):
            return 0

    def record(self, *options: str, **more: Any) -> subprocess.Popen[str]:
        """Start ``wattbell record`` into ``capture``."""
        command = [sys.executable, "-m", "wattbell", "record", "--rig", _SERIAL, "--lba-size", "512", "--out", str(self.capture)]
        return self.start([*command, *options], **more)

    def finish(self, recorder: subprocess.Popen[str]) -> tuple[int, str]:
        """Send Ctrl-C if the recorder still waits when everything is sent and read; return its exit code and its messages."""
        wait_for(lambda: recorder.poll() is not None or self.sent >= self.size, "the stream's end")
        if waits(recorder):
            recorder.send_signal(signal.SIGINT)
        _, said = recorder.communicate(timeout=PATIENCE_S)
        return recorder.returncode, said


def waits(process: subprocess.Popen[str]) -> bool:
    """Wait until a process rests (return True) or ends (return False).

    A process that works, or waits for a processor, is running in some of 15 looks. On a busy machine it may use little time meanwhile.
    """
    spent_s: deque[float] = deque(maxlen=15)
    ran: deque[bool] = deque(maxlen=15)
    while process.poll() is None:
        try:
            seen = psutil.Process(process.pid)
            times, runs = seen.cpu_times(), seen.status() == psutil.STATUS_RUNNING
        except psutil.Error:
            continue  # it has ended
        spent_s.append(times.user + times.system)
        ran.append(runs)
        if len(spent_s) == spent_s.maxlen and not any(ran) and spent_s[-1] - spent_s[0] < 0.1:
            return True
        time.sleep(0.1)
    return False


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Wait for something that must happen eventually."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited too long for {what}"
        time.sleep(0.02)
