"""Processes that we start and that must not outlive us."""

from __future__ import annotations

import shutil


def ending_with_us() -> list[str]:
    """Return the first words of a command line for a program that gets SIGTERM when this process ends, even when killed.

    The mechanism is PR_SET_PDEATHSIG of prctl(2). The result is empty without util-linux, which every Debian has. Start the command from
    the main thread: the kernel takes the end of the starting thread for our end.
    """
    found = shutil.which("setpriv")
    return [found, "--pdeathsig", "TERM", "--"] if found else []
