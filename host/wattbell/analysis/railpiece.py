"""A short piece of the rail on bus time: its samples, steady levels in it, and what was drawn above such a level."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wattbell.measure.rail import Rail

Float = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

GROUP_S = 2e-5
"""Samples are taken together over this long where the end of a rise or fall is looked for."""
_CHUNKS = 8
"""Parts of a level whose means tell how well it is known, noise of long correlation included."""
_PARTS = 8
_SIGMAS = 4.0
_NEAR = 0.01
"""Of a level: what is nearer to it than that counts as it."""


@dataclass(frozen=True)
class Level:
    """A steady level in W. ``u_w``: standard uncertainty of its mean; ``sigma_w``: of one sample about it."""

    mean_w: float
    u_w: float
    sigma_w: float

    def tolerance_w(self, samples: int) -> float:
        """By how much the mean of ``samples`` may differ and still be at this level."""
        return _SIGMAS * max(self.sigma_w / math.sqrt(samples), self.u_w) + _NEAR * abs(self.mean_w)


@dataclass(frozen=True)
class Piece:
    """``ticks``: (n,) middles of the samples in bus time, the front end's delay taken off; ``power_w``: (n,); ``step_s``: between them."""

    ticks: Float
    power_w: Float
    step_s: float

    @property
    def whole(self) -> bool:
        """Whether no sample of it is missing."""
        return len(self.power_w) > 0 and bool(np.isfinite(self.power_w).all())

    def within(self, first_tick: float, last_tick: float) -> slice:
        """The samples whose middles lie in ``[first_tick, last_tick)``."""
        low, high = np.searchsorted(self.ticks, (first_tick, last_tick))
        return slice(int(low), int(high))

    def level(self, where: slice) -> Level | None:
        """The level of some of its samples; None of fewer than two for each of eight parts."""
        found = self.power_w[where]
        n = len(found) // _CHUNKS
        if n < 2 or not np.isfinite(found).all():
            return None
        parts = found[: n * _CHUNKS].reshape(_CHUNKS, n).mean(axis=1)
        sigma = float(np.std(np.diff(found))) / math.sqrt(2.0)
        return Level(float(found.mean()), max(float(np.std(parts, ddof=1)) / math.sqrt(_CHUNKS), sigma / math.sqrt(len(found))), sigma)

    def off(self, level: Level, width: int) -> npt.NDArray[np.int8]:
        """Of each whole group of ``width`` samples: 1 above the level, -1 below it, 0 at it."""
        n = len(self.power_w) // width
        means = self.power_w[: n * width].reshape(n, width).mean(axis=1) - level.mean_w
        limit = level.tolerance_w(width)
        found: npt.NDArray[np.int8] = (means > limit).astype(np.int8) - (means < -limit).astype(np.int8)
        return found

    def joules(self, where: slice) -> float:
        """Energy of some of its samples, each of which stands for the interval around it."""
        return float(self.power_w[where].sum()) * self.step_s

    def alternating_j(self, where: slice, level_w: float) -> float:
        """Twice :meth:`joules` above a level by every other sample, less that by the rest; of parts that overlap, added in squares.

        A step of A watt of the rail, which lies anywhere between two samples, makes it A x ``step_s``, and the energy wrong by that /
        sqrt(12) (RMS); what changes slowly makes hardly any. In parts, so that a pulse's two steps do not cancel."""
        above = self.power_w[where] - level_w
        n, parts = len(above), max(2, min(_PARTS, len(above) // _CHUNKS))
        signed = above * (1.0 - 2.0 * (np.arange(n) % 2))
        at = np.linspace(0.0, parts - 1.0, n) if n > 1 else np.zeros(n)
        weights = np.clip(1.0 - np.abs(at - np.arange(parts)[:, None]), 0.0, 1.0)
        smooth = np.sin(np.pi / 2 * weights) ** 2  # add up to 1 everywhere
        # A step between the middles of two parts is half in either: half of its square is missing then.
        return 2.0 * math.sqrt(2.0 * float(((smooth @ signed) ** 2).sum())) * self.step_s


def piece(rail: Rail, first_tick: float, last_tick: float) -> Piece:
    """The samples whose middles lie between two ticks of bus time."""
    late = rail.model.front_end_delay_s / rail.tick_s
    first, power = rail.power_between(math.ceil(first_tick + late), math.ceil(last_tick + late))
    ticks: Float = first - late + np.arange(len(power), dtype=np.float64) * rail.interval_ticks
    return Piece(ticks, power, rail.interval_s)
