"""Rates by queue depth."""

from __future__ import annotations

from collections.abc import Mapping

from ...measure.source import Source
from ..jobs import JobSection
from ..kind import KindOfTest, kind_of_test
from ..outcome import Outcome
from ..rates import score_over, sweep
from ..suite import Test


@kind_of_test("queue-depths")
class QueueDepthsTest(KindOfTest):
    """Each section of the job file is a queue depth."""

    def score(self, source: Source, test: Test, sections: Mapping[str, JobSection], scale: float) -> Outcome:
        """One point a queue depth; the score is over the low ones."""
        out = Outcome()
        sweep(out, source, test, lambda name: {"qd": sections[name].depth})
        over = [p for p in out.points if p.x["qd"] in test.score_over]
        if over and len(over) == len(test.score_over):
            depths = "QD" + ", ".join(str(d) for d in test.score_over)
            score_over(out, over, f"{depths} together", f"mean of {depths}")
        elif out.points:
            out.notes.append("no score: not every queue depth it needs was run")
        return out
