"""Delays from edges, on paths with known poles."""

import math

import numpy as np
import pytest
from wattbell.rig.calibration import CalibrationError, Edge, edge_delay

POLES = (1.76e-6, 0.284e-6, 0.018e-6)
INTERVAL = 1e-6
SETTLE = 40e-6


def answer(time, poles=POLES):
    """Step response at 0 of poles in series, in closed form."""
    time = np.maximum(time, 0.0)
    shares = [tau ** (len(poles) - 1) / math.prod(tau - other for other in poles if other != tau) for tau in poles]
    return 1 - sum(share * np.exp(-time / tau) for share, tau in zip(shares, poles))


def edges(count, rng, late=0.0, noise=292e-6, step=1.0, poles=POLES, phase=None):
    result = []
    for n in range(count):
        first = -SETTLE - INTERVAL + (rng.uniform(0, INTERVAL) if phase is None else phase)
        time = first + INTERVAL * np.arange(int(3 * SETTLE / INTERVAL) + 3)
        white = rng.standard_normal(len(time))
        coloured = np.empty_like(white)  # neighbouring conversions share noise, being closer than the filter is long
        rho, coloured[0] = math.exp(-INTERVAL / 2e-6), white[0]
        for k in range(1, len(white)):
            coloured[k] = rho * coloured[k - 1] + math.sqrt(1 - rho**2) * white[k]
        samples = 0.3 + step * answer(time - late, poles) + noise * coloured
        result.append(Edge(n * 1e-3, n * 1e-3 + first, INTERVAL, samples))
    return result


def test_the_delay_is_the_sum_of_the_time_constants():
    rng = np.random.default_rng(1)
    found = edge_delay(edges(1000, rng, noise=0.0), SETTLE)
    assert found.delay_s == pytest.approx(sum(POLES), abs=0.5e-9)
    assert edge_delay(edges(300, rng, late=123e-9, noise=0.0), SETTLE).delay_s == pytest.approx(sum(POLES) + 123e-9, abs=1e-9)


def test_a_falling_edge_and_another_path():
    rng = np.random.default_rng(2)
    poles = (1.57e-6, 0.284e-6, 0.182e-6)
    assert edge_delay(edges(300, rng, step=-0.5, noise=0.0, poles=poles), SETTLE).delay_s == pytest.approx(sum(poles), abs=1e-9)


def test_noise_spreads_it_by_what_is_stated():
    rng = np.random.default_rng(3)
    found = [edge_delay(edges(200, rng), SETTLE) for _ in range(20)]
    errors = np.array([f.delay_s for f in found]) - sum(POLES)
    stated = math.sqrt(np.mean([f.sigma_s**2 for f in found]))
    assert math.sqrt(np.mean(errors**2)) == pytest.approx(stated, rel=0.5)  # 20 draws: 16 % of standard error
    assert stated < 2e-9


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda e: e[:99], "at least 100"),
        (lambda e: [Edge(x.at_s, x.first_s + 50e-6, x.interval_s, x.samples) for x in e], "far enough"),
        (lambda e: [Edge(x.at_s, x.first_s, x.interval_s, x.samples[:60]) for x in e], "far enough"),
        (lambda e: [Edge(x.at_s, x.first_s, x.interval_s, [0.3, 0.4] * (len(x.samples) // 2)) for x in e], "No step"),
    ],
)
def test_edges_that_tell_nothing(change, message):
    with pytest.raises(CalibrationError, match=message):
        edge_delay(change(edges(120, np.random.default_rng(4))), SETTLE)


def test_edges_in_step_with_the_conversions_are_refused():
    with pytest.raises(CalibrationError, match="in step"):
        edge_delay(edges(120, np.random.default_rng(5), phase=0.4e-6), SETTLE)
