"""Reads words of symbols from the simulation, in the layout of wattbell_gateware.pcs.SYMBOL."""

from typing import NamedTuple

BITS = 12


class Received(NamedTuple):
    data: int
    k: bool
    error: bool = False
    disparity: bool = False
    plain: bool = False


def unpack(word: int, symbols: int) -> list[Received]:
    out = []
    for n in range(symbols):
        part = word >> BITS * n
        out.append(Received(part & 255, *(bool(part >> bit & 1) for bit in (8, 9, 10, 11))))
    return out
