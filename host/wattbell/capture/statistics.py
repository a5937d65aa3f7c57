"""Statistics of a recording, period by period, as lines of a log: made while it is recorded, from the bins of its live summary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from wattbell_spec import wire as spec

from ..errors import UsageError
from . import live
from .live import LATENCY_BINS, SIGNALS, without_nan
from .livewriter import BinRing, LiveBins, LiveSummary

_PERIODS = 1 << 10
"""Most periods kept until they are reported."""
STEP_S = live.WIDTH_S * LATENCY_BINS
LONGEST_S = 86400.0


@dataclass(frozen=True)
class PeriodStatistics:
    """One period of a recording. Rail: None if no sample came. A command belongs to the period in which it ended."""

    time_s: float
    """At which the period ends, since the beginning of the recording, by the instrument's clock."""
    utc: str | None
    """The same as time of day (ISO 8601), as the host saw it."""
    duration_s: float
    """Length of the period; the last one may be shorter."""
    power_mean_w: float | None
    power_min_w: float | None
    power_max_w: float | None
    current_mean_a: float | None
    current_min_a: float | None
    current_max_a: float | None
    voltage_mean_v: float | None
    voltage_min_v: float | None
    voltage_max_v: float | None
    energy_j: float | None
    """Energy of the samples of this period."""
    energy_total_j: float
    """Since the beginning."""
    charge_c: float | None
    read_mb_per_s: float
    write_mb_per_s: float
    iops: float
    depth_mean: float
    p50_s: float | None
    """Latency (doorbell to CQE), to 2.2 %; percentiles of few commands are left out."""
    p99_s: float | None
    p99_9_s: float | None
    missing_s: float
    """Time in s of the period without samples of the rail."""
    lost: int
    """Gaps of the commands in it."""


COLUMNS = tuple(PeriodStatistics.__dataclass_fields__)
"""Names of a line's columns, in order."""
_UNITS = {"voltage": "v", "current": "a", "power": "w"}


def check_period(period_s: float, option: str) -> float:
    """UsageError for a period that bins do not make up."""
    steps = round(period_s / STEP_S) if STEP_S <= period_s <= LONGEST_S else 0
    if not steps or abs(steps * STEP_S - period_s) > 1e-9:
        raise UsageError(f"{option} {period_s:g}: give a period of whole tenths of a second, such as 100ms, 1s or 1min.")
    return steps * STEP_S


class StatisticsWriter:
    """Calls `write` with every period of `period_s` (checked before) as soon as all its data has come; the last period may be cut short.

    Attach it before the first data.
    """

    def __init__(self, summary: LiveSummary, period_s: float, write: Callable[[PeriodStatistics], None]) -> None:
        self._summary, self._write = summary, write
        self._bins = round(period_s / live.WIDTH_S)
        self._level, self._latencies = BinRing(live.RECORD, _PERIODS), BinRing(live.LATENCIES, _PERIODS)
        self._next = 0
        self._energy_j = 0.0
        self._rail_seen = False
        self.utc_of: Callable[[int], str | None] = lambda _tick: None
        """To be set: the time of day of a tick."""
        summary.also(LiveBins([self._bins], [self._bins // LATENCY_BINS], [self._level], [self._latencies]))
        summary.on_flush.append(self._flushed)

    def _flushed(self, final: bool) -> None:
        summary = self._summary
        if summary.origin is None:
            return
        width = self._bins * summary.width
        last = summary.last_tick - summary.origin
        settled = last - 2 * spec.FLUSH_TICKS * spec.TICK_PS // summary.tick_ps
        while (self._next + 1) * width <= settled:
            self._tell(width)
        while final and self._next * width < last:
            self._tell(min(width, last - self._next * width))

    def _tell(self, ticks: int) -> None:
        """Report the next period, with data for ``ticks``."""
        summary, number = self._summary, self._next
        assert summary.origin is not None
        self._next += 1
        tick_s = summary.tick_ps * 1e-12
        width = self._bins * summary.width
        record = self._level.window(number, number + 1)
        counts = self._latencies.window(number, number + 1)["counts"][0]
        later = int(self._level.window(number + 1, self._level.newest + 1)["begun"].sum())
        samples, seconds = int(record["samples"][0]), ticks * tick_s
        rail: dict[str, float | None] = {}
        for name in SIGNALS:
            for which in ("mean", "min", "max"):
                value = float(record[f"{name}_sum"][0]) / max(samples, 1) if which == "mean" else float(record[f"{name}_{which}"][0])
                rail[f"{name}_{which}_{_UNITS[name]}"] = value if samples else None
        covered = samples * summary.interval_ticks
        energy = float(record["power_sum"][0]) * summary.interval_ticks * tick_s if samples else None
        self._energy_j += energy or 0.0
        # a period may hold a sample more or less than its length says
        missing = max(0, ticks - covered) if summary.interval_ticks else 0
        end = summary.origin + number * width + ticks
        per_s = (summary.lba_size_bytes or live.ASSUMED_LBA) / seconds / 1e6
        latency = {q: without_nan(live.quantile_ticks(counts, p, fewest) * tick_s) for q, p, fewest in _QUANTILES}
        self._write(
            PeriodStatistics(
                time_s=(number * width + ticks) * tick_s,
                utc=self.utc_of(end),
                duration_s=seconds,
                **rail,
                energy_j=energy,
                energy_total_j=self._energy_j,
                charge_c=float(record["current_sum"][0]) * summary.interval_ticks * tick_s if samples else None,
                read_mb_per_s=float(record["read"][0]) * per_s,
                write_mb_per_s=float(record["written"][0]) * per_s,
                iops=int(record["commands"][0]) / seconds,
                depth_mean=float(live.depth_of(record, later, width)[0]) * width / ticks,
                **latency,
                missing_s=missing * tick_s if missing > 2 * summary.interval_ticks else 0.0,
                lost=int(record["lost"][0]),
            )
        )


_QUANTILES = (("p50_s", 0.5, 1), ("p99_s", 0.99, live.FEWEST), ("p99_9_s", 0.999, 10 * live.FEWEST))
