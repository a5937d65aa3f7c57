"""What a link sends, what the wires do to it, and what a tap must make of it. Nothing here is from the gateware."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import transmitter as t
from cocotbext.pcie.core.tlp import Tlp, TlpType
from cocotbext.pcie.core.utils import PcieId


def some_tlp(r: random.Random) -> bytes:
    """A request or completion as cocotbext-pcie packs it: what an NVMe link carries, 3 to 20 double words."""
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


@dataclass
class Copy:
    """A TLP as it went over the link once."""

    serial: int
    """Counts TLPs; the sequence number is this modulo 4096."""
    raw: bytes
    first: int
    """Symbol times of its first symbol, and behind its last."""
    behind: int
    damaged: bool = False
    excused: bool = False
    """Behind an error that throws the scrambler's register of a lane out of step, or lanes that are being aligned again."""


@dataclass
class Traffic:
    """A link that trains, and then sends; `quality` says how it goes wrong on purpose."""

    lanes: int
    seed: int
    skp_interval: int = 300
    copies: list[Copy] = field(default_factory=list)
    dllps: list[tuple[bytes, int]] = field(default_factory=list)
    spoilt: int = 0
    nullified: int = 0
    states: list[str] = field(default_factory=list)

    def __post_init__(self):
        self.r = random.Random(self.seed)
        self.link = t.Link(self.lanes, skp_interval=self.skp_interval, skp_count=(3, 2, 4, 1, 5), first_sequence=0)
        self.serial = 0
        self._serial_of: dict[int, int] = {}

    def train(self) -> None:
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
        link = self.link
        link.training(t.TS1, 5, link=1, numbered=True)
        link.training(t.TS2, 8, link=1, numbered=True)
        link.idle(16)
        self.states += ["RECOVERY", "L0"]

    def sleep(self, symbol_times: int = 60) -> None:
        """L0s: EIOS, silence, FTS."""
        self.link.electrical_idle(symbol_times)
        self.link.fast_training(40)
        self.link.idle(12)
        self.states += ["L0S", "L0"]

    def send(self, raw: bytes) -> None:
        self._copied(self.serial, raw, self.link.send(raw))
        self.serial += 1

    def dllp(self, body: bytes) -> None:
        self.dllps.append((body, self.link.dllp(body)))

    def replay(self, back: int) -> None:
        """A NAK: the last `back` TLPs again."""
        last = (self.serial - 1 - back) % 4096
        self.link.replayer.acknowledge(last)
        waiting = self.link.replayer.nak(last)
        places = self.link.replay(last)
        for n, ((_, raw), at) in enumerate(zip(waiting, places)):
            self._copied(self.serial - len(waiting) + n, raw, at)

    def _copied(self, serial: int, raw: bytes, at: int) -> None:
        self.copies.append(Copy(serial, raw, at, at + (len(raw) + 8) // self.lanes))

    def some(self, tlps: int, *, replays: float = 0.03, faults: float = 0.02) -> None:
        """`tlps` new TLPs, with DLLPs, pauses, replays, nullified and spoilt ones between them."""
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
                self.link.packet(t.tlp_symbols(some_tlp(r), self.link.replayer.next, wrong_lcrc=1 << r.randrange(32)))
                self.spoilt += 1
            if n % 64 == 63:
                self.link.replayer.acknowledge((self.serial - 20) % 4096)


def ack_of(sequence: int, *, nak: bool = False) -> bytes:
    """An Ack or Nak DLLP (Base 2.1, figure 3-7)."""
    return bytes([0x10 if nak else 0, 0, sequence >> 8, sequence & 255])


CODES = {t.encode(value, k, disparity)[0]: (value, k) for disparity in (-1, 1)
         for k, values in ((False, range(256)), (True, (0xBC, 0x1C))) for value in values}  # fmt: skip
"""Every code of a data symbol, COM or SKP."""


def excuse(traffic: Traffic, wires: list[bytearray], places: list[list[int]], late: list[int]) -> None:
    """Marks the copies that bit errors at `places` (of each logical lane's wire, which begins `late` bits late) reach.

    Those with an error in them are damaged. An error that makes or unmakes a COM or SKP throws the scrambler out of step until
    the next COM of that lane: what lies between is excused.
    """
    hit, excused = set(), set()
    columns = traffic.link.columns
    for lane, errors in enumerate(places):
        wrong = {(place - late[lane]) // 10 for place in errors if place >= late[lane]}
        for at in wrong:
            hit.add(at)
            start = late[lane] + 10 * at
            now = CODES.get("".join(map(str, wires[lane][start : start + 10])))
            special = ((0xBC, True), (0x1C, True))
            if columns[at][lane] is not None and (now in special or columns[at][lane] in (t.COM, t.SKP)):
                following = at
                while following < len(columns) and (following == at or following in wrong or columns[following][lane] != t.COM):
                    excused.add(following)
                    following += 1
    for copy in traffic.copies:
        span = range(copy.first, copy.behind)
        copy.damaged = any(at in hit for at in span)
        copy.excused = any(at in excused for at in span)
