"""The kinds of tests, one a file: keys that a manifest must have, steps of the plan, scores, and their presentation.

A file in this folder with a subclass of :class:`~wattbell.suites.kind.KindOfTest` and the decorator
:func:`~wattbell.suites.kind.kind_of_test` is all that a new kind takes.
"""

from collections.abc import Mapping

from ...errors import UsageError
from ...measure.source import Source
from ..jobs import JobSection
from ..kind import KINDS, KindOfTest, ScoreSection
from ..outcome import Outcome
from ..suite import Test


class _Unknown(KindOfTest):
    """A kind of another version's results: shown as nothing special, and not scored."""

    def score(self, source: Source, test: Test, sections: Mapping[str, JobSection], scale: float) -> Outcome:
        """UsageError."""
        raise UsageError(f"Tests of kind {test.kind} are not known here; use the version of Wattbell that recorded {test.id}.")


_UNKNOWN = _Unknown()


def kind_of(name: str) -> KindOfTest:
    """The kind of that name, or one that is shown as nothing special where this version does not know the name."""
    return KINDS.get(name, _UNKNOWN)


__all__ = ["KINDS", "KindOfTest", "ScoreSection", "kind_of"]
