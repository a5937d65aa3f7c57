"""picocom, a plain terminal program: what someone types at a rig."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import time

import pytest
from terminal import Terminal

pytestmark = pytest.mark.skipif(not shutil.which("picocom") and not os.environ.get("CI"), reason="picocom is not installed")


class Screen:
    """picocom on a terminal of its own."""

    def __init__(self, device: str) -> None:
        self.keyboard, inside = pty.openpty()
        # CR, which Enter sends, stays CR: the firmware has to live with either
        command = ["picocom", "--echo", "--omap", "crcrlf", "--imap", "lfcrlf", "--nolock", device]
        self.process = subprocess.Popen(command, stdin=inside, stdout=inside, stderr=inside, start_new_session=True)
        os.close(inside)
        self.text = ""

    def until(self, pattern: str) -> re.Match[str]:
        """What the screen shows once it matches."""
        deadline = time.monotonic() + 20
        while not (found := re.search(pattern, self.text)):
            assert time.monotonic() < deadline, self.text
            if select.select([self.keyboard], [], [], 0.1)[0]:
                self.text += os.read(self.keyboard, 4096).decode()
        return found

    def type(self, text: str) -> None:
        """Keys."""
        os.write(self.keyboard, text.encode())


def test_typing_at_the_rig(terminal: Terminal) -> None:
    screen = Screen(terminal.control)
    screen.until("Terminal ready")
    screen.type("*IDN?\r")
    screen.until(r"\nWattbell,")
    screen.type("measure:voltage?\r")
    assert float(screen.until(r"\n([+-][0-9.]+E[+-]\d\d)")[1]) == pytest.approx(3.3, abs=1e-3)
    screen.type("oops\rsyst:err?\r")
    screen.until(r'\n-113,"Undefined header')
    screen.type("\x01\x18")  # C-a C-x: leave
    assert screen.process.wait(10) == 0
    os.close(screen.keyboard)
