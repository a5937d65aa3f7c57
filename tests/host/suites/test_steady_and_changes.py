"""The steady-state rule and the change points on series with known answers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from wattbell.measure.encode import quantity_json
from wattbell.measure.figure import Figure, mean, ratio, total
from wattbell.suites.changepoint import find_changes
from wattbell.suites.steady import find_steady, window


def test_steady_state_is_range_and_slope() -> None:
    assert find_steady([[100, 100, 100, 100, 100]]) == 1
    # range exactly 20 % of the mean, no slope: (90, 110, 100, 110, 90)
    level = window([90, 110, 100, 110, 90], 1)
    assert (level.range_share, level.slope_share, level.steady) == (pytest.approx(0.2), pytest.approx(0.0, abs=1e-12), True)
    assert not window([89, 110, 100, 110, 90], 1).steady
    # a line that falls by 12 % over the window: the range is fine, the slope is not
    falling = window([106, 103, 100, 97, 94], 1)
    assert falling.range_share == pytest.approx(0.12)
    assert falling.slope_share == pytest.approx(0.12)
    assert not falling.steady
    assert window([105, 102.5, 100, 97.5, 95], 1).steady  # exactly 10 %
    assert not window([0, 0, 0, 0, 0], 1).steady


def test_steady_state_is_of_the_first_window_and_of_everything_tracked() -> None:
    settling = [300, 200, 150, 120, 105, 101, 100, 99, 100]
    assert find_steady([settling]) == 5
    assert find_steady([settling, [100] * 9]) == 5
    assert find_steady([[100] * 9, [100, 90] * 4 + [100]]) == 1
    assert find_steady([[100] * 9, [100, 70] * 4 + [100]]) is None
    assert find_steady([[100] * 4]) is None
    assert find_steady([]) is None


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.10])
def test_the_end_of_a_cache_is_found_within_its_interval(noise: float) -> None:
    hits = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        at = int(rng.integers(10, 190))
        rate = np.where(np.arange(200) < at, 1800.0, 100.0) * np.exp(noise * rng.standard_normal(200))
        (change,) = find_changes(rate)
        assert abs(change.place - at) <= 1
        hits += change.low <= at <= change.high
        assert abs(change.at - at) <= 1
        # a mean of n bins of that noise, plus its variance in the mean of 1 / rate: within four of its standard errors
        for got, level, bins in ((change.before, 1800, at), (change.after, 100, 200 - at)):
            assert got == pytest.approx(level, rel=4 * noise / math.sqrt(bins - 2) + noise**2 + 1e-9)
    assert hits >= 38


def test_small_steps_are_told_from_noise() -> None:
    falses = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        falses += bool(find_changes(1000 * np.exp(0.1 * rng.standard_normal(200))))
    assert falses <= 2
    assert find_changes(np.full(200, 500.0)) == []
    assert find_changes(np.array([1.0, 2.0])) == []
    assert find_changes(np.array([1.0, 0.0] * 20)) == []


def test_three_levels_give_two_changes() -> None:
    rate = np.repeat([2000.0, 600.0, 150.0], [40, 60, 100])
    assert [c.at for c in find_changes(rate)] == [40, 100]
    assert [round(c.after) for c in find_changes(rate)] == [600, 150]


def test_quantities_carry_uncertainty_and_loss() -> None:
    a, b = Figure(100.0, 1.0, lost=2), Figure(50.0, 2.0, lost=1)
    assert quantity_json(ratio(a, b)) == {"value": 2.0, "u": pytest.approx(2 * np.hypot(0.01, 0.04)), "n_lost": 3}
    assert quantity_json(mean([a, b])) == {"value": 75.0, "u": 1.5, "n_lost": 3}
    assert total([a, b]).value == 150.0
    assert quantity_json(mean([a, Figure(lost=5)])) == {"value": None, "u": None, "n_lost": 7}
    assert ratio(a, Figure(0.0)).value is None
    assert quantity_json(Figure(float("nan"), 1.0)) == {"value": None, "u": None, "n_lost": 0}


@pytest.mark.parametrize("share", [0.05, 0.3, 0.7, 0.95])
def test_a_change_inside_a_bin_is_one_change_and_placed_in_it(share: float) -> None:
    """The bin takes share / 1840 + (1 - share) / 100 of time; its rate is neither level."""
    rate = np.repeat([1840.0, 1 / (share / 1840 + (1 - share) / 100), 100.0], [140, 1, 883])
    (change,) = find_changes(rate)
    assert change.place == pytest.approx(140 + share, abs=1e-3)
    assert (change.before, change.after) == (pytest.approx(1840), pytest.approx(100))
