"""A mean over a change is as uncertain as the change: by hand, of waveforms with known levels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from wattbell.capture import Capture
from wattbell.measure.figure import Figure
from wattbell.measure.source import Source
from wattbell.measure.steadiness import UNSTEADY, steadiness

from tests.host.conftest import MS


def blocks(*levels: tuple[int, float], noise: float = 0.0) -> Any:
    rng = np.random.default_rng(1)
    values = np.concatenate([np.full(n, level) for n, level in levels])
    return values + rng.normal(0.0, noise, len(values))


@pytest.mark.parametrize(
    ("levels", "spread", "steady"),
    [
        ([(64, 2.0)], 0.0, True),
        ([(32, 3.0), (32, 1.0)], 1.0, False),
        ([(48, 1.0), (16, 5.0)], 3.0, False),  # the quarter that is all of the other level
        ([(2, 3.0), (62, 2.0)], 2.125 - 2.03125, True),  # a start of a thirtieth: 5 % of the mean, and no more
        ([(8, 1.0), (8, 2.0)] * 4, 0.0, True),  # what repeats itself within a quarter is one level
    ],
)
def test_the_quarter_that_is_farthest_from_the_mean(levels: list[tuple[int, float]], spread: float, steady: bool) -> None:
    found = steadiness(blocks(*levels))
    assert found is not None and found.spread == pytest.approx(spread) and found.steady is steady


def test_scatter_is_no_change_and_a_change_within_scatter_is_seen() -> None:
    for seed in range(50):
        rng = np.random.default_rng(seed)
        found = steadiness(2.0 + rng.normal(0.0, 0.2, 64))
        assert found is not None and found.spread == 0.0, "of fifty steady loads with a scatter of 10 %, none changed"
    found = steadiness(blocks((32, 2.0), (32, 2.6), noise=0.2))
    assert found is not None and found.spread == pytest.approx(0.3, abs=0.1)


def test_counted_things_scatter_by_whole_ones() -> None:
    """Ten commands a block, in one of eight eleven: most neighbours are equal, and the rest is no change."""
    found = steadiness(np.array(([10.0] * 7 + [11.0]) * 8))
    assert found is not None and found.spread == 0.0


def test_missing_blocks_belong_to_no_quarter_and_too_few_tell_nothing() -> None:
    values = blocks((32, 3.0), (32, 1.0))
    values[10:20] = math.nan
    found = steadiness(values)
    assert found is not None and found.mean == pytest.approx((22 * 3 + 32) / 54) and (found.low, found.high) == (1.0, 3.0)
    assert steadiness(np.array([1.0, 2.0, math.nan, 3.0])) is None


def test_a_figure_takes_the_spread_into_its_uncertainty_and_says_so() -> None:
    found = steadiness(blocks((32, 3.0), (32, 1.0)))
    assert found is not None
    figure = found.of(Figure(2.0, 0.002, "W"))
    assert figure.u == pytest.approx(math.hypot(1.0, 0.002))
    assert figure.conditions[UNSTEADY] == "not steady: quarters of the window from 1.00 W to 3.00 W"
    assert found.of(Figure(2.0, None, "W")).u is None, "unknown stays unknown"
    level = steadiness(blocks((64, 2.0)))
    assert level is not None and level.of(figure) is figure


def test_every_mean_of_power_has_the_change_in_it(builder: Any) -> None:
    """A phase of 100 ms: I/O all the time; the first quarter draws 4 W and the rest 2 W (an SLC cache that is full)."""
    builder.phase(1, 100 * MS, 200 * MS, "writes")
    for k in range(100):
        builder.command((100 + k) * MS, MS, opcode=1, blocks=8)
    builder.levels += [(0, 2.0), (100 * MS, 4.0), (125 * MS, 2.0), (250 * MS, 0.5)]
    capture: Capture = builder.write(end=300 * MS)
    source = Source(capture)
    assert source.rail is not None
    for first, last, mean, apart in ((100, 200, 2.5, 1.5), (130, 200, 2.0, 0.0)):
        power = source.energy(first * MS, last * MS)[1]
        assert power.value == pytest.approx(mean, rel=1e-3)
        assert power.u == pytest.approx(math.hypot(apart, 1e-3 * mean), rel=0.05) and (UNSTEADY in power.conditions) is bool(apart)
