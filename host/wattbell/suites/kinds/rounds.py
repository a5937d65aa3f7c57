"""Tests in rounds until steady state (SNIA SSS PTS 2.0)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from ...errors import UsageError
from ...measure.figure import Figure, K, mean, ratio
from ...measure.phase import PhaseMeasurement, measure
from ...measure.point import Point
from ...measure.source import Source
from ..jobs import JobSection
from ..kind import RATES, JsonScore, KindOfTest, first_of, kind_of_test
from ..outcome import Outcome
from ..session import StepBuilder
from ..steady import RANGE_LIMIT, SLOPE_LIMIT, WINDOW, find_steady, window
from ..suite import Test
from ..units import size_bytes

QUANTITIES = ("iops", "mb_per_s", "mean_latency_s")
"""In which a steady state can be reached."""
_UNITS = {"iops": "IOPS", "mb_per_s": "MB/s", "mean_latency_s": "s"}
_SERIES = ("iops", "mb_per_s", "mean_latency_s", "mean_w")


@kind_of_test("rounds")
class RoundsTest(KindOfTest):
    """The whole job file is a round; rounds are repeated until five are steady, or all have been run."""

    def problem(self, test: Test) -> str | None:
        if test.rounds_max and test.track and test.quantity in QUANTITIES:
            return None
        return f"a test of kind {self.name} needs `rounds_max`, `track` and a `quantity` of {', '.join(QUANTITIES)}"

    def steps(self, to: StepBuilder) -> None:
        """Plan as many rounds as were chosen; for a real drive the largest number, and rounds behind the steady state are left out."""
        test, choice = to.test, to.choice
        job = to.job()
        for k in range(min(test.rounds_max, max(1, choice.rounds or (test.rounds_max if choice.real else test.rounds_first)))):
            to.add(f"#{k + 1}", fio=job)

    def enough(self, test: Test, tracked: Sequence[Sequence[float]]) -> bool:
        return min(map(len, tracked), default=0) >= test.rounds_first and _first_steady(test, tracked) is not None

    def score(self, source: Source, test: Test, sections: Mapping[str, JobSection], scale: float) -> Outcome:
        """Return means over the steady window of five rounds; ``unfinished`` if the window is not steady.

        It is the first steady window. For a test without preconditioning it is the last five rounds: under write saturation, a drive may be
        steady before it is saturated.
        """
        out = Outcome()
        by_round: dict[int, dict[str, Point[Figure]]] = {}
        rows = []
        split: dict[str, None] = {}
        for number, section, phase in source.numbered(test.id):
            name = section or next(iter(sections))
            job = sections.get(name)
            if job is None:
                phase_name = f"{test.id}#{number}/{name}"
                raise UsageError(
                    f"The capture's phase {phase_name} is from a job that is not in {test.jobs}: it was recorded with another suite."
                )
            block = size_bytes(job.options.get("bs", "4k"))
            measured = measure(source, phase)
            point = measured.point({"write_share": job.write_share, "block_bytes": block, "qd": job.depth})
            if _is_split(measured, block):
                split[name] = None
                point = replace(point, figures={**point.figures, "iops": measured.rate(measured.bytes / block, "1/s")})
            out.add_measured(source, phase, measured)
            by_round.setdefault(number, {})[name] = point
            rows.append({"round": number, "section": name, **{key: point[key].value for key in _SERIES}})
        if not by_round:
            return out
        out.series = pl.DataFrame(rows, infer_schema_length=None)
        ordered = [by_round[k] for k in sorted(by_round)]
        tracked = [[r[s][test.quantity].value or 0.0 for r in ordered if s in r] for s in test.track]
        first = _first_steady(test, tracked)
        out.unfinished = first is None and len(ordered) < test.rounds_max
        chosen = _chosen(out, test, ordered, tracked, first)
        for name in chosen[0]:
            merged = _merged([r[name] for r in chosen if name in r], steady=first is not None)
            out.points.append(merged)
            if name in test.track:
                out.score(name, _UNITS[test.quantity], merged[test.quantity])
        out.score("rounds run", "1", Figure(float(len(ordered)), unit="1"))
        if split:
            text = "their I/Os are larger than a command of this drive: IOPS counts I/Os of the host, latency is that of a command"
            out.notes.append(f"{', '.join(split)}: {text}")
        return out

    def summed_up(self, scores: Sequence[JsonScore]) -> list[JsonScore]:
        """The other tracked ones, and how many rounds it took."""
        return [score for score in scores if score is not first_of(scores, RATES)]


def _first_steady(test: Test, tracked: Sequence[Sequence[float]]) -> int | None:
    """Return the first round of the window that the figures use; None if no such window is steady."""
    return find_steady(tracked) if test.fill is not None else _at_the_end(tracked)


def _is_split(measured: PhaseMeasurement, block: int) -> bool:
    """Whether the host made several commands of each I/O (MDTS): the rig sees commands."""
    return measured.count > 0 and measured.bytes / measured.count < 0.75 * block


def _at_the_end(tracked: Sequence[Sequence[float]]) -> int | None:
    """The window of the last rounds, if every quantity is steady in it."""
    first = min((len(values) for values in tracked), default=0) - WINDOW + 1
    return first if first >= 1 and all(window(values, first).steady for values in tracked) else None


def _chosen(
    out: Outcome, test: Test, ordered: Sequence[Mapping[str, Point[Figure]]], tracked: Sequence[Sequence[float]], first: int | None
) -> Sequence[Mapping[str, Point[Figure]]]:
    """The rounds that the figures are of; says which, and how steady they were."""
    steady = first is not None
    if first is None:
        first = max(1, len(ordered) - WINDOW + 1)
        which = f"the figures are of the last {min(WINDOW, len(ordered))}"
        out.notes.append(f"no steady state within {len(ordered)} round{'s' if len(ordered) > 1 else ''}: {which}")
    if len(ordered) >= WINDOW:
        ranges = ", ".join(
            f"{s} range {w.range_share:.1%}, slope {w.slope_share:z.1%}"
            for s, w in zip(test.track, (window(values, first) for values in tracked), strict=True)
        )
        limits = f"limits {RANGE_LIMIT:.0%} and {SLOPE_LIMIT:.0%}"
        where = f"steady in rounds {first} to {first + WINDOW - 1} of {len(ordered)}" if steady else "the last rounds"
        out.notes.append(f"{where}: {ranges} ({limits})")
    return ordered[first - 1 : first - 1 + WINDOW]


def _merged(points: Sequence[Point[Figure]], *, steady: bool) -> Point[Figure]:
    """Return the mean over rounds, figure by figure, with the difference between rounds in its uncertainty.

    The difference is two standard errors of a steady window, else the distance of the farthest round from the mean.
    """
    merged = {name: _over([p[name] for p in points], steady) for name in points[0].figures}
    merged["mb_per_j"] = ratio(merged["mb_per_s"], merged["mean_w"], "MB/J")
    return Point(points[0].x, merged)


def _over(rounds: Sequence[Figure], steady: bool) -> Figure:
    found = mean(rounds)
    if found.value is None or found.u is None or len(rounds) < 2:
        return found
    values = np.array([one.known for one in rounds])
    apart = K * float(values.std(ddof=1)) / math.sqrt(len(values)) if steady else float(np.abs(values - values.mean()).max())
    return replace(found, u=math.hypot(found.u, apart))
