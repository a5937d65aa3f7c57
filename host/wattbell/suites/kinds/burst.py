"""Bursts with rests between them."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import polars as pl

from ...measure.figure import Figure
from ...measure.phase import measure
from ...measure.source import Source
from ...measure.steadiness import steadiness
from ..jobs import JobSection
from ..kind import KindOfTest, kind_of_test
from ..outcome import REVIEWS, TOTALS, Outcome
from ..rates import Rests, pooled
from ..suite import Test


@kind_of_test("burst")
class BurstTest(KindOfTest):
    """Each section of the job file is a burst."""

    def score(self, source: Source, test: Test, sections: Mapping[str, JobSection], scale: float) -> Outcome:
        """Mean of the bursts' rates, and all data over all busy time."""
        out = Outcome()
        rows: list[dict[str, float | None]] = []
        points = []
        rest = Rests(out, source)
        for section, phase in source.named(test.id):
            measured = measure(source, phase)
            rest.add(measured)
            out.add_measured(source, phase, measured)
            point = measured.point({"qd": sections[section].depth if section in sections else 1})
            points.append(point)
            rows.append({"burst": len(rows) + 1, **{k: point[k].value for k in ("mb_per_s", "mean_w", "mean_latency_s")}})
        if not points:
            return out
        out.points = [pooled(points)]
        out.score("all data over busy time", "MB/s", out.points[0]["mb_per_s"], TOTALS)
        power = out.points[0]["mean_w"]
        each_w = [p["mean_w"].value for p in points]
        held = steadiness(np.array([math.nan if w is None else w for w in each_w]), np.array([p.active_s or 0.0 for p in points]))
        if held is not None:
            power = held.of(power)
            out.note_unsteady("power over the bursts", power)
        out.score("power while busy", "W", power, TOTALS)
        out.score("all data over all energy", "MB/J", out.points[0]["mb_per_j"], TOTALS)
        rates = [p["mb_per_s"].value for p in points if p["mb_per_s"].value is not None]
        if len(rates) == len(points):
            spread = 2 * float(np.std(rates, ddof=1)) / math.sqrt(len(rates)) if len(rates) > 1 else None
            lost = sum(p["mb_per_s"].lost for p in points)
            out.score("mean of the bursts", "MB/s", Figure(float(np.mean(rates)), spread, "MB/s", lost), REVIEWS)
        out.series = pl.DataFrame(rows)
        rest.note()
        return out
