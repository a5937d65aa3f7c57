"""The tracking of sequence numbers against a set of the numbers that arrived."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattbell.wire.sequence import MODULUS, Arrival, SequenceTracker, near
from wattbell_spec.wire import SEQUENCE_WINDOW as WINDOW

START = st.sampled_from([0, 1, 1000, MODULUS - 30, MODULUS - 1])


@given(START, st.lists(st.integers(-40, 40), max_size=60))
def test_what_is_missing_is_what_did_not_come_between_the_first_and_the_last(start: int, offsets: list[int]) -> None:
    tracker, seen = SequenceTracker(), {0}
    tracker.begin(start, 500)
    for offset in offsets:
        newest = max(seen)
        got = tracker.arrive((start + offset) % MODULUS, 1000 + newest, 1000 + offset)
        if offset in seen:
            assert got is Arrival.DUPLICATE
        elif offset < newest:
            assert got is Arrival.LATE
        else:
            assert got is (Arrival.NEXT if offset == newest + 1 else Arrival.AHEAD)
        seen.add(offset)
        assert tracker.missing == max(seen) - min(seen) + 1 - len(seen)
        assert tracker.expected == (start + max(seen) + 1) % MODULUS
    tracker.finish()
    closed = [(hole.first + k) % MODULUS for hole in tracker.take_closed() for k in range(hole.count)]
    assert sorted(closed) == sorted((start + n) % MODULUS for n in range(min(seen), max(seen)) if n not in seen)
    assert tracker.take_closed() == []
    before = [{0, *offsets[:k]} for k in range(len(offsets))]
    assert tracker.duplicates == sum(offset in came for offset, came in zip(offsets, before))
    assert tracker.late == sum(offset not in came and offset < max(came) for offset, came in zip(offsets, before))


@given(START, st.lists(st.integers(1, 40), min_size=1, max_size=30, unique=True))
def test_a_hole_lies_between_the_ticks_around_it(start: int, offsets: list[int]) -> None:
    """Blocks come in order, number n at tick 100 n: a loss before n comes after the previous one that arrived."""
    tracker = SequenceTracker()
    tracker.begin(start, 0)
    came = [0, *sorted(offsets)]
    for before, n in zip(came, came[1:]):
        tracker.arrive((start + n) % MODULUS, 100 * before, 100 * n)
    for n in range(1, max(offsets)):
        between = (100 * max(c for c in came if c < n), 100 * min(c for c in came if c > n))
        assert tracker.hole_of((start + n) % MODULUS) == (None if n in came else between)


@pytest.mark.parametrize("other", [0, 5000, MODULUS - 1])
def test_near_is_a_window_to_either_side_across_the_wrap(other: int) -> None:
    for offset, expected in ((0, True), (WINDOW, True), (-WINDOW, True), (WINDOW + 1, False), (-WINDOW - 1, False), (MODULUS // 2, False)):
        assert near((other + offset) % MODULUS, other) == expected


def test_a_number_far_off_changes_nothing() -> None:
    tracker = SequenceTracker()
    tracker.begin(10, 0)
    assert tracker.arrive(11 + WINDOW + 1, 0, 0) is Arrival.FAR
    assert (tracker.expected, tracker.missing, tracker.late, tracker.duplicates) == (11, 0, 0, 0)
    assert tracker.arrive(11 + WINDOW, 0, 0) is Arrival.AHEAD
    assert tracker.missing == WINDOW


def test_a_hole_closes_when_no_block_in_it_can_be_believed_any_more() -> None:
    tracker = SequenceTracker()
    tracker.begin(0, 0)
    tracker.arrive(3, 100, 300)  # 1 and 2 are missing
    for n in range(4, WINDOW + 2):
        tracker.arrive(n, n, n)
    assert tracker.take_closed() == [] and tracker.arrive(2, 0, 0) is Arrival.LATE
    tracker.arrive(WINDOW + 2, 0, 0)
    assert [(hole.first, hole.count, hole.after_tick, hole.before_tick) for hole in tracker.take_closed()] == [(1, 1, 100, 300)]
    assert tracker.arrive(1, 0, 0) is Arrival.FAR


def test_an_old_hole_closes_though_a_new_one_is_open() -> None:
    tracker = SequenceTracker()
    tracker.begin(0, 0)
    tracker.arrive(2, 0, 0)  # 1 is missing
    for n in range(3, WINDOW):
        tracker.arrive(n, 0, 0)
    for n in range(WINDOW + 1, WINDOW + 4):  # and so is WINDOW
        tracker.arrive(n, 0, 0)
    assert [(hole.first, hole.count) for hole in tracker.take_closed()] == [(1, 1)]
    assert tracker.arrive(WINDOW, 0, 0) is Arrival.LATE
