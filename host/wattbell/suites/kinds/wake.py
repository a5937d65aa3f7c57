"""Wake-up: the first read after an idle time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from ...analysis.reached import LEVEL, UNKNOWN
from ...measure.figure import Figure
from ...measure.latency import mean_and_p99
from ...measure.source import Source
from ..jobs import JobSection
from ..kind import KindOfTest, ScoreSection, kind_of_test
from ..outcome import Outcome
from ..power import WakingRead, find_wake, note_power_management, note_settling, settling
from ..session import StepBuilder
from ..suite import Test


@kind_of_test("wake")
class WakeTest(KindOfTest):
    """The drive is left alone, then read once; again and again."""

    place = ScoreSection.WAKE_UP
    needs_jobs = False

    def steps(self, to: StepBuilder) -> None:
        to.settle()
        for k in range(to.repeats):
            to.add(f"#{k + 1}", wake=to.wake(k))

    def score(self, source: Source, test: Test, sections: Mapping[str, JobSection], scale: float) -> Outcome:
        """Latency of the first read after idle: from its doorbell (headline), and from CLKREQ#."""
        out = Outcome()
        note_power_management(out, source, test)
        note_settling(out, source, test)
        rows: list[dict[str, float | str | None]] = []
        for number, _, phase in source.numbered(test.id):
            out.add_loss(source, phase)
            found = find_wake(source, phase)
            if found is not None:
                row: dict[str, float | str | None] = {"wake": number, "latency_s": source.seconds(found.cqe - found.doorbell)}
                row["from_clkreq_s"] = None if found.clkreq is None else source.seconds(found.cqe - found.clkreq)
                row["idle_s"] = source.seconds(found.begin - found.quiet_from)
                row["state"] = _before(source, found)
                rows.append(row)
        if not rows:
            out.notes.append("no waking read was seen")
            return out
        out.series = pl.DataFrame(rows, schema_overrides={"from_clkreq_s": pl.Float64, "state": pl.String})
        states = out.series["state"].unique(maintain_order=True).to_list()
        out.notes.append(f"woken from {' and '.join(_words(state) for state in states)}")
        if len(states) > 1:
            # A mean over waking from several states describes no state.
            out.notes.append("NO SCORE over all of them: the drive was not in one state; each state has its own")
        for state in states:
            mine = out.series.filter(pl.col("state").eq_missing(state))
            _scores(out, source, mine, f" from {_words(state)}" if len(states) > 1 else "")
        return out

    def charted(self, name: str, unit: str) -> bool:
        return name.startswith("median")


def _scores(out: Outcome, source: Source, rows: pl.DataFrame, which: str) -> None:
    for name, column in (("doorbell to completion", "latency_s"), ("CLKREQ# to completion", "from_clkreq_s")):
        values = rows[column].drop_nulls().to_numpy()
        if not len(values):
            continue
        ticks = np.rint(values / source.tick_s).astype(np.int64)
        out.score(f"mean, {name}{which}", "s", mean_and_p99(ticks, source.tick_s, source.model)[0])
        out.score(f"median, {name}{which}", "s", Figure(float(np.median(values)), unit="s"))
        longest = float(values.max())
        out.score(f"longest, {name}{which}", "s", Figure(longest, source.model.interval_u(longest), "s"))


def _before(source: Source, found: WakingRead) -> str | None:
    """Return the state that a waking read woke the drive from; None if unknown."""
    level = settling(source, found.quiet_from, found.begin)
    return level.name if level is not None and level.name != UNKNOWN and not level.name.startswith(LEVEL) else None


def _words(state: str | None) -> str:
    return "a state that is not known" if state is None else state
