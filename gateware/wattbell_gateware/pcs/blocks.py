"""Layouts of the blocks of 128b/130b (8 GT/s) that the parts of a lane exchange."""

from __future__ import annotations

from amaranth import Value
from amaranth.lib import data, enum

__all__ = ["BLOCK_WORD", "TIME_BITS", "BlockKind", "block_link_word", "near"]

TIME_BITS = 12
"""Low bits of the tick (1 ns) that travel with a word: 4 us, far longer than a word's way takes."""


class BlockKind(enum.Enum, shape=4):
    """Kind of a block, from its sync header and its first symbol (PCIe Base 3.0, 4.2.2 and 4.2.4)."""

    DATA = 0
    SOS = 1
    """SKP ordered set of any length; one word after the descrambler."""
    TS1 = 2
    TS2 = 3
    SDS = 4
    EIOS = 5
    EIEOS = 6
    FTS = 7
    OTHER = 8
    """Ordered set of no known kind, or data while the descrambler's register is unknown."""


FIRST_SYMBOL = {
    BlockKind.SOS: 0xAA,
    BlockKind.TS1: 0x1E,
    BlockKind.TS2: 0x2D,
    BlockKind.SDS: 0xE1,
    BlockKind.EIOS: 0x66,
    BlockKind.EIEOS: 0x00,
    BlockKind.FTS: 0x55,
}
"""First symbol of each kind. Any two differ in at least four bits, so a symbol with one wrong bit is still recognised."""

BLOCK_WORD = data.StructLayout(
    {
        "data": 32,
        "kind": BlockKind,
        "first": 1,
        "last": 1,
        "bad_header": 1,
        "reseed": 1,
        "time": TIME_BITS,
    }
)
"""Four symbols of a lane.

- ``data``: the symbols, the first in bits 7:0.
- ``kind``: kind of the block, on every word.
- ``first``: first word of the block.
- ``last``: last word of the block.
- ``bad_header``: the sync header was invalid, on every word. The content then decides the kind.
- ``reseed``: an EIEOS ended just before this word. Its own words did not come, because the EIEOS set the boundary.
- ``time``: low bits of the tick at which the word's first bit came in.
"""


def block_link_word(lanes: int) -> data.StructLayout:
    """Layout of a word of all lanes, side by side: ``data`` has lane 0's 32 bits first.

    The other fields are as in :data:`BLOCK_WORD`; ``time`` is lane 0's. A link has 1, 2 or 4 lanes; other numbers raise
    :class:`ValueError`.
    """
    if lanes not in (1, 2, 4):
        raise ValueError(f"a link has 1, 2 or 4 lanes, not {lanes!r}")
    return data.StructLayout({"data": data.ArrayLayout(32, lanes), "kind": BlockKind, "first": 1, "last": 1, "time": TIME_BITS})


def near(value: Value, constant: int) -> Value:
    """Return whether `value` differs from `constant` in at most one bit."""
    differing = value ^ constant
    return (differing & (differing - 1)[: len(differing)]) == 0
