"""The board as a plate against what is known by hand, and a shunt that lies the wrong way."""

import copy

import numpy as np
import pytest
from board.checks import thermal as checks
from board.signal import thermal


def test_even_heat_warms_evenly():
    # 3 W over both faces of 60 x 100 mm at 10 W/(m2 K): 3 / (2 * 0.006 * 10)
    found = thermal.plate(60, 100, 0.1, 10.0, [(3.0, [0, 0, 60, 100])])
    assert found.rise == pytest.approx(25.0, rel=1e-6)


def test_a_long_strip_is_a_fin():
    # Heated at one end: falls by exp(-x / L), L = sqrt(k t / 2 h)
    found = thermal.plate(10, 400, 0.1, 20.0, [(1.0, [0, 0, 10, 2])])
    length = np.sqrt(thermal.COPPER_W_M_K * 0.1e-3 / 40) * 1e3
    assert found.at(5, 20) / found.at(5, 20 + length) == pytest.approx(np.e, rel=0.01)


def test_the_estimates_hold():
    assert all(c.passed for c in checks.quick())


def test_a_shunt_that_points_at_the_drive_is_caught():
    wrong = copy.deepcopy(thermal.load())
    wrong["shunt"]["ends"] = [[30.0, 17.5], [30.0, 22.5]]
    assert [c.passed for c in checks.temperatures(wrong)] == [True, False]


def test_a_source_beside_the_board_is_refused():
    with pytest.raises(ValueError, match="beside"):
        thermal.plate(60, 100, 0.1, 10.0, [(1.0, [70, 0, 80, 10])])
