"""A link of 1, 2 or 4 lanes: striping, ordered sets, SKP insertion, and the effects of the wires between."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence

from .datalink import Replayer, dllp_symbols, tlp_symbols
from .lane import COM, EIE, FTS, IDL, IDLE, PAD, SKP, LaneEncoder, Symbol

TS1, TS2 = 0x4A, 0x45
"""Identifiers of the training sequences: D10.2 and D5.2."""
_SILENT = None


class Link:
    """Collects the sent symbols, one of every lane at a time; :meth:`bits` turns them into bits."""

    def __init__(self, lanes: int = 1, *, skp_interval: int = 1200, skp_count: Sequence[int] = (3,), first_sequence: int = 0):
        if lanes not in (1, 2, 4):
            raise ValueError(f"a link has 1, 2 or 4 lanes here, not {lanes}")
        self.lanes = lanes
        self.replayer = Replayer(first_sequence)
        self.columns: list[tuple[Symbol | None, ...]] = []
        self._skp_interval, self._skp_count = skp_interval, list(skp_count)
        self._since_skp, self._sets = 0, 0
        self.unscrambled_from: int | None = None
        """Symbol time (index into ``columns``) from which data is sent unscrambled."""

    # --- ordered sets ---------------------------------------------------------------------------------------------

    def on_all(self, symbols: Iterable[Symbol | None]) -> None:
        """The same symbols on every lane."""
        for symbol in symbols:
            self.columns.append((symbol,) * self.lanes)
            self._since_skp += 1

    def skp(self, count: int = 3) -> None:
        self.on_all([COM] + [SKP] * count)
        self._since_skp = 0

    def electrical_idle(self, symbol_times: int) -> None:
        """The ordered set that announces it, then no signal (a constant level)."""
        self.on_all([COM, IDL, IDL, IDL])
        self.on_all([_SILENT] * symbol_times)

    def fast_training(self, count: int) -> None:
        """FTS ordered sets, which end in an SKP ordered set (the exit from L0s)."""
        for _ in range(count):
            self.on_all([COM, FTS, FTS, FTS])
        self.skp()

    def eieos(self) -> None:
        """Electrical idle exit sequence of 5 GT/s."""
        self.on_all([COM] + [EIE] * 14 + [Symbol(TS1, plain=True)])

    def training(
        self, kind: int, count: int, *, link: int | None = None, numbered: bool = False, n_fts: int = 64, rates: int = 6, control: int = 0
    ) -> None:
        """Send `count` TS1 or TS2 ordered sets. `link` None and `numbered` False send PAD instead. `control`: 8 disables scrambling."""
        for _ in range(count):
            head = [COM, PAD if link is None else Symbol(link, plain=True)]
            tail = [Symbol(v, plain=True) for v in (n_fts, rates, control, *[kind] * 10)]
            for n in range(16):
                third = [Symbol(lane, plain=True) if numbered else PAD for lane in range(self.lanes)]
                self.columns.append(tuple([*head, third[lane], *tail][n] for lane in range(self.lanes)))
            self._since_skp += 16
            self._skp_if_due()

    # --- packets --------------------------------------------------------------------------------------------------

    def _skp_if_due(self) -> None:
        if self._skp_interval and self._since_skp >= self._skp_interval:
            self.skp(self._skp_count[self._sets % len(self._skp_count)])
            self._sets += 1

    def packet(self, symbols: Sequence[Symbol]) -> int:
        """Stripe a packet over the lanes; return the symbol time (index into ``columns``) of its first symbol."""
        self._skp_if_due()
        assert len(symbols) % 4 == 0
        at = len(self.columns)
        for n in range(0, len(symbols), self.lanes):
            self.columns.append(tuple(symbols[n : n + self.lanes]))
        self._since_skp += len(symbols) // self.lanes
        return at

    framed_tlp, framed_dllp = staticmethod(tlp_symbols), staticmethod(dllp_symbols)

    def send(self, tlp: bytes, **frame) -> int:
        """Send a new TLP with the next sequence number. `frame`: see :func:`datalink.tlp_symbols`."""
        sequence, raw = self.replayer.send(tlp)
        return self.packet(self.framed_tlp(raw, sequence, **frame))

    def nullify(self, tlp: bytes) -> int:
        """Nullify a TLP while it is sent: EDB, and its number is reused."""
        return self.packet(self.framed_tlp(tlp, self.replayer.next, nullified=True))

    def replay(self, last_good: int) -> list[int]:
        """Respond to a NAK: send everything after `last_good` again."""
        return [self.packet(self.framed_tlp(raw, sequence)) for sequence, raw in self.replayer.nak(last_good)]

    def dllp(self, body: bytes, **frame) -> int:
        return self.packet(self.framed_dllp(body, **frame))

    def idle(self, symbol_times: int) -> None:
        """Send logical idle."""
        for _ in range(symbol_times):
            self._skp_if_due()
            self.on_all([IDLE])

    # --- the wires ------------------------------------------------------------------------------------------------

    def on_the_wire(self) -> list[list[tuple[int, bool]]]:
        """Return value and K of every symbol of every logical lane, scrambled (silence as D0.0)."""
        encoders = [LaneEncoder() for _ in range(self.lanes)]
        return [[encoders[n].on_the_wire(c[n] or IDLE) for c in self.columns] for n in range(self.lanes)]

    def bits(
        self,
        *,
        skew: Sequence[int] | None = None,
        shift: Sequence[int] | None = None,
        invert: Sequence[bool] | None = None,
        reverse: bool = False,
    ) -> list[bytearray]:
        """One bytearray of 0 and 1 per physical lane.

        `skew`: delay of each logical lane in symbol times; `shift`: additional delay in bits (the words of a deserialiser
        begin at an arbitrary bit); `invert`: polarity of each logical lane; `reverse`: lane 0 is the last wire. A lane's first symbol is
        preceded by random bits, as from a receiver without a signal.
        """
        noise = random.Random(self.lanes)
        out = []
        for lane in range(self.lanes):
            encoder = LaneEncoder(disparity=-1 if lane % 2 else 1)
            late = 10 * (skew[lane] if skew else 0) + (shift[lane] if shift else 0)
            wire = bytearray(noise.randrange(2) for _ in range(late))
            for at, column in enumerate(self.columns):
                symbol = column[lane]
                encoder.scrambled = self.unscrambled_from is None or at < self.unscrambled_from
                wire += bytes(10) if symbol is _SILENT else encoder.bits(symbol)
            if invert and invert[lane]:
                wire = bytearray(1 - bit for bit in wire)
            out.append(wire)
        return out[::-1] if reverse else out


def damaged(wire: bytearray, rate: float, rng: random.Random) -> tuple[bytearray, list[int]]:
    """Return `wire` with independent bit errors of probability `rate`, and their positions."""
    out, at, places = bytearray(wire), 0, []
    while rate > 0:
        at += int(rng.expovariate(rate)) + 1
        if at > len(out):
            break
        out[at - 1] ^= 1
        places.append(at - 1)
    return out, places


def words(wire: bytearray, bits: int) -> Iterator[int]:
    """Yield `wire` as words of a deserialiser, first bit in bit 0; an incomplete last word is dropped."""
    for at in range(0, len(wire) - bits + 1, bits):
        yield int(bytes(wire[at : at + bits][::-1]).translate(_ASCII), 2)


_ASCII = bytes([48, 49]) + bytes(254)
