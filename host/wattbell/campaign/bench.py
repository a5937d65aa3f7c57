"""The interface between a campaign and its bench, virtual or real."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from ..capture import Capture
from ..jsondata import JsonObject
from ..suites.drive import Drive
from ..suites.session import Choice, Session
from ..suites.step import Step
from ..suites.suite import Suite, Test


class Bench(Protocol):
    """A place where sessions run. Methods are called in the order given here, the last three once a session."""

    @property
    def choice(self) -> Choice:
        """How suites are planned for this bench."""

    def inspect(self, suite: Suite, pairs: Sequence[tuple[Test, str]]) -> Drive:
        """The drive under test. Raises an error when these tests cannot, or must not, run on it."""

    def open(self) -> AbstractContextManager[object]:
        """Keep the bench open for the duration of the block."""

    @property
    def virtual(self) -> bool:
        """Whether its rig is a virtual one."""

    def conditions(self) -> JsonObject:
        """``conditions`` of results.json: how the bench was set up."""

    def versions(self) -> dict[str, str]:
        """Entries of ``versions`` in results.json that are known before the first session."""

    def prepare(self, session: Session) -> None:
        """Get ready for a session, before anything is recorded."""

    def run(
        self, session: Session, plans: Path, capture: Path, conditions: Mapping[str, Any], on_step: Callable[[Step, bool], None]
    ) -> None:
        """Run the session and record it.

        capture: folder of the capture, replaced if it is there
        plans: folder for the plan and its files
        conditions: the same object in results.json
        on_step: called with each step as it begins, if the bench knows, and whether the step is left out
        """

    def accept(self, capture: Capture) -> JsonObject:
        """Return the session's additions to ``conditions`` of results.json. Raises an error when the capture is not of this drive."""
