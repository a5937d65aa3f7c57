"""What a kind of test is to the rest: one class, all that is known of the kind in it. The kinds are in :mod:`.kinds`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..measure.phase import Source
from .jobs import Section
from .outcome import Outcome
from .session import Steps
from .suite import Test


class Kind:
    """A kind of test. A subclass is registered under its ``name``, the ``kind`` of a manifest; what it leaves out is as it is here."""

    name = ""
    needs_jobs = True

    def __init_subclass__(cls) -> None:
        if cls.name in REGISTRY:
            raise ValueError(f"two kinds of test are called {cls.name}")
        REGISTRY[cls.name] = cls()

    def problem(self, test: Test) -> str | None:
        """What is wrong with a test's entry in the manifest; None when nothing is."""
        return None

    def steps(self, to: Steps) -> None:
        """Put the steps of a test into its session: the job file, with rests as the test's duty asks for them."""
        test = to.test
        rests: dict[str, Any] = {} if test.duty is None else {"duty": test.duty, "duty_idle_max_s": test.idle_max_s * to.choice.scale}
        to.add(fio=to.job(), **rests)

    def enough(self, test: Test, tracked: Sequence[Sequence[float]]) -> bool:
        """Whether a test in rounds needs no more of them. ``tracked``: by round the values of each of the test's ``track``."""
        return False

    def score(self, source: Source, test: Test, sections: Mapping[str, Section], scale: float) -> Outcome:
        """Points and scores of a recorded test. ``sections``: of its job file, by name; ``scale``: at which it was run."""
        raise NotImplementedError


REGISTRY: dict[str, Kind] = {}
"""The kinds by name."""
