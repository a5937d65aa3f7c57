"""A host driver: brings a controller up as Linux, SPDK or StorNVMe does, keeps its queues busy, and takes completions."""

from __future__ import annotations

import random
import struct
from collections import deque
from collections.abc import Generator
from typing import Any

from wattbell_spec.nvme import admin, feature

from tests.traffic import drive as registers
from tests.traffic import packets
from tests.traffic.drive import CMB, DOORBELLS, MSIX_TABLE, Drive
from tests.traffic.kernel import NS, US, Group, Kernel, Process, Signal
from tests.traffic.kinds import Setup
from tests.traffic.link import Link
from tests.traffic.memory import PAGE, Memory
from tests.traffic.orders import Buffers, Order, Workload
from tests.traffic.packets import DOWN, UP
from tests.traffic.root import DEVICE, Root
from tests.traffic.truth import Deed

_ADMIN_ENTRIES = 32
_TO_DRIVE = (admin("set_features"), admin("firmware_download"), admin("directive_send"))


class HostCq:
    """A CQ as the host has it."""

    def __init__(self, kernel: Kernel, qid: int, base: int, size: int, vector: int | None) -> None:
        self.qid = qid
        self.base = base
        self.size = size
        self.vector = vector
        """None: polled."""
        self.head = 0
        self.arrived: deque[tuple[Order, int]] = deque()
        self.came = Signal(kernel)
        self.taken: list[Deed] = []
        """Commands with CQEs that are taken and not yet acknowledged."""
        self.group = Group()


class HostSq:
    """An SQ as the host has it."""

    def __init__(self, kernel: Kernel, qid: int, base: int, size: int, cq: HostCq, entry: int, in_cmb: bool = False) -> None:
        self.qid = qid
        self.base = base
        self.size = size
        self.cq = cq
        self.entry = entry
        self.in_cmb = in_cmb
        self.tail = 0
        self.head = 0
        self.flying: dict[int, Order] = {}
        self.unannounced: list[Deed] = []
        self.room = Signal(kernel)
        self.group = Group()
        self.left = 0
        self.idle: list[int] = []
        self.generation: dict[int, int] = {}
        self.next_cid = 0

    def free(self) -> int:
        """Entries that may be written (NVMe, Full Queue)."""
        return (self.head - self.tail - 1) % self.size


class Host:
    """The driver of one controller."""

    def __init__(
        self, kernel: Kernel, link: Link, root: Root, memory: Memory, rng: random.Random, setup: Setup, drive: Drive, deeds: list[Deed]
    ) -> None:
        self.kernel = kernel
        self.link = link
        self.root = root
        self.memory = memory
        self.rng = rng
        self.setup = setup
        self.drive = drive
        self.deeds = deeds
        self.bar = drive.bar
        self.group = Group()
        self.sqs: dict[int, HostSq] = {}
        self.cqs: dict[int, HostCq] = {}
        self.style = setup.host
        self.finished = Signal(kernel)
        self.working = 0
        self._tag = 0
        self._buffers = Buffers(memory, rng, setup)
        self._workload = Workload(rng, setup, drive.namespaces, self._buffers)
        self._poll = rng.randrange(200 * NS, 5 * US)
        self._per_doorbell = rng.choice((1, 4, 64, 64))
        self._messages: list[tuple[int, int]] = []
        self._asserted = False
        self._handlers: dict[int, bool] = {}
        drive.interrupted = self._interrupted

    # registers and configuration space

    def _next_tag(self) -> int:
        self._tag = (self._tag + 1) % 32
        return self._tag

    def write(self, offset: int, data: bytes) -> int:
        """Write to BAR0; the time of the TLP."""
        start, delay = self.link.send(DOWN, packets.memory(False, self.bar + offset, len(data) // 4, DEVICE) + data)
        self.kernel.call(delay, self.root.group, self.drive.bar_write, offset, data)
        return start

    def read(self, offset: int, length: int) -> Generator[Any, Any, int]:
        """Read a register of BAR0."""
        tag, drive = self._next_tag(), self.drive
        _, delay = self.link.send(DOWN, packets.memory(True, self.bar + offset, length // 4, DEVICE, tag))
        yield delay + int(self.rng.uniform(100, 600) * NS)
        data = drive.bar_read(offset, length)
        _, delay = self.link.send(UP, packets.completion(length // 4, drive.device, DEVICE, tag, length, self.bar + offset) + data)
        yield delay + 50 * NS
        return int.from_bytes(data, "little")

    def config_read(self, register: int) -> Generator[Any, Any, int]:
        """Read a register of configuration space."""
        tag, drive = self._next_tag(), self.drive
        _, delay = self.link.send(DOWN, packets.configuration(False, register, DEVICE, drive.device, tag))
        yield delay + int(self.rng.uniform(100, 400) * NS)
        data = drive.config.read(register)
        _, delay = self.link.send(UP, packets.completion(1, drive.device, DEVICE, tag, 4, 0) + data)
        yield delay + 50 * NS
        return int.from_bytes(data, "little")

    def config_write(self, register: int, value: int, enables: int = 0xF) -> Generator[Any, Any, int]:
        """Write a register of configuration space; the time of the TLP."""
        tag, drive = self._next_tag(), self.drive
        data = struct.pack("<L", value)
        start, delay = self.link.send(DOWN, packets.configuration(True, register, DEVICE, drive.device, tag, enables) + data)
        yield delay + int(self.rng.uniform(100, 400) * NS)
        drive.config.write(register, data, enables)
        _, delay = self.link.send(UP, packets.completion(0, drive.device, DEVICE, tag, 4, 0))
        yield delay + 50 * NS
        return start

    # enumeration

    def enumerate(self) -> Process:
        """Walk configuration space, size and place BAR0, enable memory and bus mastering (PCI 3.0, 6.2.5.1; PCIe 7.5.1)."""
        config = self.drive.config
        for register in (0x00, 0x08, 0x0C, 0x34):
            yield from self.config_read(register)
        at = config.read(0x34)[0]
        while at:
            at = (yield from self.config_read(at)) >> 8 & 0xFF
        yield from self.config_write(0x04, 0, 0x3)
        for register, value in ((0x10, self.bar & 0xFFFFFFFF), (0x14, self.bar >> 32)):
            yield from self.config_read(register)
            yield from self.config_write(register, 0xFFFFFFFF)
            yield from self.config_read(register)
            yield from self.config_write(register, 0)
            if register == 0x14:
                yield from self.config_write(0x10, self.bar & 0xFFFFFFFF)
                yield from self.config_write(0x14, value)
        yield from self.restore()

    def restore(self) -> Process:
        """Command register, Device Control: maximum payload and read request (PCIe 7.5.3.4)."""
        setup, config = self.setup, self.drive.config
        code = {128: 0, 256: 1, 512: 2, 1024: 3, 2048: 4, 4096: 5}
        yield from self.config_write(config.device_control, 0x2810 & 0x0F1F | code[setup.mps] << 5 | code[setup.mrrs] << 12, 0x3)
        command = 0x0006 if setup.interrupts == "intx" and self.style != "spdk" else 0x0406
        yield from self.config_write(0x04, command, 0x3)

    def replace_bar(self) -> Process:
        """Write BAR0 again after a reset took it."""
        yield from self.config_write(0x10, self.bar & 0xFFFFFFFF)
        yield from self.config_write(0x14, self.bar >> 32)
        yield from self.restore()

    # interrupts

    def _draw_messages(self, count: int) -> None:
        rng, setup = self.rng, self.setup
        if setup.interrupts == "msi":
            base = rng.randrange(0x20, 0xC0) & ~(count - 1)
            address = 0xFEE0_0000 | rng.randrange(16) << 12
            if setup.remapped:  # VT-d 5.1.5.2: the data is the subhandle
                address, base = 0xFEE0_0000 | rng.randrange(1 << 10) << 10 | 1 << 4 | 1 << 3, 0
            self._messages = [(address, base | k) for k in range(count)]
            return
        if setup.remapped:
            handle = rng.randrange(1 << 8, 1 << 15)
            self._messages = [(0xFEE0_0000 | ((handle + k) & 0x7FFF) << 5 | 1 << 4 | 1 << 3, 0) for k in range(count)]
            return
        style = rng.choice(("cpus", "vectors", "its"))
        if style == "cpus":
            data = rng.randrange(0x20, 0xF0)
            self._messages = [(0xFEE0_0000 | k << 12, data) for k in range(count)]
        elif style == "vectors":
            numbers = rng.sample(range(0x20, 0xF0), count)
            self._messages = [(0xFEE0_0000 | (k % 4) << 12, 0x4000 | numbers[k]) for k in range(count)]
        else:
            self._messages = [(0x0808_0040, 0x100 + k) for k in range(count)]

    def enable_interrupts(self, count: int) -> Process:
        """Fill the MSI-X table (PCIe 7.7.2) or the MSI capability (PCIe 7.7.1), and enable it."""
        setup, config = self.setup, self.drive.config
        if self.style == "spdk" or setup.interrupts == "intx":
            return
        if setup.interrupts == "msi":
            count = 1 << (count - 1).bit_length()
            self._draw_messages(min(count, 32))
            address, data = self._messages[0]
            yield from self.config_write(config.msi + 4, address)
            yield from self.config_write(config.msi + 8, 0)
            yield from self.config_write(config.msi + 12, data, 0x3)
            order = len(self._messages).bit_length() - 1
            yield from self.config_write(config.msi, (0x0080 | 1 | order << 4 | 5 << 1) << 16, 0xC)
            return
        self._draw_messages(count)
        yield from self.config_read(config.msix + 4)  # where the table is (PCIe 7.7.2, Table Offset/Table BIR)
        yield from self.config_write(config.msix, 0xC000 << 16, 0xC)
        for number, (address, data) in enumerate(self._messages):
            at = MSIX_TABLE + 16 * number
            self.write(at, struct.pack("<L", address & 0xFFFFFFFF))
            self.write(at + 4, struct.pack("<L", address >> 32))
            self.write(at + 8, struct.pack("<L", data))
            self.write(at + 12, struct.pack("<L", 0))
        yield 200 * NS
        yield from self.config_write(config.msix, 0x8000 << 16, 0xC)

    def _interrupted(self, number: int | None) -> None:
        if number is None:
            self._asserted = False
            return
        if self.drive.config.delivery() == "intx":
            self._asserted = True
        if not self._handlers.get(number):
            self._handlers[number] = True
            self.kernel.spawn(self._handle(number), self.group, int(self.rng.expovariate(1 / self.setup.irq_delay)) + 100 * NS)

    def _handle(self, number: int) -> Process:
        """The interrupt handler: takes all CQEs there; with INTA as long as it is asserted."""
        self._handlers[number] = False
        while True:
            for cq in list(self.cqs.values()):
                if cq.vector == number or (cq.vector is not None and self._asserted):
                    yield from self._consume(cq)
            if not self._asserted:
                return
            yield int(self.rng.uniform(0.2, 2) * US)

    def _poller(self, cq: HostCq) -> Process:
        """Polls a CQ."""
        while True:
            if not cq.arrived:
                yield cq.came
            yield 20 * NS + int(self.rng.random() * self._poll)
            yield from self._consume(cq)

    # queues

    def _make_cq(self, qid: int, base: int, size: int, vector: int | None) -> HostCq:
        cq = self.cqs[qid] = HostCq(self.kernel, qid, base, size, vector)
        if vector is None:
            self.kernel.spawn(self._poller(cq), cq.group)
        return cq

    def _consume(self, cq: HostCq) -> Process:
        rng, since = self.rng, 0
        while cq.arrived:
            order, head = cq.arrived.popleft()
            cq.head = (cq.head + 1) % cq.size
            cq.taken.append(order.deed)
            sq = self.sqs.get(order.deed.qid)
            if sq is not None and sq.flying.pop(order.deed.cid, None) is not None:
                sq.head = head
                self._return_cid(sq, order.deed.cid)
                order.give_back(self.memory)
                sq.room.fire()
            if order.done is not None:
                order.done.fire()
            since += 1
            if since >= self._per_doorbell and cq.arrived:
                since = 0
                self._acknowledge(cq)
            yield 20 * NS + int(rng.random() * 200 * NS)
        if cq.taken:
            self._acknowledge(cq)

    def _ring(self, qid: int, is_cq: bool, value: int) -> int:
        """Write a doorbell; the time of the TLP."""
        offset = DOORBELLS + (2 * qid + is_cq) * (4 << self.setup.dstrd)
        if self.setup.doorbells != "enables" or self.rng.random() < 0.3:
            return self.write(offset, struct.pack("<L", value))
        garbage = self.rng.randrange(1 << 16)
        header = packets.memory(False, self.bar + offset, 1, DEVICE, first=0x3)
        start, delay = self.link.send(DOWN, header + struct.pack("<HH", value, garbage))
        self.kernel.call(delay, self.root.group, self.drive.doorbell, offset, value)
        return start

    def _both(self, qid: int) -> bool:
        """Write an SQ's tail and its CQ's head in one TLP, where they have something to say."""
        sq, cq = self.sqs.get(qid), self.cqs.get(qid)
        if self.setup.doorbells != "two" or not qid or sq is None or cq is None or sq.cq is not cq:
            return False
        if not (sq.unannounced and cq.taken) and self.rng.random() < 0.7:
            return False
        start = self.write(DOORBELLS + 8 * qid, struct.pack("<LL", sq.tail, cq.head))
        self._announced(sq, start)
        self._acknowledged(cq, start)
        return True

    def _announced(self, sq: HostSq, start: int) -> None:
        for deed in sq.unannounced:
            deed.doorbell = start
        sq.unannounced = []

    def _acknowledged(self, cq: HostCq, start: int) -> None:
        for deed in cq.taken:
            deed.head = start
            if self.cqs.get(cq.qid) is not cq:
                deed.may_lack.append("head")  # the queue's controller has been reset
        cq.taken = []

    def _acknowledge(self, cq: HostCq) -> None:
        if not self._both(cq.qid):
            self._acknowledged(cq, self._ring(cq.qid, True, cq.head))

    def _announce(self, sq: HostSq) -> None:
        if not self._both(sq.qid):
            self._announced(sq, self._ring(sq.qid, False, sq.tail))

    # commands

    def _cid(self, sq: HostSq) -> int:
        rng, flying = self.rng, sq.flying
        style = self.setup.cids
        if style in ("tag", "lifo"):
            if not sq.idle:
                sq.idle = [number for number in range(min(sq.size, 1024) - 1, -1, -1) if (number not in sq.generation or style == "lifo")]
                if style == "lifo":
                    sq.idle = [number for number in sq.idle if number not in flying]
                else:
                    sq.generation.update(dict.fromkeys(sq.idle, 0))
            number = sq.idle.pop()
            if style == "lifo":
                return number
            sq.generation[number] = sq.generation[number] + 1 & 0xF
            return sq.generation[number] << 12 | number
        cid = sq.next_cid
        while cid in flying or cid == 0xFFFF or style == "random":
            cid = int(rng.random() * 0xFFFF) if style == "random" else (cid + 1) % 0xFFFF
            if style == "random" and cid not in flying:
                break
        sq.next_cid = (cid + 1) % 0xFFFF
        return cid

    def _return_cid(self, sq: HostSq, cid: int) -> None:
        if self.setup.cids == "tag":
            sq.idle.append(cid & 0xFFF)
        elif self.setup.cids == "lifo":
            sq.idle.append(cid)

    def _queue(self, sq: HostSq, order: Order) -> None:
        """Put a command into its SQ, without a doorbell."""
        deed = order.deed
        deed.sequence = len(self.deeds)
        self.deeds.append(deed)
        sq.flying[deed.cid] = order
        self.drive.orders[sq.qid, deed.cid] = self.drive.submitted[sq.qid, deed.cid] = order
        order.seen = self._seen
        sqe = order.sqe if sq.entry == 64 else order.sqe + self.rng.randbytes(sq.entry - 64)
        if sq.in_cmb:
            deed.named = self.write(sq.base - self.bar + sq.entry * sq.tail, sqe)
        else:
            self.memory.write(sq.base + sq.entry * sq.tail, sqe)
        sq.tail = (sq.tail + 1) % sq.size
        sq.unannounced.append(deed)

    def _seen(self, order: Order, head: int) -> None:
        sq = self.sqs.get(order.deed.qid)
        cq = sq.cq if sq is not None else None
        if cq is not None:
            cq.arrived.append((order, head))
            cq.came.fire()

    def make_admin(self, opcode: int, nsid: int = 0, words: tuple[int, ...] = (), length: int = 0, prp1: int = 0) -> Order:
        """An admin command. ``length``: bytes of a data buffer; ``prp1``: of a structure instead."""
        sq = self.sqs[0]
        cid = self._cid(sq)
        words = (*words, *(0,) * (6 - len(words)))
        deed = Deed(0 if self.drive.function == 0 else 1, 0, cid, opcode, nsid, words[0], words[1])
        order = Order(deed, b"", length=length, to_drive=opcode in _TO_DRIVE)
        prp2 = 0
        if length:
            prp1, prp2 = self._buffers.prp(order, length, 0 if self.rng.random() < 0.8 or length > PAGE else 64)
        order.sqe = struct.pack("<BBHLQQQQ6L", opcode, 0, cid, nsid, 0, 0, prp1, prp2, *words)
        return order

    def admin(self, opcode: int, nsid: int = 0, words: tuple[int, ...] = (), length: int = 0, prp1: int = 0) -> Generator[Any, Any, Deed]:
        """Run an admin command to its end."""
        sq = self.sqs[0]
        while not sq.free():
            yield sq.room
        order = self.make_admin(opcode, nsid, words, length, prp1)
        order.done = Signal(self.kernel)
        self._queue(sq, order)
        yield 50 * NS + int(self.rng.random() * 300 * NS)
        if sq.unannounced:
            self._announce(sq)
        yield order.done
        return order.deed

    def expect_events(self, count: int) -> None:
        """Submit Asynchronous Event Requests; their CQEs may never come."""
        sq = self.sqs[0]
        for _ in range(min(count, sq.free())):
            self._queue(sq, self.make_admin(admin("async_event_request")))
        if sq.unannounced:
            self._announce(sq)

    def worker(self, sq: HostSq) -> Process:
        """Keeps an I/O queue busy until ``left`` is 0."""
        rng, setup = self.rng, self.setup
        function = 0 if self.drive.function == 0 else 1
        while sq.left > 0:
            room = min(setup.depth - len(sq.flying), sq.free(), sq.left)
            if room <= 0:
                yield sq.room
                continue
            batch = min(room, 1 + int(rng.random() * setup.batch))
            for _ in range(batch):
                self._queue(sq, self._workload.next(function, sq.qid, self._cid(sq)))
            sq.left -= batch
            yield 30 * NS + int(rng.random() * 300 * NS)
            if sq.unannounced:
                self._announce(sq)
            yield int(rng.expovariate(1 / setup.think))
        while sq.flying:
            yield sq.room
        self.working -= 1
        self.finished.fire()

    # bringing up

    def start(self) -> Process:
        """From an enumerated function to I/O queues, as the driver does."""
        setup, style = self.setup, self.style
        rng = self.rng
        if style == "spdk":
            yield from self.read(registers.CAP, 8)
            control = yield from self.read(registers.CC, 4)
            yield from self.read(registers.CSTS, 4)
        else:
            yield from self.read(registers.CSTS, 4)
            yield from self.enable_interrupts(1)
            yield from self.read(registers.CAP, 4)
            yield from self.read(registers.CAP + 4, 4)
            yield from self.read(registers.VS, 4)
            control = 1
        if control & 1:
            self.write(registers.CC, struct.pack("<L", 0x0046_0000))
            yield from self._until_ready(0)
        asq, acq = self.memory.contiguous(1), self.memory.contiguous(1)
        self.write(registers.AQA, struct.pack("<L", (_ADMIN_ENTRIES - 1) * 0x1_0001))
        for offset, value in ((registers.ASQ, asq), (registers.ACQ, acq)):
            if style == "spdk" or (style == "stornvme" and rng.random() < 0.5):
                self.write(offset, struct.pack("<Q", value))
            else:
                self.write(offset, struct.pack("<L", value & 0xFFFFFFFF))
                self.write(offset + 4, struct.pack("<L", value >> 32))
        entry = {64: 6, 128: 7}[setup.sqe_bytes]
        enable = 4 << 20 | entry << 16 | 1
        if style == "linux":  # with EN = 0 first, and again with EN = 1, as since Linux 5.18
            self.write(registers.CC, struct.pack("<L", enable & ~1))
        self.write(registers.CC, struct.pack("<L", enable))
        self._asserted = False
        self._handlers = {}
        self.group = Group()
        vector = None if style == "spdk" else 0
        cq = self._make_cq(0, acq, _ADMIN_ENTRIES, vector)
        self.sqs[0] = HostSq(self.kernel, 0, asq, _ADMIN_ENTRIES, cq, 64)
        yield from self._until_ready(1)
        yield from self._identify()
        yield from self._make_queues()
        yield from self._lend_buffer()
        if setup.aers and rng.random() < 0.9:
            self.expect_events(setup.aers)
        yield US

    def _until_ready(self, wanted: int) -> Process:
        while (yield from self.read(registers.CSTS, 4)) & 1 != wanted:
            yield int(self.rng.uniform(0.5, 3) * US)

    def _identify(self) -> Process:
        yield from self.admin(admin("identify"), 0, (1,), PAGE)
        yield from self.admin(admin("set_features"), 0, (feature("queues"), 0x3F_003F))
        yield from self.admin(admin("identify"), 0, (2,), PAGE)
        for space in self.drive.namespaces:
            yield from self.admin(admin("identify"), space.nsid, (0,), PAGE)
        if self.rng.random() < 0.5:
            yield from self.admin(admin("get_log_page"), 0xFFFFFFFF, (2 | 127 << 16,), 512)

    def _make_queues(self) -> Process:
        setup, style = self.setup, self.style
        cq_count = max(1, setup.queues // 3) if setup.share_cq else setup.queues
        vectors = cq_count + 1
        if style != "spdk" and setup.interrupts == "msix":
            yield from self.config_write(self.drive.config.msix, 0, 0xC)
            yield from self.enable_interrupts(vectors)
        elif style != "spdk" and setup.interrupts == "msi":
            yield from self.config_write(self.drive.config.msi, (0x0080 | 5 << 1) << 16, 0xC)
            yield from self.enable_interrupts(self.rng.choice((1, vectors)))
        if style == "stornvme":
            for qid in range(1, cq_count + 1):
                yield from self.create_cq(qid)
            for qid in range(1, setup.queues + 1):
                yield from self.create_sq(qid, self.cqs[1 + (qid - 1) % cq_count])
        else:
            for qid in range(1, setup.queues + 1):
                yield from self.create_cq(qid)
                yield from self.create_sq(qid, self.cqs[qid])

    def create_cq(self, qid: int, entries: int = 0) -> Process:
        """Create I/O Completion Queue (NVMe, Create I/O Completion Queue)."""
        setup = self.setup
        entries = entries or setup.cq_entries or max(setup.entries, setup.depth * (setup.queues if setup.share_cq else 1) + 1)
        polled = self.style == "spdk" or self.rng.random() < setup.polled
        base = self.memory.contiguous(-(-16 * entries // PAGE))
        vector = None if polled else qid % max(1, len(self._messages)) if setup.interrupts != "intx" else 0
        flags = (vector or 0) << 16 | (0 if polled else 2) | 1
        yield from self.admin(admin("create_io_cq"), 0, (qid | (entries - 1) << 16, flags), prp1=base)
        self._make_cq(qid, base, entries, vector)

    def create_sq(self, qid: int, cq: HostCq, entries: int = 0) -> Process:
        """Create I/O Submission Queue (NVMe, Create I/O Submission Queue)."""
        setup = self.setup
        entries = entries or setup.entries
        in_cmb = setup.cmb and qid % 2 == 0
        if in_cmb:
            base = self.bar + CMB + qid * 0x1_0000
        else:
            base = self.memory.contiguous(-(-setup.sqe_bytes * entries // PAGE))
        yield from self.admin(admin("create_io_sq"), 0, (qid | (entries - 1) << 16, cq.qid << 16 | 1), prp1=base)
        self.sqs[qid] = HostSq(self.kernel, qid, base, entries, cq, setup.sqe_bytes, in_cmb)

    def _lend_buffer(self) -> Process:
        """Lend a host memory buffer in several ranges (NVMe, Host Memory Buffer)."""
        if not self.setup.hmb:
            return
        rng = self.rng
        ranges = [(rng.choice((8, 16)), 0) for _ in range(rng.randrange(1, 5))]
        body = b"".join(struct.pack("<QL4x", self.memory.span(count)[0], count) for count, _ in ranges)
        page = self.memory.structure()
        self.memory.write(page, body)
        total = sum(count for count, _ in ranges)
        words = (feature("host_memory_buffer"), 1, total, page & 0xFFFFFFFF, page >> 32, len(ranges))
        yield from self.admin(admin("set_features"), 0, words)

    # the end of a controller's life

    def hold(self) -> None:
        """Submit nothing more; commands in flight stay."""
        for sq in self.sqs.values():
            sq.group.alive = False

    def abandon(self, at: int) -> list[Deed]:
        """Account for all that a reset at `at` ends, and drop it. The commands that were in flight."""
        ended = []
        self.group.alive = False
        self.group = Group()
        for cq in self.cqs.values():
            cq.group.alive = False
        for sq in self.sqs.values():
            sq.group.alive = False
            for order in sq.flying.values():
                end_deed(order.deed, at, None)
                ended.append(order.deed)
                order.give_back(self.memory)
        self.sqs, self.cqs = {}, {}
        for deed in self.deeds[-20_000:]:
            if deed.head is not None and deed.head > at:
                deed.may_lack.append("head")  # the controller had been reset
        return [deed for deed in ended if deed.reset is not None]


def end_deed(deed: Deed, at: int, until: int | None) -> None:
    """Note that a reset, or its queue's deletion, ended a command. A CQE before the reset stands."""
    if deed.cqe is None or deed.cqe > at:
        deed.reset, deed.reset_until = at, until


__all__ = ["Host", "HostCq", "HostSq", "end_deed"]
