"""Scores of long runs: performance consistency, trace replay."""

from __future__ import annotations

import numpy as np
import polars as pl

from ..analysis.latency import standard_error
from .manifest import Test
from .measure import READ, WRITE, Measured, Source, Whole, measure, measure_whole
from .outcome import Outcome
from .quantity import quantity, ratio


def time_series(measured: Measured, bin_s: float) -> pl.DataFrame:
    """t_s (start of the bin), iops, mb_per_s, mean_w by bins of ``bin_s``."""
    source = measured.source
    bin_ticks = max(1, round(bin_s / source.tick_s))
    counts, nbytes = measured.per_bin(bin_ticks)
    first = measured.span.first_tick if measured.span else 0
    power = [source.energy(first + k * bin_ticks, first + (k + 1) * bin_ticks)[1]["value"] for k in range(len(counts))]
    return pl.DataFrame(
        {
            "t_s": np.arange(len(counts)) * bin_s,
            "iops": counts / bin_s,
            "mb_per_s": nbytes / 1e6 / bin_s,
            "mean_w": power,
        },
        schema_overrides={"mean_w": pl.Float64},
    )


def consistency(source: Source, test: Test, scale: float) -> Outcome:
    """IOPS by second, and the score over the last seconds: mean, and mean over standard deviation."""
    out = Outcome()
    phases = source.named(test.id)
    if not phases:
        return out
    measured = measure(source, phases[0][1])
    out.add_measured(measured)
    series = time_series(measured, test.series_s * scale)
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
    out.score(f"mean, {last}", "IOPS", quantity(average, None if error is None else 2 * error, measured.lost))
    consistent = quantity(average / spread if spread else None, None, measured.lost)
    out.score(f"mean / standard deviation, {last}", "1", consistent)
    out.score(f"lowest second, {last}", "IOPS", quantity(float(iops.min()), None, measured.lost))
    out.score(f"highest second, {last}", "IOPS", quantity(float(iops.max()), None, measured.lost))
    watts = tail["mean_w"].drop_nulls()
    if len(watts):
        mean_w = float(watts.mean())  # type: ignore[arg-type]
        out.score(f"power, {last}", "W", quantity(mean_w, source.power_u(mean_w)))
    out.score("mean latency, whole run", "s", out.points[0]["mean_latency_s"])
    out.score("99th percentile of latency, whole run", "s", out.points[0]["p99_latency_s"])
    return out


def trace(source: Source, test: Test) -> Outcome:
    """Data rate, latency of all, reads and writes, and energy of a replay."""
    out = Outcome()
    phases = source.named(test.id)
    if not phases:
        return out
    phase = phases[0][1]
    measured = measure_whole(source, phase)
    out.add_measured(measured)
    if measured.span is None:
        return out
    first, last = measured.span.first_tick, measured.span.last_tick
    elapsed = source.seconds(last - first)
    busy = source.seconds(busy_ticks(measured))
    energy, power = source.energy(first, last, measured.lost)
    megabytes = measured.bytes / 1e6
    out.score("data over busy time", "MB/s", measured.rate(megabytes, busy))
    out.score("data over elapsed time", "MB/s", measured.rate(megabytes, elapsed))
    all_mean, all_p99 = measured.latency()
    for name, opcode in (("all", None), ("reads", READ), ("writes", WRITE)):
        average, p99 = measured.latency(opcode)
        out.score(f"mean latency, {name}", "s", average)
        out.score(f"99th percentile of latency, {name}", "s", p99)
    whole = measured.rate(megabytes, elapsed)
    out.score("energy", "J", energy)
    out.score("all data over all energy", "MB/s/W", ratio(whole, power))
    out.score("power", "W", power)
    out.score("elapsed", "s", quantity(elapsed, source.model.interval_u(elapsed), measured.lost))
    rate = measured.rate(megabytes, busy)
    out.points = [
        {
            "x": {"t_s": 0.0},
            "mb_per_s": rate,
            "iops": measured.rate(measured.count, busy),
            "mean_w": power,
            "mb_per_s_per_w": ratio(whole, power),
            "mean_latency_s": all_mean,
            "p99_latency_s": all_p99,
            "energy_j": energy,
            "bytes": measured.bytes,
            "active_s": busy,
        }
    ]
    return out


def busy_ticks(measured: Whole) -> int:
    """Time with at least one I/O in flight: the union of doorbell to CQE."""
    start = measured.io.start_tick
    end = np.maximum.accumulate(np.maximum(measured.io.cqe_tick, start))
    if not len(start):
        return 0
    begin = np.maximum(start[1:], end[:-1])
    return int(end[0] - start[0] + np.maximum(end[1:] - begin, 0).sum())
