"""The time between two samples of the rail: the error of a sum of samples by a step there, against the stated bound."""

from __future__ import annotations

import math

import numpy as np
import pytest
from wattbell.analysis.railpiece import RailPiece, SteadyLevel, _of_a_step

HEIGHT_W, NOISE_W = 2.0, 1e-3


def pulse(
    step_s: float, delay_s: float, decimation: int, phase: float, seconds: float, noise: np.random.Generator
) -> tuple[RailPiece, float]:
    """Samples of a pulse behind the front end's pole (and the mean of 3 times ``decimation`` conversions), and its true energy."""
    conversion_s = step_s / decimation
    at = (np.arange(800 * decimation) + phase * decimation) * conversion_s
    begin = 200 * step_s

    def lagging(since_s: np.ndarray) -> np.ndarray:
        if not delay_s:
            return np.asarray(since_s > 0, np.float64)
        return np.where(since_s > 0, -np.expm1(-np.maximum(since_s, 0) / delay_s), 0.0)

    power = HEIGHT_W * (lagging(at - begin) - lagging(at - begin - seconds))
    for _ in range(3 if decimation > 1 else 0):
        power = np.convolve(power, np.full(decimation, 1 / decimation))[: len(at)]
    samples = power[decimation - 1 :: decimation]
    samples = samples + noise.normal(0, NOISE_W, len(samples))
    return RailPiece(np.arange(len(samples)) * step_s * 1e9, samples, step_s), HEIGHT_W * seconds


@pytest.mark.parametrize(
    ("step_s", "delay_s", "decimation"), [(1.3e-6, 2e-6, 1), (1.1e-5, 2e-6, 1), (5e-5, 2e-6, 1), (1e-5, 0.0, 1), (1e-5, 2e-6, 10)]
)
def test_steps_between_samples_make_the_sum_wrong_by_what_is_stated(step_s: float, delay_s: float, decimation: int) -> None:
    chance = np.random.default_rng(1)
    level, errors, stated = SteadyLevel(0.0, 0.0, NOISE_W), [], []
    wrong, alternating = _of_a_step(step_s, delay_s, decimation)
    for _ in range(400):
        found, true = pulse(step_s, delay_s, decimation, float(chance.random()), step_s * float(chance.uniform(40, 300)), chance)
        errors.append(found.joules(slice(None)) - true)
        stated.append((wrong / alternating) ** 2 * found.alternating_j2(slice(0, len(found.power_w)), level))
    noise_j2 = (NOISE_W * step_s) ** 2 * 800
    assert abs(np.mean(errors)) < 4 * np.std(errors) / math.sqrt(400), "without bias"
    assert math.sqrt(np.mean(stated) + noise_j2) == pytest.approx(np.std(errors), rel=0.15)


def test_noise_alone_is_no_step() -> None:
    chance = np.random.default_rng(2)
    made = [RailPiece(np.arange(600.0), chance.normal(1.0, NOISE_W, 600), 1.0) for _ in range(300)]
    found = [one.alternating_j2(slice(0, 600), SteadyLevel(1.0, 0.0, NOISE_W)) for one in made]
    assert abs(np.mean(found)) < 4 * np.std(found) / math.sqrt(300)


def test_without_a_filter_a_step_is_anywhere_in_a_sample() -> None:
    wrong, alternating = _of_a_step(1e-5, 0.0, 1)
    assert (wrong, alternating) == (pytest.approx(1 / math.sqrt(12), rel=1e-3), pytest.approx(1.0))
