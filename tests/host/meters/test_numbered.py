"""Samples numbered modulo 64 with invented arrivals: places, losses, spoilt numbers."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from wattbell.meters.numbered import Numbered, SampleRun

INTERVAL_NS, TURN = 10_000, 64
PIECE = 500


def feed(
    sent: np.ndarray, late_ns: list[int], spoilt: set[int] = frozenset(), placer: Numbered | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """(indices, true indices) of the placed ones among the samples `sent`, in pieces; a piece comes `late_ns` behind its last sample."""
    placer = placer or Numbered(TURN, INTERVAL_NS)
    found: list[SampleRun] = []
    wrong = np.array(sorted(spoilt))
    for number, start in enumerate(range(0, len(sent), PIECE)):
        part = sent[start : start + PIECE]
        numbers = np.where(np.isin(part, wrong), part * 7 + 5, part + 11) % TURN
        arrival_ns = int(part[-1]) * INTERVAL_NS + late_ns[number % len(late_ns)]
        found += placer.feed(arrival_ns, numbers, part.astype(np.uint32))
    found += placer.release()
    placed = np.concatenate([run.index + np.arange(len(run)) for run in found])
    return placed, np.concatenate([run.words for run in found]).astype(np.int64)


@settings(deadline=None, max_examples=20)
@given(
    st.lists(st.tuples(st.integers(3_000, 20_000), st.integers(1, 30_000).filter(lambda lost: lost % TURN != 0)), min_size=1, max_size=4),
    st.lists(st.integers(0, 100_000_000), min_size=1, max_size=5),
)
def test_gaps_are_as_long_as_they_were_when_some_samples_come_in_time(losses: list[tuple[int, int]], late: list[int]) -> None:
    """One piece of up to six comes at once, the others up to 0.1 s late. A loss of whole turns of the number cannot be seen."""
    keep, at = [], 0
    for kept, lost in losses:
        kept += 25_000  # 0.25 s: enough of them to see by
        keep.append(np.arange(at, at + kept))
        at += kept + lost
    keep.append(np.arange(at, at + 25_000))
    sent = np.concatenate(keep)
    placed, true = feed(sent, [200_000, *late])
    assert len(placed) == len(sent) and (placed == true).all()


def test_a_short_loss_that_comes_late_is_not_taken_for_a_long_one() -> None:
    sent = np.concatenate((np.arange(30_000), np.arange(30_005, 90_000)))
    placed, true = feed(sent, [0, 380_000])
    assert (placed == true).all()


def test_arrivals_that_are_a_little_sooner_behind_a_loss_than_before_it() -> None:
    sent = np.concatenate((np.arange(30_000), np.arange(31_000, 90_000)))
    placed, true = feed(sent, [200_000] * (30_000 // PIECE) + [0] * 1000)
    assert (placed == true).all()


def test_a_loss_of_whole_turns_shows_in_the_arrivals_from_then_on() -> None:
    for lost in (0, 2 * TURN, 100 * TURN):
        placer = Numbered(TURN, INTERVAL_NS)
        feed(np.concatenate((np.arange(400_000), np.arange(400_000 + lost, 900_000))), [100_000, 2_000_000], placer=placer)
        assert placer.unseen() == lost
    placer = Numbered(TURN, INTERVAL_NS)
    late_for_two_seconds = [0] * 600 + [4_000_000] * 400 + [0] * 2000
    feed(np.arange(900_000), late_for_two_seconds, placer=placer)
    assert placer.unseen() == 0


@settings(deadline=None, max_examples=60)
@given(st.sets(st.integers(100, 5_000), max_size=40))
def test_samples_with_spoilt_numbers_are_left_out_and_nothing_else_moves(spoilt: set[int]) -> None:
    placed, true = feed(np.arange(6_000), [0], spoilt)
    assert (placed == true).all()
    missing = set(range(6_000)) - set(placed.tolist())
    assert {index for index in spoilt if (index * 7 + 5 - index - 11) % TURN} <= missing
    assert len(missing) <= 8 * len(spoilt) + 7
