"""Small parser of the block stream, written from docs and not from the gateware's or the host's code.

The format is hard-coded on purpose: the parser shares no table with the code under test.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

COMMANDS, RAIL, EVENTS, TLP, STATUS = 1, 2, 3, 4, 5


@dataclass(frozen=True)
class Block:
    """One block with a good CRC."""

    kind: int
    sequence: int
    dropped: int
    first_tick: int
    payload: bytes
    run: int


def blocks(stream: bytes) -> list[Block]:
    """Return all blocks of an undamaged stream of whole blocks; anything else is an AssertionError."""
    found = []
    at = 0
    while at < len(stream):
        magic, version, kind, length, sequence, dropped, first_tick, run = struct.unpack_from("<4sBBHIIQI", stream, at)
        assert magic == b"WBEL" and version == 2, f"no block at byte {at}: {stream[at : at + 28].hex()}"
        end = at + 28 + length
        assert length % 4 == 0 and 0 < length <= 2048 and end + 4 <= len(stream), (length, end, len(stream))
        assert struct.unpack_from("<I", stream, end)[0] == zlib.crc32(stream[at:end]), f"CRC of block {sequence}"
        found.append(Block(kind, sequence, dropped, first_tick, stream[at + 28 : end], run))
        at = end + 4
    return found


@dataclass(frozen=True)
class Rail:
    """A RAIL block's payload."""

    interval: int
    flags: int
    index: int
    energy: int
    samples: list[tuple[int, int]]


def rail(block: Block) -> Rail:
    """Parse a RAIL block; check count and padding."""
    assert block.kind == RAIL
    interval, count, flags, index, energy, high = struct.unpack_from("<IHHQQi", block.payload)
    data = block.payload[28:]
    assert len(data) == (6 * count + 3) // 4 * 4 and data[6 * count :] == bytes(len(data) - 6 * count)
    numbers = [int.from_bytes(data[k : k + 3], "little", signed=True) for k in range(0, 6 * count, 3)]
    return Rail(interval, flags, index, high << 64 | energy, list(zip(numbers[::2], numbers[1::2], strict=True)))


@dataclass(frozen=True)
class Event:
    """An event record."""

    tick: int
    type: int
    arg8: int
    arg16: int
    arg32: int


def events(block: Block) -> list[Event]:
    """Return the records of an EVENTS block."""
    assert block.kind == EVENTS and len(block.payload) % 16 == 0
    return [Event(*struct.unpack_from("<QBBHI", block.payload, k)) for k in range(0, len(block.payload), 16)]
