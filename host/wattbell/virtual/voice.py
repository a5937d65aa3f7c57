"""What a long job says while it goes on; the command line prints it (:mod:`wattbell.cli.output`)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from ..capture.record import Progress


class Voice(Protocol):
    """Who is told."""

    def say(self, text: str) -> None:
        """A line for the reader."""

    def spinner(self, text: str) -> AbstractContextManager[object]:
        """What is done for as long as the block lasts."""

    def recording(self, serial: str) -> AbstractContextManager[Callable[[Progress], None]]:
        """A rig is recorded for as long as the block lasts; the result takes how far it is."""
