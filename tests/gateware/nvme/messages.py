"""Interrupt messages that a host sets up over the link, by hand: instants of commands, and which of these are a guess."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from wattbell_spec.wire import UNKNOWN24

from tests.traffic import packets

HOST, DRIVE = 0x0000, 0x0100
BAR0, BAR4 = 0xF000_0000, 0xE000_0000
TABLE = 0x2000
MSI, MSIX = 0x50, 0x70
ADMIN, IO, BUFFER = 0x1000_0000, 0x2000_0000, 0x4000_0000
"""Bases: SQ q is 64 KiB x q behind its base, and its CQ 32 KiB further."""
ENTRIES = 16
US = 1_000_000
GAP = US // 2
"""Times are in ps."""


@dataclass(frozen=True)
class Put:
    """A TLP on the wire: its first symbol, and 1 for a TLP of the drive. ``missed``: the tap missed TLPs of that direction before it."""

    time_ps: int
    up: int
    raw: bytes
    missed: bool = False


class Bus:
    """A trace under way: a host and a drive that do one thing after the other."""

    def __init__(self) -> None:
        self.put: list[Put] = []
        self.resets: list[tuple[int, int]] = []
        """Times and levels of PERST#."""
        self.now, self.gap, self.tag, self.missed = US, GAP, 0, False
        self.tails: dict[int, int] = {}
        self.cids = 0
        self.ends: list[int] = []
        """Instants of CQEs, in ps."""
        self.told: list[int | None] = []
        """Instants of the message of each, as far as a test says so."""

    def send(self, up: int, raw: bytes) -> int:
        self.now += self.gap
        self.put.append(Put(self.now, up, raw, self.missed and not up))
        self.missed &= bool(up)
        return self.now

    # the host's configuration

    def read(self, register: int, value: int, enables: int = 0xF, function: int = 0) -> None:
        self.tag = (self.tag + 1) % 32
        self.send(0, packets.configuration(False, register, HOST, DRIVE | function, self.tag, enables))
        self.send(1, packets.completion(1, DRIVE | function, HOST, self.tag, 4, 0) + struct.pack("<L", value))

    def write(self, register: int, value: int, enables: int = 0xF, function: int = 0) -> None:
        self.send(0, packets.configuration(True, register, HOST, DRIVE | function, self.tag, enables) + struct.pack("<L", value))

    def bar(self, offset: int, *words: int, enables: int = 0xF) -> None:
        header = packets.memory(False, BAR0 + offset, len(words), HOST, first=enables)
        self.send(0, header + struct.pack(f"<{len(words)}L", *words))

    def walk(self, *, wide: bool = True, place: int = TABLE, ends: bool = True) -> None:
        """Enumerate: BAR0, and capabilities of MSI and MSI-X. ``place``: Table Offset and Table BIR."""
        self.write(0x10, BAR0)
        self.write(0x20, BAR4)
        self.read(0x34, MSI, 0x1)
        self.read(MSI, MSIX << 8 | 0x05, 0x3)
        self.read(MSI, (0x0180 if wide else 0x0100) << 16 | 5 << 17, 0xC)
        self.read(MSIX, 0x11 | (0 if ends else 0xA0) << 8, 0x3)
        self.read(MSIX, 63 << 16, 0xC)
        self.read(MSIX + 4, place)

    def entry(self, vector: int, address: int, data: int, *, eight: bool = False, table: int = TABLE) -> None:
        """An entry of the MSI-X table, in double words or in 8 bytes, the data first."""
        at = table + 16 * vector
        if eight:
            self.bar(at + 8, data, 0)
            self.bar(at, address & 0xFFFFFFFF, address >> 32)
        else:
            for offset, word in ((0, address & 0xFFFFFFFF), (4, address >> 32), (8, data), (12, 0)):
                self.bar(at + offset, word)

    def enable(self, on: bool = True) -> None:
        self.write(MSIX, (0x8000 if on else 0) << 16, 0xC)

    # queues and commands

    def start(self) -> None:
        self.bar(0x24, (ENTRIES - 1) * 0x1_0001)
        self.bar(0x28, ADMIN, 0)
        self.bar(0x30, ADMIN + 0x8000, 0)
        self.bar(0x14, 0x0046_0001)
        self.tails[0] = 0

    def queue(self, qid: int, vector: int, interrupts: bool = True) -> None:
        """Create an I/O queue, and release the commands that did it."""
        base = IO + 0x1_0000 * qid
        self.command(0, 0x05, base + 0x8000, (qid | (ENTRIES - 1) << 16, vector << 16 | 2 * interrupts | 1), head=True)
        self.command(0, 0x01, base, (qid | (ENTRIES - 1) << 16, qid << 16 | 1), head=True)
        self.tails[qid] = 0

    def command(self, qid: int, opcode: int = 0, prp1: int = 0, words: tuple[int, int] = (0, 0), head: bool = False) -> None:
        """A command up to its CQE; with `head`, also the CQ's doorbell."""
        base = IO + 0x1_0000 * qid if qid else ADMIN
        at, self.cids, self.tag = self.tails[qid], self.cids + 1, (self.tag + 1) % 32
        tail = self.tails[qid] = (at + 1) % ENTRIES
        sqe = struct.pack("<BBHL16xQQ6L", opcode, 0, self.cids, 1, prp1, 0, *words, 0, 0, 0, 0)
        self.bar(0x1000 + 8 * qid, tail)
        self.send(1, packets.memory(True, base + 64 * at, 16, DRIVE, self.tag))
        self.send(0, packets.completion(16, HOST, DRIVE, self.tag, 64, base + 64 * at) + sqe)
        cqe = struct.pack("<LLHHHH", 0, 0, tail, qid, self.cids, 1)
        self.ends.append(self.send(1, packets.memory(False, base + 0x8000 + 16 * at, 4, DRIVE) + cqe))
        self.told.append(None)
        if head:
            self.release(qid)

    def release(self, qid: int) -> None:
        self.bar(0x1004 + 8 * qid, self.tails[qid])

    def message(self, address: int, data: int, tells: int = 0) -> None:
        """A message that announces the last `tells` commands, unless they are announced already."""
        tick = self.send(1, packets.memory(False, address, 1, DRIVE) + struct.pack("<L", data))
        self.tell(tick, tells)

    def tell(self, tick: int, tells: int) -> None:
        for at in range(len(self.told) - tells, len(self.told)):
            self.told[at] = self.told[at] or tick

    def wire(self, code: int, tells: int = 0) -> None:
        self.tell(self.send(1, packets.message(code, DRIVE)), tells)

    def finish(self) -> None:
        """Release all commands."""
        for qid in self.tails:
            self.release(qid)

    def due(self, guesses: Iterable[int]) -> dict[int, tuple[int, int]]:
        """The record of each CQE by its number: ticks to the message, and whether that is a guess."""
        return {
            at: (UNKNOWN24 if told is None else (told - self.ends[at]) // 1000, int(at in guesses)) for at, told in enumerate(self.told)
        }


def ready(*, wide: bool = True, place: int = TABLE, ends: bool = True) -> Bus:
    """A host that has enumerated the drive."""
    bus = Bus()
    bus.walk(wide=wide, place=place, ends=ends)
    return bus


Scenario = tuple[Bus, Iterable[int]]
"""A trace, and the numbers of the CQEs of which the interrupt is a guess."""
MESSAGES = ((0xFEE0_1000, 0x21), (0x1_FEE0_1000, 0x21), (0xFEE0_1000, 0x22), (0xFEE0_2000, 0x23))


def with_table() -> Bus:
    """With a table of messages that differ by address, by data, or by both, and three I/O queues."""
    bus = ready()
    for vector, (address, data) in enumerate(MESSAGES):
        bus.entry(vector, address, data, eight=bool(vector & 1))
    bus.enable()
    bus.start()
    for qid in (1, 2, 3):
        bus.queue(qid, qid)
    return bus


def vectors() -> Scenario:
    """Each vector has its message."""
    bus = with_table()
    first = len(bus.ends)
    for qid in (1, 2, 3):
        bus.command(qid)
    bus.message(BUFFER, 0x21)  # some other write
    bus.message(*MESSAGES[0])  # the admin queue's, of which nothing waits
    for qid in (3, 1, 2):
        bus.message(*MESSAGES[qid])
        bus.told[first + qid - 1] = bus.now
    bus.command(1)
    bus.command(1)
    bus.message(*MESSAGES[1], tells=2)
    return bus, ()


def at_once() -> Scenario:
    """The place of the table changes right before it is written."""
    bus = ready(place=TABLE + 0x1000)
    bus.gap = 16_000
    bus.read(MSIX + 4, TABLE)
    for vector in (0, 1):
        bus.entry(vector, *MESSAGES[vector])
    bus.gap = GAP
    bus.enable()
    bus.start()
    bus.command(0)
    bus.message(*MESSAGES[0], tells=1)
    return bus, ()


def shared() -> Scenario:
    """Queues that share a vector share its messages, and a polled one has none."""
    bus = with_table()
    bus.queue(4, 2)
    bus.queue(5, 2, interrupts=False)
    bus.command(5)
    bus.command(2)
    bus.command(4)
    bus.message(*MESSAGES[2], tells=2)
    return bus, ()


def changed() -> Scenario:
    """A message that is on its way while the host changes it is a guess."""
    bus = with_table()
    first = len(bus.ends)
    bus.command(1)
    bus.entry(1, 0xFEE0_3000, 0x44)
    bus.message(*MESSAGES[1], tells=1)  # sent before the drive had the change
    bus.command(1)
    bus.message(0xFEE0_3000, 0x44, tells=1)
    bus.command(1)
    bus.entry(1, 0xFEE0_3000, 0x44)  # the same again
    bus.entry(1, 0xFEE0_3000, 0x45)
    bus.message(0xFEE0_3000, 0x44, tells=1)
    bus.command(1)
    bus.message(0xFEE0_3000, 0x46)  # nobody's
    return bus, (first, first + 2)


def msi(wide: bool) -> Scenario:
    """The vector is in the low bits of the data."""
    bus = ready(wide=wide)
    bus.write(MSI + 4, 0xFEE0_7000)
    if wide:
        bus.write(MSI + 8, 0x5)
    bus.write(MSI + (12 if wide else 8), 0x4190, 0x3)
    bus.write(MSI, (2 << 4 | 1) << 16, 0xC)  # four messages
    address = 0x5_FEE0_7000 if wide else 0xFEE0_7000
    bus.start()
    for qid in (1, 2, 3):
        bus.queue(qid, qid)
    first = len(bus.ends)
    for qid in (1, 2, 3):
        bus.command(qid)
    bus.message(address, 0x4194)
    bus.message(address ^ 0x1000, 0x4191)
    for qid in (2, 3, 1):
        bus.message(address, 0x4190 + qid)
        bus.told[first + qid - 1] = bus.now
    return bus, ()


def no_view() -> Scenario:
    """Without a view of the table all is a guess."""
    bus = Bus()
    bus.write(0x10, BAR0)
    bus.start()
    bus.queue(1, 1)
    bus.queue(2, 2, interrupts=False)
    bus.command(1)
    bus.message(*MESSAGES[1], tells=1)
    bus.command(1)
    bus.command(2)
    polled = len(bus.told) - 1
    return bus, tuple(at for at in range(polled))


def unseen(gap: str) -> Scenario:
    """An entry is learnt that was not seen. ``entry``: never written; ``bytes``: not all of a double word; ``place``: the table is not in
    BAR0; ``walk``: no capability."""
    bus = Bus()
    if gap == "walk":
        bus.write(0x10, BAR0)
        bus.read(MSIX, 0x11, 0x3)  # nothing says that a capability begins there
        bus.read(MSIX + 4, TABLE)
    else:
        bus.walk(place=TABLE | 4 if gap == "place" else TABLE)
    bus.entry(0, *MESSAGES[0])
    if gap == "bytes":
        bus.entry(1, *MESSAGES[1])
        bus.bar(TABLE + 16 + 8, 0x21, enables=0x1)
    elif gap != "entry":
        bus.entry(1, *MESSAGES[1])
    bus.enable()
    bus.start()
    bus.queue(1, 1)
    bus.command(0)
    bus.message(*MESSAGES[0], tells=1)
    bus.command(1)
    bus.message(*MESSAGES[1], tells=1)
    bus.command(1)
    last = len(bus.told) - 1
    sure = () if gap in ("place", "walk") else range(last - 1)
    return bus, tuple(at for at in range(last + 1) if at not in sure)


def others() -> Scenario:
    """Other functions, and answers to other reads, tell nothing."""
    bus = with_table()
    bus.write(MSIX, 0, 0xC, function=1)  # not this function's enable
    bus.write(0x10, 0xC000_0000, function=1)  # nor its BAR0
    bus.read(MSIX + 4, 0x3000, function=1)
    bus.send(0, packets.configuration(False, MSIX + 4, HOST, DRIVE, 9))  # answered without data
    bus.send(1, packets.completion(0, DRIVE, HOST, 9, 4, 0, packets.UNSUPPORTED))
    bus.send(0, packets.memory(True, BAR0 + 0x1C, 1, HOST, 9))
    bus.send(1, packets.completion(1, DRIVE, HOST, 9, 4, 0x1C) + struct.pack("<L", 1))
    bus.entry(1, 0xFEE0_9000, 0x77)
    bus.command(1)
    bus.message(0xFEE0_9000, 0x77, tells=1)
    return bus, ()


def intx() -> Scenario:
    """INTx announces all CQEs before it was asserted."""
    bus = ready()
    bus.start()
    for qid, interrupts in ((1, True), (2, False)):
        bus.queue(qid, 0, interrupts)
    bus.command(2)
    bus.command(1)
    bus.message(BUFFER, 0x21)  # no message to memory is an interrupt
    bus.command(1)
    bus.wire(packets.ASSERT_INTA, tells=2)
    bus.command(1)  # while it is asserted: without a message of its own
    bus.wire(packets.DEASSERT_INTA)
    bus.release(1)
    bus.command(1)
    bus.wire(packets.LTR)
    bus.wire(packets.ASSERT_INTA, tells=1)
    return bus, ()


def intx_of_two(sign: str) -> Scenario:
    """From the first sign of a second function on, INTx is a guess: its messages name no function (PCIe 2.2.8.1)."""
    bus = ready()
    bus.start()
    bus.queue(1, 0)
    bus.command(1)
    bus.wire(packets.ASSERT_INTA, tells=1)
    bus.wire(packets.DEASSERT_INTA)
    bus.release(1)
    first = len(bus.ends)
    bus.command(1)  # before the sign, but its message comes behind it
    if sign == "configured":
        bus.write(0x04, 0x6, 0x3, function=1)
    else:
        bus.send(1, packets.memory(False, BUFFER, 4, DRIVE | 1) + bytes(16))
    bus.wire(packets.ASSERT_INTA, tells=1)
    bus.command(1)
    bus.wire(packets.DEASSERT_INTA)
    bus.release(1)
    bus.command(1)
    return bus, range(first, first + 3)


def disabled() -> Scenario:
    """A message that is due may come behind the write that disables the controller: its absence is a guess."""
    bus = with_table()
    bus.command(1, head=True)  # the host was quicker: no message follows
    bus.queue(4, 0, interrupts=False)
    bus.command(4)
    bus.command(2)
    bus.message(*MESSAGES[2], tells=1)
    bus.command(2)
    last = len(bus.ends) - 1
    bus.bar(0x14, 0x0046_0000)
    bus.message(*MESSAGES[2])
    return bus, (last,)


def loss() -> Scenario:
    """After a loss of the host's TLPs an absence is a guess, until messages are enabled anew."""
    bus = with_table()
    bus.missed = True
    first = len(bus.ends)
    bus.command(1)
    bus.message(*MESSAGES[1], tells=1)
    bus.command(1, head=True)
    bus.enable(False)
    bus.enable()
    bus.command(1, head=True)
    return bus, (first + 1,)


def perst() -> Scenario:
    """A fundamental reset empties the table, and leaves capabilities."""
    bus = with_table()
    first = len(bus.ends)
    bus.now += GAP
    bus.resets += [(bus.now, 0), (bus.now + GAP, 1)]
    bus.now += 20 * US
    bus.write(0x10, BAR0)
    bus.entry(0, *MESSAGES[0])
    bus.enable()
    bus.start()
    bus.command(0)
    bus.message(*MESSAGES[0], tells=1)
    bus.queue(1, 1)
    bus.command(1)
    bus.message(*MESSAGES[1], tells=1)
    return bus, (first + 3,)


SCENARIOS: dict[str, Callable[[], Scenario]] = {
    "vectors": vectors,
    "at once": at_once,
    "shared": shared,
    "changed": changed,
    "msi of 64 bits": lambda: msi(True),
    "msi of 32 bits": lambda: msi(False),
    "no view": no_view,
    **{f"unseen {gap}": lambda gap=gap: unseen(gap) for gap in ("entry", "bytes", "place", "walk")},  # type: ignore[misc]
    "others": others,
    "intx": intx,
    **{f"intx of two, {sign}": lambda sign=sign: intx_of_two(sign) for sign in ("configured", "writing")},  # type: ignore[misc]
    "disabled": disabled,
    "loss": loss,
    "perst": perst,
}
