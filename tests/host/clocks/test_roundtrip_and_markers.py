"""Round trips and in-band markers against clocks that are known; two ways that are both right agree, a wrong one is reported."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattbell.clocks.agree import apart_s, contradiction
from wattbell.clocks.map import ClockMap
from wattbell.clocks.markers import SentMarker, by_markers, pair_markers
from wattbell.clocks.roundtrip import by_round_trips
from wattbell.errors import ClockError

S = 1_000_000_000


@given(st.integers(0, 2**32), st.sampled_from([1, 100, 1000, 8000, 16_129, 50_000_000]), st.integers(1, 16), st.floats(-3e-4, 3e-4))
def test_round_trips_of_any_delay_hold_the_clock(seed: int, tick_ps: int, step: int, drift: float) -> None:
    """The counter shows whole steps, rounded down; the answer takes any time on either way."""
    rng = np.random.default_rng(seed)
    at = np.sort(rng.integers(0, 600 * S, 50))  # instants of the meter, ns
    ticks = np.array([(int(ns) * 1000 // tick_ps) // step * step for ns in at])
    host = at + np.rint(at * drift).astype(np.int64) + 17 * S
    before, after = host - rng.integers(1, 3_000_000, 50), host + rng.integers(1, 9_000_000, 50)
    known = [None if k % 7 == 3 else int(ns) for k, ns in enumerate(before)]
    found = by_round_trips(known, after, ticks, tick_ps, step_ticks=step)
    x = np.array((found.first_ns, found.last_ns))
    assert np.abs(found.to_reference(x) - (x + np.rint(x * drift).astype(np.int64) + 17 * S)).max() <= found.bound_s * 1e9 + 1
    assert found.method == "43 round trips"


def test_arrivals_alone_have_no_bound() -> None:
    with pytest.raises(ClockError, match="earliest"):
        by_round_trips([None, None], [S, 2 * S], [0, 10**9], 1000)


@given(st.lists(st.integers(0, 5), max_size=30), st.data())
def test_markers_that_pair_have_equal_values_in_order(sent: list[int], data: st.DataObject) -> None:
    keep = data.draw(st.lists(st.booleans(), min_size=len(sent), max_size=len(sent)))
    seen = [value for value, kept in zip(sent, keep) if kept]
    found = pair_markers(sent, seen)
    assert all(sent[a] == seen[b] for a, b in found.pairs) and found.pairs == sorted(found.pairs)
    assert len({a for a, _ in found.pairs}) == len({b for _, b in found.pairs}) == len(found.pairs)
    assert len(found.pairs) + len(found.not_seen) == len(sent) and len(found.pairs) + len(found.not_sent) == len(seen)


def test_markers_lie_within_their_calls() -> None:
    rng = np.random.default_rng(3)
    ticks = np.sort(rng.integers(0, 60 * S, 12))
    host = ticks + np.rint(ticks * -4e-5).astype(np.int64) + 5 * S
    sent = [SentMarker(k << 8 | 1, int(ns) - 4_000_000, int(ns) + 2_000_000) for k, ns in enumerate(host)]
    seen = [(int(tick), k << 8 | 1) for k, tick in enumerate(ticks)]
    found = by_markers(sent, seen[:3] + seen[4:], 1000)
    assert found.method == "11 in-band markers, 1 not seen"
    x = np.array((found.first_ns, found.last_ns))
    assert np.abs(found.to_reference(x) - (x + np.rint(x * -4e-5).astype(np.int64) + 5 * S)).max() <= found.bound_s * 1e9
    with pytest.raises(ClockError):
        by_markers(sent, [], 1000)


def test_two_ways_contradict_each_other_where_their_bounds_do_not_meet() -> None:
    one = ClockMap(0, 0, 0.0, 1e-6, "round trips", 0, 10 * S)
    near = ClockMap(0, 0, 3e-7, 2.5e-6, "pairs", 5 * S, 20 * S)
    far = ClockMap(0, 0, 3e-7, 1.5e-6, "pairs", 5 * S, 20 * S)
    assert apart_s(one, near) == pytest.approx(3e-6)  # at 10 s, the end of what they have in common
    assert contradiction(one, near) is None
    assert "differ by 3 us" in str(contradiction(one, far))
    with pytest.raises(ValueError, match="no instant in common"):
        apart_s(one, ClockMap(0, 0, 0.0, 1e-6, "later", 11 * S, 12 * S))
