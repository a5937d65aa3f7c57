"""A short piece of the rail on bus time: its samples, its steady levels, and the energy above such a level."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from wattbell.measure.rail import Rail

Float = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

GROUP_S = 2e-5
"""Samples are taken together over this long where the end of a rise or fall is looked for."""
_CHUNKS = 8
"""Parts of a level. The spread of their means gives the level's uncertainty, noise of long correlation included."""
_PARTS = 8
_SIGMAS = 4.0
_PHASES = 64
_NEAR = 0.01
"""Relative distance from a level below which a sample is at the level."""


@dataclass(frozen=True)
class SteadyLevel:
    """A steady level in W. ``u_w``: standard uncertainty of its mean; ``sigma_w``: of one sample about it."""

    mean_w: float
    u_w: float
    sigma_w: float

    def tolerance_w(self, samples: int) -> float:
        """Return in W how far the mean of ``samples`` may differ from this level."""
        return _SIGMAS * max(self.sigma_w / math.sqrt(samples), self.u_w) + _NEAR * abs(self.mean_w)


@dataclass(frozen=True)
class RailPiece:
    """``ticks``: (n,) middles of the samples in bus time, the front end's delay taken off; ``power_w``: (n,); ``step_s``: between them."""

    ticks: Float
    power_w: Float
    step_s: float

    @property
    def whole(self) -> bool:
        """Whether no sample is missing."""
        return len(self.power_w) > 0 and bool(np.isfinite(self.power_w).all())

    def within(self, first_tick: float, last_tick: float) -> slice:
        """Return the samples with middles in ``[first_tick, last_tick)``."""
        low, high = np.searchsorted(self.ticks, (first_tick, last_tick))
        return slice(int(low), int(high))

    def level(self, where: slice) -> SteadyLevel | None:
        """The level of some of its samples; None of fewer than two for each of eight parts."""
        found = self.power_w[where]
        n = len(found) // _CHUNKS
        if n < 2 or not np.isfinite(found).all():
            return None
        parts = found[: n * _CHUNKS].reshape(_CHUNKS, n).mean(axis=1)
        sigma = float(np.std(np.diff(found))) / math.sqrt(2.0)
        return SteadyLevel(
            float(found.mean()), max(float(np.std(parts, ddof=1)) / math.sqrt(_CHUNKS), sigma / math.sqrt(len(found))), sigma
        )

    def off(self, level: SteadyLevel, width: int) -> npt.NDArray[np.int8]:
        """Compare each whole group of ``width`` samples with the level: 1 above, -1 below, 0 at the level."""
        n = len(self.power_w) // width
        means = self.power_w[: n * width].reshape(n, width).mean(axis=1) - level.mean_w
        limit = level.tolerance_w(width)
        found: npt.NDArray[np.int8] = (means > limit).astype(np.int8) - (means < -limit).astype(np.int8)
        return found

    def joules(self, where: slice) -> float:
        """Return the energy of some samples; each sample covers the interval around it."""
        return float(self.power_w[where].sum()) * self.step_s

    def alternating_j2(self, where: slice, level: SteadyLevel) -> float:
        """Return the square in J^2 of the alternating sum above a level, less the noise: even samples count twice, odd ones minus twice.

        The samples are split into overlapping parts, so that the two steps of a pulse do not cancel. The squares of the parts are added.
        The mean over steps anywhere between two samples is unbiased; a single result may be negative.
        """
        above = self.power_w[where] - level.mean_w
        n, parts = len(above), max(2, min(_PARTS, len(above) // _CHUNKS))
        signed = above * (1.0 - 2.0 * (np.arange(n) % 2))
        at = np.linspace(0.0, parts - 1.0, n) if n > 1 else np.zeros(n)
        weights = np.clip(1.0 - np.abs(at - np.arange(parts)[:, None]), 0.0, 1.0)
        smooth = np.sin(np.pi / 2 * weights) ** 2  # add up to 1 everywhere
        found = float(((smooth @ signed) ** 2).sum()) - level.sigma_w**2 * float((smooth**2).sum())
        # A step between the middles of two parts is half in either: of its square 3/4 are there in the mean, as in sin^4 + cos^4.
        return 4.0 / 0.75 * found * self.step_s**2


@lru_cache(maxsize=64)
def _of_a_step(interval_s: float, delay_s: float, decimation: int) -> tuple[float, float]:
    """Return the RMS effect of a step of 1 anywhere between two samples, in samples.

    The pair is the error of the sum of the samples, and the root of :meth:`RailPiece.alternating_j2`. Without a filter both are known: (1 /
    sqrt(12), 1). The front end's pole and the decimation smear the step over several samples; the sum suffers less than the alternating
    sum.
    """
    conversion_s, pole_s = interval_s / decimation, max(delay_s, 1e-12)
    before = 4 * decimation
    after = math.ceil(12 * pole_s / conversion_s) + 40 * decimation
    wrong, alternating = [], []
    for phase in (np.arange(_PHASES) + 0.5) / _PHASES:
        since_s = (np.arange(-before, after) + phase * decimation) * conversion_s
        seen = np.where(since_s > 0, -np.expm1(-np.maximum(since_s, 0.0) / pole_s), 0.0)
        for _ in range(3 if decimation > 1 else 0):
            seen = np.convolve(seen, np.full(decimation, 1.0 / decimation))[: before + after]
        samples = seen[decimation - 1 :: decimation]
        wrong.append(float(samples.sum()) - phase)
        fade = np.cos(np.linspace(0.0, np.pi / 2, len(samples) // 2)) ** 2
        samples[len(samples) - len(fade) :] *= fade
        alternating.append(2.0 * float((samples * (1.0 - 2.0 * (np.arange(len(samples)) % 2))).sum()))
    return float(np.std(wrong)), float(np.sqrt(np.mean(np.square(alternating))))


def between_j2(rail: Rail, found: RailPiece, where: slice, level: SteadyLevel) -> float:
    """Return the variance in J^2 of a sum of samples due to steps between samples. The alternating sum gives the size of the steps.

    The estimate may be negative.
    """
    wrong, alternating = _of_a_step(rail.interval_s, rail.model.front_end_delay_s, rail.decimation)
    return (wrong / alternating) ** 2 * found.alternating_j2(where, level)


def smeared(rail: Rail) -> float:
    """Return the error of a sum of samples for a step between two samples, relative to the error without filters: 1 is no reduction."""
    return _of_a_step(rail.interval_s, rail.model.front_end_delay_s, rail.decimation)[0] * math.sqrt(12.0)


def smear_j(rail: Rail, tick: float) -> float:
    """How much of a step at the edge of an energy the front end's pole puts on its other side, in J."""
    reach = 3 * rail.model.front_end_delay_s / rail.tick_s + 2 * rail.interval_ticks
    near = piece(rail, tick - reach, tick + reach).power_w
    near = near[np.isfinite(near)]
    return 0.5 * rail.model.front_end_delay_s * float(near.max() - near.min()) if len(near) else 0.0


def offset_w(rail: Rail) -> float:
    """Return k = 2 in W of a difference of two powers by the current's offset.

    The offset does not cancel if a board measures low and high currents by two paths, each with an offset of its own.
    """
    return rail.model.offset_a * abs(rail.supply_v)


def piece(rail: Rail, first_tick: float, last_tick: float) -> RailPiece:
    """Return the samples with middles between two ticks of bus time."""
    late = rail.model.front_end_delay_s / rail.tick_s
    first, power = rail.power_between(math.ceil(first_tick + late), math.ceil(last_tick + late))
    ticks: Float = first - late + np.arange(len(power), dtype=np.float64) * rail.interval_ticks
    return RailPiece(ticks, power, rail.interval_s)
