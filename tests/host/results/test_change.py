"""The change of a figure, with the spread between runs and samples, against published examples and a fit of the mixed model.

The fit (:func:`fitted`) shares nothing with :mod:`wattbell.results.change`: it builds the covariance matrix of all runs and maximizes the
restricted likelihood by a general optimizer.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize, stats
from wattbell.results.change import Inseparable, Logs, SampledChange, change

DYESTUFF = [
    [1545, 1440, 1440, 1520, 1580],
    [1540, 1555, 1490, 1560, 1495],
    [1595, 1550, 1605, 1510, 1560],
    [1445, 1440, 1595, 1465, 1545],
    [1595, 1630, 1515, 1635, 1625],
    [1520, 1455, 1450, 1480, 1445],
]
"""Davies and Goldsmith, Statistical Methods in Research and Production (1972); data set Dyestuff of lme4."""
SLEEP = ([0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0], [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4])
"""Student, Biometrika 6 (1908); data set sleep of R."""


def sides(*each: list[list[float]], names: str = "abcdefghij") -> list[Logs]:
    return [dict(zip(names, side, strict=False)) for side in each]


def drawn(seed: int, samples: int, runs: int, between: float, within: float, apart: float, *, same: bool, mean: float = 0.0) -> list[Logs]:
    """Draws two sides. ``between``: standard deviation of the change from sample to sample, or of the samples where they are not the
    same."""
    random = np.random.default_rng(seed)
    own = random.normal(0, 0.05, samples) if same else np.zeros(samples)
    made: list[Logs] = []
    for side in (0, 1):
        offset = own + random.normal(0, between / math.sqrt(2 if same else 1), samples) + side * apart + mean
        values = offset[:, None] + random.normal(0, within, (samples, runs))
        made.append({f"{'s' if same else 'ab'[side]}{i}": list(row) for i, row in enumerate(values)})
    return made


def fitted(a: Logs, b: Logs, *, same: bool) -> tuple[float, float, float, float]:
    """Fit the mixed model by restricted maximum likelihood: change, its standard error, SD between samples, SD between runs.

    With the same samples, each has an effect of its own and another one on each side.
    """
    rows = [(side, name, value) for side, runs in enumerate((a, b)) for name, values in runs.items() for value in values]
    y = np.array([row[2] for row in rows])
    x = np.array([[1.0, row[0]] for row in rows])
    kin = np.array([[float(m[1] == n[1]) for n in rows] for m in rows])
    cell = np.array([[float(m[:2] == n[:2]) for n in rows] for m in rows])

    def parts(log_sd: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        run, sample, inner = np.exp(2 * log_sd[0]), np.exp(2 * log_sd[1]), np.exp(2 * log_sd[2]) if same else 0.0
        v = run * np.eye(len(y)) + (sample * kin + inner * cell if same else sample * cell)
        xv = np.linalg.solve(v, x)
        return v, xv, np.linalg.solve(x.T @ xv, xv.T @ y)

    def deviance(log_sd: np.ndarray) -> float:
        v, xv, beta = parts(log_sd)
        left = y - x @ beta
        return float(np.linalg.slogdet(v)[1] + np.linalg.slogdet(x.T @ xv)[1] + left @ np.linalg.solve(v, left))

    start = np.log(np.full(3 if same else 2, y.std()))
    options = {"xatol": 1e-9, "fatol": 1e-12, "maxiter": 20000, "maxfev": 20000}
    best = optimize.minimize(deviance, start, method="Nelder-Mead", options=options).x
    _, xv, beta = parts(best)
    sd = np.exp(best)
    return float(beta[1]), float(np.sqrt(np.linalg.inv(x.T @ xv)[1, 1])), float(sd[2] * math.sqrt(2) if same else sd[1]), float(sd[0])


def test_components_are_those_that_lme4_gives() -> None:
    """Dyestuff has 42.00 between batches and 49.51 within by REML (Bates, lme4: Mixed-effects modeling with R)."""
    a, b = ({f"{side}{k}": [float(v) for v in runs] for k, runs in enumerate(DYESTUFF)} for side in "ab")
    found = change(a, b)
    assert found.between_runs is not None and found.between_samples is not None
    assert found.between_runs.value == pytest.approx(49.51, abs=0.005)
    assert found.between_samples.value == pytest.approx(42.00, abs=0.005)
    assert found.between_samples.at_most > found.between_samples.value


def test_the_test_of_the_same_samples_is_students_of_1908() -> None:
    """R: t.test(extra ~ group, data = sleep, paired = TRUE) gives t = -4.0621, df = 9, p = 0.002833, interval -2.4598858 to -0.7001142."""
    found = change(*sides(*[[[value] for value in side] for side in SLEEP]))
    assert (found.design, found.df) == ("same samples", pytest.approx(9))
    assert found.value / found.se == pytest.approx(4.0621, abs=5e-5)
    assert 2 * found.p_beyond(found.value, 0.0) == pytest.approx(0.002833, abs=5e-7)
    assert found.value - found.half_width(0.025) == pytest.approx(0.7001142, abs=5e-8)
    assert found.between_runs is None and found.between_samples is None and "one run of each sample" in found.unknown


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_balanced_runs_give_what_the_mixed_model_gives(same: bool, seed: int) -> None:
    a, b = drawn(seed, 6, 4, 0.03, 0.01, 0.02, same=same)
    found = change(a, b)
    value, se, between, within = fitted(a, b, same=same)
    assert found.between_samples is not None and found.between_runs is not None and found.between_samples.value > 0, "none at a boundary"
    assert (found.value, found.se) == (pytest.approx(value, rel=1e-6), pytest.approx(se, rel=1e-4))
    assert (found.between_samples.value, found.between_runs.value) == (pytest.approx(between, rel=1e-3), pytest.approx(within, rel=1e-3))


def test_one_sample_is_judged_by_its_runs_and_says_what_is_unknown() -> None:
    a, b = [27.5, 21.0, 19.0, 23.6], [27.1, 22.0, 20.8, 23.4, 29.0]
    found = change({"s": a}, {"s": b})
    welch = stats.ttest_ind(b, a, equal_var=False)
    assert (found.design, found.between_samples) == ("one sample", None) and "spread between samples is unknown" in found.unknown
    assert found.df == pytest.approx(welch.df) and found.value / found.se == pytest.approx(welch.statistic)
    assert found.half_width(0.025) == pytest.approx((welch.confidence_interval(0.95).high - welch.confidence_interval(0.95).low) / 2)


def test_runs_of_one_sample_are_not_counted_as_samples() -> None:
    """Many runs of two samples that changed by other amounts say little of a third sample."""
    rises = {"s1": [0.05 + 1e-4 * k for k in range(20)], "s2": [0.01 + 1e-4 * k for k in range(20)]}
    found = change({"s1": [1e-4 * k for k in range(20)], "s2": [1e-4 * k for k in range(20)]}, rises)
    assert found.df == 1 and found.value == pytest.approx(0.03)
    assert found.half_width(0.025) == pytest.approx(12.7062 * 0.02, rel=1e-4), "two changes, 0.04 apart, one degree of freedom"


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        ({"s": [1.0]}, {"s": [2.0]}, "one run a side of one sample: the spread between runs is unknown"),
        ({"s": [1.0, 1.1]}, {"s": [2.0, 2.1, 2.2]}, "2 runs a side"),
        ({"s": [1.0] * 9}, {"t": [2.0] * 9}, "other samples, 1 and 1: a change cannot be told from a sample's own difference"),
        ({"s": [1.0], "t": [1.1]}, {"t": [2.0], "u": [1.0]}, "on one side alone \\(s, u\\)"),
    ],
)
def test_what_cannot_be_told_apart_is_refused(a: Logs, b: Logs, said: str) -> None:
    with pytest.raises(Inseparable, match=said):
        change(a, b)


def test_more_runs_or_samples_decide_when_there_are_as_many() -> None:
    """The advice is tried: with so many more units of the same spread the interval ends before the limit, with one less it does not."""
    for a, b, what in (
        (*sides([[0.0, 0.01, 0.02]], [[0.001, 0.011, 0.021]]), "run"),
        (*drawn(5, 4, 3, 0.01, 1e-4, 0.0, same=True), "sample"),
    ):
        found = change(a, b)
        text = found.more(0.008, 0.0, 0.025)
        n = int(text.split()[1])
        assert what in text and n > 1

        def reach(more: int, found: SampledChange = found) -> float:
            units = [(u.n + more, u.variance) for u in found.units]
            df = min(n for n, _ in units) - 1 if len(units) == 1 else sum(n - 1 for n, _ in units)
            return float(stats.t.ppf(0.975, df)) * math.sqrt(sum(v / n for n, v in units))

        assert reach(n) <= 0.008 < reach(n - 1)
        assert "more runs do not" in found.more(0.008, 0.009, 0.025)


def test_runs_are_asked_for_where_they_are_what_scatters() -> None:
    a, b = drawn(11, 8, 2, 1e-5, 0.02, 0.0, same=True)
    assert "of each sample on each side" in change(a, b).more(0.012, 0.0, 0.025)


def test_intervals_hold_the_true_change_as_often_as_they_say() -> None:
    """2000 draws of 5 samples and 3 runs, with the samples as far apart as the runs: 95 % hold."""
    held = 0
    for seed in range(2000):
        found = change(*drawn(seed, 5, 3, 0.01, 0.01, 0.02, same=True))
        held += abs(found.value - 0.02) <= found.half_width(0.025)
    assert abs(held / 2000 - 0.95) < 3 * math.sqrt(0.95 * 0.05 / 2000)
