"""Who sees the commands of a real drive."""

from __future__ import annotations

from enum import StrEnum


class CommandObserver(StrEnum):
    """Who sees the drive's commands. ``auto``: the tap if it can, else the best of the host's logs that there is."""

    auto = "auto"
    tap = "tap"
    trace = "trace"
    blktrace = "blktrace"
    fio = "fio"
