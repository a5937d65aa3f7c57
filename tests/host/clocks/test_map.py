"""The straight line between two clocks, against sums in whole numbers and fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattbell.clocks.map import ClockMap

INSTANT = st.integers(-(1 << 60), 1 << 60)
DRIFT = st.floats(-5e-4, 5e-4)


def made(source: int, reference: int, drift: float, span: int = 10**13, bound: float = 1e-6) -> ClockMap:
    return ClockMap(source, reference, drift, bound, "drawn", source - span, source + span)


@given(INSTANT, INSTANT, DRIFT, st.lists(st.integers(-(10**13), 10**13), min_size=1, max_size=20))
def test_an_instant_is_where_exact_arithmetic_puts_it(source: int, reference: int, drift: float, since: list[int]) -> None:
    found = made(source, reference, drift).to_reference(np.array([source + d for d in since], np.int64))
    for d, ns in zip(since, found.tolist(), strict=True):
        assert abs(reference + d + Fraction(drift) * d - ns) <= Fraction(6, 10)


@given(INSTANT, INSTANT, DRIFT, st.integers(-(10**13), 10**13))
def test_the_inverse_leads_back(source: int, reference: int, drift: float, since: int) -> None:
    there = made(source, reference, drift)
    assert abs(int(there.inverse().to_reference(there.to_reference(source + since))) - (source + since)) <= 2


@given(DRIFT, DRIFT, st.integers(-(10**12), 10**12))
def test_one_map_after_another_is_both(first: float, second: float, since: int) -> None:
    a, b = made(10**15, 5, first), made(17, -(10**17), second)
    both = a.then(b)
    step_by_step = int(b.to_reference(a.to_reference(10**15 + since)))
    assert abs(int(both.to_reference(10**15 + since)) - step_by_step) <= 2
    assert both.bound_s == pytest.approx(2e-6, rel=1e-3)
    assert both.covers(10**15 - 9 * 10**12, 10**15 + 9 * 10**12)


def test_maps_without_a_common_span_do_not_follow_each_other() -> None:
    with pytest.raises(ValueError, match="no instant in common"):
        made(0, 0, 0.0, span=1000).then(made(10**6, 0, 0.0, span=1000))


@pytest.mark.parametrize(
    "wrong", [{"drift": 1.0}, {"drift": float("nan")}, {"bound_s": -1e-9}, {"bound_s": float("nan")}, {"first_ns": 11, "last_ns": 10}]
)
def test_a_line_that_cannot_be_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError):
        ClockMap(**{"source_ns": 0, "reference_ns": 0, "drift": 0.0, "bound_s": 0.0, "method": "", "first_ns": 0, "last_ns": 10, **wrong})  # type: ignore[arg-type]
