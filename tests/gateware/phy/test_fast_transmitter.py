"""The vectorised transmitter against the slow one, which is checked against published vectors: every bit of random links."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.gateware.phy import transmitter as t
from tests.gateware.phy.transmitter.datalink import dllp_crc
from tests.gateware.phy.transmitter.fast import FastGen3Link, FastLink, quick_dllp_crc, words
from tests.gateware.phy.transmitter.gen3_link import Gen3Link


def some_bytes(r: random.Random, least: int = 3) -> bytes:
    return r.randbytes(4 * r.choice([least, 4, 5, 7, 20]))


def packets(link, r: random.Random, count: int) -> list:
    """Return everything that the data link layer sends, and the place where each packet begins."""
    places = []
    for _ in range(count):
        kind = r.randrange(8)
        if kind < 3:
            places.append(link.send(some_bytes(r)))
        elif kind == 3:
            places.append(link.dllp(r.randbytes(4), wrong_crc=r.choice([0, 1 << r.randrange(16)])))
        elif kind == 4:
            places.append(link.nullify(some_bytes(r)))
        elif kind == 5:
            places.append(link.send(some_bytes(r), wrong_lcrc=1 << r.randrange(32)))
        elif kind == 6:
            places += link.replay((link.replayer.next - 3) % 4096)
        else:
            link.idle(r.randrange(1, 60))
    return places


def slow_story(link: t.Link, seed: int) -> list:
    """Take a link at 2.5 or 5 GT/s through everything it may do."""
    r = random.Random(seed)
    link.training(t.TS1, 3)
    link.training(t.TS2, 5, link=1, numbered=True)
    link.eieos()
    places = packets(link, r, 12)
    link.electrical_idle(30)
    link.fast_training(6)
    places += packets(link, r, 12)
    link.training(t.TS1, 2, link=1, numbered=True, control=8)
    if seed % 3 == 0:
        link.unscrambled_from = len(link.columns) + 40
    return places + packets(link, r, 8)


def gen3_story(link: Gen3Link, seed: int) -> list:
    r = random.Random(seed)
    link.train(first=3, second=2, eieos_every=3)
    places = packets(link, r, 25)
    link.electrical_idle(33)
    link.train(first=1, second=1)
    places += packets(link, r, 15)
    link.end_stream()
    link.sos()
    link.sos()
    link.start_stream()
    places += packets(link, r, 10)
    link.fill()
    return places


@pytest.mark.parametrize("seed", range(9))
def test_8b10b(seed):
    r = random.Random(seed)
    lanes = (1, 2, 4)[seed % 3]
    options = {"skp_interval": r.choice([0, 90, 200]), "skp_count": (3, 1, 5), "first_sequence": 4090}
    slow, fast = t.Link(lanes, **options), FastLink(lanes, **options)
    assert slow_story(slow, seed) == slow_story(fast, seed) and len(slow.columns) == len(fast.columns)
    fast.unscrambled_from = slow.unscrambled_from
    wires = {
        "skew": [r.randrange(6) for _ in range(lanes)],
        "shift": [r.randrange(10) for _ in range(lanes)],
        "invert": [r.random() < 0.5 for _ in range(lanes)],
        "reverse": r.random() < 0.5,
    }
    for a, b in zip(slow.bits(**wires), fast.bits(**wires), strict=True):
        assert bytes(a) == b.tobytes()


@pytest.mark.parametrize("seed", range(9))
def test_128b130b(seed):
    r = random.Random(seed)
    lanes = (1, 2, 4)[seed % 3]
    options = {"sos_interval": r.choice([0, 3, 17]), "sos_symbols": (16, 8, 24, 12), "first_sequence": 4090}
    slow, fast = Gen3Link(lanes, **options), FastGen3Link(lanes, **options)
    assert gen3_story(slow, seed) == gen3_story(fast, seed)
    assert slow.starts() == fast.starts()
    wires = {
        "late": [r.randrange(49) for _ in range(lanes)],
        "invert": [r.random() < 0.5 for _ in range(lanes)],
        "reverse": r.random() < 0.5,
    }
    for a, b in zip(slow.bits(**wires), fast.bits(**wires), strict=True):
        assert bytes(a) == b.tobytes()


def test_dllp_crc():
    r = random.Random(1)
    for _ in range(200):
        body = r.randbytes(4)
        assert quick_dllp_crc(body).to_bytes(2, "little") == dllp_crc(body)


def test_words():
    r = np.random.default_rng(1)
    wire = r.integers(0, 2, 401, dtype=np.uint8)
    for size in (20, 32, 40):
        assert words(wire, size).tolist() == list(t.words(bytearray(wire.tobytes()), size))
