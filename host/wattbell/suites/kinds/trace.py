"""The replay of a trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...measure.figure import Figure, ratio
from ...measure.phase import READ, WRITE, Whole, measure_whole
from ...measure.point import Point
from ...measure.source import Source
from ..jobs import JobSection
from ..kind import JsonScore, KindOfTest, ScoreSection, kind_of_test
from ..outcome import REVIEWS, TOTALS, Outcome
from ..session import StepBuilder
from ..suite import Test
from ..traces.composition import COMPOSITIONS


@kind_of_test("trace")
class TraceTest(KindOfTest):
    """A generated trace, its pauses cut short."""

    place = ScoreSection.TRACES
    needs_jobs = False

    def problem(self, test: Test) -> str | None:
        return None if test.trace in COMPOSITIONS else f"a trace test needs `trace`, one of {', '.join(COMPOSITIONS)}"

    def steps(self, to: StepBuilder) -> None:
        name = f"{to.test.trace}-like.iolog"
        to.session.traces[name] = to.test.trace
        to.add(trace=name, trace_idle_cut_s=to.test.trace_idle_cut_s)

    def score(self, source: Source, test: Test, sections: Mapping[str, JobSection], scale: float) -> Outcome:
        """Data rate, latency of all, reads and writes, and energy of a replay."""
        out = Outcome()
        phases = source.named(test.id)
        if not phases:
            return out
        phase = phases[0][1]
        measured = measure_whole(source, phase)
        out.add_measured(source, phase, measured)
        if measured.span is None:
            return out
        first, last = measured.span.first_tick, measured.span.last_tick
        elapsed = source.seconds(last - first)
        busy = source.seconds(busy_ticks(measured))
        energy, power = source.energy(first, last, measured.lost)
        megabytes = measured.bytes / 1e6
        whole = measured.rate(megabytes, "MB/s", elapsed)
        # The totals are known, however much the power changed on the way.
        efficiency = ratio(Figure(megabytes, 0.0, "MB", measured.lost), energy, "MB/J")
        out.score("data over elapsed time", "MB/s", whole, TOTALS)
        out.score("power", "W", power, TOTALS)
        out.score("all data over all energy", "MB/J", efficiency, TOTALS)
        out.score("data over busy time", "MB/s", measured.rate(megabytes, "MB/s", busy), REVIEWS)
        all_mean, all_p99 = measured.latency()
        for name, opcode in (("all", None), ("reads", READ), ("writes", WRITE)):
            average, p99 = measured.latency(opcode)
            out.score(f"mean latency, {name}", "s", average)
            out.score(f"99th percentile of latency, {name}", "s", p99)
        out.score("energy", "J", energy)
        out.score("elapsed", "s", Figure(elapsed, source.model.interval_u(elapsed), "s", measured.lost))
        figures = {
            "mb_per_s": whole,
            "iops": measured.rate(measured.count, "1/s", elapsed),
            "mean_w": power,
            "mb_per_j": efficiency,
            "mean_latency_s": all_mean,
            "p99_latency_s": all_p99,
            "energy_j": energy,
        }
        out.points = [Point({"t_s": 0.0}, figures, measured.bytes, elapsed)]
        return out

    def summed_up(self, scores: Sequence[JsonScore]) -> list[JsonScore]:
        return [score for score in scores if score["name"] in ("mean latency, all", "99th percentile of latency, all", "energy")]


def busy_ticks(measured: Whole) -> int:
    """Time with at least one I/O in flight: the union of doorbell to CQE."""
    start = measured.io.start_tick
    end = np.maximum.accumulate(np.maximum(measured.io.cqe_tick, start))
    if not len(start):
        return 0
    begin = np.maximum(start[1:], end[:-1])
    return int(end[0] - start[0] + np.maximum(end[1:] - begin, 0).sum())
