"""The fill of a drive: its rate, and the size of the SLC cache."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import polars as pl

from ...measure.figure import Figure, absent, ratio
from ...measure.phase import Whole, measure_whole
from ...measure.point import Point
from ...measure.source import Source
from ...measure.steadiness import steadiness
from ..changepoint import find_changes
from ..jobs import JobSection
from ..kind import KindOfTest, ScoreSection, kind_of_test
from ..outcome import Outcome
from ..suite import Test

MAX_POINTS = 64
MIN_BINS = 200


@kind_of_test("fill")
class FillTest(KindOfTest):
    """One long sequential write."""

    place = ScoreSection.FILL
    most_rows = 16

    def score(self, source: Source, test: Test, sections: Mapping[str, JobSection], scale: float) -> Outcome:
        """Rate for each GB written; SLC cache size by change point; rate after it."""
        out = Outcome()
        phases = source.named(test.id)
        if not phases:
            return out
        phase = phases[0][1]
        measured = measure_whole(source, phase)
        out.add_measured(source, phase, measured)
        point = measured.point({"gb": 0.0})
        out.score("whole fill", "MB/s", point["mb_per_s"])
        out.note_unsteady("whole fill: rate", point["mb_per_s"])
        out.score("whole fill", "W", point["mean_w"])
        out.score("whole fill", "MB/J", point["mb_per_j"])
        out.score("energy of the fill", "J", point["energy_j"])
        series = _series(source, measured, test.series_gb)
        if series is None:
            out.points = [point]
            return out
        out.series = series
        step = max(1, -(-len(series) // MAX_POINTS))
        for first in range(0, len(series), step):
            out.points.append(_point(source, series[first : first + step], point["mean_w"].u is not None))
        _cache_scores(out, source, series)
        return out


def _series(source: Source, measured: Whole, bin_gb: float) -> pl.DataFrame | None:
    """Return gb (end of the bin), t_s, mb_per_s, mean_w, energy_j, for bins of equal data; None for too little data."""
    where = np.flatnonzero(measured.moved)
    if len(where) < 2 * MIN_BINS or measured.span is None:
        return None
    order = np.argsort(measured.io.cqe_tick[where], kind="stable")
    done = np.cumsum(measured.io.nbytes[where][order])
    ticks = measured.io.cqe_tick[where][order]
    size = min(bin_gb * 1e9, float(done[-1]) / MIN_BINS)
    bins = int(done[-1] // size)
    ends = np.searchsorted(done, size * np.arange(1, bins + 1) * (1 - 1e-12))
    edges = np.concatenate(([measured.span.first_tick], ticks[np.minimum(ends, len(ticks) - 1)]))
    amounts = np.diff(np.concatenate(([0], done[np.minimum(ends, len(done) - 1)])))
    seconds = np.maximum(np.diff(edges), 1) * source.tick_s
    parts = [source.covered(a, b) for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)]
    joules = np.array([part.joules if part else math.nan for part in parts])
    return pl.DataFrame(
        {
            "gb": np.cumsum(amounts) / 1e9,
            "t_s": (edges[1:] - edges[0]) * source.tick_s,
            "mb_per_s": amounts / 1e6 / seconds,
            "mean_w": joules / seconds,
            "energy_j": joules,
            "seconds": seconds,
        }
    )


def _point(source: Source, part: pl.DataFrame, sure: bool) -> Point[Figure]:
    """``sure``: the power of the whole fill has an uncertainty, so that its parts have."""
    seconds, joules = float(part["seconds"].sum()), float(part["energy_j"].sum())
    megabytes = float((part["mb_per_s"] * part["seconds"]).sum())
    mean_w = joules / seconds
    power_u = source.power_u(mean_w) if sure and math.isfinite(mean_w) else None
    rate = Figure(megabytes / seconds, megabytes / seconds * source.model.interval_u(seconds) / seconds, "MB/s")
    power = Figure(mean_w, power_u, "W")
    none = absent("not told apart within a fill")
    figures = {
        "mb_per_s": rate,
        "iops": none,
        "mean_w": power,
        "mb_per_j": ratio(rate, power, "MB/J"),
        "mean_latency_s": none,
        "p99_latency_s": none,
        "energy_j": Figure(joules, None if power_u is None else power_u * seconds, "J"),
    }
    return Point({"gb": float(part["gb"][-1])}, figures)


def _cache_scores(out: Outcome, source: Source, series: pl.DataFrame) -> None:
    rate = series["mb_per_s"].to_numpy()
    gb = np.concatenate(([0.0], series["gb"].to_numpy()))
    changes = [c for c in find_changes(rate) if c.after < c.before]
    if not changes:
        out.notes.append(f"the write rate has one level: no SLC cache smaller than {gb[-1]:.4g} GB was seen")
        return
    first = changes[0]
    place = float(np.interp(first.place, np.arange(len(gb)), gb))
    half_bin = (gb[1] - gb[0]) / 2
    u = max(gb[first.high] - gb[first.at], gb[first.at] - gb[first.low]) + half_bin
    out.score("written before the rate falls (SLC cache)", "GB", Figure(place, float(u), "GB"))
    out.score("before the rate falls", "MB/s", Figure(first.before, unit="MB/s"))
    out.score("before the rate falls", "W", _drawn(source, series[: max(1, first.at - 1)]))
    out.score("after the last change", "MB/s", Figure(changes[-1].after, unit="MB/s"))
    out.score("after the last change", "W", _drawn(source, series[changes[-1].at + 1 :]))
    if len(changes) > 1:
        levels = ", ".join(f"{c.after:.0f} MB/s from {gb[c.at]:.4g} GB" for c in changes)
        out.notes.append(f"several levels after the first: {levels}")


def _drawn(source: Source, part: pl.DataFrame) -> Figure:
    """Mean power of one level of the fill."""
    seconds, watts = part["seconds"].to_numpy(), part["mean_w"].to_numpy()
    known = np.isfinite(watts)
    if not known.any():
        return absent(source.no_rail or "no rail", "W")
    mean_w = float(watts[known] @ seconds[known]) / float(seconds[known].sum())
    held, power = steadiness(watts, seconds), Figure(mean_w, source.power_u(mean_w), "W")
    return held.of(power) if held else power
