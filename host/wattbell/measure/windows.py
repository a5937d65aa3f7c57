"""Moving averages over a sampled waveform, chunk by chunk, in constant memory."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Float = npt.NDArray[np.float64]


def moving_mean(values: Float, width: int) -> Float:
    """Mean of each full window of ``width`` samples: ``out[i] = mean(values[i : i + width])``, length n - width + 1.

    A window with a NaN in it is NaN. Rounding stays below 1e-12 of the largest sum of a chunk (float64 prefix sums).
    """
    if width < 1:
        raise ValueError(f"a window holds at least 1 sample, not {width}")
    n = len(values)
    if n < width:
        return np.empty(0)
    missing = np.isnan(values)
    holes = bool(missing.any())
    prefix = np.zeros(n + 1)
    np.cumsum(np.where(missing, 0.0, values) if holes else values, out=prefix[1:])
    out: Float = (prefix[width:] - prefix[:-width]) / width
    if holes:
        bad = np.zeros(n + 1, np.int64)
        np.cumsum(missing, out=bad[1:])
        out[(bad[width:] - bad[:-width]) > 0] = np.nan
    return out


@dataclass
class MovingMax:
    """Largest moving mean of a stream, over the whole stream and over any number of sample ranges inside.

    ``ranges`` are ``[first, last)`` sample indices; a window counts for a range if all its samples are inside. Feed with ``add`` in order
    and without gaps. The other lists have one item for each range:

    best: the maximum (-inf: no full window)
    best_at: index of the first sample of that window (-1: no full window)
    skipped: windows left out because a sample is missing
    """

    width: int
    ranges: list[tuple[int, int]]
    best: list[float] = field(init=False)
    best_at: list[int] = field(init=False)
    skipped: list[int] = field(init=False)
    _tail: Float = field(init=False)
    _position: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.best = [float("-inf")] * len(self.ranges)
        self.best_at = [-1] * len(self.ranges)
        self.skipped = [0] * len(self.ranges)
        self._tail = np.empty(0)

    def skip(self, count: int) -> None:
        """``count`` samples that are missing, however many, at the cost of a window."""
        near = min(count, self.width)
        self.add(np.full(near, np.nan))
        if count > near:
            begin = self._position - (self.width - 1)  # first sample of the first window in the remaining samples
            for i, (first, last) in enumerate(self.ranges):
                self.skipped[i] += max(0, min(last - self.width + 1, begin + count - near) - max(first, begin))
            self._position += count - near

    def add(self, chunk: Float) -> None:
        """The next samples of the stream."""
        values = np.concatenate((self._tail, chunk))
        means = moving_mean(values, self.width)
        origin = self._position - len(self._tail)  # index of the first sample of means[0]'s window
        if len(means):
            for i, (first, last) in enumerate(self.ranges):
                low, high = max(first - origin, 0), min(last - self.width + 1 - origin, len(means))
                if low >= high:
                    continue
                part = means[low:high]
                good = ~np.isnan(part)
                self.skipped[i] += int(len(part) - np.count_nonzero(good))
                if not good.any():
                    continue
                at = int(np.nanargmax(part))
                if part[at] > self.best[i]:
                    self.best[i], self.best_at[i] = float(part[at]), origin + low + at
        self._position += len(chunk)
        keep = self.width - 1
        self._tail = values[len(values) - min(keep, len(values)) :].copy()
