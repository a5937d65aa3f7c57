"""Progress messages of long jobs; the command line prints them (:mod:`wattbell.cli.output`)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from ..capture.record import Progress


class Voice(Protocol):
    """Receives the messages."""

    def say(self, text: str) -> None:
        """A line for the reader."""

    def spinner(self, text: str) -> AbstractContextManager[object]:
        """Shows that something is going on for the duration of the block."""

    def recording(self, serial: str) -> AbstractContextManager[Callable[[Progress], None]]:
        """Shows the progress of a recording for the duration of the block; call the result with it."""
