"""Symbols, and one lane: scrambling and line code."""

from __future__ import annotations

from typing import NamedTuple

from .line_code import LineCode
from .scrambler import Scrambler


class Symbol(NamedTuple):
    """A symbol before scrambling."""

    value: int
    k: bool = False
    plain: bool = False
    """Data of a training sequence: sent unscrambled, though the scrambler's register advances."""


COM, STP, SDP = Symbol(0xBC, True), Symbol(0xFB, True), Symbol(0x5C, True)
END, EDB, SKP = Symbol(0xFD, True), Symbol(0xFE, True), Symbol(0x1C, True)
PAD, IDL, FTS, EIE = Symbol(0xF7, True), Symbol(0x7C, True), Symbol(0x3C, True), Symbol(0xFC, True)
IDLE = Symbol(0)


def name(symbol: Symbol) -> str:
    """Return the name in the literature's notation: D10.2, K28.5."""
    return f"{'K' if symbol.k else 'D'}{symbol.value & 31}.{symbol.value >> 5}"


class LaneEncoder:
    """Scrambles and encodes the symbols of one lane."""

    def __init__(self, disparity: int = -1):
        self.scrambler = Scrambler()
        self.scrambled = True
        self.code = LineCode(disparity)

    def on_the_wire(self, symbol: Symbol) -> tuple[int, bool]:
        """Return value and K after scrambling: COM resets the register, SKP holds it, every other symbol advances it by eight."""
        if symbol == COM:
            self.scrambler.reset()
        elif symbol != SKP:
            key = self.scrambler.key()
            if not symbol.k and not symbol.plain and self.scrambled:
                return symbol.value ^ key, False
        return symbol.value, symbol.k

    def bits(self, symbol: Symbol) -> bytes:
        return self.code.bits(*self.on_the_wire(symbol))
