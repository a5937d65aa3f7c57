"""The power of a waveform, coarse enough to hold in memory."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..formats import Waveform

F64 = npt.NDArray[np.float64]
FINEST_S = 250e-6
"""Finer than this nothing of a host's work is known."""
MOST_BINS = 1 << 22


def profile(waveform: Waveform) -> tuple[F64, F64]:
    """(time in s from the first sample, W) in equal bins of some samples each; NaN where all samples of a bin are missing."""
    about = waveform.about
    width = max(1, round(FINEST_S / about.interval_s), -(-about.span // MOST_BINS))
    bins = -(-about.span // width)
    total, count = np.zeros(bins), np.zeros(bins)
    for piece in waveform.read():
        power = piece.voltage_v.astype(np.float64) * piece.current_a
        there = np.isfinite(power)
        if not there.any():
            continue
        place = piece.index[there] // width
        low = int(place[0])
        part = np.bincount(place - low, power[there])
        total[low : low + len(part)] += part
        count[low : low + len(part)] += np.bincount(place - low)
    mean: F64 = np.full(bins, np.nan)
    np.divide(total, count, out=mean, where=count > 0)
    centres: F64 = np.asarray((np.arange(bins) * width + (width - 1) / 2) * about.interval_s, np.float64)
    return centres, mean
