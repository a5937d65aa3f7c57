"""Whether the drive of a session is still there, and the same.

A drive may drop off the bus: a loose riser, a supply that gives in, a reset that fails. The kernel then takes its block device away, and a
program that opens the path for writing makes a file of that name, in memory. Looking sends the drive nothing, so it does not wake it.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ..errors import DriveError
from .device import Device

PERIOD_S = 1.0
_GIVEN_UP = ("dead", "deleting", "deleting (no IO)")
"""States of a controller from which the kernel brings no drive back (drivers/nvme/host/sysfs.c of the Linux kernel)."""


class _Node(NamedTuple):
    """The state of the drive's path. ``sequence``: the kernel's number of the disk, unique since it was booted; Linux 5.15."""

    is_file: bool
    place: tuple[int, int]
    number: int
    sequence: str


class Presence:
    """Knows the device as it was when this was made, or at the last :meth:`renew`.

    interrupted: called with each look at the drive; raises KeyboardInterrupt for a signal whose own exception was lost
    """

    def __init__(self, device: Device, sys: Path = Path("/sys"), interrupted: Callable[[], None] = lambda: None) -> None:
        self._device, self._sys, self._interrupted = device, sys, interrupted
        self.renew()

    def renew(self) -> None:
        """Accept the present state of the path as the right drive."""
        self._known = self._look()

    def check(self) -> None:
        """Raise DriveError when the drive has gone, though it be back, and KeyboardInterrupt for a signal that got lost."""
        self._interrupted()
        what = self._wrong()
        if what is not None:
            about = f"{self._device.path} ({self._device.model}, serial number {self._device.serial})"
            raise DriveError(f"{about} {what}; dmesg may tell why. What was recorded is kept.")

    def wait(self, seconds: float) -> None:
        """Wait for ``seconds``. Raises as :meth:`check`."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, PERIOD_S))
            self.check()

    def _wrong(self) -> str | None:
        now = self._look()
        if now is None:
            return None if self._known is None else "has gone: this computer does not see it any more"
        if now == self._known:
            return "has failed: the kernel has given it up" if self._state() in _GIVEN_UP else None
        if now.is_file:
            return "has gone; a program made a file of that name, which takes memory and has to be removed"
        return "went away while it was measured, and is back with its settings as after a reset"

    def _look(self) -> _Node | None:
        try:
            found = os.stat(self._device.path)
        except OSError:
            return None
        sequence = _read(self._sys / "class/block" / self._device.name / "diskseq")
        return _Node(stat.S_ISREG(found.st_mode), (found.st_dev, found.st_ino), found.st_rdev, sequence)

    def _state(self) -> str:
        return _read(self._sys / "class/nvme" / self._device.controller / "state")


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
