"""Layouts of symbols after the line code."""

from __future__ import annotations

import enum

from amaranth.lib import data

__all__ = ["SYMBOL", "K", "symbol_word"]


class K(enum.IntEnum):
    """Control symbols of PCI Express, 2.5 and 5 GT/s (PCIe Base 2.1, table 4-1): the byte with ``k`` set."""

    COM = 0xBC
    STP = 0xFB
    SDP = 0x5C
    END = 0xFD
    EDB = 0xFE
    PAD = 0xF7
    SKP = 0x1C
    FTS = 0x3C
    IDL = 0x7C
    EIE = 0xFC


SYMBOL = data.StructLayout({"data": 8, "k": 1, "error": 1, "disparity": 1, "plain": 1})
"""A symbol of one lane.

- ``data``: the byte.
- ``k``: control symbol.
- ``error``: the code does not exist; ``data`` and ``k`` are meaningless.
- ``disparity``: a code of the other running disparity: a bit error here or in an earlier symbol.
- ``plain``: part of a training sequence or of an EIEOS, after its COM. Set by the descrambler; 0 before it.
"""


def symbol_word(symbols: int) -> data.ArrayLayout:
    """Layout of `symbols` (2 or 4) symbols of one lane, the first received at index 0. Other numbers raise :class:`ValueError`."""
    if symbols not in (2, 4):
        raise ValueError(f"a word holds 2 or 4 symbols, not {symbols!r}")
    return data.ArrayLayout(SYMBOL, symbols)
