"""The interface of a kind of test. The kinds themselves are in :mod:`.kinds`, one class and one file each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import Any, TypeVar

from ..measure.source import Source
from ..plugins import PartRegister
from .jobs import JobSection
from .outcome import Outcome
from .session import StepBuilder
from .suite import Test

AT_BEST = "highest, at "
"""Prefix of the score that says at which load the rate was highest."""
RATES = ("MB/s", "IOPS")
EFFICIENCIES = ("MB/J", "MB/s/W")
"""Bytes per joule, and the reading of SSD reviews; also of runs that were stored before the first was there."""
JsonScore = Mapping[str, Any]
"""A score in the form of results.json."""


class ScoreSection(Enum):
    """The section of a page that shows the scores of a kind."""

    SCORES = auto()
    FILL = auto()
    TRACES = auto()
    IDLE = auto()
    WAKE_UP = auto()
    POWER_STATES = auto()
    POWER_ON = auto()
    TRANSITIONS = auto()


class KindOfTest(ABC):
    """A kind of test. A subclass registers itself with :func:`kind_of_test` and inherits all that it leaves undefined."""

    name = ""
    """``kind`` of a manifest."""
    needs_jobs = True
    place = ScoreSection.SCORES
    most_rows: int | None = None
    """Most rows of the table in a terminal; None for no limit."""

    def problem(self, test: Test) -> str | None:
        """Return the fault of a test's entry in the manifest; None without a fault."""
        return None

    def steps(self, to: StepBuilder) -> None:
        """Append the test's steps to its session: the job file, with rests where the test has a duty cycle."""
        if to.test.duty is None:
            to.add(fio=to.job())
        else:
            to.add(fio=to.job(), duty=to.test.duty, duty_idle_max_s=to.test.idle_max_s * to.choice.scale)

    def enough(self, test: Test, tracked: Sequence[Sequence[float]]) -> bool:
        """Whether a test needs no more rounds. ``tracked``: the values by round of each name in the test's ``track``."""
        return False

    @abstractmethod
    def score(self, source: Source, test: Test, sections: Mapping[str, JobSection], scale: float) -> Outcome:
        """Points and scores of a recorded test. ``sections``: of its job file, by name; ``scale``: at which it was run."""

    def charted(self, name: str, unit: str) -> bool:
        """Whether a page draws the score of that name as a bar."""
        return unit != "1" and not name.startswith(AT_BEST)

    def summed_up(self, scores: Sequence[JsonScore]) -> list[JsonScore]:
        """Return the scores that the summary shows in addition to rate, power and efficiency: the first in each other unit."""
        return [score for unit in ("GB", "s", "J", "1") if (score := first_of(scores, (unit,)))]


KINDS: PartRegister[KindOfTest] = PartRegister("wattbell.kinds", "wattbell.suites.kinds")
"""Kinds by name."""
Kind = TypeVar("Kind", bound=type[KindOfTest])


def kind_of_test(name: str) -> Callable[[Kind], Kind]:
    """Register a class under the ``kind`` of a manifest."""

    def register(cls: Kind) -> Kind:
        cls.name = name
        KINDS.add(name, cls())
        return cls

    return register


def first_of(scores: Iterable[JsonScore], units: Sequence[str]) -> JsonScore | None:
    """The first score in one of the units that has a value."""
    return next((s for s in scores if s["unit"] in units and s["value"]["value"] is not None), None)
