"""Processes that we start and that must not outlive us."""

from __future__ import annotations

import shutil


def ending_with_us() -> list[str]:
    """First words of a command line whose program gets SIGTERM when this process ends, even when it is killed (PR_SET_PDEATHSIG of
    prctl(2)). Empty where util-linux, which every Debian has, is missing. The command is to be started from the main thread: the kernel
    takes the end of the thread that started it for our end."""
    found = shutil.which("setpriv")
    return [found, "--pdeathsig", "TERM", "--"] if found else []
