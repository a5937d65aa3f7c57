"""Percentiles, their intervals and the error of a mean against exact arithmetic, NumPy and published formulas."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattbell.measure.errormodel import ErrorModel
from wattbell.measure.latency import QUANTILES, describe, quantile_ranks, standard_error, supported

EXACT = ErrorModel(gain=0.0, offset_a=0.0, timebase=0.0, tick_resolution_s=1e-9, instant_s=0.0)
TAIL = 0.02275
P = [0.5, 0.9, 0.99, 0.999]


@given(st.integers(1, 10**6), st.sampled_from([text for _, text in QUANTILES]))
def test_the_rank_of_a_percentile_is_the_ceiling_of_p_n(n: int, p: float) -> None:
    """Nearest rank, in integers: 0.9 x 10 is 9, and float rounding must not make it another rank."""
    assert quantile_ranks(n, p)[0] == max(1, math.ceil(Fraction(str(p)) * n))


@pytest.mark.parametrize("n", [1, 2, 3, 7, 10, 11, 36, 37, 99, 100, 101, 377, 999, 1001, 3799, 3801])
def test_percentiles_are_those_of_numpys_inverted_distribution(n: int) -> None:
    ticks = np.random.default_rng(n).permutation(np.arange(1, n + 1, dtype=np.int64) ** 2)
    got = describe(ticks, 1e-9, EXACT)
    for name, p in QUANTILES:
        if got[name] is not None:
            assert round(got[name] * 1e9) == np.quantile(ticks, p, method="inverted_cdf"), name
        assert (got[name] is not None) == (p == 0.5 or p**n <= TAIL), name
    assert round(got["min"] * 1e9) == 1 and round(got["max"] * 1e9) == n * n


def log_binomial(n: int, p: float) -> np.ndarray:
    """ln of P(K = k), k = 0 .. n."""
    falling = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, n + 1)))))
    k = np.arange(n + 1)
    return falling[n] - falling[k] - falling[n - k] + k * math.log(p) + (n - k) * math.log1p(-p)


def tails(n: int, p: float, low: int | None, high: int | None) -> tuple[float, float]:
    """(P(fewer than `low` of n lie at or below the quantile), P(`high` or more do)): the two ways in which an interval between the
    order statistics `low` and `high` misses the true quantile."""
    pmf = np.exp(log_binomial(n, p))
    return (math.fsum(pmf[:low]) if low is not None else 0.0), (math.fsum(pmf[high:]) if high is not None else 0.0)


@given(st.integers(5, 5000), st.sampled_from(P))
def test_the_interval_of_a_percentile_covers_as_often_as_it_says(n: int, p: float) -> None:
    rank, low, high = quantile_ranks(n, p)
    below, above = tails(n, p, low, high)
    exact = n * p <= 200 or n * (1 - p) <= 200
    # far from both ends: the normal approximation, widened by a rank each, errs by less than a tenth of the tail
    limit = TAIL + 1e-9 if exact else 1.1 * TAIL
    assert below <= limit and above <= limit
    assert low is None or 1 <= low <= rank
    assert high is None or rank <= high <= n
    assert (high is not None) == (p**n <= TAIL)
    assert (low is not None) == ((1 - p) ** n <= TAIL)


@given(st.integers(40, 5000), st.sampled_from(P))
def test_the_interval_of_a_percentile_is_no_wider_than_it_must_be(n: int, p: float) -> None:
    _, low, high = quantile_ranks(n, p)
    slack = 1 if n * p <= 200 or n * (1 - p) <= 200 else 4
    if low is not None:
        assert tails(n, p, low + slack, None)[0] > TAIL - 1e-9
    if high is not None and high - slack >= 1:
        assert tails(n, p, None, high - slack)[1] > TAIL - 1e-9


def test_the_interval_and_u_of_a_percentile_are_order_statistics() -> None:
    """n = 100, the median: P(K <= 39) = 1.76 % and P(K <= 40) = 2.84 %, so the 40th and the 61st of the sample (binomial tables)."""
    ticks = np.arange(1, 101, dtype=np.int64) * 1000
    got = describe(ticks, 1e-9, EXACT)
    assert got["interval"]["p50"] == pytest.approx([40e-6, 61e-6])
    assert got["u"]["p50"] == pytest.approx(math.hypot(21e-6 / 2, 2e-9 / math.sqrt(6)), rel=1e-9)
    assert got["p50"] == pytest.approx(50e-6)


def test_some_percentiles_only_where_not_all_are_asked_for() -> None:
    got = describe(np.arange(1, 1001, dtype=np.int64), 1e-9, EXACT, full=False)
    assert {name for name, _ in QUANTILES if name in got} == {"p50", "p99"}
    assert got["p99"] == pytest.approx(990e-9)


@pytest.mark.parametrize("n", [2, 3, 10, 63])
def test_few_values_have_the_textbook_error_of_a_mean(n: int) -> None:
    values = np.random.default_rng(n).integers(0, 10**6, n)
    mean = sum(map(Fraction, values.tolist())) / n
    variance = sum((Fraction(v) - mean) ** 2 for v in values.tolist()) / (n - 1)
    assert standard_error(values) == pytest.approx(math.sqrt(variance / n), rel=1e-12)


def test_one_value_has_no_error() -> None:
    assert standard_error(np.array([5])) is None
    got = describe(np.array([5], np.int64), 1e-9, EXACT)
    assert got["u"]["mean"] is None and got["mean"] == pytest.approx(5e-9)


def test_values_that_come_in_long_stretches_are_not_taken_for_independent() -> None:
    """32 batches of 100 equal values are 32 values: s / sqrt(32), not s / sqrt(3200)."""
    levels = np.random.default_rng(1).integers(10**4, 10**6, 32)
    ticks = np.repeat(levels, 100)
    assert standard_error(ticks) == pytest.approx(np.std(levels, ddof=1) / math.sqrt(32), rel=1e-12)
    assert describe(ticks, 1e-9, EXACT)["u"]["mean"] == pytest.approx(2e-9 * np.std(levels, ddof=1) / math.sqrt(32), rel=1e-12)
    # the remainder after 32 equal batches is in no batch
    assert standard_error(np.concatenate((ticks, [10**9] * 31))) == standard_error(ticks)


def test_the_error_of_a_correlated_mean_is_that_of_the_formula() -> None:
    """First-order autoregression: the variance of a mean is sigma^2 / n x (1 + r) / (1 - r) (Box, Jenkins, Reinsel, 2.1.5)."""
    rng, r, n = np.random.default_rng(11), 0.9, 32 * 500
    found = []
    for _ in range(60):
        noise, x = rng.normal(0, math.sqrt(1 - r * r), n), np.empty(n)
        x[0] = rng.normal()
        for k in range(1, n):
            x[k] = r * x[k - 1] + noise[k]
        error = standard_error(x)
        assert error is not None
        found.append(error**2)
    # a variance of 32 batches has a relative error of sqrt(2 / 31), the mean of 60 of them of 3.3 %
    assert np.mean(found) == pytest.approx((1 + r) / (1 - r) / n, rel=0.1)


@pytest.mark.parametrize(("n", "p", "enough"), [(0, 0.5, False), (1, 0.5, True), (35, 0.9, False), (36, 0.9, True)])
def test_a_percentile_is_bounded_from_so_many_values_on(n: int, p: float, enough: bool) -> None:
    assert supported(n, p) == enough


def test_the_clock_is_in_the_u_of_every_latency() -> None:
    """50 ppm of 10 ms are 500 ns, and nothing else is here: one length, one clock, instants to 1 fs."""
    model = ErrorModel(gain=0.0, offset_a=0.0, timebase=50e-6, tick_resolution_s=1e-15, instant_s=0.0)
    got = describe(np.full(400, 10**7, np.int64), 1e-9, model)
    assert got["u"] == {name: pytest.approx(500e-9, rel=1e-6) for name in ("mean", "min", "p50", "p90", "p99", "max")}
