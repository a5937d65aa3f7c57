"""Performance consistency: I/O by the second over a long run."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import polars as pl

from ...measure.figure import Figure
from ...measure.latency import standard_error
from ...measure.phase import PhaseMeasurement, measure
from ...measure.source import Source
from ...measure.steadiness import steadiness
from ..jobs import JobSection
from ..kind import KindOfTest, kind_of_test
from ..outcome import Outcome
from ..suite import Test


@kind_of_test("consistency")
class ConsistencyTest(KindOfTest):
    """One load, long enough to reach a steady state."""

    def score(self, source: Source, test: Test, sections: Mapping[str, JobSection], scale: float) -> Outcome:
        """IOPS by second, and the score over the last seconds: mean, and mean over standard deviation."""
        out = Outcome()
        phases = source.named(test.id)
        if not phases:
            return out
        phase = phases[0][1]
        measured = measure(source, phase)
        out.add_measured(source, phase, measured)
        series = time_series(source, measured, test.series_s * scale)
        out.series = series
        out.points = [measured.point({"t_s": 0.0})]
        tail = series.tail(max(2, round(test.score_last_s / test.series_s)))
        iops = tail["iops"].to_numpy()
        if len(iops) < 2:
            out.notes.append("too short for a score")
            return out
        error = standard_error(iops)
        average, spread = float(iops.mean()), float(np.std(iops, ddof=1))
        last = f"last {test.score_last_s * scale:g} s"
        rate = Figure(average, None if error is None else 2 * error, "1/s", measured.lost)
        out.score(f"mean, {last}", "IOPS", _held(out, f"rate, {last},", iops, rate))
        consistent = Figure(average / spread if spread else None, None, "1", measured.lost)
        out.score(f"mean / standard deviation, {last}", "1", consistent)
        out.score(f"lowest second, {last}", "IOPS", Figure(float(iops.min()), None, "1/s", measured.lost))
        out.score(f"highest second, {last}", "IOPS", Figure(float(iops.max()), None, "1/s", measured.lost))
        watts = tail["mean_w"].drop_nulls()
        if len(watts):
            mean_w = float(watts.mean())  # type: ignore[arg-type]
            power = Figure(mean_w, source.power_u(mean_w), "W")
            out.score(f"power, {last}", "W", _held(out, f"power, {last},", watts.to_numpy(), power))
        out.score("mean latency, whole run", "s", out.points[0]["mean_latency_s"])
        out.score("99th percentile of latency, whole run", "s", out.points[0]["p99_latency_s"])
        return out

    def charted(self, name: str, unit: str) -> bool:
        """The mean over the standard deviation, too."""
        return unit != "1" or "deviation" in name


def _held(out: Outcome, what: str, values: npt.NDArray[np.float64], mean: Figure) -> Figure:
    """Return the mean of ``values``, one a second, with their change in its uncertainty."""
    held = steadiness(values.astype(np.float64))
    found = held.of(mean) if held else mean
    out.note_unsteady(what, found)
    return found


def time_series(source: Source, measured: PhaseMeasurement, bin_s: float) -> pl.DataFrame:
    """t_s (start of the bin), iops, mb_per_s, mean_w by bins of ``bin_s``."""
    bin_ticks = max(1, round(bin_s / source.tick_s))
    counts, nbytes = measured.per_bin(bin_ticks)
    first = measured.span.first_tick if measured.span else 0
    parts = [source.covered(first + k * bin_ticks, first + (k + 1) * bin_ticks) for k in range(len(counts))]
    power = [part.joules / part.covered_s if part else None for part in parts]
    return pl.DataFrame(
        {
            "t_s": np.arange(len(counts)) * bin_s,
            "iops": counts / bin_s,
            "mb_per_s": nbytes / 1e6 / bin_s,
            "mean_w": power,
        },
        schema_overrides={"mean_w": pl.Float64},
    )
