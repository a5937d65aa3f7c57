"""Rates by share of writes."""

from __future__ import annotations

from collections.abc import Mapping

from ...measure.source import Source
from ..jobs import JobSection
from ..kind import KindOfTest, kind_of_test
from ..outcome import Outcome
from ..rates import score_over, sweep
from ..suite import Test


@kind_of_test("mixes")
class MixesTest(KindOfTest):
    """Each section of the job file is a mix of reads and writes."""

    def score(self, source: Source, test: Test, sections: Mapping[str, JobSection], scale: float) -> Outcome:
        """Return one point a mix; the score is over all mixes."""
        out = Outcome()
        sweep(out, source, test, lambda name: {"write_share": sections[name].write_share})
        if out.points:
            score_over(out, out.points, "mixes together", "all mixes")
        return out
