"""A link of 1, 2 or 4 lanes at 8 GT/s: data stream, striping, ordered sets, and the effects of the wires between."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from .datalink import Replayer
from .gen3_sets import PAD, Block, LaneEncoder, fixed, skip, training
from .gen3_tokens import EDS, dllp_bytes, tlp_bytes

BITS_PER_TICK = 8
"""Bits per tick: a symbol time (1 ns) is eight bits."""


class Place(NamedTuple):
    """Position of a packet's first symbol: block of the link, symbol of the block (on lane 0)."""

    block: int
    symbol: int


class Gen3Link:
    """Collects blocks, one of every lane at a time; :meth:`bits` turns them into bits.

    Parameters
    ----------
    lanes : 1, 2 or 4.
    sos_interval : blocks between SKP ordered sets (at most 375 by the specification); 0 for none.
    sos_symbols : length of each, cyclically; the same on all lanes.
    """

    def __init__(self, lanes: int = 1, *, sos_interval: int = 370, sos_symbols: Sequence[int] = (16,), first_sequence: int = 0):
        if lanes not in (1, 2, 4):
            raise ValueError(f"a link has 1, 2 or 4 lanes here, not {lanes}")
        self.lanes = lanes
        self.replayer = Replayer(first_sequence)
        self.blocks: list[tuple[Block, ...]] = []
        self._interval, self._lengths = sos_interval, list(sos_symbols)
        self._since, self._sets = 0, 0
        self._stream = bytearray()  # of the data block being filled
        self._open = False

    # --- ordered sets ---------------------------------------------------------------------------------------------

    def ordered(self, *blocks: Block) -> None:
        """Send the same block on every lane."""
        assert not self._stream
        for block in blocks:
            self.blocks.append((block,) * self.lanes)

    def sos(self) -> None:
        self.ordered(skip(self._lengths[self._sets % len(self._lengths)]))
        self._sets, self._since = self._sets + 1, 0

    def train(self, *, first: int = 4, second: int = 4, link: int = 0, eieos_every: int = 32) -> None:
        """Send Recovery: EIEOS, TS1s, TS2s, SDS. The previous data stream ends in EDS."""
        self.training_sets(first=first, second=second, link=link, eieos_every=eieos_every)
        self.ordered(fixed("EIEOS"))
        self.sos()
        self.start_stream()

    def training_sets(self, *, first: int, second: int, link: int = 0, eieos_every: int = 32, **symbols: int) -> None:
        """End the data stream in EDS; send TS1s and TS2s, with EIEOS between them. `symbols`: see :func:`gen3_sets.training`."""
        self.end_stream()
        sets = [("TS1", first), ("TS2", second)]
        sent = 0
        for kind, count in sets:
            for _ in range(count):
                if sent % eieos_every == 0:
                    self.ordered(fixed("EIEOS"))
                lane = [n if link != PAD else PAD for n in range(self.lanes)]
                self.blocks.append(tuple(training(kind, link=link, lane=number, **symbols) for number in lane))
                sent += 1

    def fast_training(self, count: int) -> None:
        """Send the exit from L0s: EIEOS, FTS, EIEOS, SDS (PCIe Base 3.0, 4.2.6.6.2)."""
        self.ordered(fixed("EIEOS"), *[fixed("FTS")] * count, fixed("EIEOS"))
        self.start_stream()

    def start_stream(self) -> None:
        self.ordered(fixed("SDS"))
        self._open = True

    def end_stream(self, *then: Block) -> None:
        """Send EDS at the end of the block, then `then`."""
        if self._open:
            self._end_of_data()
            self._open = False
        self.ordered(*then)

    def electrical_idle(self, symbol_times: int) -> None:
        """Send EDS, EIOS, then no signal (a constant level)."""
        self.end_stream(fixed("EIOS"), Block("IDLE", (0,) * symbol_times))

    # --- data stream ----------------------------------------------------------------------------------------------

    def _put(self, data: bytes) -> None:
        self._stream += data
        size = 16 * self.lanes
        while len(self._stream) >= size:
            block, self._stream = bytes(self._stream[:size]), self._stream[size:]
            self.blocks.append(tuple(Block("DATA", tuple(block[n :: self.lanes])) for n in range(self.lanes)))
            self._since += 1

    def _end_of_data(self) -> None:
        size = 16 * self.lanes
        self._put(bytes((size - 4 - len(self._stream)) % size) + EDS)
        assert not self._stream

    def _sos_if_due(self) -> None:
        if self._interval and self._since >= self._interval:
            self._end_of_data()
            self.sos()

    def packet(self, data: bytes) -> Place:
        """Stripe a packet over the lanes; return the position of its first symbol."""
        assert self._open and len(data) % 4 == 0
        self._sos_if_due()
        place = Place(len(self.blocks), len(self._stream) // self.lanes)
        self._put(data)
        return place

    def send(self, tlp: bytes, **frame) -> Place:
        """Send a new TLP with the next sequence number. `frame`: see :func:`gen3_tokens.tlp_bytes`."""
        sequence, raw = self.replayer.send(tlp)
        return self.packet(tlp_bytes(raw, sequence, **frame))

    def nullify(self, tlp: bytes) -> Place:
        """Nullify a TLP while it is sent: EDB, and its number is reused."""
        return self.packet(tlp_bytes(tlp, self.replayer.next, nullified=True))

    def replay(self, last_good: int) -> list[Place]:
        """Respond to a NAK: send everything after `last_good` again."""
        return [self.packet(tlp_bytes(raw, sequence)) for sequence, raw in self.replayer.nak(last_good)]

    def dllp(self, body: bytes, **frame) -> Place:
        return self.packet(dllp_bytes(body, **frame))

    def idle(self, symbol_times: int) -> None:
        """Send logical idle."""
        for _ in range(symbol_times):
            self._sos_if_due()
            self._put(bytes(self.lanes))

    def fill(self) -> None:
        """Send idle to the end of the block."""
        self._put(bytes(-len(self._stream) % (16 * self.lanes)))

    # --- the wires ------------------------------------------------------------------------------------------------

    def starts(self) -> list[int]:
        """Return the bit of a lane at which the symbols of each block begin, counted from the first bit sent."""
        out, at = [], 0
        for block in (b[0] for b in self.blocks):
            silent = block.kind == "IDLE"
            out.append(at + (0 if silent else 2))
            at = out[-1] + 8 * len(block.symbols)
        return out

    def bits(self, *, late: Sequence[int] | None = None, invert: Sequence[bool] | None = None, reverse: bool = False) -> list[bytearray]:
        """Return one bytearray of 0 and 1 per physical lane.

        `late`: delay of each logical lane in bits. `invert`: polarity of each. `reverse`: lane 0 is the last wire. Random bits
        precede a lane's first bit, as from a receiver without a signal.
        """
        assert not self._stream, "the last data block is not full: call fill()"
        noise = random.Random(self.lanes)
        out = []
        for lane in range(self.lanes):
            encoder = LaneEncoder(lane)
            wire = bytearray(noise.randrange(2) for _ in range(late[lane] if late else 0))
            for blocks in self.blocks:
                wire += encoder.bits(blocks[lane])
            if invert and invert[lane]:
                wire = bytearray(1 - bit for bit in wire)
            out.append(wire)
        return out[::-1] if reverse else out
