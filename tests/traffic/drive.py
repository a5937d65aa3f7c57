"""A controller: configuration space, registers, queues, and the engines that fetch, move data, complete and interrupt."""

from __future__ import annotations

import random
import struct
from collections import deque
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from wattbell_spec.nvme import admin, feature, io

from tests.traffic import packets
from tests.traffic.config import Configuration
from tests.traffic.kernel import NS, US, Group, Kernel, Process, Signal
from tests.traffic.kinds import Setup
from tests.traffic.link import Link
from tests.traffic.memory import PAGE
from tests.traffic.namespaces import Namespace, active_list, identify_controller
from tests.traffic.packets import UP
from tests.traffic.root import Request, Root
from tests.traffic.walkers import OneBlock, PrpWalk, SglWalk, Walk

if TYPE_CHECKING:
    from tests.traffic.orders import Order

CAP, VS, INTMS, INTMC, CC, CSTS, NSSR, AQA, ASQ, ACQ, CMBLOC, CMBSZ, CMBMSC = (
    0x00,
    0x08,
    0x0C,
    0x10,
    0x14,
    0x1C,
    0x20,
    0x24,
    0x28,
    0x30,
    0x38,
    0x3C,
    0x50,
)
"""Registers (NVMe, Property Definition)."""
DOORBELLS = 0x1000
MSIX_TABLE = 0x8000
MSIX_PENDING = 0x9000
CMB = 0x10_0000
"""Offset of the controller memory buffer in BAR0."""
BAR_BYTES = 0x20_0000
_DATA_TRANSFER_ERROR, _SQ_DELETION = 0x04, 0x08
_TO_DRIVE = {io(name) for name in ("write", "compare", "dsm", "copy", "zone_append", "reservation_register", "io_management_send")}
_LBA_DATA = {io(name) for name in ("write", "read", "compare", "zone_append")}


class CompletionQueue:
    """A CQ as the drive has it."""

    def __init__(self, kernel: Kernel, qid: int, base: int, size: int, vector: int | None) -> None:
        self.qid = qid
        self.base = base
        self.size = size
        self.vector = vector
        """None: no interrupts."""
        self.tail = 0
        self.head = 0
        self.phase = 1
        self.ready: deque[tuple[SubmissionQueue, Order]] = deque()
        self.work = Signal(kernel)
        self.group = Group()
        self.posted = 0
        """CQEs since the queue was made; ``acknowledged`` are behind the head."""
        self.acknowledged = 0

    def room(self) -> int:
        """CQEs that may be posted: one less than the entries that are free (NVMe, Full Queue)."""
        return (self.head - self.tail - 1) % self.size


class SubmissionQueue:
    """An SQ as the drive has it."""

    def __init__(self, kernel: Kernel, qid: int, base: int, size: int, cq: CompletionQueue, entry: int, in_cmb: bool) -> None:
        self.qid = qid
        self.base = base
        self.size = size
        self.cq = cq
        self.entry = entry
        self.in_cmb = in_cmb
        self.head = 0
        self.tail = 0
        self.active = 0
        self.work = Signal(kernel)
        self.group = Group()
        self.running: dict[Order, None] = {}
        """Commands at work, in the order of their begin: a set's order would be another in each process."""


class Vector:
    """An interrupt vector: CQEs not yet announced."""

    def __init__(self) -> None:
        self.waiting: list[tuple[CompletionQueue, int, Order]] = []
        self.armed = False


class Drive:
    """One controller behind the link, at one function."""

    def __init__(
        self, kernel: Kernel, link: Link, root: Root, rng: random.Random, setup: Setup, function: int, namespaces: list[Namespace]
    ) -> None:
        self.kernel = kernel
        self.link = link
        self.root = root
        self.rng = rng
        self.setup = setup
        self.function = function
        self.device = 0x0100 | function
        """Requester identifier: bus 1, device 0."""
        self.bar = setup.bar + function * 2 * BAR_BYTES
        self.namespaces = namespaces
        self.config = Configuration(rng, setup, function)
        self.orders: dict[tuple[int, int], Order] = {}
        """Commands that the host has submitted and not seen completed, by SQ and CID."""
        self.submitted: dict[tuple[int, int], Order] = {}
        """The last command of each SQ and CID; a reset leaves it."""
        self.level_reset: Callable[[], None] | None = None
        """Called when the drive takes its link down (NSSR)."""
        self.group = Group()
        self.registers = bytearray(0x1000)
        self.sqs: dict[int, SubmissionQueue] = {}
        self.cqs: dict[int, CompletionQueue] = {}
        self.vectors: dict[int, Vector] = {}
        self.intx = False
        """Whether INTA is asserted."""
        self.interrupted: Callable[[int | None], None] = lambda number: None
        """Called with the vector when its message has arrived; None: INTA is no longer asserted."""
        self._waiting: list[tuple[CompletionQueue, int, Order]] = []
        self.table = bytearray(16 * 64)
        self.cmb: dict[int, bytes] = {}
        """SQEs that the host wrote, by offset in the controller memory buffer."""
        self.events: deque[tuple[SubmissionQueue, Order]] = deque()
        """Asynchronous Event Requests that are outstanding."""
        self.buffer: list[tuple[int, int]] = []
        """Ranges of the host memory buffer: address and bytes."""
        self._buffer_group = Group()
        self._free: list[int] = []
        self._tag_free = Signal(kernel)
        self._asked: set[Request] = set()
        self._restore_tags()
        self._translated: dict[int, int] = {}
        self._aligned_writes = rng.random() < 0.7
        self.reset_registers()

    # resets

    def _restore_tags(self) -> None:
        self._asked = set()
        self._free = list(range(self.setup.tag_count))
        if self.setup.tags == "random":
            self.rng.shuffle(self._free)

    def reset_registers(self) -> None:
        """Controller registers as after a reset (NVMe, Controller Level Reset)."""
        self.registers = bytearray(0x1000)
        cap = 0x3FF | 1 << 16 | 20 << 24 | self.setup.dstrd << 32 | 1 << 36 | 1 << 37
        if self.setup.cmb:
            # BIR 0, offset in units of 64 KiB; 16 of these; SQs only (NVMe, CMBLOC and CMBSZ)
            struct.pack_into("<LL", self.registers, CMBLOC, CMB >> 16 << 12, 16 << 12 | 2 << 8 | 1)
        struct.pack_into("<QL", self.registers, CAP, cap, 0x00020000)

    def stop(self) -> None:
        """End all that the controller does, as at CC.EN = 0: queues are gone (NVMe, Controller Level Reset)."""
        for group in (self.group, self._buffer_group, *(one.group for one in self.sqs.values()), *(one.group for one in self.cqs.values())):
            group.alive = False
        self.group = Group()
        self.sqs, self.cqs, self.vectors, self.buffer = {}, {}, {}, []
        self.events.clear()
        self.orders, self.cmb, self._waiting = {}, {}, []
        if self.intx:
            self.intx = False
            if self.link.up:
                self.link.send(UP, packets.message(packets.DEASSERT_INTA, self.device))

    def controller_reset(self) -> None:
        """CC.EN 1 to 0: admin queue registers stay (NVMe, Controller Level Reset)."""
        self.stop()
        self._set(CSTS, 0)

    def function_reset(self, configuration: bool) -> None:
        """All but the link: registers, MSI-X table, and configuration space where asked."""
        self.stop()
        self.reset_registers()
        self.table = bytearray(16 * 64)
        self._translated = {}
        self._restore_tags()
        if configuration:
            self.config.reset()

    # registers

    def get(self, offset: int) -> int:
        """A register of 32 bits."""
        return int.from_bytes(self.registers[offset : offset + 4], "little")

    def _set(self, offset: int, value: int) -> None:
        struct.pack_into("<L", self.registers, offset, value)

    def bar_read(self, offset: int, length: int) -> bytes:
        """The answer to a read of BAR0."""
        if offset < 0x1000:
            return bytes(self.registers[offset : offset + length])
        if MSIX_TABLE <= offset < MSIX_TABLE + len(self.table):
            return bytes(self.table[offset - MSIX_TABLE : offset - MSIX_TABLE + length])
        return bytes(length)

    def bar_write(self, offset: int, data: bytes) -> None:
        """A write of whole dwords to BAR0."""
        if offset >= CMB:
            self.cmb[offset - CMB] = data
            return
        for at in range(0, len(data), 4):
            self._write(offset + at, data[at : at + 4])

    def doorbell(self, offset: int, value: int) -> None:
        """A write to a doorbell, its value after the byte enables."""
        number = (offset - DOORBELLS) // (4 << self.setup.dstrd)
        qid, is_cq = number >> 1, number & 1
        if is_cq:
            cq = self.cqs.get(qid)
            if cq is not None:
                cq.acknowledged += (value - cq.head) % cq.size
                cq.head = value
                cq.work.fire()
                self._settle_intx()
        else:
            sq = self.sqs.get(qid)
            if sq is not None:
                sq.tail = value
                sq.work.fire()

    def _write(self, offset: int, data: bytes) -> None:
        if DOORBELLS <= offset < MSIX_TABLE:
            self.doorbell(offset, int.from_bytes(data, "little"))
        elif MSIX_TABLE <= offset < MSIX_TABLE + len(self.table):
            self.table[offset - MSIX_TABLE : offset - MSIX_TABLE + 4] = data
        elif offset == CC:
            self._control(int.from_bytes(data, "little"))
        elif offset == NSSR:
            if data == b"eMVN" and self.level_reset is not None:  # "NVMe", 4E564D65h
                self.kernel.call(int(self.rng.uniform(1, 5) * US), self.root.group, self.level_reset)
        elif offset < 0x1000 and offset not in (CAP, CAP + 4, VS, CSTS):
            self.registers[offset : offset + 4] = data

    def _control(self, value: int) -> None:
        before = self.get(CC)
        self._set(CC, value)
        if value & 1 and not before & 1:
            self.kernel.call(int(self.rng.uniform(2, 15) * US), self.group, self._ready)
        elif before & 1 and not value & 1:
            self.controller_reset()
            self._set(CC, value)
            self._set(CSTS, 1)
            self.kernel.call(int(self.rng.uniform(1, 6) * US), self.group, self._set, CSTS, 0)
        elif value >> 14 & 3 and not before >> 14 & 3:
            self._set(CSTS, self.get(CSTS) | 1 << 2)
            self.kernel.call(int(self.rng.uniform(2, 8) * US), self.group, self._shut_down)

    def _shut_down(self) -> None:
        self._set(CSTS, self.get(CSTS) & ~0xC | 2 << 2)

    def _ready(self) -> None:
        """Take up work: the admin queues are there (NVMe, Controller Initialization)."""
        aqa, (asq, acq) = self.get(AQA), struct.unpack_from("<QQ", self.registers, ASQ)
        cq = self.make_cq(0, acq, (aqa >> 16 & 0xFFF) + 1, 0)
        self.make_sq(0, asq, (aqa & 0xFFF) + 1, cq)
        self._set(CSTS, 1)

    def make_cq(self, qid: int, base: int, size: int, vector: int | None) -> CompletionQueue:
        """Create a CQ and its engine."""
        cq = self.cqs[qid] = CompletionQueue(self.kernel, qid, base, size, vector)
        self.kernel.spawn(self._complete(cq), cq.group)
        return cq

    def make_sq(self, qid: int, base: int, size: int, cq: CompletionQueue) -> None:
        """Create an SQ and its engine."""
        cmb = self.setup.cmb and qid > 0 and qid % 2 == 0
        entry = 1 << (self.get(CC) >> 16 & 0xF) if qid else 64
        sq = self.sqs[qid] = SubmissionQueue(self.kernel, qid, base, size, cq, entry, cmb)
        self.kernel.spawn(self._fetch(sq), sq.group)

    # reads and writes of host memory

    def _tag(self) -> Generator[Any, Any, int]:
        while not self._free:
            yield self._tag_free
        order = self.setup.tags
        return self._free.pop(0) if order == "next" else self._free.pop()

    def _arrived(self, request: Request) -> None:
        if request not in self._asked:
            return  # of before a reset, which freed all tags
        self._asked.remove(request)
        if self.setup.tags == "random" and self._free:
            self._free.insert(self.rng.randrange(len(self._free)), request.tag)
        else:
            self._free.append(request.tag)
        self._tag_free.fire()

    def read(
        self,
        address: int,
        length: int,
        what: str,
        burst: int = 0,
        at: int = packets.UNTRANSLATED,
        attr: int = 0,
        starts: list[int] | None = None,
        passed: Callable[[Request, int, int, int], None] | None = None,
        prefix: bytes = b"",
    ) -> Generator[Any, Any, list[Request]]:
        """Read host memory in requests of at most MRRS that stay within 4 KiB (PCIe 2.2.7). Returns when all have been answered."""
        kernel, setup, link = self.kernel, self.setup, self.link
        requests: list[Request] = []
        pending = [0]
        answered = Signal(kernel)

        def done(request: Request) -> None:
            self._arrived(request)
            pending[0] -= 1
            answered.fire()

        end = address + length
        while address < end:
            size = min(setup.mrrs, end - address, PAGE - address % PAGE)
            while burst and pending[0] >= burst:
                yield answered
            tag = yield from self._tag()
            header = prefix + packets.memory(True, address, size >> 2, self.device, tag, attr=attr, at=at)
            start, delay = link.send(UP, header)
            request = Request(address, size, self.device, tag, attr, at, start, what, done, [] if starts is None else starts, passed=passed)
            requests.append(request)
            self._asked.add(request)
            pending[0] += 1
            self.root.asked(request, delay)
            address += size
        while pending[0]:
            yield answered
        return requests

    def structure(self, address: int, length: int) -> Generator[Any, Any, bytes]:
        """Bytes of a list or a segment."""
        requests = yield from self.read(address, length, "list")
        return b"".join(request.data or bytes(request.length) for request in requests)

    def _translate(self, address: int) -> Generator[Any, Any, int]:
        """Translated address: of the drive's cache, or asked for by a translation request of 2 DW (PCIe 10.2.2)."""
        page = address // PAGE
        if page not in self._translated:
            request = (yield from self.read(page * PAGE, 8, "translate", at=packets.TRANSLATION_REQUEST))[0]
            assert request.data is not None
            if len(self._translated) > 64:
                self._translated.clear()
            self._translated[page] = struct.unpack(">Q", request.data)[0] // PAGE
        return self._translated[page] * PAGE + address % PAGE

    # fetching

    def _fetch(self, sq: SubmissionQueue) -> Process:
        rng, setup = self.rng, self.setup
        pause = rng.randrange(50 * NS, 600 * NS)
        while True:
            if sq.head == sq.tail or sq.active >= setup.parallel:
                yield sq.work
                yield pause + int(rng.random() * 100 * NS)
                continue
            count = min((sq.tail - sq.head) % sq.size, sq.size - sq.head, setup.fetch_burst, setup.parallel - sq.active)
            address = sq.base + sq.entry * sq.head
            if sq.in_cmb:
                at = address - self.bar - CMB
                entries: list[tuple[int | None, bytes]] = [(None, self.cmb[at + 64 * k]) for k in range(count)]
                yield 100 * NS
            else:
                entries = yield from self._entries(sq, address, count)
            for start, sqe in entries:
                sq.head = (sq.head + 1) % sq.size
                order = self.orders[sq.qid, struct.unpack_from("<H", sqe, 2)[0]]
                order.deed.fetch = start
                sq.active += 1
                sq.running[order] = None
                self.kernel.spawn(self._execute(sq, order, sqe), sq.group, int(rng.random() * 100 * NS))

    def _entries(self, sq: SubmissionQueue, address: int, count: int) -> Generator[Any, Any, list[tuple[int | None, bytes]]]:
        """SQEs and the times of the reads that brought them."""
        setup, size = self.setup, sq.entry
        memory = self.root.memory

        def passed(request: Request, at: int, length: int, start: int) -> None:
            """Note which commands have been read."""
            for k in range(count):
                last = address + size * (k + 1)
                if at < last <= at + length:
                    entry = memory.read(last - size, 4)
                    assert entry is not None
                    order = self.submitted.get((sq.qid, struct.unpack_from("<H", entry, 2)[0]))
                    if order is not None:
                        order.deed.named = start
                        order.deed.fetch = request.start

        if setup.sqe_halves:
            found: list[tuple[int | None, bytes]] = []
            for k in range(count):
                first = (yield from self.read(address + size * k, size // 2, "sqe"))[0]
                second = (yield from self.read(address + size * k + size // 2, size // 2, "sqe", passed=passed))[0]
                found.append((first.start, (first.data or b"") + (second.data or b"")))
            return found
        ahead = count
        if setup.prefetch:
            room = (PAGE - address % PAGE) // size
            ahead = max(count, min(8, room, sq.size - sq.head))
        while True:
            requests = yield from self.read(address, size * ahead, "sqe", passed=passed)
            if not any(request.failed for request in requests):
                break
            yield US
        entries: list[tuple[int | None, bytes]] = []
        for request in requests:
            assert request.data is not None
            for at in range(0, request.length, size):
                if request.length % size == 0:
                    entries.append((request.start, request.data[at : at + size]))
        if not entries:  # an MRRS below the entry's size cannot be drawn
            raise AssertionError("SQEs larger than MRRS")
        return entries[:count]

    # executing

    def _execute(self, sq: SubmissionQueue, order: Order, sqe: bytes) -> Process:
        rng, setup = self.rng, self.setup
        opcode = sqe[0]
        status = 0
        if sq.qid == 0:
            if opcode == admin("async_event_request"):
                sq.active -= 1
                sq.work.fire()
                self.events.append((sq, order))
                return
            yield int(rng.expovariate(1 / (3 * US)))
            yield from self._administer(sq, order, sqe)
        else:
            to_drive = order.to_drive
            media = int(rng.expovariate(1 / setup.media))
            if not to_drive:
                yield media
            if order.length or order.meta:
                failed = yield from self._move(order, sqe, to_drive)
                if failed and not (failed == "poisoned" and rng.random() < 0.5):
                    status = _DATA_TRANSFER_ERROR
            if to_drive:
                yield media // 4
        order.deed.status = status or order.deed.status
        self.finish(sq, order)

    def finish(self, sq: SubmissionQueue, order: Order) -> None:
        """Hand a command to the engine of its CQ."""
        sq.cq.ready.append((sq, order))
        sq.cq.work.fire()

    def _walks(self, order: Order, sqe: bytes) -> list[Walk]:
        prp1, prp2 = struct.unpack_from("<QQ", sqe, 24)
        walks: list[Walk] = []
        if sqe[1] >> 6:
            walks.append(SglWalk(self, sqe[24:40]))
        elif order.length:
            walks.append(PrpWalk(self, prp1, prp2, order.length, self.setup.list_step))
        if order.meta:
            walks.append(OneBlock(struct.unpack_from("<Q", sqe, 16)[0], order.meta))
            if self.rng.random() < 0.2:
                walks.reverse()
        return walks

    def _move(self, order: Order, sqe: bytes, to_drive: bool) -> Generator[Any, Any, str]:
        failed = ""
        flushed = False
        for walk in self._walks(order, sqe):
            while True:
                piece = yield from walk.next()
                if piece is None:
                    break
                for address, length, at in (yield from self._places(order, *piece)):
                    if to_drive:
                        requests = yield from self.read(
                            address, length, "data", self.setup.burst, at, self.setup.attr, order.deed.pieces, prefix=order.prefix
                        )
                        for request in requests:
                            if request.failed:
                                failed = "aborted" if request.status else "poisoned"
                        if failed == "aborted":
                            return failed
                    else:
                        yield from self._write_out(order, address, length, at)
                    last = address
                flushed = flushed or self.setup.zero_reads
        if flushed and not (self.setup.ats or order.prefix) and self.rng.random() < 0.3:
            yield int(self.rng.uniform(0.1, 3) * US)
            yield from self._flush(last)
        return failed

    def _places(self, order: Order, address: int, length: int) -> Generator[Any, Any, list[tuple[int, int, int]]]:
        """Return address, length and AT of a piece. Each of its pages has a translation of its own (PCIe 10.2.3)."""
        if not (self.setup.ats and order.deed.qid):
            return [(address, length, packets.UNTRANSLATED)]
        places = []
        while length:
            size = min(length, PAGE - address % PAGE)
            translated = yield from self._translate(address)
            places.append((translated, size, packets.TRANSLATED))
            address, length = address + size, length - size
        return places

    def _flush(self, address: int) -> Generator[Any, Any, None]:
        """A read of zero bytes: length 1, no byte enabled (PCIe 2.2.5)."""
        tag = yield from self._tag()
        answered = Signal(self.kernel)

        def done(request: Request) -> None:
            self._arrived(request)
            answered.fire()

        header = packets.memory(True, address, 1, self.device, tag, first=0, last=0)
        start, delay = self.link.send(UP, header)
        request = Request(address, 4, self.device, tag, 0, 0, start, "flush", done, [])
        self._asked.add(request)
        self.root.asked(request, delay)
        yield answered

    def _write_out(self, order: Order, address: int, length: int, at: int) -> Process:
        """Write data to host memory in TLPs of at most MPS that stay within 4 KiB."""
        setup, link, rng = self.setup, self.link, self.rng
        mps, pieces, answer, offset = setup.mps, order.deed.pieces, order.answer, order.written
        end, since = address + length, 0
        order.written += length
        while address < end:
            size = min(mps - address % mps if self._aligned_writes else mps, end - address, PAGE - address % PAGE)
            poison = "poisoned" in setup.faults and order.deed.qid > 0 and rng.random() < 0.01
            header = order.prefix + packets.memory(False, address, size >> 2, self.device, 0, attr=setup.attr, at=at, ep=poison)
            payload = answer[offset : offset + size] if answer else self.root.payload.take(size)
            if payload is None:
                start, _ = link.send(UP, header, size)
            else:
                start, _ = link.send(UP, header + payload)
            pieces.append(start)
            address += size
            offset += size
            since += 1
            if since >= setup.chunk and address < end:
                since = 0
                yield link.backlog(UP) + int(rng.random() * 50 * NS)
        yield link.backlog(UP) + int(rng.random() * 30 * NS)

    # completing

    def _complete(self, cq: CompletionQueue) -> Process:
        rng, setup, link = self.rng, self.setup, self.link
        pause = rng.randrange(20 * NS, 300 * NS)
        while True:
            if not cq.ready or not cq.room():
                yield cq.work
                continue
            yield pause + int(rng.random() * 60 * NS)
            if setup.cqe_merge > 1 and len(cq.ready) < setup.cqe_merge and rng.random() < 0.5:
                yield US
            count = min(len(cq.ready), cq.room(), setup.cqe_merge, cq.size - cq.tail, setup.mps // 16)
            if count <= 0:
                continue
            address = cq.base + 16 * cq.tail
            count = min(count, (PAGE - address % PAGE) // 16)
            batch = [cq.ready.popleft() for _ in range(count)]
            body = b"".join(
                struct.pack("<LLHHHH", order.dword0, 0, sq.head, sq.qid, order.deed.cid, order.deed.status << 1 | cq.phase)
                for sq, order in batch
            )
            if setup.cqe_halves:
                link.send(UP, packets.memory(False, address, 2, self.device) + body[:8])
                yield link.backlog(UP) + int(rng.random() * 100 * NS)
                start, delay = link.send(UP, packets.memory(False, address + 8, 2, self.device) + body[8:])
            else:
                start, delay = link.send(UP, packets.memory(False, address, 4 * count, self.device) + body)
            cq.tail = (cq.tail + count) % cq.size
            cq.phase ^= cq.tail == 0
            for sq, order in batch:
                order.deed.cqe = start
                self.orders.pop((sq.qid, order.deed.cid), None)
                if order in sq.running:
                    del sq.running[order]
                    sq.active -= sq.qid != 0 or order.deed.opcode != admin("async_event_request")
                sq.work.fire()
                cq.posted += 1
                self.kernel.call(delay, self.root.group, order.seen, order, sq.head)
                self._announce(cq, order)

    # interrupts

    def _announce(self, cq: CompletionQueue, order: Order) -> None:
        delivery = self.config.delivery()
        if cq.vector is None or not delivery:
            return
        if delivery == "intx":
            if self.intx:
                return  # asserted already: no message of its own
            self._waiting.append((cq, cq.posted, order))
            if len(self._waiting) == 1:
                self.kernel.call(int(self.rng.random() * 300 * NS) + NS, self.group, self._assert)
            return
        vector = self.vectors.setdefault(cq.vector, Vector())
        vector.waiting.append((cq, cq.posted, order))
        if not vector.armed:
            vector.armed = True
            self.kernel.call(int(self.rng.random() * self.setup.coalescing) + NS, self.group, self._interrupt, cq.vector)

    def _interrupt(self, number: int) -> None:
        """Send the message of a vector, unless the host has seen all that it would announce (NVMe, Interrupts)."""
        vector = self.vectors[number]
        vector.armed = False
        waiting, vector.waiting = vector.waiting, []
        if all(cq.acknowledged >= posted for cq, posted, _ in waiting):
            return
        address, data = self._message(number)
        start, delay = self.link.send(UP, packets.memory(False, address, 1, self.device) + data)
        for _, _, order in waiting:
            order.deed.interrupt = start
        self.kernel.call(delay, self.root.group, self.interrupted, number)

    def _assert(self) -> None:
        """Send Assert_INTA, unless the host has seen all CQEs (PCIe 2.2.8.1)."""
        waiting, self._waiting = self._waiting, []
        if all(cq.acknowledged >= posted for cq, posted, _ in waiting):
            return
        self.intx = True
        start, delay = self.link.send(UP, packets.message(packets.ASSERT_INTA, self.device))
        for _, _, order in waiting:
            order.deed.interrupt = start
        self.kernel.call(delay, self.root.group, self.interrupted, 0)

    def _settle_intx(self) -> None:
        """Send Deassert_INTA when no CQ has anything left."""
        if self.intx and all(cq.acknowledged >= cq.posted for cq in self.cqs.values() if cq.vector is not None):
            self.intx = False
            _, delay = self.link.send(UP, packets.message(packets.DEASSERT_INTA, self.device))
            self.kernel.call(delay, self.root.group, self.interrupted, None)

    def _message(self, number: int) -> tuple[int, bytes]:
        if self.config.delivery() == "msi":
            return self.config.msi_message(number)
        address, data, _ = struct.unpack_from("<QLL", self.table, 16 * number)
        return address, struct.pack("<L", data)

    # admin commands

    def _administer(self, sq: SubmissionQueue, order: Order, sqe: bytes) -> Process:
        opcode = sqe[0]
        nsid, (d10, d11, _d12, d13, d14, d15) = struct.unpack_from("<L", sqe, 4)[0], struct.unpack_from("<6L", sqe, 40)
        if opcode == admin("create_io_cq"):
            self.make_cq(d10 & 0xFFFF, struct.unpack_from("<Q", sqe, 24)[0], (d10 >> 16) + 1, d11 >> 16 if d11 & 2 else None)
        elif opcode == admin("create_io_sq"):
            self.make_sq(d10 & 0xFFFF, struct.unpack_from("<Q", sqe, 24)[0], (d10 >> 16) + 1, self.cqs[d11 >> 16])
        elif opcode == admin("delete_io_sq"):
            yield from self._delete_sq(d10 & 0xFFFF)
        elif opcode == admin("delete_io_cq"):
            self.cqs.pop(d10 & 0xFFFF).group.alive = False
        elif opcode == admin("identify"):
            order.answer = self._identify(d10 & 0xFF, nsid)
        elif opcode == admin("format_nvm"):
            for one in self.namespaces:
                if nsid in (one.nsid, 0xFFFFFFFF):
                    one.format_as(d10 & 0x1F)
            yield int(self.rng.uniform(20, 200) * US)
        elif opcode == admin("set_features") and d10 & 0xFF == feature("host_memory_buffer"):
            self._buffer_group.alive = False
            if d11 & 1:
                data = yield from self.structure(d14 << 32 | d13, 16 * d15)
                page = PAGE
                entries = (struct.unpack_from("<QL", data, at) for at in range(0, 16 * d15, 16))
                self.buffer = [(address, page * count) for address, count in entries]
                self._buffer_group = Group()
                self.kernel.spawn(self._use_buffer(), self._buffer_group)
        elif opcode == admin("set_features") and d10 & 0xFF == feature("queues"):
            order.dword0 = 63 << 16 | 63
        if order.length:
            yield from self._move(order, sqe, order.to_drive)

    def _identify(self, cns: int, nsid: int) -> bytes:
        if cns == 0:
            return next(one for one in self.namespaces if one.nsid == nsid).identify()
        if cns == 1:
            return identify_controller(len(self.namespaces), bool(self.setup.sgl), 64 if self.setup.hmb else 0, 5)
        if cns == 2:
            return active_list(self.namespaces)
        return bytes(4096)

    def _delete_sq(self, qid: int) -> Process:
        """End the queue's commands: some with a CQE of status 08h, the others without one (NVMe, Delete I/O Submission Queue)."""
        sq = self.sqs.pop(qid)
        sq.group.alive = False
        waiting = set(self._asked)
        while not waiting.isdisjoint(self._asked):  # until what was asked for has come
            yield US
        for order in list(sq.running):
            if order not in {other for _, other in sq.cq.ready} and self.rng.random() < 0.5:
                order.deed.status = _SQ_DELETION
                self.finish(sq, order)
        while any(one is sq for one, _ in sq.cq.ready):
            yield int(self.rng.uniform(0.3, 1) * US)

    def raise_event(self) -> None:
        """Complete an Asynchronous Event Request: temperature above threshold (NVMe, Asynchronous Event Request)."""
        if self.events:
            sq, order = self.events.popleft()
            order.dword0 = 1 | 1 << 8 | 2 << 16
            self.finish(sq, order)

    # host memory buffer

    def _use_buffer(self) -> Process:
        """Read and write the host memory buffer, for as long as the host lends it."""
        rng, setup, link = self.rng, self.setup, self.link
        pace = int(10 ** rng.uniform(5.7, 7.3))
        while True:
            yield int(rng.expovariate(1 / pace)) + 10 * NS
            base, size = rng.choice(self.buffer)
            length = 4 if setup.hmb == "word" else rng.choice((64, 128, 512, 4096))
            address = base + rng.randrange(size // length) * length
            if rng.random() < 0.5:
                yield from self.read(address, length, "hmb")
                continue
            end = address + length
            while address < end:
                part = min(setup.mps, end - address)
                body = self.root.payload.take(part) or rng.randbytes(part)
                link.send(UP, packets.memory(False, address, part >> 2, self.device) + body)
                address += part
