"""The polygon of all lines within all limits: against every corner worked out in fractions, and against clocks that are known."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wattbell.clocks import hull
from wattbell.errors import ClockError

S = 1_000_000_000
FAR = 3 * 10**17
LIMIT = 500e-6


def corners(given: hull.ClockLimits, limit: float) -> list[tuple[Fraction, Fraction]]:
    """(drift, reference at source 0) of every corner: all crossings of two limits that satisfy every limit."""
    lows = list(zip(given.low_source_ns.tolist(), given.low_ns.tolist()))
    highs = list(zip(given.high_source_ns.tolist(), given.high_ns.tolist()))
    edge = Fraction(limit)
    found = []
    for (x1, y1), (x2, y2) in itertools.combinations(lows + highs, 2):
        if x1 != x2:
            slope = Fraction(y2 - y1, x2 - x1) - 1
            found.append((slope, y1 - x1 * (1 + slope)))
    found += [(slope, y - x * (1 + slope)) for x, y in lows + highs for slope in (edge, -edge)]
    return [
        (d, c)
        for d, c in found
        if abs(d) <= edge and all(c + x * (1 + d) >= y for x, y in lows) and all(c + x * (1 + d) <= y for x, y in highs)
    ]


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.integers(0, 10 * S), st.integers(0, 2_000_000), st.integers(0, 2_000_000)), min_size=1, max_size=5),
    st.floats(-4e-4, 4e-4),
    st.booleans(),
)
def test_the_bound_is_half_of_what_all_lines_within_the_limits_leave_open(
    rows: list[tuple[int, int, int]], drift: float, agree: bool
) -> None:
    def true(x: int) -> int:
        return FAR + x + round(x * drift)

    lows = [(x, true(x) - early - 1) for x, early, _ in rows]
    highs = [(x if agree else 10 * S - x, true(x if agree else 10 * S - x) + late + 1) for x, _, late in rows]
    made = hull.ClockLimits(*(np.array(column, np.int64) for column in (*zip(*lows), *zip(*highs))))
    exact = corners(made, LIMIT)
    assert exact
    first, last = made.span
    widths = [max(c + x * (1 + d) for d, c in exact) - min(c + x * (1 + d) for d, c in exact) for x in (first, last)]
    found = hull.fit(made, "drawn")
    assert found.bound_s * 1e9 == pytest.approx(float(max(widths)) / 2 + 1, rel=1e-2, abs=0.1)
    for x in (first, last):
        low, high = min(c + x * (1 + d) for d, c in exact), max(c + x * (1 + d) for d, c in exact)
        assert abs(int(found.to_reference(x)) - (low + high) / 2) <= 2 + 0.01 * float(high - low)
    assert abs(int(found.to_reference(first)) - true(first)) <= found.bound_s * 1e9 + 1


@settings(max_examples=50)
@given(st.integers(0, 2**32), st.integers(1, 4000), st.floats(-4e-4, 4e-4))
def test_delays_of_any_kind_leave_the_clock_within_the_bound(seed: int, count: int, drift: float) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 3600 * S, count)
    true = x + np.rint(x * drift).astype(np.int64) - FAR
    early, late = (rng.pareto(0.5, count) * 1000 + 1 for _ in range(2))
    found = hull.fit(
        hull.limits(x, true - np.minimum(early, 1e15).astype(np.int64), true + np.minimum(late, 1e15).astype(np.int64)), "drawn"
    )
    assert np.abs(found.to_reference(x) - true).max() <= found.bound_s * 1e9


def test_a_limit_that_is_only_late_changes_nothing() -> None:
    x = np.arange(0, 60 * S, S)
    good = hull.limits(x, x - 1000, x + 2000)
    more = hull.joined([good, hull.limits(x, x - 10**9, x + 10**12)])
    assert hull.fit(good, "").bound_s == hull.fit(more, "").bound_s == pytest.approx(1.501e-6, abs=1e-9)


def test_far_from_the_limits_the_bound_is_what_they_say_there() -> None:
    x = np.array([0, S])
    made = hull.limits(x, x - 100, x + 100)
    # lines through opposite corners: 200 ns in 1 s, so 9 s further on 1900 ns
    assert hull.fit(made, "", span=(0, 10 * S)).bound_s == pytest.approx(1.901e-6, abs=1e-9)
    one = hull.limits([0], [-100], [100])
    assert hull.fit(one, "", span=(0, S), drift_limit=1e-4).bound_s == pytest.approx(100e-6 + 101e-9, abs=1e-9)


def test_a_wandering_clock_is_within_what_it_may_wander() -> None:
    x = np.arange(0, 1000 * S, S)
    true = x + np.rint(5000 * np.sin(x / 200e9)).astype(np.int64)
    made = hull.limits(x, true - 100, true + 100)
    with pytest.raises(ClockError, match="part between"):
        hull.fit(made, "counter")
    found = hull.fit(made, "counter", wander_ns=5000)
    assert np.abs(found.to_reference(x) - true).max() <= found.bound_s * 1e9 <= 10_200


@pytest.mark.parametrize("step_ns", [3_000_000, -120 * S])
def test_a_step_is_told_with_its_place_and_never_averaged(step_ns: int) -> None:
    """A clock that was set by 3 ms; a host that was suspended for two minutes."""
    rng = np.random.default_rng(2)
    x = np.sort(rng.integers(0, 600 * S, 4000))
    true = x + np.rint(x * 3e-5).astype(np.int64) + FAR + np.where(x > 401 * S, step_ns, 0)
    made = hull.limits(x, true - rng.integers(1, 50_000, 4000), true + rng.integers(1, 50_000, 4000))
    with pytest.raises(ClockError) as told:
        hull.fit(made, "counter")
    assert str(told.value).startswith("counter: ")
    words = str(told.value).split()
    assert float(words[words.index("by") + 1]) == pytest.approx(step_ns * 1e-6, abs=float(words[words.index("by") + 3][3:]))
    first, last = (float(words[words.index("between") + k]) + x[0] / S for k in (1, 4))
    assert 399 < first <= 401 <= last < 403
    (a, b), (c, d) = hull.pieces(made)
    assert (a, d) == (x[0], x[-1]) and b < 402 * S and c > 400 * S
    assert hull.fit(made.between(a, b), "").bound_s < 1e-4 and hull.fit(made.between(c, d), "").bound_s < 1e-4


def test_one_wrong_instant_is_not_hidden() -> None:
    x = np.arange(0, 100 * S, S)
    low, high = x - 1000, x + 1000
    high[50] = x[50] - 2000
    with pytest.raises(ClockError, match="part between"):
        hull.fit(hull.limits(x, low, high), "counter")
    assert len(hull.pieces(hull.limits(x, low, high))) > 1


def test_without_a_limit_on_one_side_there_is_no_bound() -> None:
    none = np.empty(0, np.int64)
    some = np.array([0, S])
    for made, side in ((hull.ClockLimits(none, none, some, some), "earliest"), (hull.ClockLimits(some, some, none, none), "latest")):
        with pytest.raises(ClockError, match=side):
            hull.fit(made, "arrivals")


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(-50, 50), st.integers(-50, 50)), min_size=1, max_size=40))
def test_the_hull_is_what_no_pair_of_points_covers(points: list[tuple[int, int]]) -> None:
    xs, ys = (np.array(column, float) for column in zip(*points))
    found = set(zip(*(part.tolist() for part in hull._upper_hull(xs, ys))))
    kept = set(points)

    def covered(p: tuple[int, int]) -> bool:
        if any(q[0] == p[0] and q[1] > p[1] for q in kept):
            return True
        return any(
            a[0] < p[0] < b[0] and (b[1] - a[1]) * (p[0] - a[0]) >= (p[1] - a[1]) * (b[0] - a[0]) for a, b in itertools.product(kept, kept)
        )

    assert found == {p for p in kept if not covered(p)}
