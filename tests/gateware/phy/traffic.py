"""Traffic of a link, the wires' effect on it, and a tap's required output. Shares no code with the gateware."""

from __future__ import annotations

import random
from bisect import bisect_left
from dataclasses import dataclass

from cocotbext.pcie.core.tlp import Tlp, TlpType
from cocotbext.pcie.core.utils import PcieId

from tests.gateware.phy import transmitter as t
from tests.gateware.phy.transmitter.gen3_link import Gen3Link, Place
from tests.gateware.phy.transmitter.gen3_tokens import tlp_bytes


def some_tlp(r: random.Random) -> bytes:
    """Return a request or completion of an NVMe link as cocotbext-pcie packs it, 3 to 20 double words."""
    tlp = Tlp()
    kind = r.randrange(5)
    tlp.requester_id, tlp.tag, tlp.first_be, tlp.last_be = PcieId(r.randrange(256), r.randrange(32), 0), r.randrange(256), 0xF, 0xF
    tlp.address = 4 * r.randrange(1 << 28)
    if kind == 0:
        tlp.fmt_type, tlp.length = TlpType.MEM_READ_64, r.choice([2, 16, 32, 128])
        tlp.address += 1 << 36
    elif kind == 1:
        tlp.fmt_type, tlp.length, tlp.last_be = TlpType.MEM_READ, 1, 0
    else:
        tlp.fmt_type = (TlpType.MEM_WRITE, TlpType.MEM_WRITE_64, TlpType.CPL_DATA)[kind - 2]
        tlp.address += (kind == 3) << 36
        tlp.set_data(r.randbytes(4 * r.choice([1, 1, 2, 3, 4, 4, 16])))
        if kind == 4:
            tlp.completer_id, tlp.byte_count, tlp.lower_address = PcieId(1, 0, 0), 4 * tlp.length, r.randrange(32) * 4
        elif tlp.length == 1:
            tlp.last_be = 0
    return bytes(tlp.pack())


def write_of(r: random.Random, dws: int) -> bytes:
    """Return a memory write with this many double words of data."""
    tlp = Tlp()
    tlp.fmt_type, tlp.requester_id, tlp.tag, tlp.first_be, tlp.last_be = TlpType.MEM_WRITE_64, PcieId(1, 0, 0), r.randrange(256), 0xF, 0xF
    tlp.address = 1 << 36 | 4096 * r.randrange(1 << 20)
    tlp.set_data(r.randbytes(4 * dws))
    return bytes(tlp.pack())


@dataclass
class Copy:
    """One transmission of a TLP over the link."""

    serial: int
    """Serial number; the sequence number is this modulo 4096."""
    raw: bytes
    place: int | Place
    """Position of its first symbol: symbol time, or block and its symbol."""
    tick: int = 0
    """Tick of that symbol on lane 0 at the receiver; :meth:`tap.Tap.play` fills in this field and the following ones."""
    damaged: bool = False
    excused: bool = False
    """After an error that desynchronises a lane's scrambler, or while lanes are being realigned."""


class Traffic:
    """A link that trains and then sends, at one rate (0, 1, 2: 2.5, 5, 8 GT/s), possibly continuing where another one left off.

    `skp_interval`: symbol times between SKP ordered sets. `copies`, `dllps` (body and position), `states` that a tap must report,
    and `nullified` and `spoilt` (wrong LCRC) TLPs record the traffic; also `lanes`, `rate`, `link`.
    """

    def __init__(self, lanes: int, seed: int, *, rate: int = 1, skp_interval: int = 300, after: Traffic | None = None):
        self.lanes, self.seed, self.rate = lanes, seed, rate
        self.r = random.Random(seed)
        if rate == 2:
            self.link = Gen3Link(lanes, sos_interval=max(skp_interval // 16, 6), sos_symbols=(16, 12, 20, 8, 24))
        else:
            self.link = t.Link(lanes, skp_interval=skp_interval, skp_count=(3, 2, 4, 1, 5))
        self.serial = 0
        self.copies: list[Copy] = []
        self.dllps: list[tuple[bytes, int | Place]] = []
        self.states: list[str] = []
        self.spoilt = self.nullified = 0
        self._known_starts: list[int] = []
        if after is not None:
            self.link.replayer, self.serial = after.link.replayer, after.serial

    # --- where things are ---------------------------------------------------------------------------------------------

    def bit(self, place: int | Place) -> int:
        """Return the bit on lane 0, counted from the first bit sent."""
        return self._starts()[place.block] + 8 * place.symbol if self.rate == 2 else 10 * place

    def _starts(self) -> list[int]:
        if len(self._known_starts) != len(self.link.blocks):
            self._known_starts = self.link.starts()
        return self._known_starts

    def spans(self) -> list[tuple[Copy, list[tuple[int, int]]]]:
        """Return for each copy the ranges of bits, on any lane, that contain it."""
        if self.rate != 2:
            return [(c, [(10 * c.place, 10 * (c.place + (len(c.raw) + 8) // self.lanes))]) for c in self.copies]
        starts, out = self._starts(), []
        for copy in self.copies:
            block, at = copy.place
            left, parts = -(-(len(copy.raw) + 8) // self.lanes), []
            while left > 0:
                here = min(left, 16 - at)
                parts.append((starts[block] + 8 * at, starts[block] + 8 * (at + here)))
                left, block, at = left - here, block + 1, 0
            out.append((copy, parts))
        return out

    # --- the link -----------------------------------------------------------------------------------------------------

    def train(self) -> None:
        """Train from the start, as at 2.5 GT/s."""
        link = self.link
        link.training(t.TS1, 12)
        link.training(t.TS2, 4)
        link.training(t.TS1, 4, link=1)
        link.training(t.TS1, 4, link=1, numbered=True)
        link.training(t.TS2, 8, link=1, numbered=True)
        link.idle(20)
        for body in ("400803f0", "50080001", "60000000", "c00803f0"):
            self.dllp(bytes.fromhex(body))
        link.idle(8)
        self.states += ["POLLING", "CONFIG", "L0"]

    def retrain(self) -> None:
        """Go through Recovery, from L0 or from a link's arrival at a new rate."""
        if self.rate == 2:
            self.link.train(first=5, second=8, link=1)
        else:
            if self.rate == 1:
                self.link.eieos()
            self.link.training(t.TS1, 5, link=1, numbered=True)
            self.link.training(t.TS2, 8, link=1, numbered=True)
        self.link.idle(16)
        self.states += ["RECOVERY", "L0"]

    def leave(self, rates: int, *, silence: int = 100) -> None:
        """Send Recovery with a speed change requested (`rates` as in the training sequences, without bit 7), EIOS, silence."""
        if self.rate == 2:
            self.link.training_sets(first=6, second=8, link=1, rates=0x80 | rates)
        else:
            for kind in (t.TS1, t.TS2):
                self.link.training(kind, 8, link=1, numbered=True, rates=0x80 | rates)
        self.link.electrical_idle(silence)
        self.states += ["RECOVERY"]

    def sleep(self, symbol_times: int = 160) -> None:
        """Go through L0s: EIOS, silence, FTS."""
        self.link.electrical_idle(symbol_times)
        self.link.fast_training(40)
        self.link.idle(12)
        self.states += ["L0S", "L0"]

    def end(self) -> None:
        """Send idle for longer than the latency of the receiver."""
        self.link.idle(130)
        if self.rate == 2:
            self.link.fill()

    def send(self, raw: bytes) -> None:
        self._copied(self.serial, raw, self.link.send(raw))
        self.serial += 1

    def spoil(self, raw: bytes) -> None:
        """Send a TLP with a wrong LCRC."""
        wrong, sequence = 1 << self.r.randrange(32), self.link.replayer.next
        self.link.packet((tlp_bytes if self.rate == 2 else t.tlp_symbols)(raw, sequence, wrong_lcrc=wrong))
        self.spoilt += 1

    def dllp(self, body: bytes) -> None:
        self.dllps.append((body, self.link.dllp(body)))

    def replay(self, back: int) -> None:
        """Respond to a NAK: send the last `back` TLPs again."""
        last = (self.serial - 1 - back) % 4096
        self.link.replayer.acknowledge(last)
        waiting = self.link.replayer.nak(last)
        places = self.link.replay(last)
        for n, ((_, raw), at) in enumerate(zip(waiting, places)):
            self._copied(self.serial - len(waiting) + n, raw, at)

    def _copied(self, serial: int, raw: bytes, place: int | Place) -> None:
        self.copies.append(Copy(serial, raw, place))

    def some(self, tlps: int, *, replays: float = 0.03, faults: float = 0.02) -> None:
        """Send `tlps` new TLPs, mixed with DLLPs, pauses, replays, nullified and spoilt TLPs."""
        r = self.r
        for n in range(tlps):
            self.send(some_tlp(r))
            if r.random() < 0.3:
                self.dllp(ack_of(r.randrange(4096), nak=r.random() < 0.1))
            if r.random() < 0.3:
                self.link.idle(r.randrange(1, 12))
            if r.random() < replays:
                self.replay(r.randrange(1, 12))
            if r.random() < faults:
                self.link.nullify(some_tlp(r))
                self.nullified += 1
            if r.random() < faults:
                self.spoil(some_tlp(r))
            if n % 64 == 63:
                self.link.replayer.acknowledge((self.serial - 20) % 4096)


def ack_of(sequence: int, *, nak: bool = False) -> bytes:
    """Return an Ack or Nak DLLP (PCIe Base 2.1, figure 3-7)."""
    return bytes([0x10 if nak else 0, 0, sequence >> 8, sequence & 255])


CODES = {
    t.encode(value, k, disparity)[0]: (value, k)
    for disparity in (-1, 1)
    for k, values in ((False, range(256)), (True, (0xBC, 0x1C)))
    for value in values
}
"""Every code of a data symbol, COM or SKP."""


def excuse(traffic: Traffic, wires: list[bytearray], places: list[list[int]], late: list[int]) -> None:
    """Mark the copies hit by bit errors at `places` (of each logical lane's wire, which begins `late` bits late).

    Copies with an error in them are damaged. At 2.5 and 5 GT/s an error that creates or destroys a COM or SKP desynchronises the
    scrambler until the next COM of that lane. Copies in between are excused.
    """
    hit = sorted({place - late[lane] for lane, errors in enumerate(places) for place in errors if place >= late[lane]})
    excused = _out_of_step(traffic, wires, places, late) if traffic.rate != 2 else []
    for copy, parts in traffic.spans():
        copy.damaged = any(bisect_left(hit, begin) != bisect_left(hit, behind) for begin, behind in parts)
        copy.excused = any(bisect_left(excused, begin) != bisect_left(excused, behind) for begin, behind in parts)


def _out_of_step(traffic: Traffic, wires, places, late) -> list[int]:
    """Return the first bits of the symbol times in which a lane's scrambler is out of step."""
    excused = set()
    columns = traffic.link.columns
    for lane, errors in enumerate(places):
        wrong = {(place - late[lane]) // 10 for place in errors if place >= late[lane]}
        for at in wrong:
            start = late[lane] + 10 * at
            now = CODES.get("".join(map(str, wires[lane][start : start + 10])))
            special = ((0xBC, True), (0x1C, True))
            if columns[at][lane] is not None and (now in special or columns[at][lane] in (t.COM, t.SKP)):
                following = at
                while following < len(columns) and (following == at or following in wrong or columns[following][lane] != t.COM):
                    excused.add(10 * following)
                    following += 1
    return sorted(excused)
