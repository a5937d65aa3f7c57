"""A host and a drive that talk NVMe over a :class:`link.Link`, and the expected output of a tracker.

The model makes the traffic, so it knows the tick of every phase of every command; `records` and `events` are what it
expects, field by field. It shares no code with the gateware: field values come from the NVMe specification, and
from docs of the wire format.
"""

from __future__ import annotations

import random
import struct
from functools import partial

from tests.gateware.nvme.expect import DSM, READ, SHADOW, WRITE, WRITE_ZEROES, Command, CompletionQueue, Queue, expected_record, unsure
from tests.gateware.nvme.link import DOWN, NEIGHBOUR, UP, Clockwork, Link
from tests.gateware.nvme.memory import Memory

FEATURES = {0x01: 0, 0x02: 0, 0x07: 0, 0x0C: 256, 0x0E: 8, 0xD0: 0}
"""Features, and bytes of their data (NVMe, Set Features); the last is a marker."""


def due_of_admin(opcode: int, cdw: tuple[int, ...]) -> int | None:
    """Bytes of data of an admin command by its dwords from 10 on, where the specification fixes them."""
    first, second = (*cdw, 0, 0)[:2]
    if opcode & 3 == 0 or opcode in (0x01, 0x05):
        return 0
    return {
        0x02: 4 * ((first >> 16 | (second & 0xFFFF) << 16) + 1),
        0x06: 4096,
        0x09: (FEATURES | {0x0D: 0}).get(first & 0xFF),
        0x0A: FEATURES.get(first & 0xFF),
        0x0D: {0: 4096, 1: 0}.get(first & 0xF),
        0x11: 4 * (first + 1),
        0x15: 4096,
        0x81: second,
    }.get(opcode)


class Model(Memory):
    """`bar0`, `stride`: the drive's. `tags`: tags it may use. `mps`: CC.MPS. `lba`: logical block size in bytes, in namespaces that are not
    in `lbas`."""

    def __init__(
        self,
        clockwork: Clockwork,
        link: Link,
        *,
        bar0: int,
        stride: int,
        tags: int = 1024,
        mps: int = 0,
        lba: int = 512,
        lbas: dict[int, int] | None = None,
    ) -> None:
        self.free_tags = list(range(tags))
        clockwork.random.shuffle(self.free_tags)
        super().__init__(clockwork.random, 4096 << mps)
        self.mps, self.lba, self.lbas = mps, lba, lbas or {}
        self.clock, self.link = clockwork, link
        self.bar0, self.stride = bar0, stride
        self.queues: dict[int, Queue] = {}
        self.cqs: dict[int, CompletionQueue] = {}
        self.guessed = True  # the tracker does not know the host's messages
        self.turn = 0  # the operating system assigns messages to vectors
        self.tags = tags
        self.reads = min(128, tags - 8)  # data reads in progress at once; any of the tags may be used
        self.ended: list[Command] = []
        self.events: list[tuple[int, str, int, int, int]] = []
        self.shadow = False
        self.elide = 0.0
        self.lazy = 0.0  # CQ head doorbells that are deferred to a later one
        self.mps_bytes = 128
        self.boundary = 64  # of read completions, in bytes
        self.cqes = 1  # written in one TLP, at most
        self.coalesce = 3000  # highest interrupt delay in ticks
        self.list_read, self.list_step, self.reread = 256, 8, 0.0  # PRP lists: longest read, its granularity, again
        self.brief = False  # of each page's data, only one TLP of at most 64 bytes moves
        self.ends = False  # and one at its end
        # Writes whose data is 64-bit numbers below 2^20, which except for their low bits could be addresses.
        self.small, self.numbers = 0.0, random.Random(1)
        self.poll = 0.0
        self.fetch_burst = 8
        self.fetch_pause = 0  # ticks between fetches of a queue
        self.work = (500, 20000)
        self.live: set[Command] = set()
        self.limit = 24
        self.cid_step, self.cid_count = 0x1003, 1 << 16
        self.nsids: tuple[int, ...] = (1, 2, 0xFFFFFFFF, 0x10000, 0xFFFE, 0xFFFD)
        self.blocks: dict[int, int] = {}  # bytes of a block in the data buffer, of namespaces whose format the tracker knows
        self.interleaved: set[int] = set()  # those of them with metadata behind each block: with PRACT its length is not known
        self.left_over = 0.0  # one-page commands that leave the previous content of PRP2

    # --- registers ------------------------------------------------------------------------------------------------
    def register(self, offset: int, data: bytes) -> int:
        return self.link.write(DOWN, self.bar0 + offset, data)

    def doorbell(self, qid: int, cq: int, value: int) -> int:
        return self.register(0x1000 + (2 * qid + cq) * (4 << self.stride), struct.pack("<L", value))

    def enumerate_bus(self) -> None:
        """Writes all ones and then the address to BAR0, as firmware does."""
        low, high = self.bar0 & 0xFFFFFFFF, self.bar0 >> 32
        for register, value in ((0x10, low | 4), (0x14, high)):
            self.link.config_write(register, 0xFFFFFFFF)
            if self.random.random() < 0.5:
                self.link.config_write(register, 0)
            tick = self.link.config_write(register, value)
            if register == 0x10 or high:
                shown = (low if register == 0x10 else self.bar0) >> 12
                self.events.append((tick, "BAR0", 0, 0, shown & 0xFFFFFFFF))
        self.clock.now += 2000

    def set_messages(self, vectors: int = 8) -> None:
        """Show the capability of MSI-X to the tracker, and fill the table, behind the enumeration."""
        for register, value in ((0x34, 0x60), (0x60, 63 << 16 | 0x11), (0x64, 0x2000)):
            self.link.config_read(register, value, self.random.randrange(256))
        for vector in range(vectors):
            message = vector + self.turn
            for word, value in enumerate((0xFEE00000 + (message << 12), 0, 0x4020 + message, 0)):
                self.register(0x2000 + 16 * vector + 4 * word, struct.pack("<L", value))
        self.link.config_write(0x60, 0x8000 << 16)
        self.clock.now += 1000
        self.guessed = False

    def read_cap(self) -> None:
        cap = struct.pack("<Q", 0x0000_0030_3C03_3FFF & ~(0xF << 32) | self.stride << 32)
        tag = self.random.randrange(256)
        if self.random.random() < 0.5:
            self.link.read(DOWN, self.bar0, 8, tag)
            self.link.read(DOWN, self.bar0 + 0x20, 8, tag, NEIGHBOUR)  # its tags are its own
            self.clock.now += 300
            other = struct.pack("<LL", self.stride + 1, self.stride + 1)
            self.link.completion(UP, self.bar0 + 0x20, other, tag, 8, NEIGHBOUR)
            self.link.completion(UP, self.bar0, cap, tag, 8)
        else:
            for offset in (0, 4):
                self.link.read(DOWN, self.bar0 + offset, 4, tag)
                self.clock.now += 300
                self.link.completion(UP, self.bar0 + offset, cap[offset : offset + 4], tag, 4)
                self.clock.now += 100
        self.clock.now += 1000

    def enable(self, sq_size: int, cq_size: int, wide: bool) -> None:
        """Set up the admin queue and CC.EN = 1."""
        sq, cq = self.contiguous(sq_size * 64), self.contiguous(cq_size * 16)
        self.register(0x24, struct.pack("<L", cq_size - 1 << 16 | sq_size - 1))
        for offset, base in ((0x28, sq), (0x30, cq)):
            if wide:
                self.register(offset, struct.pack("<Q", base))
            else:
                self.register(offset, struct.pack("<L", base & 0xFFFFFFFF))
                self.register(offset + 4, struct.pack("<L", base >> 32))
        tick = self.register(0x14, struct.pack("<L", 0x00460001 | self.mps << 7))
        self.events += [
            (tick, "CC_EN", 1, 0, 0x00460001 | self.mps << 7),
            (tick, "TRACKER_RESET", 2, 0, 0),
            (tick, "QUEUE_CREATED", 1, 0, cq_size),
            (tick, "QUEUE_CREATED", 0, 0, sq_size),
        ]
        self.cqs = {0: CompletionQueue(0, cq, cq_size, 0)}
        self.queues = {0: Queue(0, sq, sq_size, self.cqs[0])}
        self.shadow = False
        self.clock.now += 30000

    def disable(self) -> None:
        """CC.EN = 0: commands in flight are aborted at once."""
        tick = self.register(0x14, struct.pack("<L", 0x00460000))
        self.events += [(tick, "CC_EN", 0, 0, 0x00460000), (tick, "TRACKER_RESET", 2, 0, 0)]
        self.kill(tick, None)
        self.clock.now += 30000

    def kill(self, tick: int, queue: Queue | None) -> None:
        """The commands of a queue (or all) end at `tick` without a completion."""
        for q in [queue] if queue else [*self.queues.values(), *self.cqs.values()]:
            q.alive = False
        for command in list(self.live):
            open_ = queue is command.queue and command.ticks.get("cqe", tick + 1) > tick
            if queue is None or open_:
                command.killed = tick
                self.finish(command)
                if open_ and all(command is not held for held, _ in queue.cq.held):
                    queue.cq.in_flight -= 1

    # --- commands -------------------------------------------------------------------------------------------------
    def sqe(self, opcode: int, cid: int, nsid: int, prp1: int, prp2: int, cdw: tuple[int, ...]) -> bytes:
        words = list(cdw) + [self.random.getrandbits(32) if len(cdw) < 6 else 0] * (6 - len(cdw))
        return struct.pack("<BBHL8x8xQQ6L", opcode, 0, cid, nsid, prp1, prp2, *words)

    def new_cid(self, q: Queue) -> int:
        used = {c.cid for c in self.live if c.qid == q.qid}
        while True:
            q.cids += 1
            cid = (q.cids % self.cid_count * self.cid_step) & 0xFFFF
            if cid not in used:
                return cid

    def admin(self, opcode: int, *, cdw=(), prp1: int = 0, length: int = 0, status: int = 0, done=None) -> Command:
        q = self.queues[0]
        cid = self.new_cid(q)
        command = Command(0, cid, opcode, self.sqe(opcode, cid, 0, prp1, 0, cdw), nsid=0, prp1=prp1, length=length)
        command.status, command.done = status, done
        command.due = due_of_admin(opcode, cdw)
        command.record = (cdw[0] if cdw else 0, cdw[1] if len(cdw) > 1 else 0)
        command.sqe = self.sqe(opcode, cid, 0, prp1, 0, (*cdw, 0, 0, 0, 0, 0, 0)[:6])
        command.pages = [prp1] if length else []
        self.submit(command)
        return command

    def io(
        self,
        qid: int,
        opcode: int,
        blocks: int = 8,
        slba: int | None = None,
        done=None,
        offset: int | None = None,
        buffer: int | None = None,
    ) -> Command:
        """A command of the NVM command set with data in pages of its own, at `offset` in the first, or at `buffer`."""
        r, q = self.random, self.queues[qid]
        cid = self.new_cid(q)
        slba = r.getrandbits(44) if slba is None else slba
        nsid = r.choice(self.nsids)
        prp2 = 0
        command = Command(qid, cid, opcode, b"", nsid=nsid, done=done)
        command.due = None if opcode & 3 else 0
        if opcode in (READ, WRITE):
            command.length = blocks * self.lbas.get(nsid, self.lba)
            command.due = blocks * self.blocks[nsid] if nsid in self.blocks else None
            if buffer is not None:
                offset, command.own_pages = buffer % self.page, False
            elif offset is None:
                offset = r.choice((0, 0, r.randrange(self.page // 4) * 4))
            count = -(-(offset + command.length) // self.page)
            if buffer is not None:
                pages = [buffer - offset + self.page * n for n in range(count)]
            else:
                pages = self.pages(count, scattered=True)
            command.prp1 = pages[0] + offset
            command.pages = [command.prp1, *pages[1:]]
            if count == 1 and r.random() < self.left_over:
                # Commands whose pages cannot be in doubt: of two doubtful claims to a page, nobody can tell which is right.
                sure = [c for c in self.in_flight() if c.opcode not in (READ, WRITE) or self.lbas.get(c.nsid, self.lba) == 512]
                prp2 = command.left_over = r.choice([0, *(a & ~(self.page - 1) for c in sure for a in c.pages)])
            elif count == 2:
                prp2 = pages[1]
            elif count > 2:
                prp2 = self.prp_lists(command, pages[1:])
        elif opcode == DSM:
            number = r.choice((1, 2, 5, 7, 20, 256) if r.random() < 0.1 else (1, 2, 5))
            parts = [(r.getrandbits(32), r.randrange(1 << 16), r.getrandbits(44)) for _ in range(number)]
            command.ranges = b"".join(struct.pack("<LLQ", *p) for p in parts)
            command.due = command.length = len(command.ranges)
            offset = r.randrange(self.page // 16) * 16
            pages = self.pages(-(-(offset + command.length) // self.page))
            command.prp1 = pages[0] + offset
            command.pages = [command.prp1, *pages[1:]]
            prp2 = pages[1] if len(pages) > 1 else 0
            command.record = (parts[0][2] & (1 << 40) - 1, sum(p[1] for p in parts) & 0xFFFFFFFF)
        if opcode in (READ, WRITE, WRITE_ZEROES):
            cdw = (slba & 0xFFFFFFFF, slba >> 32, blocks - 1 | r.getrandbits(8) << 24)
            command.record = (slba & (1 << 40) - 1, blocks)
            if opcode != WRITE_ZEROES and nsid in self.interleaved and cdw[2] >> 29 & 1:
                command.due = None
        elif opcode == DSM:
            cdw = (number - 1, 4, 0)
        else:
            cdw = (0, 0, 0)
        command.sqe = self.sqe(opcode, cid, nsid, command.prp1, prp2, (*cdw, 0, 0, 0))
        self.submit(command)
        return command

    def in_flight(self) -> list[Command]:
        """`live` in a deterministic order."""
        return sorted(self.live, key=lambda c: (c.qid, c.cid))

    def claimed(self) -> set[int]:
        return {c.left_over for c in self.live if c.left_over}

    def submit(self, command: Command) -> None:
        q = self.queues[command.qid]
        assert self.room(q.qid) > 0, "the caller keeps to the queue's size"
        q.in_flight += 1
        q.cq.in_flight += 1
        self.live.add(command)
        command.queue = q
        q.entries[q.tail] = command
        q.tail = (q.tail + 1) % q.size

    def room(self, qid: int) -> int:
        q = self.queues[qid]
        return min(q.size - 1 - q.in_flight, q.cq.size - 1 - q.cq.in_flight - len(q.cq.unrung))

    def ring(self, qid: int) -> None:
        """Rings the SQ tail doorbell for everything submitted."""
        q = self.queues[qid]
        if q.rung == q.tail:
            return
        eliding = self.shadow and qid
        tick = None
        if not (eliding and self.random.random() < self.elide):
            tick = self.doorbell(qid, 0, q.tail)
        index = q.rung
        while index != q.tail:
            q.entries[index].ticks["doorbell"] = self.clock.now if eliding else tick
            if eliding:
                q.entries[index].flags |= SHADOW
            index = (index + 1) % q.size
        q.rung = q.tail
        tail = q.tail

        q.rings += 1
        number = q.rings

        def heard() -> None:
            if number > q.heard:  # a shadow doorbell may overtake one rung on the bus
                q.heard, q.bell = number, tail
            self.clock.after(self.random.randrange(100, 2000), lambda: self.fetch(q))

        self.later(tick, 0, heard)

    def later(self, tick: int | None, delay: int, what) -> None:
        """Runs `what` at `delay` after a TLP put on the wire with `tick` (possibly in the future) has passed."""
        self.clock.after(max(0, (tick or 0) - self.clock.now) + 100 + delay, what)

    # --- the drive ------------------------------------------------------------------------------------------------
    def read_host(self, address: int, data: bytes, each, note=None, offset: int = 0, limit: int = 512) -> None:
        """Reads `data` at `address` in requests of at most `limit` bytes; calls `each(offset, tick, part)` per completion."""
        while offset < len(data):
            if self.tags - len(self.free_tags) >= self.reads:
                self.clock.after(500, lambda at=offset: self.read_host(address, data, each, note, at, limit))
                return
            size = min(limit, len(data) - offset, 4096 - (address + offset) % 4096)
            self.read_request(address + offset, data[offset : offset + size], offset, each, note)
            offset += size

    def read_request(self, address: int, data: bytes, base: int, each, note=None) -> int:
        """Calls `note(offset, tick, length)` when a completion is put on the wire, `each` when it has arrived."""
        tag = self.free_tags.pop(0)
        tick = self.link.read(UP, address, len(data), tag)

        def complete(at: int) -> None:
            # Completions end at multiples of the read completion boundary, or at the end.
            cut = self.boundary
            step = cut * self.random.choice((1, 1, 2, 4))
            end = min(len(data), (address + at + step) // cut * cut - address)
            part = data[at:end]
            seen = self.link.completion(DOWN, address + at, part, tag, len(data) - at)
            if note:
                note(base + at, seen, len(part))
            if end < len(data):
                self.clock.after(self.random.choice((0, 1, 50, 400)), lambda: complete(end))
                self.later(seen, 0, lambda: each(base + at, seen, part))
            else:
                self.later(seen, 0, lambda: (self.free_tags.append(tag), each(base + at, seen, part)))

        self.later(tick, self.random.randrange(250, 1500), lambda: complete(0))
        return tick

    def fetch(self, q: Queue) -> None:
        while q.alive and q.head != q.bell:
            if not self.free_tags:
                self.clock.after(300, lambda: self.fetch(q))
                return
            ahead = (q.bell - q.head) % q.size
            count = min(self.random.randint(1, self.fetch_burst), ahead, q.size - q.head)
            address = q.base + 64 * q.head
            count = min(count, (4096 - address % 4096) // 64)
            commands = [q.entries[q.head + i] for i in range(count)]
            data = b"".join(c.sqe for c in commands)

            def note(offset: int, tick: int, length: int, commands=commands) -> None:
                for command in commands[offset // 64 : (offset + length) // 64]:
                    command.ticks["sqe"] = tick

            def each(offset: int, _tick: int, part: bytes, commands=commands) -> None:
                for command in commands[offset // 64 : (offset + len(part)) // 64]:
                    self.clock.after(self.random.randrange(*self.work), partial(self.execute, q, command))

            tick = self.read_request(address, data, 0, each, note)
            for command in commands:
                command.ticks["fetch"] = tick
            q.head = (q.head + count) % q.size
            if self.fetch_pause:
                self.clock.after(self.fetch_pause, lambda: self.fetch(q))
                return

    def execute(self, q: Queue, command: Command) -> None:
        if not q.alive:
            return
        if command.status and command.opcode in (READ, WRITE):
            self.complete(q, command)
        elif command.lists:
            self.walk_lists(q, command, 0)
        else:
            self.move(q, command)

    def walk_lists(self, q: Queue, command: Command, number: int) -> None:
        if not q.alive:
            return
        if number == len(command.lists):
            self.move(q, command)
            return
        address, content = command.lists[number]
        content = self.behind(address, content)
        left = [len(content)]

        def each(_offset: int, _tick: int, part: bytes) -> None:
            left[0] -= len(part)
            if left[0] == 0:
                self.clock.after(400, lambda: self.walk_lists(q, command, number + 1))

        again = self.reread and self.random.random() < self.reread
        self.read_host(address, content, (lambda *_: None) if again else each, limit=self.list_read)
        if again:
            self.clock.after(100, lambda: self.read_host(address, content, each, limit=self.list_read))

    def behind(self, address: int, content: bytes) -> bytes:
        """Data that a drive reads if it fetches a list up to a multiple of `list_step`: beyond its end, leftovers of others."""
        left = (-(address + len(content)) % self.list_step) // 8
        others = [a & ~(self.page - 1) for c in self.in_flight() for a in c.pages]
        return content + b"".join(struct.pack("<Q", self.random.choice(others)) for _ in range(left))

    def parts(self, command: Command) -> list[tuple[int, int, int]]:
        """(address, offset in the data, length) of the part of the data in each page."""
        out, offset = [], 0
        for address in command.pages:
            size = min(command.length - offset, self.page - address % self.page)
            out.append((address, offset, size))
            offset += size
        return out

    def moved(self, command: Command) -> list[tuple[int, int, int]]:
        """The `parts` that go over the bus."""
        brief = self.brief and not command.ranges
        out = [(a, o, min(n, 64 - a % 64) if brief else n) for a, o, n in self.parts(command)]
        if brief and self.ends:
            for (_, _, moved), (a, o, n) in zip(list(out), self.parts(command), strict=True):
                last = max(moved, (a + n - 1) // 64 * 64 - a)
                out += [(a + last, o + last, n - last)] if last < n else []
        return out

    def move(self, q: Queue, command: Command) -> None:
        """Transfers the data, then completes."""
        if not q.alive:
            return
        if not command.pages or not command.length:
            self.complete(q, command)
            return
        if command.opcode in (READ, 0x06) or (command.qid == 0 and command.opcode & 3 == 2):
            for address, offset, size in self.moved(command):
                at = 0
                while at < size:
                    step = min(size - at, self.mps_bytes - (address + at) % self.mps_bytes)
                    data = command.ranges[offset + at : offset + at + step] or self.random.randbytes(step)
                    tick = self.link.write(UP, address + at, data)
                    command.data.append(tick)
                    command.amounts.append((tick, step))
                    at += step
            self.later(tick, self.random.randrange(10, 500), lambda: self.complete(q, command))
            return
        parts = self.moved(command)
        left = [sum(size for _, _, size in parts)]

        def note(_offset: int, tick: int, length: int) -> None:
            command.data.append(tick)
            command.amounts.append((tick, length))

        def each(_offset: int, _tick: int, part: bytes) -> None:
            left[0] -= len(part)
            if left[0] == 0:
                self.clock.after(self.random.randrange(100, 5000), lambda: self.complete(q, command))

        for address, offset, size in parts:
            data = command.ranges[offset : offset + size] or self.random.randbytes(size)
            if not command.ranges and self.numbers.random() < self.small:
                data = b"".join(struct.pack("<Q", self.numbers.randrange(1 << 20) | 1) for _ in range(size // 8)) + data[size // 8 * 8 :]
            self.read_host(address, data, each, note)

    def complete(self, q: Queue, command: Command) -> None:
        if not q.alive:
            return
        cq = q.cq
        result = self.random.getrandbits(32)
        cqe = struct.pack("<LLHHHH", result, 0, q.head, q.qid, command.cid, command.status << 1 | cq.phase)
        cq.held.append((command, cqe))
        at = cq.base + 16 * cq.tail
        cq.tail = (cq.tail + 1) % cq.size
        cq.phase ^= cq.tail == 0
        first = at - 16 * (len(cq.held) - 1)
        if len(cq.held) == self.cqes or cq.tail == 0 or (at + 16) % self.mps_bytes == 0:
            self.post(cq, first)
        elif len(cq.held) == 1:
            self.clock.after(1500, lambda: self.post(cq, at) if cq.held and cq.held[0][0] is command else None)

    def post(self, cq: CompletionQueue, address: int) -> None:
        """Write the CQEs held, the first at `address`."""
        held, cq.held = cq.held, []
        if not cq.alive:
            return
        tick = self.link.write(UP, address, b"".join(cqe for _, cqe in held))
        for command, _ in held:
            self.posted(cq, command, tick)

    def posted(self, cq: CompletionQueue, command: Command, tick: int) -> None:
        command.ticks["cqe"], command.guessed = tick, self.guessed
        cq.waiting.append(command)
        command.shown_early = bool(self.shadow and cq.cqid)
        poll, delay = self.random.random() < self.poll, self.random.randrange(50, self.coalesce)

        def seen() -> None:
            cq.unseen.append(command)
            if poll:
                self.clock.after(delay, lambda: self.take(cq))
            elif not cq.interrupt_set:
                cq.interrupt_set = True
                self.clock.after(delay, lambda: self.interrupt(cq))

        self.later(command.ticks["cqe"], 0, seen)

    def interrupt(self, cq: CompletionQueue) -> None:
        cq.interrupt_set = False
        if not cq.alive:
            return
        if not cq.waiting:  # an earlier one has the same vector
            self.take(cq)
            return
        message = cq.vector + self.turn
        tick = self.link.write(UP, 0xFEE00000 + (message << 12), struct.pack("<L", 0x4020 + message))
        served = [other for other in self.cqs.values() if other.vector == cq.vector]
        for other in served:
            for command in other.waiting:
                command.ticks["msix"] = tick
            other.waiting.clear()
        self.later(tick, self.random.randrange(500, 3000), lambda: [self.take(other) for other in served])

    def take(self, cq: CompletionQueue) -> None:
        """The host takes the CQEs it finds and rings the CQ head doorbell."""
        if not cq.alive or not cq.unseen:
            return
        taken, cq.unseen = cq.unseen, []
        cq.head = (cq.head + len(taken)) % cq.size
        cq.unrung += taken
        elided = self.shadow and cq.cqid and self.random.random() < self.elide
        if not elided and not (self.lazy and len(cq.unrung) < cq.size // 2 and self.random.random() < self.lazy):
            tick = self.doorbell(cq.cqid, 1, cq.head)
            for command in cq.unrung:
                command.ticks["head"] = tick
            cq.unrung.clear()
        for command in taken:
            self.finish(command)
            self.give_back(command)
            cq.in_flight -= 1
            command.queue.in_flight -= 1
        for command in taken:
            if command.done:
                command.done(command)

    # --- what the tracker must say --------------------------------------------------------------------------------
    def finish(self, command: Command) -> None:
        if command in self.live:
            self.live.discard(command)
            self.ended.append(command)

    @property
    def records(self) -> list[dict[str, int]]:
        """Expected records of every command that ended; ``loose`` where only a part is predictable."""
        return [r for r in (expected_record(c, self.page) for c in self.ended) if r]

    @property
    def perhaps_partial(self) -> set[tuple[int, int, int]]:
        """CQE's tick, queue and CID of records that may have the flag PARTIAL or not."""
        unknown = [c for c in self.ended if unsure(c, self.page) == 1]
        return {(r["cqe_tick"], r["qid"], r["cid"]) for r in (expected_record(c, self.page) for c in unknown) if r}
