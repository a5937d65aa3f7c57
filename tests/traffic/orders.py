"""Commands as a host makes them: the SQE, the buffers behind it, and the memory to give back at the end."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wattbell_spec.nvme import LBA_OPCODES, io

from tests.traffic import packets
from tests.traffic.kinds import Setup
from tests.traffic.memory import PAGE, Memory
from tests.traffic.namespaces import Namespace
from tests.traffic.truth import Deed
from tests.traffic.walkers import BIT_BUCKET, DATA_BLOCK, LAST_SEGMENT, SEGMENT

if TYPE_CHECKING:
    from tests.traffic.kernel import Signal

_BLOCK = 256
_PLAIN = (("read", 50), ("write", 38), ("flush", 4), ("write_zeroes", 4), ("dsm", 4))
_ALL = (
    ("read", 20),
    ("write", 20),
    ("flush", 4),
    ("write_zeroes", 6),
    ("dsm", 8),
    ("compare", 8),
    ("verify", 6),
    ("write_uncorrectable", 4),
    ("copy", 6),
    ("zone_append", 8),
    ("zone_management_send", 3),
    ("zone_management_receive", 4),
    ("reservation_register", 3),
    ("reservation_report", 3),
)
_TO_DRIVE = ("write", "compare", "zone_append", "dsm", "copy", "reservation_register")


@dataclass(slots=True, eq=False)
class Order:
    """A command of the host. ``length`` and ``meta``: bytes of its data buffer and of its metadata buffer."""

    deed: Deed
    sqe: bytes
    length: int = 0
    meta: int = 0
    to_drive: bool = False
    answer: bytes | None = None
    """The drive's answer; None: user data."""
    written: int = 0
    """Bytes of the answer that the drive has sent."""
    prefix: bytes = b""
    """TLP prefix of the requests for its data."""
    dword0: int = 0
    pages: list[int] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)
    structures: list[int] = field(default_factory=list)
    seen: Callable[[Order, int], None] = lambda order, head: None
    """Called when the CQE is in host memory, with its SQHD."""
    done: Signal | None = None

    def give_back(self, memory: Memory) -> None:
        """Return the buffers to the host's allocator."""
        memory.give_back(self.pages)
        for address in self.blocks:
            memory.give_back_block(address)
        for address in self.structures:
            memory.give_back_structure(address)
        self.pages, self.blocks, self.structures = [], [], []


class Buffers:
    """Makes data pointers: PRPs and SGLs over buffers of the host."""

    def __init__(self, memory: Memory, rng: random.Random, setup: Setup) -> None:
        self._memory = memory
        self._rng = rng
        self._setup = setup
        self._common = [memory.page() for _ in range(80)] if setup.same_buffer else []

    def prp(self, order: Order, length: int, offset: int = -1) -> tuple[int, int]:
        """PRP1 and PRP2 of a new buffer of `length` bytes."""
        rng = self._rng
        if offset < 0:
            offset = 0
            if self._setup.unaligned and order.deed.qid:
                offset = 4 * int(rng.random() * 1024)
            elif length < PAGE and rng.random() < 0.5:
                offset = 512 * int(rng.random() * 8)
        count = -(-(offset + length) // PAGE)
        if self._common and order.deed.qid and rng.random() < 0.7:
            pages = self._common[:count]
        else:
            pages = self._pages(order, count)
        if count == 1:
            return pages[0] + offset, 0
        if count == 2:
            return pages[0] + offset, pages[1]
        return pages[0] + offset, self._list(order, pages[1:])

    def _pages(self, order: Order, count: int) -> list[int]:
        """Addresses of `count` pages of data."""
        if self._setup.pasid and order.deed.qid % 2:
            order.prefix = packets.pasid(order.deed.qid)
            return [self._memory.other_page() for _ in range(count)]
        order.pages = [self._memory.page() for _ in range(count)]
        return order.pages

    def _list(self, order: Order, pages: list[int]) -> int:
        """Write a PRP list, and the lists it goes on in. Only the first may begin within a page (NVMe, Physical Region Page)."""
        memory, setup = self._memory, self._setup
        if setup.small_lists and len(pages) * 8 <= _BLOCK:
            at = memory.block()
            order.blocks.append(at)
            memory.write(at, struct.pack(f"<{len(pages)}Q", *pages))
            return at
        at = memory.structure()
        order.structures.append(at)
        if setup.chained:
            at += PAGE - 8 * self._rng.randrange(2, len(pages) + 1)
        elif self._rng.random() < 0.2:
            at += 8 * self._rng.randrange(0, 512 - len(pages) + 1)
        first, rest = at, pages
        while rest:
            room = (PAGE - at % PAGE) // 8
            if len(rest) <= room:
                memory.write(at, struct.pack(f"<{len(rest)}Q", *rest))
                break
            there = memory.structure()
            order.structures.append(there)
            memory.write(at, struct.pack(f"<{room}Q", *rest[: room - 1], there))
            at, rest = there, rest[room - 1 :]
        return first

    def sgl(self, order: Order, length: int) -> bytes:
        """The SGL descriptor of the SQE for a new buffer of `length` bytes."""
        rng, memory, setup = self._rng, self._memory, self._setup

        def descriptor(address: int, size: int, kind: int) -> bytes:
            return struct.pack("<QL3xB", address, size, kind << 4)

        def block(size: int) -> bytes:
            offset = 4 * int(rng.random() * 1024) if rng.random() < 0.5 else 0
            pages = memory.span(-(-(offset + size) // PAGE))
            order.pages += pages
            return descriptor(pages[0] + offset, size, DATA_BLOCK)

        if setup.sgl == "block":
            return block(length)
        parts, left = [], length
        while left:
            size = left if len(parts) == 11 or left <= 64 or rng.random() < 0.2 else 4 * (1 + int(rng.random() * (left // 4 - 1)))
            bucket = setup.sgl == "bucket" and not order.to_drive and rng.random() < 0.3
            parts.append(descriptor(0, size, BIT_BUCKET) if bucket else block(size))
            left -= size
        if len(parts) == 1:
            return parts[0]
        segments = []
        while parts:
            count = rng.randrange(1, len(parts) + 1)
            segments.append(parts[:count])
            parts = parts[count:]
        link = b""
        for number, segment in enumerate(reversed(segments)):
            page = memory.structure()
            order.structures.append(page)
            body = b"".join(segment) + link
            at = page + 16 * rng.randrange(0, (PAGE - len(body)) // 16 + 1)
            memory.write(at, body)
            link = descriptor(at, len(body), LAST_SEGMENT if number == 0 else SEGMENT)
        return link

    def filled(self, order: Order, body: bytes) -> int:
        """Address of a page that holds `body`."""
        page = self._memory.structure()
        order.structures.append(page)
        self._memory.write(page, body)
        return page

    def metadata(self, order: Order, length: int) -> int:
        """Address of a metadata buffer within a page: dword aligned (NVMe, Metadata Pointer)."""
        page = self._memory.page()
        order.pages.append(page)
        return page + 4 * self._rng.randrange(0, (PAGE - length) // 4 + 1)


class Workload:
    """Draws I/O commands."""

    def __init__(self, rng: random.Random, setup: Setup, namespaces: list[Namespace], buffers: Buffers) -> None:
        self._rng = rng
        self._setup = setup
        self._namespaces = namespaces
        self._buffers = buffers
        mix = _ALL if setup.opcodes == "all" else _PLAIN
        self._names = [name for name, _ in mix]
        self._weights = [weight for _, weight in mix]
        self._batch: list[str] = []

    def next(self, function: int, qid: int, cid: int) -> Order:
        """A command for SQ `qid`."""
        rng, setup = self._rng, self._setup
        if not self._batch:
            self._batch = rng.choices(self._names, self._weights, k=64)
        name = self._batch.pop()
        space = self._namespaces[0] if len(self._namespaces) == 1 else rng.choice(self._namespaces)
        opcode = io(name)
        deed = Deed(function, qid, cid, opcode, space.nsid, 0, 0)
        order = Order(deed, b"", to_drive=name in _TO_DRIVE)
        words = [0] * 6
        lengths = setup.lengths
        wanted = lengths[int(rng.random() * len(lengths))]
        count = max(1, wanted >> space.shift)
        lba = int(rng.random() * (space.blocks - count))
        prp1 = prp2 = mptr = 0
        descriptor = b""
        if name in ("read", "write", "compare", "zone_append"):
            words[0], words[1], words[2] = lba & 0xFFFFFFFF, lba >> 32, count - 1
            order.length, order.meta = space.on_the_wire(count)
            if order.meta:
                mptr = self._buffers.metadata(order, order.meta)
        elif name in ("write_zeroes", "verify", "write_uncorrectable"):
            words[0], words[1], words[2] = lba & 0xFFFFFFFF, lba >> 32, count - 1
        elif name == "dsm":
            ranges = rng.choice((1, 1, 2, 8, 40))
            body = b"".join(struct.pack("<LLQ", 0, count + k, lba + 1000 * k) for k in range(ranges))
            words[0], words[1] = ranges - 1, 4
            order.length, prp1 = 16 * ranges, self._buffers.filled(order, body)
        elif name == "copy":
            ranges = rng.choice((1, 2, 16))
            body = b"".join(struct.pack("<QQHHLQ", 0, lba + 1000 * k, count - 1, 0, 0, 0) for k in range(ranges))
            words[0], words[1], words[2] = lba & 0xFFFFFFFF, lba >> 32, ranges - 1
            order.length, prp1 = 32 * ranges, self._buffers.filled(order, body)
        elif name == "reservation_register":
            order.length, prp1 = 16, self._buffers.filled(order, rng.randbytes(16))
        elif name == "reservation_report":
            order.length = rng.choice((64, 512, 4096))
            words[0], words[1] = order.length // 4 - 1, 0
        elif name == "zone_management_receive":
            order.length = rng.choice((64, 512, 4096, 16384))
            words[0], words[1], words[2] = lba & 0xFFFFFFFF, lba >> 32, order.length // 4 - 1
        elif name == "zone_management_send":
            words[0], words[1], words[3] = lba & 0xFFFFFFFF, lba >> 32, 1
        flags = 0
        if order.length and not prp1:
            if setup.sgl and rng.random() < 0.8:
                descriptor, flags = self._buffers.sgl(order, order.length), 0x40
            else:
                prp1, prp2 = self._buffers.prp(order, order.length)
        if opcode in LBA_OPCODES:
            deed.slba, deed.blocks = lba, count
        elif name == "dsm":
            deed.slba, deed.blocks = lba, sum(count + k for k in range(ranges))
        elif name != "flush":
            deed.slba, deed.blocks = words[0], words[1]
        pointer = descriptor or struct.pack("<QQ", prp1, prp2)
        order.sqe = struct.pack("<BBHLQQ", opcode, flags, cid, space.nsid, 0, mptr) + pointer + struct.pack("<6L", *words)
        return order
