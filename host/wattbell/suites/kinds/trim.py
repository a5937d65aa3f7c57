"""How long a drive takes to trim."""

from __future__ import annotations

from collections.abc import Mapping

from ...measure.phase import Source, measure
from ..jobs import Section
from ..kind import Kind
from ..outcome import Outcome
from ..suite import Test


class Trim(Kind):
    """The job file trims."""

    name = "trim"

    def score(self, source: Source, test: Test, sections: Mapping[str, Section], scale: float) -> Outcome:
        out = Outcome()
        for section, phase in source.named(test.id):
            measured = measure(source, phase)
            out.add_measured(measured)
            mean_s, p99_s = measured.latency()
            out.score(f"mean latency, {section or test.id}", "s", mean_s)
            out.score(f"99th percentile of latency, {section or test.id}", "s", p99_s)
        return out
