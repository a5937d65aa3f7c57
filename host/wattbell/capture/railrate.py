"""Holds the samples of a rig to its settings: STATUS states how long a conversion and a sample last, the blocks state how many came when.

Where the two contradict each other, nobody knows which is true. Times, energies and powers over such samples are in doubt, so a gap
marks them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from wattbell_spec import wire as spec

from ..wire.decode import Batch, Gap
from ..wire.records import RailRecords

Int64 = npt.NDArray[np.int64]

REASON = "samples came at another rate than the rig states"
_LEAST_INTERVALS, _LEAST_SHARE = 2, 0.01
"""Least difference that counts, in intervals and as a share: a conversion may be under way when a block ends."""


def contradicts(conversions: Int64, period_ticks: float, ticks: Int64, interval_ticks: Int64) -> npt.NDArray[np.bool_]:
    """Return, element by element, whether conversions of a period contradict a length in ticks."""
    least = np.maximum(_LEAST_INTERVALS * np.maximum(interval_ticks, period_ticks), _LEAST_SHARE * np.abs(ticks))
    counts: npt.NDArray[np.bool_] = np.abs(conversions * period_ticks - ticks) > least
    return counts


class RailRate:
    """Follows the RAIL and STATUS blocks of one run. Settings that change during the run excuse the samples between two STATUS blocks."""

    def __init__(self) -> None:
        self._settings: tuple[int, int] | None = None
        """Ticks of a conversion, conversions of a sample."""
        self._last: tuple[int, int, int] | None = None
        """The last block: conversions, tick of its last sample, interval in ticks."""
        self._odd: tuple[int, int] | None = None
        """Ticks between which samples contradict the last STATUS."""

    def add(self, batch: Batch) -> list[Gap]:
        """Take note of a batch; returns the gaps that are certain."""
        gaps: list[Gap] = []
        if batch.status is not None:
            columns = batch.status.columns
            newest = int(np.argmax(batch.status.tick))
            settings = int(columns["adc_period_ticks"][newest]), max(1, int(columns["decimation"][newest]))
            if settings == self._settings:
                gaps = self.finish()
            self._settings, self._odd = settings, None
        if batch.rail is not None:
            self._follow(batch.rail)
        return gaps

    def finish(self) -> list[Gap]:
        """Return a gap for samples that still contradict the last STATUS."""
        odd, self._odd = self._odd, None
        return [] if odd is None else [Gap(spec.BlockContent.RAIL, *odd, -1, REASON)]

    def _follow(self, rail: RailRecords) -> None:
        order = np.argsort(rail.first_tick, kind="stable")
        columns = {name: rail.columns[name][order].astype(np.int64) for name in ("interval_ticks", "count", "adc_index", "flags")}
        first, interval, index = rail.first_tick[order], columns["interval_ticks"], columns["adc_index"]
        ends = first + (columns["count"] - 1) * interval
        begins = (columns["flags"] & int(spec.RailFlag.RESTARTED)) != 0
        last, self._last = self._last, (int(index[-1]), int(ends[-1]), int(interval[-1]))
        if self._settings is None or not self._settings[0]:
            return
        period, decimation = self._settings
        before = last or (int(index[0]), int(ends[0]), int(interval[0]))
        conversions = np.diff(index, prepend=before[0])
        ticks, same = np.diff(ends, prepend=before[1]), interval == np.concatenate(([before[2]], interval[:-1]))
        odd = same & ~begins & (conversions > 0) & contradicts(conversions, period, ticks, interval)
        odd |= interval != period * decimation
        if odd.any():
            low, high = int(first[odd].min()), int(ends[odd].max())
            self._odd = (low, high) if self._odd is None else (min(low, self._odd[0]), max(high, self._odd[1]))
