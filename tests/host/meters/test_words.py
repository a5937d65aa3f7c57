"""Words cut from a stream with bytes that are missing or too many, whatever the pieces in which it comes."""

from __future__ import annotations

import numpy as np
import pytest
from wattbell.meters.words import Words

TURN = 64
COUNT, PLACES = 6000, 11
NUMBER_AND_VALUE = 0xFFFFFF


def numbers(words: np.ndarray) -> np.ndarray:
    return (words >> 18 & TURN - 1).astype(np.int64)


def sent(rng: np.random.Generator) -> np.ndarray:
    """Words as a PPK2's: 14 bits of level, 3 of range, the number, 8 of the logic port. Level and number together come once."""
    index = np.arange(COUNT)
    level = 2000 + 16 * (index // TURN) + rng.integers(0, 16, COUNT)
    return (level | 2 << 14 | (index + 37) % TURN << 18 | int(rng.integers(0, 256)) << 24).astype("<u4")


def spoilt(stream: bytes, rng: np.random.Generator) -> tuple[bytes, int]:
    """With bytes that are no words put in, or bytes left out, here and there; and how many samples were cut."""
    spoilt, cut = bytearray(stream), 0
    for place in reversed((np.arange(1, PLACES + 1) * 2000 + rng.integers(-600, 600, PLACES)).tolist()):
        count = int(rng.choice([1, 2, 3, 5, 15, 61]))
        if rng.random() < 0.5:
            spoilt[place:place] = rng.bytes(count)
        else:
            del spoilt[place : place + count]
            cut += -(-count // 4) + 1
    return bytes(spoilt), cut


def words_of(stream: bytes, size: int) -> tuple[np.ndarray, Words]:
    """In pieces of `size` bytes."""
    words = Words(numbers, TURN)
    found = [words.feed(stream[at : at + size]) for at in range(0, len(stream), size)]
    return np.concatenate([*found, words.rest()]), words


@pytest.mark.parametrize("size", [3, 64, 1024, 65_536])
@pytest.mark.parametrize("seed", range(8))
def test_a_few_words_around_each_place_are_left_out_and_none_comes_that_was_not_sent(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    every = sent(rng)
    stream, cut = spoilt(every.tobytes(), rng)
    found, words = words_of(stream, size)
    place = {word: at for at, word in enumerate((every & NUMBER_AND_VALUE).tolist())}
    at = [place[word] for word in (found & NUMBER_AND_VALUE).tolist()]
    assert (np.diff(at) > 0).all() and (at[0], at[-1]) == (0, COUNT - 1)
    assert COUNT - cut - 4 * PLACES <= len(found) < COUNT
    assert words.left_out == len(stream) - 4 * len(found)


def test_a_stream_that_begins_and_ends_in_the_middle_of_a_word() -> None:
    every = sent(np.random.default_rng(1))
    found, words = words_of(every.tobytes()[3:-2], 4096)
    assert found.tolist() == every[3:-1].tolist() and words.left_out == 11


def test_lost_and_spoilt_words_are_left_to_the_numbers() -> None:
    """Nothing is searched for as long as words begin where they did."""
    every = sent(np.random.default_rng(2))
    kept = np.delete(every, [500, 501, 1000])
    kept[2000] ^= 1 << 20
    found, words = words_of(kept.tobytes(), 1024)
    assert found.tolist() == kept.tolist() and words.left_out == 0


def test_what_are_no_words_at_all() -> None:
    words = Words(numbers, TURN)
    for _ in range(4):
        assert len(words.feed(bytes(4096))) == 0
    assert 4 * 4096 - 100 < words.in_vain == words.left_out <= 4 * 4096
    every = sent(np.random.default_rng(3))
    assert words.feed(every.tobytes()).tolist() == every[2:-1].tolist() and words.in_vain == 0
