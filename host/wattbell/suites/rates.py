"""Scores of bursts, queue depths, mixes and the whole-drive fill."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from ..analysis.text import si
from ..analysis.throughput import Span
from .changepoint import find_changes
from .jobs import Section
from .manifest import Test
from .measure import Measured, Source, Whole, measure, measure_whole
from .outcome import OVER_RATIOS, RATIO_OF_MEANS, Outcome
from .quantity import mean, quantity, ratio, total

MAX_FILL_POINTS = 64
MIN_FILL_BINS = 200


def burst(source: Source, test: Test, sections: Mapping[str, Section]) -> Outcome:
    """Mean of the bursts' rates, and all data over all busy time."""
    out = Outcome()
    rows: list[dict[str, Any]] = []
    points = []
    rest = _Rest(out, source)
    for section, phase in source.named(test.id):
        measured = measure(source, phase)
        rest.add(measured)
        out.add_measured(measured)
        point = measured.point({"qd": sections[section].depth if section in sections else 1})
        points.append(point)
        rows.append({"burst": len(rows) + 1, **{k: point[k]["value"] for k in ("mb_per_s", "mean_w", "mean_latency_s")}})
    if not points:
        return out
    out.points = [_pooled(points)]
    rates = [p["mb_per_s"]["value"] for p in points]
    if all(r is not None for r in rates):
        spread = 2 * float(np.std(rates, ddof=1)) / math.sqrt(len(rates)) if len(rates) > 1 else None
        lost = sum(p["mb_per_s"]["n_lost"] for p in points)
        out.score("mean of the bursts", "MB/s", quantity(float(np.mean(rates)), spread, lost), OVER_RATIOS)
    out.score("all data over busy time", "MB/s", out.points[0]["mb_per_s"], RATIO_OF_MEANS)
    out.score("power while busy", "W", out.points[0]["mean_w"])
    out.score("efficiency", "MB/s/W", out.points[0]["mb_per_s_per_w"], RATIO_OF_MEANS)
    out.series = pl.DataFrame(rows)
    rest.note()
    return out


class _Rest:
    """Says how long a drive really rested between sections: the achieved duty belongs to the figures."""

    def __init__(self, out: Outcome, source: Source) -> None:
        self._out, self._source = out, source
        self._spans: list[Span] = []

    def add(self, measured: Measured) -> None:
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


def _pooled(points: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One point of several with equal loads: data and energy over the sum of active times."""
    seconds = sum(p["active_s"] for p in points)
    nbytes = sum(p["bytes"] for p in points)
    energy = total([p["energy_j"] for p in points])
    share = [p["active_s"] / seconds if seconds else 0.0 for p in points]
    # Every rate of a phase has one relative uncertainty, that of its length.
    rate = quantity(nbytes / 1e6 / seconds if seconds else None, None, energy["n_lost"])
    if rate["value"] and all(p["mb_per_s"]["u"] is not None for p in points):
        rate["u"] = rate["value"] * sum(s * p["mb_per_s"]["u"] / p["mb_per_s"]["value"] for s, p in zip(share, points, strict=True))
    ops = sum(p["iops"]["value"] * p["active_s"] for p in points if p["iops"]["value"] is not None)
    power = ratio(energy, quantity(seconds, 0.0))
    return {
        "x": points[0]["x"],
        "mb_per_s": rate,
        "iops": quantity(ops / seconds if seconds else None, None, rate["n_lost"]),
        "mean_w": power,
        "mb_per_s_per_w": ratio(rate, power),
        "mean_latency_s": mean([p["mean_latency_s"] for p in points]),
        "p99_latency_s": quantity(None, None, rate["n_lost"]),
        "energy_j": energy,
        "bytes": nbytes,
        "active_s": seconds,
    }


def queue_depths(source: Source, test: Test, sections: Mapping[str, Section]) -> Outcome:
    """One point a queue depth; the score is over the low ones."""
    out = Outcome()
    _sections(out, source, test, lambda name: {"qd": sections[name].depth})
    over = [p for p in out.points if p["x"]["qd"] in test.score_over]
    if over and len(over) == len(test.score_over):
        _scores(out, over, "mean of QD" + ", ".join(str(d) for d in test.score_over))
    elif out.points:
        out.notes.append("no score: not every queue depth it needs was run")
    return out


def mixes(source: Source, test: Test, sections: Mapping[str, Section]) -> Outcome:
    """One point a mix; the score is over all of them."""
    out = Outcome()
    _sections(out, source, test, lambda name: {"write_share": sections[name].write_share})
    if out.points:
        _scores(out, out.points, "all mixes")
    return out


def _sections(out: Outcome, source: Source, test: Test, x: Callable[[str], dict[str, float]]) -> None:
    """One point a section."""
    rest = _Rest(out, source)
    for section, phase in source.named(test.id):
        measured = measure(source, phase)
        out.add_measured(measured)
        rest.add(measured)
        out.points.append(measured.point(x(section)))
    rest.note()


def _scores(out: Outcome, points: Sequence[dict[str, Any]], name: str) -> None:
    """Rate, power and efficiency over several points, in both readings."""
    pooled = _pooled(points)
    rate, power = mean([p["mb_per_s"] for p in points]), mean([p["mean_w"] for p in points])
    out.score(name, "MB/s", rate, OVER_RATIOS)
    out.score(name, "MB/s", pooled["mb_per_s"], RATIO_OF_MEANS)
    out.score(name, "W", power, OVER_RATIOS)
    out.score(name, "W", pooled["mean_w"], RATIO_OF_MEANS)
    out.score(name, "MB/s/W", mean([p["mb_per_s_per_w"] for p in points]), OVER_RATIOS)
    out.score(name, "MB/s/W", ratio(rate, power), RATIO_OF_MEANS)
    if points[0]["x"].keys() == {"qd"}:
        best = max(out.points, key=lambda p: p["mb_per_s"]["value"] or 0.0)
        out.score(f"highest, at QD{best['x']['qd']}", "MB/s", best["mb_per_s"])


def fill(source: Source, test: Test) -> Outcome:
    """Rate for each GB written; SLC cache size by change point; rate after it."""
    out = Outcome()
    phases = source.named(test.id)
    if not phases:
        return out
    phase = phases[0][1]
    measured = measure_whole(source, phase)
    out.add_measured(measured)
    point = measured.point({"gb": 0.0})
    out.score("whole fill", "MB/s", point["mb_per_s"])
    out.score("whole fill", "W", point["mean_w"])
    out.score("energy of the fill", "J", point["energy_j"])
    series = _fill_series(measured, test.series_gb)
    if series is None:
        out.points = [point]
        return out
    out.series = series
    step = max(1, -(-len(series) // MAX_FILL_POINTS))
    for first in range(0, len(series), step):
        out.points.append(_fill_point(series[first : first + step]))
    _cache_scores(out, series)
    return out


def _fill_series(measured: Whole, bin_gb: float) -> pl.DataFrame | None:
    """gb (end of the bin), t_s, mb_per_s, mean_w, energy_j, for bins of equal data; None when there is too little of it."""
    source = measured.source
    where = np.flatnonzero(measured.moved)
    if len(where) < 2 * MIN_FILL_BINS or measured.span is None:
        return None
    order = np.argsort(measured.io.cqe_tick[where], kind="stable")
    done = np.cumsum(measured.io.nbytes[where][order])
    ticks = measured.io.cqe_tick[where][order]
    size = min(bin_gb * 1e9, float(done[-1]) / MIN_FILL_BINS)
    bins = int(done[-1] // size)
    ends = np.searchsorted(done, size * np.arange(1, bins + 1) * (1 - 1e-12))
    edges = np.concatenate(([measured.span.first_tick], ticks[np.minimum(ends, len(ticks) - 1)]))
    amounts = np.diff(np.concatenate(([0], done[np.minimum(ends, len(done) - 1)])))
    seconds = np.maximum(np.diff(edges), 1) * source.tick_s
    energies = [source.energy(a, b)[0]["value"] for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)]
    joules = np.array([math.nan if e is None else e for e in energies])
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


def _fill_point(part: pl.DataFrame) -> dict[str, Any]:
    seconds, joules = float(part["seconds"].sum()), float(part["energy_j"].sum())
    megabytes = float((part["mb_per_s"] * part["seconds"]).sum())
    rate = quantity(megabytes / seconds)
    power = quantity(None if math.isnan(joules) else joules / seconds)
    none = quantity(None)
    return {
        "x": {"gb": float(part["gb"][-1])},
        "mb_per_s": rate,
        "iops": none,
        "mean_w": power,
        "mb_per_s_per_w": ratio(rate, power),
        "mean_latency_s": none,
        "p99_latency_s": none,
        "energy_j": quantity(None if math.isnan(joules) else joules),
    }


def _cache_scores(out: Outcome, series: pl.DataFrame) -> None:
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
    out.score("written before the rate falls (SLC cache)", "GB", quantity(place, float(u)))
    out.score("before the rate falls", "MB/s", quantity(first.before))
    out.score("after the last change", "MB/s", quantity(changes[-1].after))
    if len(changes) > 1:
        levels = ", ".join(f"{c.after:.0f} MB/s from {gb[c.at]:.4g} GB" for c in changes)
        out.notes.append(f"several levels after the first: {levels}")
