"""Power of the 3.3 V rail in any set of windows: one pass over the waveform, exact energy from the accumulator."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypedDict

import numpy as np
import numpy.typing as npt
from wattbell_spec.wire import RailFlag

from ..capture import Capture
from ..text import si
from .energy import Energy, EnergyMeter
from .errormodel import ErrorModel
from .figure import PARTLY, Figure, K, absent
from .loss import WindowLoss
from .steadiness import of_rail
from .windows import MovingMax

Float = npt.NDArray[np.float64]

FINEST_WINDOW_S = 4e-6
"""Time between samples that OCP's measurement of a device's peak power asks for."""
OCP_WINDOWS_S = (FINEST_WINDOW_S, 100e-6, 100e-3)
"""Windows in s of the moving averages with a printed maximum (M.2 supply limits are given over the longer ones).

The first length catches peaks that a coarser rail hides. So it alone is never widened to one sample.
"""
CHUNK = 1 << 21
_CIC_ORDER = 3
"""Order of the rig's decimation filter: group delay ORDER * (R - 1) / 2 conversions."""
_DEAD_RAIL_V = 0.05
_QUIET = 1024


@dataclass
class WindowStats:
    """Sums over the samples centred in one window; ``peak`` is the largest single sample."""

    samples: int = 0
    missing: int = 0
    power_sum: float = 0.0
    voltage_sum: float = 0.0
    current_sum: float = 0.0
    peak: float = -math.inf
    lowest: float = math.inf

    @property
    def mean_power_w(self) -> float | None:
        """Mean of the samples; the accumulator's mean is the better one."""
        return self.power_sum / self.samples if self.samples else None

    @property
    def mean_voltage_v(self) -> float:
        return self.voltage_sum / self.samples if self.samples else math.nan

    @property
    def mean_current_a(self) -> float:
        return self.current_sum / self.samples if self.samples else math.nan

    def add(self, power: Float, voltage: Float, current: Float) -> None:
        """Some more samples of the window; NaN is missing."""
        good = ~np.isnan(power)
        n = int(np.count_nonzero(good))
        self.missing += len(power) - n
        if not n:
            return
        if n < len(power):
            power, voltage, current = power[good], voltage[good], current[good]
        self.samples += n
        self.power_sum += float(power.sum())
        self.voltage_sum += float(voltage.sum())
        self.current_sum += float(current.sum())
        self.peak = max(self.peak, float(power.max()))
        self.lowest = min(self.lowest, float(power.min()))


@dataclass(frozen=True)
class Scan:
    """Result of one pass over the waveform for several ranges.

    stats: one for each range, in order
    moving: by length of the window in s, each with a maximum for each range; without lengths that are too short for the rail
    """

    stats: list[WindowStats]
    moving: dict[float, MovingMax]
    noise_w: float


_NEARLY = 1e-3
"""A load that is shorter than a window by less than this share fills it."""
TOO_SHORT = "shorter than the averaging window"


class Power(TypedDict, total=False):
    """Power and energy of a window; ``max_moving_w`` by length of the averaging window. ``active``: over the active span of its I/O.
    ``absent``: why there are none."""

    absent: str
    mean_w: Figure
    energy_j: Figure
    max_sample_w: Figure
    min_sample_w: Figure
    mean_voltage_v: Figure
    mean_current_a: Figure
    max_moving_w: dict[str, Figure]
    active: ActivePower


class ActivePower(TypedDict, total=False):
    """Over the time with a command in flight."""

    absent: str
    energy_j: Figure
    mean_w: Figure


class RailSampling(TypedDict, total=False):
    """How the rail was sampled, and its flags in words. ``absent``: why there is none."""

    absent: str
    first_tick: int
    interval_s: float
    samples: int
    conversion_period_s: float
    decimation: int
    accumulator: bool
    flags: list[str]


DOUBTFUL = (RailFlag.OVERLOAD_I, RailFlag.OVERLOAD_V, RailFlag.UNCALIBRATED, RailFlag.SATURATED)


class Rail:
    """The rail of a capture that has one (:func:`no_rail_reason`)."""

    def __init__(self, capture: Capture, model: ErrorModel) -> None:
        reader = capture.rail
        assert reader is not None
        about = capture.meta["rail"]
        self.reader = reader
        self.model = model
        self.tick_s = capture.tick_ps * 1e-12
        self.interval_ticks = int(reader.interval_ticks)
        self.interval_s = self.interval_ticks * self.tick_s
        self.period_ticks = int(about.get("adc_period_ticks") or self.interval_ticks)
        self.decimation = max(1, round(self.interval_ticks / self.period_ticks))
        self.delay_ticks = _CIC_ORDER * (self.decimation - 1) / 2 * self.period_ticks
        self.first_tick = int(reader.first_tick)
        self.last_tick = self.first_tick + (len(reader) - 1) * self.interval_ticks
        blocks = capture.rail_blocks.collect()
        self._flags = blocks["flags"].to_numpy()
        self._flag_ticks = blocks["first_tick"].to_numpy()
        self.flags = int(np.bitwise_or.reduce(self._flags)) if len(blocks) else 0
        self.has_accumulator = bool(len(blocks)) and blocks["energy_raw"].n_unique() > 1
        ranges = capture.rail_ranges if model.ranges else None
        self._ranges = None if ranges is None or not len(ranges) else [ranges[name].to_numpy() for name in ("tick", "range", "settling_nj")]
        self.meter = EnergyMeter(
            blocks if self.has_accumulator else blocks.head(0),
            self.period_ticks,
            self.delay_ticks,
            self.tick_s,
            self.power_between,
            self._stored,
            self.interval_ticks,
        )

    def indices(self, first_tick: int, last_tick: int) -> tuple[int, int]:
        """Samples centred in ``[first_tick, last_tick)``."""
        return self.reader.sample_at(first_tick), self.reader.sample_at(last_tick)

    def _stored(self, first_tick: int, last_tick: int) -> Iterator[tuple[int, int]]:
        """The parts of ``[first_tick, last_tick)`` that a long gap leaves, as ticks."""
        for low, high in self.reader.stored(*self.indices(first_tick, last_tick)):
            yield self.reader.tick_of(low), self.reader.tick_of(high)

    @cached_property
    def supply_v(self) -> float:
        """Voltage of the rail: the median at the start of the waveform. For uncertainties, not for power."""
        voltage = self.reader.read(0, min(len(self.reader), 4096)).voltage
        known = voltage[np.isfinite(voltage)]
        return float(np.median(known)) if len(known) else 0.0

    def doubtful_blocks(self, first_tick: float, last_tick: float) -> dict[RailFlag, int]:
        """Return the number of blocks of a window by the reason for wrong power or void uncertainty; empty if all is well."""
        low = max(0, int(np.searchsorted(self._flag_ticks, first_tick, side="right")) - 1)
        inside = self._flags[low : int(np.searchsorted(self._flag_ticks, last_tick))]
        counts = {flag: int(np.count_nonzero(inside & flag)) for flag in DOUBTFUL}
        return {flag: n for flag, n in counts.items() if n}

    def model_of(self, first_tick: float, last_tick: float) -> ErrorModel:
        """Return the error model between two ticks; for a meter that changes its range, the worst of the ranges in force there."""
        if self._ranges is None:
            return self.model
        tick, number, _ = self._ranges
        low = max(0, int(np.searchsorted(tick, first_tick, side="right")) - 1)
        return self.model.worst_of(np.unique(number[low : max(low + 1, int(np.searchsorted(tick, last_tick)))]).tolist())

    def mean_u(self, first_tick: int, last_tick: int, watts: float, volts: float) -> float:
        """Return the systematic k = 2 of the mean power between two ticks.

        For a meter that changes its range, each range's terms apply to its share of the energy and of the time. How errors of two ranges
        correlate is unknown, so they are added up.
        """
        worst = self.model_of(first_tick, last_tick)
        if self._ranges is None:
            return worst.power_u(watts, volts)
        tick, number, _ = self._ranges
        ranges = len(self.model.ranges)
        samples, sums = np.zeros(ranges), np.zeros(ranges)
        for start, stop, stored in self.reader.chunks(*self.indices(first_tick, last_tick), CHUNK):
            if not stored:
                continue
            power = self.reader.power(start, stop).astype(np.float64)
            ticks = self.reader.tick_of(start) + np.arange(len(power)) * self.interval_ticks
            here = number[np.maximum(np.searchsorted(tick, ticks, side="right") - 1, 0)]
            good = ~np.isnan(power) & (here < ranges)
            samples += np.bincount(here[good], minlength=ranges)
            sums += np.bincount(here[good], weights=power[good], minlength=ranges)
        if not samples.sum():
            return worst.power_u(watts, volts)
        parts = zip(self.model.ranges, samples, sums, strict=True)
        return float(sum(math.hypot(gain * total, offset * volts * count) for (gain, offset), count, total in parts) / samples.sum())

    def _settling_j(self, first_tick: float, last_tick: float) -> float:
        """Return k = 2 in J of the energy between two ticks from changes of range. All changes may err in the same direction."""
        if self._ranges is None:
            return 0.0
        tick, _, settling_nj = self._ranges
        return float(settling_nj[np.searchsorted(tick, first_tick) : np.searchsorted(tick, last_tick)].sum()) * 1e-9

    def power_between(self, first_tick: int, last_tick: int) -> tuple[int, Float]:
        """(tick of the first sample, power in W) of the samples centred in ``[first_tick, last_tick)``."""
        low, high = self.indices(first_tick, last_tick)
        return self.reader.tick_of(low), self.reader.power(low, high).astype(np.float64)

    def energy(self, first_tick: float, last_tick: float, edge_u_s: float = 0.0) -> Energy:
        """Return the energy of a window of bus time; from samples alone if the blocks carry no accumulator.

        Each edge may be off against the rail by ``edge_u_s``, at least the capture's ``alignment_u_s``. The window is moved by one time
        constant of the front end, since power reaches the ADC that much later. With a first-order lag, the energy is then right over a
        window that begins and ends on steady power.
        """
        late = self.model.front_end_delay_s / self.tick_s
        found = self.meter.between(first_tick + late, last_tick + late)
        settling_j = self._settling_j(first_tick, last_tick)
        if settling_j:
            found = replace(found, edge_u_j=math.hypot(found.edge_u_j, settling_j))
        apart = max(edge_u_s, self.model.alignment_u_s) / self.tick_s
        if apart and found.covered_s > 0:
            mean = found.joules / found.covered_s
            ends = [self.meter.moved(tick + late, apart, mean) for tick in (first_tick, last_tick)]
            found = replace(found, moved_j=ends[0][0] + ends[1][0], moved_above_mean_j=ends[0][1] + ends[1][1])
        if not self.model.front_end_delay_u_s:
            return found
        # A window moved too far gains at one end and loses at the other, so only the difference in power counts.
        change = self._power_at(last_tick + late) - self._power_at(first_tick + late)
        return replace(found, edge_u_j=math.hypot(found.edge_u_j, self.model.front_end_delay_u_s * change))

    def _power_at(self, tick: float) -> float:
        """Mean of the samples next to an instant; 0 if there are none."""
        _, power = self.power_between(round(tick - self.interval_ticks), round(tick + self.interval_ticks))
        known = power[~np.isnan(power)]
        return float(known.mean()) if len(known) else 0.0

    def scan(self, windows: Sequence[tuple[int, int]]) -> Scan:
        """One pass over the waveform for all ``windows`` (ticks, may overlap)."""
        ranges = [self.indices(a, b) for a, b in windows]
        stats = [WindowStats() for _ in ranges]
        moving = {w: MovingMax(max(1, round(w / self.interval_s)), ranges) for w in OCP_WINDOWS_S if not self._too_coarse(w)}
        noise = math.inf
        for start, stop, stored in self.reader.chunks(0, len(self.reader), CHUNK):
            if not stored:
                for (low, high), stat in zip(ranges, stats, strict=True):
                    stat.missing += max(0, min(high, stop) - max(low, start))
                for window in moving.values():
                    window.skip(stop - start)
                continue
            part = self.reader.read(start, stop)
            power = part.power.astype(np.float64)
            voltage, current = part.voltage.astype(np.float64), part.current.astype(np.float64)
            for (low, high), stat in zip(ranges, stats, strict=True):
                a, b = max(low - start, 0), min(high - start, len(power))
                if a < b:
                    stat.add(power[a:b], voltage[a:b], current[a:b])
            for window in moving.values():
                window.add(power)
            noise = min(noise, _quietest_noise(power))
        return Scan(stats, moving, noise if math.isfinite(noise) else 0.0)

    def figures(self, scan: Scan, i: int, first_tick: int, last_tick: int, loss: WindowLoss, edge_u_s: float = 0.0) -> Power:
        """Return the power figures of the i-th window of ``scan``. ``loss``: of that window; ``edge_u_s``: see :meth:`energy`."""
        stat = scan.stats[i]
        if not stat.samples:
            return {"absent": "no rail samples in this window"}
        energy = self.energy(first_tick, last_tick, edge_u_s)
        window_s = (last_tick - first_tick) * self.tick_s
        lost = max(stat.missing, loss.rail_samples) + loss.hidden_samples
        exact = self.has_accumulator and energy.exact_j != 0
        covered = energy.covered_s
        mean = energy.joules / covered if covered > 0 else stat.mean_power_w
        assert mean is not None
        volts = stat.mean_voltage_v
        noise = K * scan.noise_w / math.sqrt(stat.samples)
        edge = energy.mean_u_j / covered if covered > 0 else 0.0
        system = self.mean_u(first_tick, last_tick, mean, volts)
        model = self.model_of(first_tick, last_tick)
        u_mean = math.sqrt(system**2 + noise**2 + edge**2)
        whole = True
        conditions: dict[str, str | float] = {
            "source": "96-bit accumulator" if exact else "samples",
            "window_s": window_s,
            "covered_s": covered,
            "samples": stat.samples,
        }
        if exact:
            conditions["edge_u_j"] = energy.energy_u_j
        if energy.moved_j:
            conditions["edge_u_s"] = max(edge_u_s, self.model.alignment_u_s)
        if window_s - covered > max(2 * self.interval_s, 1e-3 * window_s):
            conditions["note"] = PARTLY
            whole = False
        moved_a = energy.moved_above_mean_j / covered / abs(volts) if covered > 0 and volts else 0.0
        u_current = math.hypot(model.gain * abs(stat.mean_current_a), model.offset_a, moved_a)
        if self._ranges is not None and volts:
            u_current = math.hypot(system / abs(volts), moved_a)
        u_energy = math.hypot(system * covered, noise * covered, energy.energy_u_j, self.model.timebase * energy.joules)
        peak_u = math.hypot(model.power_u(stat.peak, volts), K * scan.noise_w)
        power = Figure(mean, u_mean, "W", lost, conditions)
        held = of_rail(self, [(first_tick, last_tick)])
        if held is not None:
            power = held.of(power)
            u_current = math.hypot(u_current, held.spread / abs(volts)) if volts else u_current
        return {
            "mean_w": power,
            "energy_j": Figure(energy.joules, u_energy if whole else None, "J", lost, conditions),
            "max_sample_w": Figure(stat.peak, peak_u, "W", lost, {"window_s": self.interval_s}),
            "min_sample_w": Figure(stat.lowest, model.power_u(stat.lowest, volts), "W", lost),
            "mean_voltage_v": Figure(volts, model.gain * abs(volts), "V", lost),
            "mean_current_a": Figure(stat.mean_current_a, u_current, "A", lost),
            "max_moving_w": self.highest(scan, i, lost),
        }

    def highest(self, scan: Scan, i: int, lost: int) -> dict[str, Figure]:
        """The largest moving average over each of OCP's windows in the i-th window of ``scan``, by :func:`window_text`; ``lost``: samples
        that are missing in it."""
        volts = scan.stats[i].mean_voltage_v
        return {window_text(length): self._moving(scan.moving.get(length), i, length, volts, scan, lost) for length in OCP_WINDOWS_S}

    def largest_mean(self, first_tick: int, last_tick: int, length_s: float) -> Figure:
        """The largest moving average over ``length_s`` within a window, in W; absent if the window is shorter than that."""
        low, high = self.indices(first_tick, last_tick)
        moving = MovingMax(max(1, round(length_s / self.interval_s)), [(0, high - low)])
        stat, noise = WindowStats(), math.inf
        for start, stop, stored in self.reader.chunks(low, high, CHUNK):
            if not stored:
                stat.missing += stop - start
                moving.skip(stop - start)
                continue
            part = self.reader.read(start, stop)
            power = part.power.astype(np.float64)
            stat.add(power, part.voltage.astype(np.float64), part.current.astype(np.float64))
            moving.add(power)
            noise = min(noise, _quietest_noise(power))
        scan = Scan([stat], {length_s: moving}, noise if math.isfinite(noise) else 0.0)
        return self._moving(moving, 0, length_s, stat.mean_voltage_v, scan, stat.missing, low)

    def _too_coarse(self, length_s: float) -> bool:
        """Whether a window of that length is not given at this rail's interval."""
        return length_s == FINEST_WINDOW_S and self.interval_s > length_s * (1 + 1e-6)

    def _moving(self, moving: MovingMax | None, i: int, length_s: float, volts: float, scan: Scan, lost: int, base: int = 0) -> Figure:
        """``base``: the sample of the waveform that is sample 0 of ``moving``."""
        if moving is None:
            why = f"samples are {self.interval_s * 1e6:g} us apart: a window of {length_s * 1e6:g} us needs them as close as that"
            return Figure(unit="W", conditions={"absent": why})
        best = moving.best[i]
        actual = moving.width * self.interval_s
        conditions: dict[str, str | float] = {"window_s": actual, "window_samples": moving.width}
        if not math.isclose(actual, length_s, rel_tol=1e-6):
            conditions["note"] = f"asked for {length_s:g} s; samples are {self.interval_s:g} s apart"
        if moving.skipped[i]:
            conditions["windows_skipped"] = moving.skipped[i]
        if not math.isfinite(best):
            return Figure(unit="W", conditions={**conditions, "absent": TOO_SHORT})
        conditions["at_tick"] = self.reader.tick_of(base + moving.best_at[i])
        at = self.reader.tick_of(base + moving.best_at[i])
        model = self.model_of(at, at + moving.width * self.interval_ticks)
        u = math.hypot(model.power_u(best, volts), K * scan.noise_w / math.sqrt(moving.width))
        return Figure(best, u, "W", lost, conditions)

    def describe(self) -> RailSampling:
        """How the rail was sampled, and its flags in words."""
        return {
            "first_tick": self.first_tick,
            "interval_s": self.interval_s,
            "samples": len(self.reader),
            "conversion_period_s": self.period_ticks * self.tick_s,
            "decimation": self.decimation,
            "accumulator": self.has_accumulator,
            "flags": [flag.name.lower() for flag in RailFlag if flag.name and self.flags & flag],
        }


def _quietest_noise(power: Float) -> float:
    """Standard deviation of the noise of one sample: from differences of neighbours, in the quietest stretch."""
    n = len(power) // _QUIET * _QUIET
    rows = power[:n].reshape(-1, _QUIET) if n else power[None, :]
    if rows.shape[1] < 8:
        return math.inf
    differences = np.diff(rows, axis=1)
    spread = differences.std(axis=1) / math.sqrt(2.0)
    spread = spread[~np.isnan(spread)]
    return float(spread.min()) if len(spread) else math.inf


def window_text(seconds: float) -> str:
    """Key of an OCP window: ``100us``, ``100ms``."""
    return f"{seconds * 1e6:g}us" if seconds < 1e-3 else f"{seconds * 1e3:g}ms"


def as_long_as(found: dict[str, Figure], length_s: float) -> dict[str, Figure]:
    """Return the highest means by window (:func:`window_text`), absent with a reason if the load of ``length_s`` is shorter than the
    window.

    A mean over a longer window is partly of the time before and after the load.
    """
    made = dict(found)
    for window_s in OCP_WINDOWS_S:
        name = window_text(window_s)
        if name in made and length_s < (1 - _NEARLY) * window_s and made[name].value is not None:
            why = f"the load lasted for {si(length_s, 's', 3)}, and a window of {si(window_s, 's', 3)} is longer"
            made[name] = absent(why, "W", made[name].lost)
    return made


def no_rail_reason(capture: Capture) -> str | None:
    """Why the capture has no power figures; None when it has a rail."""
    if capture.rail is None:
        if (capture.meta.get("conditions") or {}).get("timing") == "qemu-log":
            return "replayed QEMU log: QEMU's drive has no rail"
        return "no rail samples were recorded"
    reader = capture.rail
    middle = len(reader) // 2
    sides = (reader.read(0, 4096), reader.read(middle, middle + 4096))
    volts = np.concatenate([part.voltage for part in sides])
    volts = volts[~np.isnan(volts)]
    if len(volts) and float(np.abs(volts).max()) < _DEAD_RAIL_V and _always_dead(capture):
        return "the rail carried no voltage: the source of the bus traffic has no rail"
    return None


def _always_dead(capture: Capture) -> bool:
    reader = capture.rail
    assert reader is not None
    for start, stop, stored in reader.chunks(0, len(reader), CHUNK):
        volts = reader.read(start, stop).voltage if stored else np.empty(0, np.float32)
        if bool(np.any(np.abs(volts[~np.isnan(volts)]) >= _DEAD_RAIL_V)):
            return False
    return True
