"""Randomly damaged streams, as many as time allows: no exception, no phantom, no unreported loss."""

from __future__ import annotations

import random

import pytest
from wattbell.wire.decode import StreamDecoder

from tests.host.fuzzing import seeds
from tests.host.wire import encoder as e

INPUTS = 2_000
"""Number per kind of damage, in a short run."""
BASE = 10**9


def stream(generator: random.Random) -> tuple[list[bytes], dict[int, int]]:
    """Blocks of one run, and the tick of each command by its SLBA."""
    run, sent = generator.choice((0, 7)), {}
    first = generator.choice((0, 5, 2**32 - 4))
    blocks = [e.status(first, BASE, run_id=run)]
    for n in range(1, generator.randrange(3, 14)):
        tick = BASE + n * 20_000
        kind = generator.randrange(5)
        if kind == 0:
            blocks.append(e.rail(first + n, tick, [(1, 2)] * generator.randrange(1, 9), adc_index=n, energy=n << 70, run=run))
        elif kind == 1:
            blocks.append(e.events(first + n, tick, [(tick, 3, 1, 0, 0)], run=run))
        else:
            slba = [n * 100 + k for k in range(generator.randrange(1, 4))]
            sent |= {one: tick + one for one in slba}
            blocks.append(e.commands(first + n, tick, [e.Command(tick + one, slba=one) for one in slba], run=run))
    return blocks, sent


def flip(generator: random.Random, blocks: list[bytes]) -> bytes:
    data = bytearray(b"".join(blocks))
    for _ in range(generator.choice((1, 1, 2, 8))):
        data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
    return bytes(data)


def cut_out(generator: random.Random, blocks: list[bytes]) -> bytes:
    data = b"".join(blocks)
    start = generator.randrange(len(data))
    return data[:start] + data[start + generator.choice((1, 4, 60, 300)) :]


def insert(generator: random.Random, blocks: list[bytes]) -> bytes:
    data = b"".join(blocks)
    start, source = generator.randrange(len(data)), generator.randrange(len(data))
    what = generator.choice((b"WBEL", bytes(40), generator.randbytes(9), data[source : source + generator.randrange(1, 400)]))
    return data[:start] + what + data[start:]


def reorder(generator: random.Random, blocks: list[bytes]) -> bytes:
    order = list(blocks)
    for _ in range(3):
        at = generator.randrange(len(order))
        action = generator.randrange(3)
        if action == 0:
            order.insert(generator.randrange(len(order)), order[at])
        elif action == 1 and len(order) > 1:
            del order[at]
        else:
            other = generator.randrange(len(order))
            order[at], order[other] = order[other], order[at]
    return b"".join(order)


def noise(generator: random.Random, _blocks: list[bytes]) -> bytes:
    return b"".join(generator.choice((b"WBEL", b"\2\1\2\0", bytes(4), generator.randbytes(11))) for _ in range(generator.randrange(40)))


@pytest.mark.parametrize("damage", [flip, cut_out, insert, reorder, noise])
def test_damage_gives_no_exception_no_phantom_and_no_silence(damage) -> None:
    for seed in seeds(INPUTS):
        generator = random.Random(f"{damage.__name__} {seed}")
        blocks, sent = stream(generator)
        data = damage(generator, blocks)
        decoder, batches = StreamDecoder(), []
        size = generator.choice((7, 200, 10_000))
        for start in range(0, len(data), size):
            batches += decoder.feed(data[start : start + size])
        batches += decoder.finish()
        counters = decoder.counters
        assert counters.bytes_in == len(data) == counters.bytes_accepted + counters.skipped_bytes, seed
        columns = [(batch.epoch, batch.commands) for batch in batches if batch.commands]
        found = [(int(slba), int(tick)) for _, c in columns for slba, tick in zip(c.columns["slba"], c.cqe_tick, strict=True)]
        assert all(sent.get(slba) == tick for slba, tick in found), seed
        assert len(found) == len(set(found)) or counters.restarts, seed
        if found:  # losses at the ends are up to the capture, which looks for the RUN events
            numbers = [slba // 100 for slba, _ in found]
            between = {slba for slba in sent if min(numbers) < slba // 100 < max(numbers)} - {slba for slba, _ in found}
            assert not between or (not counters.lossless and any(batch.gaps for batch in batches)), seed
