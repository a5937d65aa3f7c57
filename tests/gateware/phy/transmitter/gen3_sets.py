"""Blocks of one lane at 8 GT/s: sync headers, ordered sets, scrambling (PCIe Base 3.0, 4.2.2 and 4.2.4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .gen3_scrambler import Scrambler

PAD = 0xF7
FTS = (0x55, 0x47, 0x4E, 0xC7, 0xCC, 0xC6, 0xC9, 0x25, 0x6E, 0xEC, 0x88, 0x7F, 0x80, 0x8D, 0x8B, 0x8E)
_FIXED = {"EIEOS": (0x00, 0xFF) * 8, "EIOS": (0x66,) * 16, "SDS": (0xE1,) + (0x55,) * 15, "FTS": FTS}
_TRAINING = {"TS1": (0x1E, 0x4A), "TS2": (0x2D, 0x45)}


class Block(NamedTuple):
    """A block of one lane before scrambling."""

    kind: str
    """DATA, SOS, TS1, TS2, SDS, FTS, EIOS, EIEOS, or IDLE: no signal for as many symbol times as there are symbols."""
    symbols: tuple[int, ...] = ()


def training(
    kind: str,
    *,
    link: int = PAD,
    lane: int = PAD,
    n_fts: int = 255,
    rates: int = 0x0E,
    control: int = 0,
    equalisation: Sequence[int] = (0,) * 4,
) -> Block:
    """Return a TS1 or TS2."""
    first, name = _TRAINING[kind]
    return Block(kind, (first, link, lane, n_fts, rates, control, *equalisation, *[name] * 6))


def fixed(kind: str) -> Block:
    return Block(kind, _FIXED[kind])


def skip(symbols: int = 16) -> Block:
    """Return an SKP ordered set of 8, 12, 16, 20 or 24 symbols; its last three are filled in on sending."""
    if symbols not in (8, 12, 16, 20, 24):
        raise ValueError(f"an SKP ordered set has 8, 12, 16, 20 or 24 symbols, not {symbols}")
    return Block("SOS", (0xAA,) * (symbols - 4) + (0xE1, 0, 0, 0))


class LaneEncoder:
    """Scrambles the blocks of one lane and sends them bit by bit."""

    def __init__(self, lane: int):
        self.scrambler = Scrambler(lane)
        self._parity, self._after_data = 0, False

    def on_the_wire(self, block: Block) -> tuple[str, list[int]]:
        """Return the sync header as sent (first bit first), and the scrambled symbols."""
        kind, symbols = block.kind, list(block.symbols)
        if kind == "SOS":
            # After E1: parity of the data blocks since the last SOS or SDS (after an ordered set: the complement of D22), then D22 .. D0.
            state = self.scrambler.state
            high = self._parity if self._after_data else 1 - (state >> 22)
            symbols[-3:] = [high << 7 | state >> 16, state >> 8 & 255, state & 255]
            self._parity, self._after_data = 0, False
            return "10", symbols
        keys = [self.scrambler.key() for _ in symbols]
        if kind == "DATA":
            symbols = [s ^ k for s, k in zip(symbols, keys)]
            self._parity ^= sum(bin(s).count("1") for s in symbols) & 1
            self._after_data = True
            return "01", symbols
        if kind in _TRAINING:
            symbols[1:] = [s ^ k for s, k in zip(symbols[1:], keys[1:])]
        if kind == "EIEOS":
            self.scrambler.reset()
        self._parity, self._after_data = 0, False
        return "10", symbols

    def bits(self, block: Block) -> bytes:
        """Return bytes of 0 and 1, in the order of sending."""
        if block.kind == "IDLE":
            return bytes(8 * len(block.symbols))
        header, symbols = self.on_the_wire(block)
        return bytes(map(int, header)) + bytes(s >> n & 1 for s in symbols for n in range(8))
