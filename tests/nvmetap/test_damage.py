"""Damaged traffic never stops the observer: it counts, doubts, or reports, and goes on."""

from __future__ import annotations

import random

import pytest
from cocotbext.nvmetap import Checker, Direction, LinkObserver

from tests.nvmetap.traffic import traffic


@pytest.mark.parametrize("seed", range(12))
def test_flipped_bytes_stop_nothing(seed: int) -> None:
    choose = random.Random(seed)
    played = traffic(seed, 25)
    observer = LinkObserver()
    checker = Checker(observer)
    for number, packet in enumerate(played.packets):
        data = bytes(packet.data)
        if number < 60:  # the boot, without which nothing can be understood
            pass
        elif choose.random() < 0.03:
            packet.data[choose.randrange(min(len(data), 80))] ^= 1 << choose.randrange(8)
            data = bytes(packet.data)
        elif choose.random() < 0.01:
            data = data[: choose.randrange(len(data))]
        elif choose.random() < 0.01:
            continue
        observer.feed(packet.time_ps, Direction.DOWN if packet.down else Direction.UP, data)
    observer.close()
    commands = list(observer.commands())
    assert commands
    assert observer.unmatched
    assert checker.counts


def test_noise_is_counted() -> None:
    choose = random.Random(1)
    observer = LinkObserver()
    for time_ps in range(3000):
        observer.feed(time_ps, choose.choice(list(Direction)), choose.randbytes(choose.randrange(1, 60)))
    observer.close()
    assert sum(observer.unmatched.values()) > 2900
    assert list(observer.commands()) == []
