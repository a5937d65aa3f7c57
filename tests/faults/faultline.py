"""The man in the middle: faults of a stream between rig and recorder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tests.faults.faultstream import Block

CUT = None
"""In a list of pieces: the line was cut and reconnected here."""
Pieces = list[bytes | None]


@dataclass(frozen=True)
class Fault:
    """A fault. ``name`` in words. ``harmless``: the fault loses nothing of the stream, and the decoder can prove it."""

    name: str
    apply: Callable[[np.random.Generator, list[Block]], Pieces]
    harmless: bool = False


def _pieces(rng: np.random.Generator, data: bytes) -> Pieces:
    """Cut data into pieces of any size, as reads return them."""
    way = int(rng.integers(0, 3))
    if way == 0 or not data:
        return [data]
    places = np.sort(rng.integers(0, len(data), int(rng.integers(1, 12 if way == 1 else 60))))
    edges = [0, *places.tolist(), len(data)]
    return [data[a:b] for a, b in zip(edges[:-1], edges[1:], strict=True) if b > a]


def _whole(blocks: list[Block]) -> bytes:
    return b"".join(block.data for block in blocks)


def _run_of(rng: np.random.Generator, size: int, longest: int) -> tuple[int, int]:
    length = int(min(size, rng.choice([1, 2, 3, 4, 32, int(rng.integers(1, longest))])))
    first = int(rng.integers(0, size - length + 1))
    return first, first + length


def _on_bytes(change: Callable[[np.random.Generator, bytearray], None]) -> Callable[[np.random.Generator, list[Block]], Pieces]:
    def apply(rng: np.random.Generator, blocks: list[Block]) -> Pieces:
        data = bytearray(_whole(blocks))
        for _ in range(int(rng.choice([1, 1, 1, 2, 5]))):
            if data:
                change(rng, data)
        return _pieces(rng, bytes(data))

    return apply


def _flip(rng: np.random.Generator, data: bytearray) -> None:
    data[int(rng.integers(0, len(data)))] ^= 1 << int(rng.integers(0, 8))


def _drop(rng: np.random.Generator, data: bytearray) -> None:
    first, last = _run_of(rng, len(data), 6000)
    del data[first:last]


def _double(rng: np.random.Generator, data: bytearray) -> None:
    first, last = _run_of(rng, len(data), 6000)
    data[last:last] = data[first:last]


def _insert(rng: np.random.Generator, data: bytearray) -> None:
    first, last = _run_of(rng, len(data), 3000)
    data[first:first] = rng.bytes(last - first)


def _zero(rng: np.random.Generator, data: bytearray) -> None:
    first, last = _run_of(rng, len(data), 6000)
    data[first:last] = bytes(last - first)


def _swap(rng: np.random.Generator, data: bytearray) -> None:
    first, last = _run_of(rng, len(data), 3000)
    length = last - first
    other = int(rng.integers(0, len(data) - length + 1))
    a, b = bytes(data[first:last]), bytes(data[other : other + length])
    if abs(first - other) >= length:
        data[first:last], data[other : other + length] = b, a


def _clean(rng: np.random.Generator, blocks: list[Block]) -> Pieces:
    return _pieces(rng, _whole(blocks))


def _blocks_dropped(rng: np.random.Generator, blocks: list[Block]) -> Pieces:
    first, last = _run_of(rng, len(blocks), max(2, len(blocks)))
    return _pieces(rng, _whole(blocks[:first] + blocks[last:]))


def _one_dropped(rng: np.random.Generator, blocks: list[Block]) -> Pieces:
    at = int(rng.integers(0, len(blocks)))
    return _pieces(rng, _whole(blocks[:at] + blocks[at + 1 :]))


def _blocks_doubled(rng: np.random.Generator, blocks: list[Block]) -> Pieces:
    first, last = _run_of(rng, len(blocks), max(2, len(blocks)))
    return _pieces(rng, _whole(blocks[:last] + blocks[first:last] + blocks[last:]))


def _reordered(rng: np.random.Generator, blocks: list[Block]) -> Pieces:
    order = list(blocks)
    for _ in range(int(rng.integers(1, 4))):
        a = int(rng.integers(0, len(order)))
        b = min(len(order) - 1, a + int(rng.choice([1, 1, 2, 5, len(order)])))
        order.insert(b, order.pop(a))
    return _pieces(rng, _whole(order))


def _head(rng: np.random.Generator, blocks: list[Block]) -> Pieces:
    whole_blocks = bool(rng.integers(0, 2))
    if whole_blocks:
        return _pieces(rng, _whole(blocks[int(rng.integers(1, len(blocks))) :]))
    data = _whole(blocks)
    return _pieces(rng, data[int(rng.integers(1, len(data))) :])


def _tail(rng: np.random.Generator, blocks: list[Block]) -> Pieces:
    whole_blocks = bool(rng.integers(0, 2))
    if whole_blocks:
        return _pieces(rng, _whole(blocks[: int(rng.integers(1, len(blocks)))]))
    data = _whole(blocks)
    return _pieces(rng, data[: int(rng.integers(1, len(data)))])


def _unplugged(rng: np.random.Generator, blocks: list[Block]) -> Pieces:
    """Cut the line and reconnect it. The rig stays powered and goes on; its data meanwhile, if any, is lost."""
    data = _whole(blocks)
    at = int(rng.integers(1, len(data)))
    if rng.random() < 0.3:
        at = len(_whole(blocks[: int(rng.integers(1, len(blocks)))]))
    missed = int(rng.choice([0, 0, int(rng.integers(1, len(data)))]))
    return [*_pieces(rng, data[:at]), CUT, *_pieces(rng, data[at + missed :])]


BYTE_FAULTS = [
    Fault("bits flipped", _on_bytes(_flip)),
    Fault("bytes dropped", _on_bytes(_drop)),
    Fault("bytes doubled", _on_bytes(_double)),
    Fault("bytes inserted", _on_bytes(_insert)),
    Fault("bytes zeroed", _on_bytes(_zero)),
    Fault("bytes swapped", _on_bytes(_swap)),
]
BLOCK_FAULTS = [
    Fault("one block dropped", _one_dropped),
    Fault("blocks dropped", _blocks_dropped),
    Fault("blocks in another order", _reordered),
    Fault("head lost", _head),
    Fault("tail lost", _tail),
    Fault("unplugged and back", _unplugged),
]
HARMLESS = [
    Fault("no fault", _clean, harmless=True),
    Fault("blocks doubled", _blocks_doubled, harmless=True),
]
ONE_RUN = [*BYTE_FAULTS, *BLOCK_FAULTS, *HARMLESS]
RESTARTS = ("restart without a cut", "restart with a cut")
"""Faults made of two runs (:func:`faulttrial.trial`)."""


def restart(rng: np.random.Generator, first: list[Block], second: list[Block], cut: bool) -> tuple[list[Block], Pieces]:
    """Take the rig's supply away somewhere in its first run, perhaps in the middle of a block, and start another run.

    Returns the sent blocks, the broken one included, and the data that arrives.
    """
    data = _whole(first)
    at = int(rng.integers(1, len(data))) if rng.random() < 0.5 else len(_whole(first[: int(rng.integers(1, len(first)))]))
    if rng.random() < 0.2:
        at = len(data)
    begins = np.cumsum([0, *(len(block.data) for block in first)])[:-1]
    sent = [block for block, begin in zip(first, begins, strict=True) if begin < at]
    return [*sent, *second], [*_pieces(rng, data[:at]), *([CUT] if cut else []), *_pieces(rng, _whole(second))]
