"""The same links for long streams: packets as bytes, and numpy where :mod:`link` and :mod:`gen3_link` go symbol by symbol.

The output is the same bit for bit (``test_fast_transmitter.py``). Line code, scramblers, CRCs and the order of items come from the
sibling modules: these are called for each of their few cases, never copied.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np

from .datalink import dllp_crc, lcrc
from .gen3_link import Gen3Link, Place
from .gen3_scrambler import Scrambler as Gen3Scrambler
from .gen3_sets import Block
from .gen3_tokens import SDP as TOKEN_SDP
from .lane import COM, EDB, END, IDLE, SDP, SKP, STP, Symbol
from .lfsr import KeyStream
from .line_code import encode
from .link import Link
from .scrambler import Scrambler

_K, _PLAIN, _SILENT = 1 << 8, 1 << 9, 1 << 10
_NO_CODE = 0xFFFF


def _code(symbol: Symbol | None) -> int:
    return _SILENT if symbol is None else symbol.value | _K * symbol.k | _PLAIN * symbol.plain


_COM, _SKP = _code(COM), _code(SKP)
Wires = list[np.ndarray]
"""Wire of each lane, one bit per byte, first bit first."""


@cache
def _line_code() -> tuple[np.ndarray, np.ndarray]:
    """Return ten bits (first one in bit 0) by disparity (0: negative) and value with K, and whether the disparity changes."""
    codes, turns = np.full((2, 512), _NO_CODE, dtype=np.uint16), np.zeros(512, dtype=bool)
    for index in range(512):
        for positive, disparity in enumerate((-1, 1)):
            try:
                text, after = encode(index & 255, bool(index >> 8), disparity)
            except ValueError:
                continue
            codes[positive, index], turns[index] = int(text[::-1], 2), after != disparity
    return codes, turns


@cache
def _dllp_tables() -> tuple[int, list[list[int]]]:
    """Return the CRC of zeros, and the effect of each byte in each position: the DLLP CRC is linear up to a constant."""

    def check(body: bytes) -> int:
        return int.from_bytes(dllp_crc(body), "little")

    base = check(bytes(4))
    return base, [[check(bytes([*bytes(n), v, *bytes(3 - n)])) ^ base for v in range(256)] for n in range(4)]


def quick_dllp_crc(body: bytes) -> int:
    """Return :func:`dllp_crc` as a number."""
    check, tables = _dllp_tables()
    for table, value in zip(tables, body):
        check ^= table[value]
    return check


def _framed(start: Symbol, body: bytes, end: Symbol) -> np.ndarray:
    out = np.empty(len(body) + 2, dtype=np.uint16)
    out[0], out[1:-1], out[-1] = _code(start), np.frombuffer(body, dtype=np.uint8), _code(end)
    return out


def _tlp_codes(tlp: bytes, sequence: int, *, nullified: bool = False, wrong_lcrc: int = 0) -> np.ndarray:
    body = struct.pack(">H", sequence % 4096) + tlp
    check = int.from_bytes(lcrc(body), "little") ^ wrong_lcrc ^ (0xFFFFFFFF if nullified else 0)
    return _framed(STP, body + struct.pack("<I", check), EDB if nullified else END)


def _dllp_codes(body: bytes, *, wrong_crc: int = 0) -> np.ndarray:
    return _framed(SDP, body + struct.pack("<H", quick_dllp_crc(body) ^ wrong_crc), END)


class _Columns:
    """Symbols as numbers, in place of a list of tuples."""

    def __init__(self, lanes: int):
        self._lanes, self._length, self._parts = lanes, 0, []

    def __len__(self) -> int:
        return self._length

    def append(self, column: Sequence[Symbol | None]) -> None:
        self.extend(np.array([[_code(s) for s in column]], dtype=np.uint16))

    def extend(self, codes: np.ndarray) -> None:
        self._parts.append(codes)
        self._length += len(codes)

    def all(self) -> np.ndarray:
        self._parts = [np.concatenate(self._parts)] if self._parts else [np.empty((0, self._lanes), dtype=np.uint16)]
        return self._parts[0]


class FastLink(Link):
    """Fast :class:`.link.Link`; ``columns`` has only a length."""

    framed_tlp, framed_dllp = staticmethod(_tlp_codes), staticmethod(_dllp_codes)

    def __init__(self, lanes: int = 1, **options):
        super().__init__(lanes, **options)
        self.columns = _Columns(lanes)

    def on_all(self, symbols: Iterable[Symbol | None]) -> None:
        codes = np.array([_code(s) for s in symbols], dtype=np.uint16)
        self.columns.extend(np.repeat(codes[:, None], self.lanes, axis=1))
        self._since_skp += len(codes)

    def packet(self, symbols: np.ndarray) -> int:
        self._skp_if_due()
        at = len(self.columns)
        self.columns.extend(symbols.reshape(-1, self.lanes))
        self._since_skp += len(symbols) // self.lanes
        return at

    def idle(self, symbol_times: int) -> None:
        while symbol_times > 0:
            self._skp_if_due()
            count = min(symbol_times, max(1, self._skp_interval - self._since_skp)) if self._skp_interval else symbol_times
            self.on_all([IDLE] * count)
            symbol_times -= count

    def special(self) -> np.ndarray:
        """Return per symbol time and lane: 1 for COM, 2 for SKP, 3 for silence, else 0."""
        columns = self.columns.all()
        return np.select([columns == _COM, columns == _SKP, columns == _SILENT], [1, 2, 3]).astype(np.uint8)

    def bits(
        self,
        *,
        skew: Sequence[int] | None = None,
        shift: Sequence[int] | None = None,
        invert: Sequence[bool] | None = None,
        reverse: bool = False,
    ) -> Wires:
        late = [10 * (skew[n] if skew else 0) + (shift[n] if shift else 0) for n in range(self.lanes)]
        out = []
        for lane, wire in enumerate(before_the_wires(self.lanes, late)):
            out.append(np.concatenate([wire, self._lane(lane)]) ^ np.uint8(bool(invert and invert[lane])))
        return out[::-1] if reverse else out

    def _lane(self, lane: int) -> np.ndarray:
        columns = self.columns.all()[:, lane]
        silent = columns == _SILENT
        codes = np.where(silent, 0, columns)
        # The register resets after a COM, and stands still at an SKP (and where nothing is sent).
        moves = (codes != _SKP) & (codes != _COM) & ~silent
        count = np.cumsum(moves)
        index = count - moves - np.maximum.accumulate(np.where(codes == _COM, count, 0))
        keys = _KEYS.keys(int(index.max(initial=0)) + 1)
        plain = silent | (codes >= _K)
        if self.unscrambled_from is not None:
            plain |= np.arange(len(codes)) >= self.unscrambled_from
        values = codes & (_K | 255)
        values = np.where(plain, values, values ^ keys[index])
        table, turns = _line_code()
        turn = turns[values] & ~silent
        positive = (np.cumsum(turn) - turn + (0 if lane % 2 else 1)) & 1  # lane 0 starts at positive disparity
        sent = table[positive, values]
        assert not (sent[~silent] == _NO_CODE).any()
        sent[silent] = 0
        return (sent[:, None] >> np.arange(10, dtype=np.uint16) & 1).astype(np.uint8).reshape(-1)


_KEYS = KeyStream(Scrambler())


class FastGen3Link(Gen3Link):
    """Fast :class:`.gen3_link.Gen3Link`."""

    def __init__(self, lanes: int = 1, **options):
        super().__init__(lanes, **options)
        self._starts: list[int] = []
        self._end = 0
        self._nothing = (Block("DATA", bytes(16)),) * lanes

    def starts(self) -> list[int]:
        for blocks in self.blocks[len(self._starts) :]:
            self._starts.append(self._end + (0 if blocks[0].kind == "IDLE" else 2))
            self._end = self._starts[-1] + 8 * len(blocks[0].symbols)
        return self._starts

    def _put(self, data: bytes) -> None:
        self._stream += data
        size, at = 16 * self.lanes, 0
        while len(self._stream) - at >= size:
            block = bytes(self._stream[at : at + size])
            self.blocks.append(tuple(Block("DATA", block[n :: self.lanes]) for n in range(self.lanes)) if any(block) else self._nothing)
            self._since += 1
            at += size
        del self._stream[:at]

    def place(self) -> Place:
        """Return the position of the next item."""
        return Place(len(self.blocks), len(self._stream) // self.lanes)

    def bit_of(self, place: Place) -> int:
        """Return the bit of lane 0's wire at which the symbol at `place` begins; its block may not exist yet."""
        starts = self.starts()
        return (starts[place.block] if place.block < len(starts) else self._end + 2) + 8 * place.symbol

    def dllp(self, body: bytes, *, wrong_crc: int = 0) -> Place:
        return self.packet(TOKEN_SDP + body + struct.pack("<H", quick_dllp_crc(body) ^ wrong_crc))

    def idle(self, symbol_times: int) -> None:
        while symbol_times > 0:
            self._sos_if_due()
            # To the end of the block at most: the need for an SKP ordered set is decided there.
            count = min(symbol_times, 16 - len(self._stream) // self.lanes)
            self._put(bytes(count * self.lanes))
            symbol_times -= count

    def bits(self, *, late: Sequence[int] | None = None, invert: Sequence[bool] | None = None, reverse: bool = False) -> Wires:
        assert not self._stream, "the last data block is not full: call fill()"
        out = []
        for lane, wire in enumerate(before_the_wires(self.lanes, late or [0] * self.lanes)):
            out.append(np.concatenate([wire, self._lane([b[lane] for b in self.blocks], lane)]) ^ np.uint8(bool(invert and invert[lane])))
        return out[::-1] if reverse else out

    def _lane(self, blocks: list[Block], lane: int) -> np.ndarray:
        kinds = np.array([_KINDS.index(b.kind) for b in blocks], dtype=np.uint8)
        sizes = np.array([len(b.symbols) for b in blocks])
        symbols = np.frombuffer(b"".join(bytes(b.symbols) for b in blocks), dtype=np.uint8)
        of = np.repeat(np.arange(len(blocks)), sizes)  # the block of each symbol
        first = np.cumsum(sizes) - sizes
        kind = kinds[of]
        # The register moves with every symbol except those of SKP ordered sets and silence; an EIEOS resets it to the seed.
        moves = (kind != _SOS) & (kind != _IDLE)
        count = np.concatenate([[0], np.cumsum(moves)])
        resets = np.where(kinds == _EIEOS, count[first + sizes], 0)
        base = np.maximum.accumulate(np.concatenate([[0], resets]))[:-1]  # at the start of each block
        index = count[:-1] - base[of]
        stream = _gen3_keys(lane)
        longest = int(index.max(initial=0)) + 1
        scrambled = (kind == _DATA) | (((kind == _TS1) | (kind == _TS2)) & (np.arange(len(symbols)) != first[of]))
        sent = np.where(scrambled, symbols ^ stream.keys(longest)[index], symbols).astype(np.uint8)
        self._fill_in_sos(kinds, first, sizes, sent, stream.states(longest)[index], base, count)
        starts = np.cumsum(8 * sizes + 2 * (kinds != _IDLE)) - 8 * sizes
        out = np.zeros(int(starts[-1] + 8 * sizes[-1]), dtype=np.uint8)
        headers = starts[kinds != _IDLE] - 2
        is_data = kinds[kinds != _IDLE] == _DATA
        out[headers], out[headers + 1] = ~is_data, is_data
        places = starts[of] + 8 * (np.arange(len(symbols)) - first[of])
        for bit in range(8):
            out[places + bit] = sent >> bit & 1
        return out

    @staticmethod
    def _fill_in_sos(kinds, first, sizes, sent, states, base, count) -> None:
        """Fill in the parity and scrambler value of an SKP ordered set."""
        odd = np.concatenate([[0], np.cumsum(np.unpackbits(sent).reshape(-1, 8).sum(axis=1, dtype=np.int64))])
        parity = np.where(kinds == _DATA, odd[first + sizes] - odd[first], 0)
        total = np.concatenate([[0], np.cumsum(parity)])
        last_set = -1  # block before the run of data
        for n in np.flatnonzero(kinds != _DATA):
            if kinds[n] == _SOS:
                state = int(states[first[n]])
                high = int(total[n] - total[last_set + 1]) & 1 if n > last_set + 1 else 1 - (state >> 22)
                at = first[n] + sizes[n]
                sent[at - 3 : at] = high << 7 | state >> 16, state >> 8 & 255, state & 255
            last_set = n


_KINDS = ("DATA", "SOS", "TS1", "TS2", "SDS", "FTS", "EIOS", "EIEOS", "IDLE")
_DATA, _SOS, _TS1, _TS2, _SDS, _FTS, _EIOS, _EIEOS, _IDLE = range(len(_KINDS))


@cache
def _gen3_keys(lane: int) -> KeyStream:
    return KeyStream(Gen3Scrambler(lane))


def before_the_wires(lanes: int, late: Sequence[int]) -> Wires:
    """Return the random bits that the slow links send before a lane's first bit."""
    noise = random.Random(lanes)
    return [np.array([noise.randrange(2) for _ in range(n)], dtype=np.uint8) for n in late]


def words(wire: np.ndarray, bits: int) -> np.ndarray:
    """Return `wire` as words of a deserialiser, first bit in bit 0; an incomplete last word is dropped."""
    count = len(wire) // bits
    padded = np.zeros((count, 64), dtype=np.uint8)
    padded[:, :bits] = wire[: count * bits].reshape(count, bits)
    return np.packbits(padded, axis=1, bitorder="little").view("<u8").reshape(-1)
