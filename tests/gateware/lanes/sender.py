"""One direction of a link: sent, damaged on the way and, where the other end noticed, replayed.

Bit errors are drawn before anything is sent, so a sender knows which copies of its TLPs arrive damaged. Nothing here is from the gateware.
"""

from __future__ import annotations

import bisect
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tests.gateware.phy import traffic as tr
from tests.gateware.phy import transmitter as t
from tests.gateware.phy.transmitter.fast import FastGen3Link, FastLink
from tests.gateware.phy.transmitter.gen3_link import Place
from tests.gateware.phy.transmitter.gen3_tokens import tlp_bytes

BIT_PS = {"2.5": 400, "5": 200, "8": 125}
_STRETCH = 1 << 20
"""Bits of a lane for which errors are drawn at a time."""


@dataclass
class Copy:
    """One transmission of a TLP over the link; bits of lane 0's wire, from the first sent."""

    serial: int
    raw: bytes
    first: int
    behind: int
    damaged: bool
    excused: bool = False
    """Intact, but after an error that desynchronises a lane."""
    tick: int = 0


class Errors:
    """Independent bit errors on a link's lanes, from bit `spared` on."""

    def __init__(self, lanes: int, rate: float, seed: int, spared: int):
        self._rng, self._rate, self._drawn = np.random.default_rng(seed), rate, spared
        self.lanes = [np.empty(0, dtype=np.int64) for _ in range(lanes)]
        self._all: list[int] = []

    def up_to(self, bit: int) -> None:
        while self._rate and self._drawn <= bit:
            new = []
            for n in range(len(self.lanes)):
                places = np.flatnonzero(self._rng.random(_STRETCH) < self._rate) + self._drawn
                self.lanes[n] = np.concatenate([self.lanes[n], places])
                new += places.tolist()
            self._all += sorted(new)
            self._drawn += _STRETCH

    def any(self, first: int, behind: int) -> bool:
        """Return whether any lane has a bit error in [first, behind)."""
        self.up_to(behind)
        at = bisect.bisect_left(self._all, first)
        return at < len(self._all) and self._all[at] < behind


@dataclass
class Wiring:
    """The path between link and receiver, per logical lane. `late`: delay in bits."""

    late: Sequence[int]
    invert: Sequence[bool]
    reverse: bool

    @staticmethod
    def straight(lanes: int) -> Wiring:
        return Wiring([0] * lanes, [False] * lanes, False)

    @staticmethod
    def some(r: random.Random, lanes: int, speed: str) -> Wiring:
        """Return random wiring: skew up to the receiver's limit, words beginning at any bit."""
        most = 48 if speed == "8" else 49
        base = r.randrange(32)
        return Wiring([base + r.randrange(most) for _ in range(lanes)], [r.random() < 0.5 for _ in range(lanes)], r.random() < 0.5)


@dataclass
class Stretch:
    """Traffic at one speed: `link`, from `tick` on. `errors` are made on its wires."""

    speed: str
    tick: int
    link: FastLink | FastGen3Link
    errors: Errors
    copies: list[Copy] = field(default_factory=list)
    dllps: list[tuple[int, bytes]] = field(default_factory=list)
    """First bit on lane 0, and body."""

    def bit(self) -> int:
        """Return the position on lane 0 at which the next item begins."""
        if self.speed == "8":
            link = self.link
            return link.bit_of(link.place())
        return 10 * len(self.link.columns)


class Sender:
    """Sends one direction. `heard`: share of the damaged TLPs that are damaged at the other end too, which requests them again.
    Only the tap misses the rest.
    """

    def __init__(
        self, speed: str, lanes: int, *, seed: int, tick: int, errors: float = 0.0, heard: float = 1.0, wiring: Wiring | None = None
    ):
        self.speed, self.lanes, self.rate, self.heard = speed, lanes, errors, heard
        self.r = random.Random(seed)
        self.wiring = wiring or Wiring.straight(lanes)
        self.serial = 0
        self.raws: list[bytes] = []
        self.stretches: list[Stretch] = []
        self.nullified = self.spoilt = self.naks = 0
        self.reset_ps: int | None = None
        """Begin of the first training sequence with the bit Hot Reset."""
        self._start(tick)

    # --- training -------------------------------------------------------------------------------------------------

    def _begin(self, speed: str, tick: int, *, spared: int) -> Stretch:
        r = self.r
        if speed == "8":
            link = FastGen3Link(self.lanes, sos_interval=r.choice([60, 200, 370]), sos_symbols=(16, 12, 20, 8, 24))
        else:
            link = FastLink(self.lanes, skp_interval=r.choice([300, 600, 1300]), skp_count=(3, 2, 4, 1, 5))
        stretch = Stretch(speed, tick, link, Errors(self.lanes, self.rate, r.getrandbits(32), spared))
        self.stretches.append(stretch)
        return stretch

    def _start(self, tick: int) -> None:
        """Train up to L0. A link at 8 GT/s trains at 2.5 first."""
        first = "2.5" if self.speed == "8" else self.speed
        stretch = self._begin(first, tick, spared=10 * 1000)
        link = stretch.link
        link.training(t.TS1, 12)
        link.training(t.TS2, 4)
        link.training(t.TS1, 4, link=1)
        link.training(t.TS1, 4, link=1, numbered=True)
        link.training(t.TS2, 8, link=1, numbered=True)
        link.idle(20)
        for body in ("400803f0", "50080001", "60000000", "c00803f0"):
            self._dllp(bytes.fromhex(body))
        link.idle(60)
        if self.speed == "8":
            link.training(t.TS1, 8, link=1, numbered=True, rates=0x8E)
            link.training(t.TS2, 8, link=1, numbered=True, rates=0x8E)
            link.electrical_idle(40)
            link.on_all([None] * (-len(link.columns) % 4))
            at = tick + len(link.columns) * 4 + 2000
            fast = self._begin("8", at, spared=130 * 40)
            fast.link.train(first=16, second=12, link=1)
            fast.link.idle(64)

    @property
    def stretch(self) -> Stretch:
        return self.stretches[-1]

    @property
    def link(self):
        return self.stretch.link

    def now_ps(self) -> int:
        """Return the start time of the next item."""
        return self.stretch.tick * 1000 + self.stretch.bit() * BIT_PS[self.stretch.speed]

    def wait_until(self, ps: int) -> None:
        """Send logical idle, up to the first symbol that does not begin before `ps`."""
        symbol = BIT_PS[self.speed] * (8 if self.speed == "8" else 10)
        missing = -(-(ps - self.now_ps()) // symbol)
        if missing > 0:
            self.link.idle(missing)

    def retrain(self) -> None:
        if self.speed == "8":
            self.link.train(first=33, second=16, link=1)
            self.link.idle(32)
        else:
            self.link.training(t.TS1, 5, link=1, numbered=True)
            self.link.training(t.TS2, 8, link=1, numbered=True)
            self.link.idle(20)

    def hot_reset(self) -> None:
        """Recover, and send TS1s with the bit Hot Reset at 2.5 or 5 GT/s; then nothing. PCIe: Link Training, Hot Reset."""
        self.link.training(t.TS1, 6, link=1, numbered=True)
        self.reset_ps = self.now_ps()
        self.link.training(t.TS1, 12, link=1, numbered=True, control=1)
        self.link.electrical_idle(40)

    # --- data link layer ------------------------------------------------------------------------------------------

    def _copied(self, serial: int, raw: bytes, place) -> Copy:
        stretch = self.stretch
        if self.speed == "8":
            first = self.link.bit_of(place)
            last = place.symbol + -(-(len(raw) + 8) // self.lanes) - 1
            behind = self.link.bit_of(Place(place.block + last // 16, last % 16)) + 8
        else:
            first, behind = 10 * place, 10 * (place + (len(raw) + 8) // self.lanes)
        copy = Copy(serial, raw, first, behind, stretch.errors.any(first, behind))
        stretch.copies.append(copy)
        return copy

    def send(self, raw: bytes) -> Copy:
        """Send a new TLP, once."""
        if len(self.stretches) > 1 and self.serial == 0:
            self.link.replayer.next = self.stretches[0].link.replayer.next
        copy = self._copied(self.serial, raw, self.link.send(raw))
        self.serial += 1
        self.raws.append(raw)
        return copy

    def replay(self, back: int) -> list[Copy]:
        """Respond to a NAK: send the last `back` TLPs again, as far as they are kept."""
        last = (self.serial - 1 - back) % 4096
        self.link.replayer.acknowledge(last)
        waiting = self.link.replayer.nak(last)
        places = self.link.replay(last)
        base = self.serial - len(waiting)
        return [self._copied(base + n, raw, place) for n, ((_, raw), place) in enumerate(zip(waiting, places))]

    def deliver(self, raw: bytes) -> Copy:
        """Send a new TLP, repeated until a copy is intact or the other end takes a damaged one for intact; return the accepted copy."""
        copy = self.send(raw)
        while copy.damaged and self.r.random() < self.heard:
            self.naks += 1
            self.link.idle(self.r.randrange(20, 80))
            copy = self.replay(1)[-1]
        if self.serial % 16 == 0:
            self.link.replayer.acknowledge((self.serial - 12) % 4096)
        return copy

    def acknowledge(self) -> None:
        self._dllp(tr.ack_of(self.r.randrange(4096), nak=self.r.random() < 0.05))

    def _dllp(self, body: bytes) -> None:
        place = self.link.dllp(body)
        first = self.link.bit_of(place) if self.stretch.speed == "8" else 10 * place
        self.stretch.dllps.append((first, body))

    def nullify(self) -> None:
        self.link.nullify(tr.some_tlp(self.r))
        self.nullified += 1

    def spoil(self) -> None:
        """Send a TLP with the next number and a wrong LCRC: eight wrong bits, which no bit error of the wires can cancel."""
        raw, wrong = tr.some_tlp(self.r), 0xFF << self.r.randrange(25)
        if self.speed == "8":
            self.link.packet(tlp_bytes(raw, self.link.replayer.next, wrong_lcrc=wrong))
        else:
            self.link.packet(self.link.framed_tlp(raw, self.link.replayer.next, wrong_lcrc=wrong))
        self.spoilt += 1

    # --- the wires ------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Send idle until everything has come through the receiver."""
        self.link.idle(400)
        if self.speed == "8":
            self.link.fill()

    def wires(self) -> list[tuple[str, int, list[np.ndarray]]]:
        """Return the wires in the form for lane_player.write_lanes; mark excused copies, and give each copy its tick."""
        out = []
        for stretch in self.stretches:
            late, link = list(self.wiring.late), stretch.link
            if stretch.speed == "8":
                wires = link.bits(late=late)
            else:
                wires = link.bits(skew=[n // 10 for n in late], shift=[n % 10 for n in late])
            for lane, wire in enumerate(wires):
                places = stretch.errors.lanes[lane]
                places = places[places < len(wire) - late[lane]] + late[lane]
                wire[places] ^= 1
            if self.rate and stretch.speed != "8":
                _excuse(stretch, wires, late)
            for copy in stretch.copies:
                copy.tick = self._tick(stretch, copy.first)
            wires = [wire ^ np.uint8(self.wiring.invert[n]) for n, wire in enumerate(wires)]
            out.append((stretch.speed, stretch.tick, wires))
        return out

    def _tick(self, stretch: Stretch, first: int) -> int:
        return stretch.tick + (first + self.wiring.late[0]) * BIT_PS[stretch.speed] // 1000

    @property
    def dllps(self) -> list[tuple[int, bytes]]:
        """Return tick and body of each DLLP, in order."""
        return [(self._tick(stretch, first), body) for stretch in self.stretches for first, body in stretch.dllps]

    @property
    def copies(self) -> list[Copy]:
        return [copy for stretch in self.stretches for copy in stretch.copies]


def _excuse(stretch: Stretch, wires: list[np.ndarray], late: Sequence[int]) -> None:
    """An error that creates or destroys a COM or SKP desynchronises the scrambler until the next COM of that lane."""
    special = stretch.link.special()
    spans = []
    for lane, places in enumerate(stretch.errors.lanes):
        wrong = sorted({int(p) // 10 for p in places if p // 10 < len(special)})
        coms = [int(c) for c in np.flatnonzero(special[:, lane] == 1)]
        for at in wrong:
            kind = special[at, lane]
            start = late[lane] + 10 * at
            now = tr.CODES.get("".join(map(str, wires[lane][start : start + 10])))
            if kind != 3 and (kind in (1, 2) or now in ((0xBC, True), (0x1C, True))):
                n = bisect.bisect_right(coms, at)
                while n < len(coms) and _contains(wrong, coms[n]):
                    n += 1
                spans.append((10 * at, 10 * (coms[n] if n < len(coms) else len(special))))
    for copy in stretch.copies:
        copy.excused = any(first < copy.behind and copy.first < behind for first, behind in spans)


def _contains(ordered: list[int], value: int) -> bool:
    at = bisect.bisect_left(ordered, value)
    return at < len(ordered) and ordered[at] == value


__all__ = ["BIT_PS", "Copy", "Errors", "Sender", "Stretch", "Wiring"]
