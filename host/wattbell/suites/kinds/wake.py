"""Wake-up: the first read after an idle time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from ...measure.figure import Figure
from ...measure.latency import mean_and_p99
from ...measure.source import Source
from ..jobs import Section
from ..kind import Kind, Place
from ..outcome import Outcome
from ..power import find_wake, note_power_management, note_settling
from ..session import Steps
from ..suite import Test


class Wake(Kind):
    """The drive is left alone, then read once; again and again."""

    name = "wake"
    place = Place.WAKE_UP
    needs_jobs = False

    def steps(self, to: Steps) -> None:
        to.settle()
        for k in range(to.repeats):
            to.add(f"#{k + 1}", wake=to.wake(k))

    def score(self, source: Source, test: Test, sections: Mapping[str, Section], scale: float) -> Outcome:
        """Latency of the first read after idle: from its doorbell (headline), and from CLKREQ#."""
        out = Outcome()
        note_power_management(out, source, test)
        note_settling(out, source, test)
        rows: list[dict[str, float | None]] = []
        for number, _, phase in source.numbered(test.id):
            out.add_loss(source, phase)
            found = find_wake(source, phase)
            if found is not None:
                row: dict[str, float | None] = {"wake": number, "latency_s": source.seconds(found.cqe - found.doorbell)}
                row["from_clkreq_s"] = None if found.clkreq is None else source.seconds(found.cqe - found.clkreq)
                row["idle_s"] = source.seconds(found.begin - found.quiet_from)
                rows.append(row)
        if not rows:
            out.notes.append("no waking read was seen")
            return out
        out.series = pl.DataFrame(rows, schema_overrides={"from_clkreq_s": pl.Float64})
        for name, column in (("doorbell to completion", "latency_s"), ("CLKREQ# to completion", "from_clkreq_s")):
            values = out.series[column].drop_nulls().to_numpy()
            if not len(values):
                continue
            ticks = np.rint(values / source.tick_s).astype(np.int64)
            out.score(f"mean, {name}", "s", mean_and_p99(ticks, source.tick_s, source.model)[0])
            out.score(f"median, {name}", "s", Figure(float(np.median(values)), unit="s"))
            longest = float(values.max())
            out.score(f"longest, {name}", "s", Figure(longest, source.model.interval_u(longest), "s"))
        return out

    def charted(self, name: str, unit: str) -> bool:
        return name.startswith("median")
