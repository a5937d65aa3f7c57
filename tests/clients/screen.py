"""Drives picocom on its own terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import time

from tests.patience import PATIENCE_S


class Screen:
    """picocom on its own terminal."""

    def __init__(self, device: str) -> None:
        self.keyboard, inside = pty.openpty()
        # Enter sends CR, which stays CR: the firmware has to accept either
        command = ["picocom", "--echo", "--omap", "crcrlf", "--imap", "lfcrlf", "--nolock", device]
        self.process = subprocess.Popen(command, stdin=inside, stdout=inside, stderr=inside, start_new_session=True)
        os.close(inside)
        self.text = ""

    def until(self, pattern: str) -> re.Match[str]:
        """Wait until the screen matches; return the match."""
        deadline = time.monotonic() + PATIENCE_S
        while not (found := re.search(pattern, self.text)):
            assert time.monotonic() < deadline, self.text
            if select.select([self.keyboard], [], [], 0.1)[0]:
                self.text += os.read(self.keyboard, 4096).decode()
        return found

    def type(self, text: str) -> None:
        """Type keys."""
        os.write(self.keyboard, text.encode())

    def leave(self) -> None:
        """Type C-a C-x."""
        self.type("\x01\x18")
        assert self.process.wait(PATIENCE_S) == 0
        os.close(self.keyboard)
