"""Rates over the sections of a job file, shared by bursts, queue depths and mixes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ..measure.figure import Figure, absent, mean, ratio, total
from ..measure.phase import PhaseMeasurement, measure
from ..measure.point import Point
from ..measure.source import Source
from ..measure.throughput import ActiveTime
from ..text import si
from .kind import AT_BEST
from .outcome import REVIEWS, TOTALS, Outcome
from .suite import Test


class Rests:
    """Notes how long a drive really rested between sections: the figures hold for the duty cycle achieved."""

    def __init__(self, out: Outcome, source: Source) -> None:
        self._out, self._source = out, source
        self._spans: list[ActiveTime] = []

    def add(self, measured: PhaseMeasurement) -> None:
        """The next section."""
        if measured.span is not None:
            self._spans.append(measured.span)

    def note(self) -> None:
        """A note, where there were rests."""
        if len(self._spans) < 2:
            return
        whole = self._spans[-1].first_tick - self._spans[0].first_tick
        busy = sum(span.active_ticks for span in self._spans[:-1])
        rests = [b.first_tick - a.last_tick for a, b in zip(self._spans[:-1], self._spans[1:], strict=True)]
        low, high = (si(self._source.seconds(t), "s", 3) for t in (min(rests), max(rests)))
        self._out.notes.append(f"busy for {busy / whole:.1%} of the time; rests of {low} to {high}")


def pooled(points: Sequence[Point[Figure]]) -> Point[Figure]:
    """One point of several with equal loads: data and energy over the sum of active times."""
    each_s = [p.active_s or 0.0 for p in points]
    seconds = sum(each_s)
    nbytes = sum(p.bytes or 0 for p in points)
    energy = total([p["energy_j"] for p in points])
    # Every rate of a phase has one relative uncertainty, the length's.
    rate = Figure(nbytes / 1e6 / seconds if seconds else None, None, "MB/s", energy.lost)
    us = [s / seconds * r.u / r.known for s, p in zip(each_s, points, strict=True) if (r := p["mb_per_s"]).u is not None and seconds]
    share = sum(us) if len(us) == len(points) else None
    if rate.value and share is not None:
        rate = replace(rate, u=rate.value * share)
    ops = sum(p["iops"].known * s for s, p in zip(each_s, points, strict=True) if p["iops"].value is not None)
    iops = ops / seconds if seconds else None
    power = ratio(energy, Figure(seconds, 0.0, "s"), "W")
    # Changes of power within the parts are in the uncertainty of the parts' power, and in no energy.
    drawn = [s / seconds * w.u for s, p in zip(each_s, points, strict=True) if (w := p["mean_w"]).u is not None and seconds]
    if power.u is not None and len(drawn) == len(points):
        power = replace(power, u=max(power.u, sum(drawn)))
    figures = {
        "mb_per_s": rate,
        "iops": Figure(iops, None if iops is None or share is None else iops * share, "1/s", rate.lost),
        "mean_w": power,
        "mb_per_j": ratio(rate, power, "MB/J"),
        "mean_latency_s": mean([p["mean_latency_s"] for p in points]),
        "p99_latency_s": absent("percentiles of parts are no percentile of the whole", "s", rate.lost),
        "energy_j": energy,
    }
    return Point(points[0].x, figures, nbytes, seconds)


def sweep(out: Outcome, source: Source, test: Test, x: Callable[[str], dict[str, float]]) -> None:
    """One point a section."""
    rest = Rests(out, source)
    for section, phase in source.named(test.id):
        measured = measure(source, phase)
        out.add_measured(source, phase, measured)
        rest.add(measured)
        out.points.append(measured.point(x(section)))
    rest.note()


def score_over(out: Outcome, points: Sequence[Point[Figure]], together: str, name: str) -> None:
    """Rate, power and efficiency over several points: of all their data, time and energy, then the mean of the points. ``together``,
    ``name``: of the two."""
    over_all = pooled(points)
    out.score(together, "MB/s", over_all["mb_per_s"], TOTALS)
    out.score(together, "W", over_all["mean_w"], TOTALS)
    out.score(together, "MB/J", over_all["mb_per_j"], TOTALS)
    out.score(name, "MB/s", mean([p["mb_per_s"] for p in points]), REVIEWS)
    out.score(name, "W", mean([p["mean_w"] for p in points]), REVIEWS)
    out.score(name, "MB/s/W", mean([p["mb_per_j"] for p in points]), REVIEWS)
    if points[0].x.keys() == {"qd"}:
        best = max(out.points, key=lambda p: p["mb_per_s"].value or 0.0)
        out.score(f"{AT_BEST}QD{best.x['qd']}", "MB/s", best["mb_per_s"])
