"""Whether a quantity held its level over the window of a mean, and the mean's uncertainty if it did not.

A window is cut into equal blocks, and these into quarters. The scatter of neighbouring blocks predicts how far the quarters' means lie
apart by chance alone. If they lie farther apart, the quantity changed. The mean is then as uncertain as the quarter farthest from it,
however good the instrument is. docs/methodology.md, "A mean is of one level".
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..text import si
from .figure import Figure

if TYPE_CHECKING:
    from .rail import Rail

Float = npt.NDArray[np.float64]

BLOCKS = 64
"""Number of blocks of a window; fewer if it has fewer samples."""
QUARTERS = 4
LEAST_PER_QUARTER = 4
"""Blocks that a quarter needs to distinguish change from chance; with fewer, all differences between quarters count as change."""
CHANGES = 16
"""One of this many differences of neighbours may be a change of level; two at least."""
BY_CHANCE = 5.0
"""Standard errors of a quarter's mean, by the scatter of neighbours, that chance does not reach."""
MOST = 0.05
"""Relative difference of a quarter from the whole above which a window is not steady.

The level of a segment (:mod:`..analysis.changepoints`) is distinguished from its neighbour by the same difference.
"""
MOST_READ = 1 << 18
"""Samples of a window that are read; of more, the summaries are, in which a block's edge lies within a few samples of its place."""
UNSTEADY = "unsteady"
"""Key of a figure's conditions under which it says so."""


@dataclass(frozen=True)
class Steadiness:
    """The steadiness of a window.

    mean: of the window
    low, high: least and largest mean of a quarter
    spread: largest difference between a quarter and the mean, in the quantity's unit; 0 if chance explains it
    """

    mean: float
    low: float
    high: float
    spread: float

    @property
    def steady(self) -> bool:
        """Whether one level held: no quarter differs by more than :data:`MOST`."""
        return self.spread <= MOST * abs(self.mean)

    def words(self, unit: str) -> str:
        """Return the words that a reader needs on a window that was not steady."""
        return f"not steady: quarters of the window from {si(self.low, unit, 3)} to {si(self.high, unit, 3)}"

    def of(self, figure: Figure) -> Figure:
        """Return the mean of this window with the spread in its uncertainty, and a mark if not steady. A ``u`` of None stays None."""
        if figure.value is None or not self.spread:
            return figure
        u = None if figure.u is None else math.hypot(figure.u, self.spread)
        marks = {} if self.steady else {UNSTEADY: self.words(figure.unit)}
        return replace(figure, u=u, conditions={**figure.conditions, **marks})


def steadiness(blocks: Float, weights: Float | None = None) -> Steadiness | None:
    """Return the steadiness of a window from the means of its blocks, in order; None with fewer than four known blocks.

    blocks: NaN where samples are missing
    weights: lengths of the blocks, if they differ
    """
    known = np.isfinite(blocks)
    values = blocks[known]
    if len(values) < QUARTERS:
        return None
    lengths = np.ones(len(values)) if weights is None else weights[known]
    total = float(lengths.sum())
    if total <= 0:
        return None
    mean = float(values @ lengths) / total
    # A block belongs to the quarter that its middle lies in.
    middle = (np.cumsum(lengths) - lengths / 2) / total
    quarter = np.minimum((middle * QUARTERS).astype(int), QUARTERS - 1)
    means, errors = [], []
    scatter = _scatter(values)
    for i in range(QUARTERS):
        mine = quarter == i
        if not mine.any():
            continue
        means.append(float(values[mine] @ lengths[mine]) / float(lengths[mine].sum()))
        n = int(np.count_nonzero(mine))
        errors.append(scatter / math.sqrt(n) if n >= LEAST_PER_QUARTER else 0.0)
    apart = [abs(one - mean) for one in means]
    changed = any(off > BY_CHANCE * error for off, error in zip(apart, errors, strict=True))
    return Steadiness(mean, min(means), max(means), max(apart) if changed else 0.0)


def _scatter(values: Float) -> float:
    """Standard deviation of a block about its level, from differences of neighbours but for the largest, which may be changes of level. Not
    their median: of counted things most neighbours are equal, and the few that are not are all the scatter there is."""
    squares = np.sort(np.diff(values) ** 2)
    kept = squares[: max(1, len(squares) - max(2, len(squares) // CHANGES))]
    return math.sqrt(float(kept.mean()) / 2.0)


def of_rail(rail: Rail, windows: Iterable[tuple[float, float]]) -> Steadiness | None:
    """Return the steadiness of the rail's power over windows of bus time (ticks), taken together; None with too few samples."""
    late = rail.model.front_end_delay_s / rail.tick_s
    spans = [rail.indices(round(first + late), round(last + late)) for first, last in windows]
    spans = [(low, high) for low, high in spans if high > low]
    total = sum(high - low for low, high in spans)
    if total < QUARTERS:
        return None
    step = max(1, total // BLOCKS)
    means, weights = [], []
    for low, high in spans:
        edges = np.arange(low, high, step)
        lengths = np.diff(np.append(edges, high)).astype(np.float64)
        if high - low <= MOST_READ:
            sums = np.add.reduceat(rail.reader.power(low, high).astype(np.float64), edges - low)
            means.append(sums / lengths)
        else:
            means.append(rail.reader.statistics("power", low, high, step)[:, 0])
        weights.append(lengths)
    return steadiness(np.concatenate(means), np.concatenate(weights))
