"""Queue depth of more commands than are looked at in one go."""

from __future__ import annotations

import numpy as np
import pytest
from wattbell.measure.depth import depth_histogram, depth_steps


@pytest.mark.parametrize("count", [32_767, 32_768, 32_769, 70_000])
@pytest.mark.parametrize("span", [1000, 10**9])
def test_depth_is_the_number_begun_less_the_number_over(count: int, span: int) -> None:
    """Many at one tick, also where two pieces meet; or hardly any."""
    rng = np.random.default_rng(count)
    starts = rng.integers(0, span, count)
    ends = starts + rng.integers(0, span // 5, count)
    steps = depth_steps(starts, ends)
    assert np.array_equal(steps.ticks, np.unique(np.concatenate((starts, ends))))
    begun, over = (np.searchsorted(np.sort(one), steps.ticks, side="right") for one in (starts, ends))
    assert np.array_equal(steps.depth, begun - over)
    histogram = depth_histogram(steps, 0, 2 * span)
    assert int(histogram.sum()) == 2 * span
    assert int(histogram @ np.arange(len(histogram))) == int((ends - starts).sum()), "each is in flight for as long as it lasts"
