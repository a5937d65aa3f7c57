"""Legal NVMe traffic of a host and a drive as TLPs, for the monitor's tests. It is written from the specifications and shares no code with
the monitor. Each TLP has a label and the facts by which a test turns it into a fault.
"""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass, field
from typing import Any

HOST, DRIVE = 0x0000, 0x0300
BAR = 0x91_2000_0000
PAGE = 4096
NS_PER_PS = 1000
TABLE = 0x2000
"""Offset of the MSI-X table."""


@dataclass
class Packet:
    """One TLP on its way."""

    time_ps: int
    down: bool
    data: bytearray
    label: str
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def header(self) -> int:
        """Bytes of the header."""
        return 16 if self.data[0] & 0x20 else 12

    @property
    def address(self) -> int:
        """Address of a memory request."""
        return int.from_bytes(self.data[8 : self.header], "big")

    @address.setter
    def address(self, value: int) -> None:
        self.data[8 : self.header] = value.to_bytes(self.header - 8, "big")


@dataclass
class Truth:
    """One command as it was played; instants in ps, None where nothing happened."""

    sqid: int
    cid: int
    opcode: int
    doorbell_ps: int | None = None
    fetch_ps: int | None = None
    first_data_ps: int | None = None
    last_data_ps: int | None = None
    cqe_ps: int | None = None
    interrupt_ps: int | None = None
    head_ps: int | None = None
    data_bytes: int = 0


@dataclass
class Queue:
    """A pair of queues of the same number."""

    qid: int
    sq: int
    cq: int
    size: int
    tail: int = 0
    head: int = 0
    fetched: int = 0
    cq_tail: int = 0
    phase: int = 1
    cid: int = 0


class Traffic:
    """Plays a boot and then commands. ``packets`` has the TLPs in the order of time, ``truth`` the commands in the order of CQEs."""

    def __init__(self, seed: int, queues: int = 3, size: int = 24, *, messages: str = "msix", identify: bool = True) -> None:
        """Boot, identify three namespaces and create the I/O queues.

        messages: "msix" with its table in BAR0, "msi" with the capability, "elsewhere" without any sign of the vectors on the link
        """
        self.messages = messages
        self.io_queues, self.io_size = queues, size
        self.formats = {1: (512, 0), 2: (4096, 0), 3: (512, 8)}
        self.left_open: list[Truth] = []
        self.random = random.Random(seed)
        self.packets: list[Packet] = []
        self.truth: list[Truth] = []
        self.now = 10_000_000
        self.tag = 0
        self.place = 0x1_0000_0000
        self.queues = [Queue(0, 0x8000_0000, 0x8001_0000, 32)]
        self._boot()
        if identify:
            for nsid in (1, 2, 3):
                self._identify(nsid)
        self._make_queues()

    def _make_queues(self) -> None:
        size = self.io_size
        for qid in range(1, self.io_queues + 1):
            queue = Queue(qid, 0x8100_0000 + qid * 0x10_0000, 0x8200_0000 + qid * 0x10_0000, size)
            self.admin(5, prp1=queue.cq, cdw10=(size - 1) << 16 | qid, cdw11=qid << 16 | 3)
            self.admin(1, prp1=queue.sq, cdw10=(size - 1) << 16 | qid, cdw11=qid << 16 | 1)
            self.queues.append(queue)

    def restart(self, way: str) -> None:
        """Reset the controller and begin anew.

        way: "cc" clears CC.EN, "flr" is a function-level reset, "d3" goes through D3hot, "nssr" resets the subsystem
        """
        if way == "cc":
            self.memory(True, BAR + 0x14, struct.pack("<L", 0x0046_0000), "cc")
        elif way == "flr":
            self.config_write(0x78, 0x8000 | 0x2810)
        elif way == "d3":
            self.config_write(0x44, 3)
            self.config_write(0x44, 0)
        elif way == "nssr":
            self.memory(True, BAR + 0x20, b"eMVN", "register")
        self.now += 10_000_000
        self.queues = [Queue(0, 0x8000_0000, 0x8001_0000, 32)]
        self._enable(table=way != "cc")
        self._make_queues()

    def hang(self, count: int) -> None:
        """Submit commands that the drive never completes."""
        queue = self.queues[1]
        self.left_open += self.submit(queue, [self.sqe(queue, 0, nsid=1) for _ in range(count)])

    # --- TLPs

    def put(self, down: bool, data: bytes, label: str, **facts: Any) -> int:
        """Send a TLP; return its time."""
        self.now += 20_000 + 4 * len(data) * NS_PER_PS // 16
        self.packets.append(Packet(self.now, down, bytearray(data), label, facts))
        return self.now

    @staticmethod
    def _head(first: int, words: int) -> bytes:
        return bytes((first, 0, words >> 8 & 3, words & 0xFF))

    def memory(self, down: bool, address: int, data: bytes, label: str, **facts: Any) -> int:
        """Write memory."""
        words = len(data) // 4
        wide = address >> 32 != 0
        enables = 0x0F if words == 1 else 0xFF
        head = self._head(0x60 if wide else 0x40, words) + struct.pack(">HBB", HOST if down else DRIVE, 0, enables)
        return self.put(down, head + struct.pack(">Q" if wide else ">L", address) + data, label, **facts)

    def read(self, down: bool, address: int, size: int, label: str, **facts: Any) -> int:
        """Request a read; return the tag."""
        self.tag = (self.tag + 1) % 256
        words = size // 4
        wide = address >> 32 != 0
        head = self._head(0x20 if wide else 0x00, words % 1024) + struct.pack(
            ">HBB", HOST if down else DRIVE, self.tag, 0x0F if words == 1 else 0xFF
        )
        self.put(down, head + struct.pack(">Q" if wide else ">L", address), label, tag=self.tag, **facts)
        return self.tag

    def completion(self, down: bool, tag: int, data: bytes, remaining: int, lower: int, label: str, **facts: Any) -> int:
        """Complete a read."""
        completer, requester = (HOST, DRIVE) if down else (DRIVE, HOST)
        head = self._head(0x4A, len(data) // 4) + struct.pack(">HHHBB", completer, remaining & 0xFFF, requester, tag, lower & 0x7F)
        return self.put(down, head + data, label, tag=tag, **facts)

    def config_write(self, register: int, value: int) -> None:
        """Write a configuration register."""
        head = self._head(0x44, 1) + struct.pack(">HBBHBB", HOST, 0, 0x0F, DRIVE, register >> 8, register & 0xFC)
        self.put(True, head + struct.pack("<L", value), "config")

    def config_read(self, register: int, value: int) -> None:
        """Read a configuration register that has ``value``."""
        self.tag = (self.tag + 1) % 256
        head = self._head(0x04, 1) + struct.pack(">HBBHBB", HOST, self.tag, 0x0F, DRIVE, register >> 8, register & 0xFC)
        self.put(True, head, "config")
        self.completion(False, self.tag, struct.pack("<L", value), 4, 0, "config")

    # --- host and drive

    def _boot(self) -> None:
        self.config_read(0x34, 0x40)
        self.config_read(0x40, 0x0003_5001)  # power management, next 50h
        if self.messages == "msi":
            self.config_read(0x50, 0x0086_7005)  # MSI, 8 vectors, 64-bit, next 70h
            address, data = self.message(0)
            for register, value in ((0x54, address), (0x58, 0), (0x5C, data), (0x50, 0x00B7_7005)):
                self.config_write(register, value)
        else:
            self.config_read(0x50, 0x0007_7011)  # MSI-X with 8 vectors, next 70h
            self.config_read(0x54, TABLE | (2 if self.messages == "elsewhere" else 0))
            self.config_write(0x50, 0x8007_7011)  # enabled
        self.config_read(0x70, 0x0002_0010)  # PCI Express, the last
        for register, value in ((0x10, BAR & 0xFFFF_FFFF | 4), (0x14, BAR >> 32)):
            self.config_write(register, 0xFFFF_FFFF)
            self.config_read(register, 0xFFFF_C004 if register == 0x10 else 0xFFFF_FFFF)
            self.config_write(register, value)
        tag = self.read(True, BAR, 8, "register")
        self.completion(False, tag, struct.pack("<Q", 0x0000_0030_1400_3FFF & ~(15 << 32)), 8, 0, "register")
        self._enable()

    def _enable(self, table: bool = True) -> None:
        if table and self.messages == "msix":
            for vector in range(8):
                self.memory(True, BAR + TABLE + 16 * vector, struct.pack("<QLL", *self.message(vector), 0), "table")
        self.memory(True, BAR + 0x24, struct.pack("<L", 31 << 16 | 31), "register")
        self.memory(True, BAR + 0x28, struct.pack("<Q", self.queues[0].sq), "register")
        self.memory(True, BAR + 0x30, struct.pack("<Q", self.queues[0].cq), "register")
        self.memory(True, BAR + 0x14, struct.pack("<L", 0x0046_0001), "cc")

    def message(self, vector: int) -> tuple[int, int]:
        """Return address and data of a vector."""
        if self.messages == "msi":
            return 0xFEE0_3000, 0x48 + vector
        return 0xFEE0_1000 + 4096 * (vector & 3), 0x30 + vector

    def buffer(self, size: int) -> int:
        """Return new host memory, aligned to a page."""
        place = self.place
        self.place += (size + PAGE - 1) // PAGE * PAGE + PAGE
        return place

    def sqe(self, queue: Queue, opcode: int, **fields: int) -> bytes:
        """Build an SQE with the next CID."""
        queue.cid = (queue.cid + 1) % 0x8000
        cdw = [fields.get(f"cdw{index}", 0) for index in range(10, 16)]
        return struct.pack(
            "<BBHLQQQQ6L",
            opcode,
            fields.get("flags", 0),
            queue.cid,
            fields.get("nsid", 0),
            0,
            fields.get("mptr", 0),
            fields.get("prp1", 0),
            fields.get("prp2", 0),
            *cdw,
        )

    def bell(self, queue: Queue, cq: bool, value: int, **facts: Any) -> int:
        """Ring a doorbell."""
        address = BAR + 0x1000 + 8 * queue.qid + 4 * cq
        return self.memory(True, address, struct.pack("<L", value), "cq_bell" if cq else "sq_bell", queue=queue, **facts)

    def submit(self, queue: Queue, entries: list[bytes]) -> list[Truth]:
        """Ring for the entries, and let the drive fetch them."""
        before = queue.tail
        queue.tail = (queue.tail + len(entries)) % queue.size
        at = self.bell(queue, False, queue.tail, before=before, head=queue.head, io=queue.qid > 0)
        told = []
        for index, entry in enumerate(entries):
            slot = (before + index) % queue.size
            fetch_ps, _first, _last = self.drive_reads(
                queue.sq + 64 * slot, entry, "fetch", "sqe", queue=queue, io=queue.qid > 0, several=len(entries) > 1 and index > 0, prp=True
            )
            queue.fetched = (slot + 1) % queue.size
            told.append(Truth(queue.qid, struct.unpack_from("<H", entry, 2)[0], entry[0], at, fetch_ps))
        return told

    def drive_reads(self, address: int, data: bytes, label: str, answer: str, **facts: Any) -> tuple[int, int, int]:
        """Let the drive read host memory in requests of 512 bytes; return request, first and last completion."""
        first = last = request = 0
        done = 0
        while done < len(data):
            size = min(512 - (address + done) % 512, len(data) - done)
            tag = self.read(False, address + done, size, label, **facts)
            request = request or self.now
            sent = 0
            while sent < size:
                piece = min(64 - (address + done + sent) % 64, size - sent)
                content = data[done + sent : done + sent + piece]
                last = self.completion(True, tag, content, size - sent, address + done + sent, answer, final=sent + piece == size, **facts)
                first = first or last
                sent += piece
            done += size
        return request, first, last

    def complete(self, queue: Queue, told: Truth, status: int = 0) -> None:
        """Write a CQE."""
        queue.head = queue.fetched
        content = struct.pack("<LLHHHH", 0, 0, queue.head, queue.qid, told.cid, status << 1 | queue.phase)
        told.cqe_ps = self.memory(
            False, queue.cq + 16 * queue.cq_tail, content, "cqe", queue=queue, io=queue.qid > 0, tail=queue.tail, size=queue.size
        )
        queue.cq_tail += 1
        if queue.cq_tail == queue.size:
            queue.cq_tail, queue.phase = 0, 1 - queue.phase
        self.truth.append(told)

    def release(self, queue: Queue, told: list[Truth]) -> None:
        """Send one interrupt and one head doorbell for the CQEs."""
        address, data = self.message(queue.qid)
        interrupt_ps = self.memory(False, address, struct.pack("<L", data), "msi", queue=queue, io=queue.qid > 0)
        self.now += 500_000
        head_ps = self.bell(queue, True, queue.cq_tail, size=queue.size, io=queue.qid > 0)
        for one in told:
            one.interrupt_ps, one.head_ps = interrupt_ps, head_ps

    def admin(self, opcode: int, answer: bytes = b"", **fields: int) -> None:
        """Play an admin command alone; ``answer`` goes to PRP1."""
        queue = self.queues[0]
        told = self.submit(queue, [self.sqe(queue, opcode, **fields)])
        for at in range(0, len(answer), 256):
            when = self.memory(False, fields["prp1"] + at, answer[at : at + 256], "data_w")
            told[0].first_data_ps = told[0].first_data_ps or when
            told[0].last_data_ps = when
        told[0].data_bytes = len(answer)
        self.complete(queue, told[0])
        self.release(queue, told)

    def _identify(self, nsid: int) -> None:
        data = bytearray(4096)
        data[0:8] = struct.pack("<Q", 1 << 20)
        data[26] = nsid - 1
        for index, (metadata, exponent) in enumerate(((0, 9), (0, 12), (8, 9))):
            struct.pack_into("<HBB", data, 128 + 4 * index, metadata, exponent, 0)
        self.admin(6, bytes(data), prp1=self.buffer(4096), nsid=nsid, cdw10=0)

    # --- I/O

    def batch(self) -> None:
        """Play some commands of one queue at once: all fetched, then done in any order."""
        choose = self.random
        queue = choose.choice(self.queues[1:])
        jobs = [self._job(queue) for _ in range(choose.randint(1, 6))]
        told = self.submit(queue, [job[0] for job in jobs])
        order = list(range(len(jobs)))
        choose.shuffle(order)
        pending: list[Truth] = []
        for index in order:
            self._move(told[index], *jobs[index][1:])
            self.complete(queue, told[index])
            pending.append(told[index])
            if choose.random() < 0.5:
                self.release(queue, pending)
                pending = []
        if pending:
            self.release(queue, pending)

    def _job(self, queue: Queue) -> tuple[bytes, list[tuple[str, int, bytes]], list[tuple[int, int]], bool]:
        """Return an SQE, what the drive reads before the data, the ranges of the data, and whether the drive writes them."""
        choose = self.random
        kind = choose.choice(("prp", "prp", "prp", "list", "sgl", "segment", "flush", "dsm"))
        nsid = choose.choice((1, 2, 3))
        lba, metadata = self.formats[nsid]
        writes = choose.random() < 0.5
        opcode = 2 if writes else 1
        slba = choose.randrange(1 << 33)
        if kind == "flush":
            return self.sqe(queue, 0, nsid=nsid), [], [], False
        if kind == "dsm":
            count = choose.randint(1, 8)
            place = self.buffer(4096)
            return self.sqe(queue, 9, nsid=nsid, prp1=place, cdw10=count - 1, cdw11=4), [], [(place, 16 * count)], False
        blocks = choose.randint(1, 4096 // lba) if kind == "prp" else choose.randint(2 * PAGE // lba + 1, 9 * PAGE // lba)
        size = blocks * lba
        cdw = {"cdw10": slba & 0xFFFF_FFFF, "cdw11": slba >> 32, "cdw12": blocks - 1, "nsid": nsid}
        place = self.buffer(size + PAGE)
        mptr = self.buffer(PAGE) if metadata else 0
        extra = [(mptr, metadata * blocks)] if metadata else []
        if kind == "sgl":
            half = size // 8 * 4
            entry = bytearray(self.sqe(queue, opcode, flags=0x40, mptr=mptr, **cdw))
            entry[24:40] = struct.pack("<QL3xB", place, size, 0)
            return bytes(entry), [], [(place, half), (place + half, size - half), *extra], writes
        if kind == "segment":
            half = size // 8 * 4
            second = self.buffer(size)
            table = self.buffer(PAGE)
            entry = bytearray(self.sqe(queue, opcode, flags=0x40, mptr=mptr, **cdw))
            entry[24:40] = struct.pack("<QL3xB", table, 32, 0x30)
            content = struct.pack("<QL3xBQL3xB", place, half, 0, second, size - half, 0)
            return bytes(entry), [("segment", table, content)], [(place, half), (second, size - half), *extra], writes
        offset = choose.choice((0, 0, 512, 1024))
        pages = [place + offset]
        ranges = [(place + offset, min(size, PAGE - offset))]
        left = size - ranges[0][1]
        while left > 0:
            page = self.buffer(PAGE)
            pages.append(page)
            ranges.append((page, min(left, PAGE)))
            left -= PAGE
        before: list[tuple[str, int, bytes]] = []
        prp2 = 0
        if len(pages) == 2:
            prp2 = pages[1]
        elif len(pages) > 2:
            table = self.buffer(PAGE) + choose.choice((0, 256, 3840))
            if 8 * (len(pages) - 1) > PAGE - table % PAGE:
                table -= table % PAGE
            prp2 = table
            before = [("list", table, struct.pack(f"<{len(pages) - 1}Q", *pages[1:]))]
        return self.sqe(queue, opcode, prp1=pages[0], prp2=prp2, mptr=mptr, **cdw), before, [*ranges, *extra], writes

    def _move(self, told: Truth, before: list[tuple[str, int, bytes]], ranges: list[tuple[int, int]], writes: bool) -> None:
        for label, address, content in before:
            self.drive_reads(address, content, label, label + "_answer")
        for address, size in ranges:
            if writes:
                at = 0
                while at < size:
                    piece = min(256 - (address + at) % 256, size - at)
                    last = self.memory(False, address + at, b"\xc3" * piece, "data_w", piece=piece, io=True)
                    told.first_data_ps = told.first_data_ps or last
                    told.last_data_ps = last
                    at += piece
            elif size:
                _request, first, last = self.drive_reads(address, b"\x3c" * size, "data_r", "data_c", io=True)
                told.first_data_ps = told.first_data_ps or first
                told.last_data_ps = last
            told.data_bytes += size


def traffic(seed: int, batches: int, **options: Any) -> Traffic:
    """Return a boot and ``batches`` batches of commands."""
    played = Traffic(seed, **options)
    for _ in range(batches):
        played.batch()
    return played
