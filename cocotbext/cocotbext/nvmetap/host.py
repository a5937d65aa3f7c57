"""NVMe host as coroutines over a root complex of cocotbext-pcie.

    root = RootComplex()
    root.make_port().connect(device)
    host = NvmeHost(root)
    await host.start(queues=1, depth=64)
    await host.write(0, data)
    assert await host.read(0, 8) == data

All memory of the host is one region of the root complex. Times are in nanoseconds of the simulation.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import cocotb
from cocotb.task import Task
from cocotb.triggers import Event, First, Lock, Timer
from cocotb.utils import get_sim_time
from cocotbext.pcie.core import RootComplex  # type: ignore[import-untyped]

from .entries import COMPLETION_BYTES, PAGE_BYTES, SUBMISSION_BYTES, Completion, Submission, descriptor

NVME_CLASS = 0x010802
_CAP, _CC, _CSTS, _AQA, _ASQ, _ACQ, _DOORBELLS = 0x00, 0x14, 0x1C, 0x24, 0x28, 0x30, 0x1000
_ENTRY_SIZES = 6 << 16 | 4 << 20
_ADMIN_NAMES = {0: "delete SQ", 1: "create SQ", 4: "delete CQ", 5: "create CQ", 6: "identify", 9: "set features", 10: "get features"}
_IO_NAMES = {0: "flush", 1: "write", 2: "read", 8: "write zeroes"}
Result = TypeVar("Result")


class HostError(Exception):
    """Reports in one line a request that the controller did not fulfil."""


class CommandError(HostError):
    """Reports a command that ended with a status other than 0; `completion` is its completion entry."""

    def __init__(self, text: str, completion: Completion) -> None:
        super().__init__(text)
        self.completion = completion


class HostTimeoutError(HostError):
    """Reports an answer that did not come in the time that the host waits."""


@dataclass(slots=True)
class PendingCommand:
    """A command that the host has put into a queue.

    entry: submission entry, with its CID
    done: event that its completion sets
    submitted_ps: instant at which the entry was in memory
    completion: completion entry, None until it is seen
    completed_ps: instant at which the host saw it, None until then
    """

    entry: Submission
    done: Event
    submitted_ps: int
    completion: Completion | None = None
    completed_ps: int | None = None


@dataclass(frozen=True, slots=True)
class DataBuffer:
    """Pages of a command's data, and the two words that name them in the submission entry.

    pages: addresses of the data's pages, in order
    offset: bytes before the data in the first page
    length: bytes of the data
    lists: addresses of the pages with PRP lists or SGL segments
    prp1: bytes 24 to 31 of the entry
    prp2: bytes 32 to 39 of the entry
    """

    pages: list[int]
    offset: int
    length: int
    lists: list[int]
    prp1: int
    prp2: int


class HostMemory:
    """The host's memory: pages to take and to give back, and bytes to read and write without a packet on the bus.

    Pages that are taken one after another are not neighbours, so a controller that ignores PRP 2 is seen.
    """

    def __init__(self, root: RootComplex, size_bytes: int) -> None:
        self._base, self._bytes = root.alloc_region(size_bytes)
        first = self._base + PAGE_BYTES  # page 0 stays unused: no legal pointer names it
        end = self._base + size_bytes
        self._free = [*range(first, end, 2 * PAGE_BYTES), *range(first + PAGE_BYTES, end, 2 * PAGE_BYTES)]

    def take(self, pages: int, together: bool = False) -> list[int]:
        """Return addresses of free pages, in one piece if `together`. Raises HostError if there are too few."""
        if len(self._free) < pages:
            raise HostError(f"the host's memory has {len(self._free)} free pages and {pages} are wanted: give NvmeHost more memory_bytes")
        if not together:
            taken, self._free = self._free[:pages], self._free[pages:]
            return taken
        free = sorted(self._free)
        for first, last in zip(free, free[pages - 1 :]):
            if last - first == (pages - 1) * PAGE_BYTES:
                taken = list(range(first, last + PAGE_BYTES, PAGE_BYTES))
                self._free = [page for page in self._free if not first <= page <= last]
                return taken
        raise HostError(f"the host's memory has no {pages} free pages in one piece: give NvmeHost more memory_bytes")

    def give_back(self, pages: list[int]) -> None:
        """Free pages; they are taken again last, so stale writes are seen."""
        self._free += pages

    def read(self, address: int, length: int) -> bytes:
        """Return bytes of memory."""
        at = address - self._base
        return bytes(self._bytes[at : at + length])

    def write(self, address: int, data: bytes) -> None:
        """Put bytes into memory."""
        at = address - self._base
        self._bytes[at : at + len(data)] = data


class HostQueue:
    """A submission queue and its completion queue, as the host keeps them.

    qid: identifier of both, 0 for the admin queue
    depth: entries of each
    tail: next free slot of the submission queue
    strays: completions whose CID or SQID no pending command has
    """

    def __init__(self, host: NvmeHost, qid: int, depth: int, vector: int | None) -> None:
        self._host = host
        self.qid, self.depth, self.vector = qid, depth, vector
        self._sq_pages = host.memory.take(-(-depth * SUBMISSION_BYTES // PAGE_BYTES), together=True)
        self._cq_pages = host.memory.take(-(-depth * COMPLETION_BYTES // PAGE_BYTES), together=True)
        self.sq_address, self.cq_address = self._sq_pages[0], self._cq_pages[0]
        for page in self._sq_pages + self._cq_pages:
            host.memory.write(page, bytes(PAGE_BYTES))
        self.tail, self._sq_head, self._cq_head, self._phase = 0, 0, 0, 1
        self._rung, self._next_cid = 0, 0
        self.pending: dict[int, PendingCommand] = {}
        self.strays: list[Completion] = []
        self._space, self._interrupted, self._ringing = Event(), Event(), Lock()
        self._interrupt_count = 0
        self._server: Task[None] = cocotb.start_soon(self._serve())
        if vector is not None:
            host.vector(vector).cb.append(self._interrupt)

    async def _interrupt(self) -> None:
        self._interrupt_count += 1
        self._interrupted.set()

    def close(self) -> None:
        """End the queue's coroutine and free its pages; commands that wait get no completion."""
        self._server.cancel()
        if self.vector is not None:
            self._host.vector(self.vector).cb.remove(self._interrupt)
        self._host.memory.give_back(self._sq_pages + self._cq_pages)

    def _free_cid(self) -> int:
        while self._next_cid in self.pending:
            self._next_cid = (self._next_cid + 1) % 0xFFFF
        cid, self._next_cid = self._next_cid, (self._next_cid + 1) % 0xFFFF
        return cid

    async def push(self, entry: Submission, *, cid: int | None = None) -> PendingCommand:
        """Put an entry into the next slot without ringing the doorbell; wait while the queue is full.

        cid: command identifier to use; the default is one that no pending command has. Raises HostTimeoutError.
        """
        while (self.tail + 1) % self.depth == self._sq_head:
            self._space.clear()
            if not await self._host.soon(self._space):
                raise HostTimeoutError(f"queue {self.qid} stays full: none of its {len(self.pending)} commands ends")
        entry = entry.named(self._free_cid() if cid is None else cid)
        self._host.memory.write(self.sq_address + self.tail * SUBMISSION_BYTES, entry.pack())
        self.tail = (self.tail + 1) % self.depth
        self.pending[entry.cid] = command = PendingCommand(entry, Event(), now_ps())
        return command

    async def ring(self, tail: int | None = None) -> None:
        """Write the tail doorbell; nothing is written if it has this value already. tail: another value to write."""
        async with self._ringing:
            value = self.tail if tail is None else tail
            if tail is not None or value != self._rung:
                self._rung = value
                await self._host.write_register(self._host.doorbell(2 * self.qid), value)

    async def submit(self, entry: Submission, *, cid: int | None = None) -> PendingCommand:
        """Put an entry into the queue and ring the doorbell."""
        command = await self.push(entry, cid=cid)
        await self.ring()
        return command

    async def wait(self, command: PendingCommand) -> Completion:
        """Return the completion of a command. Raises HostTimeoutError if it does not come, CommandError if it failed."""
        if not command.done.is_set() and not await self._host.soon(command.done):
            raise HostTimeoutError(self._why_late(command))
        assert command.completion is not None
        status = command.completion.status & 0x7FF
        if status:
            text = f"{self._name(command.entry)} failed: status type {status >> 8}, code {status & 0xFF:02X}h"
            raise CommandError(text, command.completion)
        return command.completion

    async def execute(self, entry: Submission) -> Completion:
        """Submit a command and return its completion. Raises as `wait` does."""
        return await self.wait(await self.submit(entry))

    def _name(self, entry: Submission) -> str:
        known = _IO_NAMES if self.qid else _ADMIN_NAMES
        return f"{known.get(entry.opcode, f'opcode {entry.opcode:02X}h')} (queue {self.qid}, CID {entry.cid})"

    def _why_late(self, command: PendingCommand) -> str:
        waited_ns = (now_ps() - command.submitted_ps) // 1000
        text = f"{self._name(command.entry)} has no completion after {waited_ns} ns"
        if self.vector is not None and self._slot().phase == self._phase:
            return f"{text}: an entry is in the completion queue, but no interrupt came"
        if self.strays:
            last = self.strays[-1]
            return f"{text}: the last completion without a command has SQID {last.sqid}, CID {last.cid}"
        return text

    def _slot(self) -> Completion:
        return Completion.unpack(self._host.memory.read(self.cq_address + self._cq_head * COMPLETION_BYTES, COMPLETION_BYTES))

    async def _serve(self) -> None:
        while True:
            if self.vector is None:
                await Timer(self._host.poll_ns, unit="ns")
            else:
                await self._interrupted.wait()
                self._interrupted.clear()
            await self._reap()

    async def _reap(self) -> None:
        seen = 0
        while (entry := self._slot()).phase == self._phase:
            seen += 1
            self._cq_head = (self._cq_head + 1) % self.depth
            if not self._cq_head:
                self._phase ^= 1
            command = self.pending.pop(entry.cid, None) if entry.sqid == self.qid else None
            if command is None:
                self.strays.append(entry)
                self._host.log.warning("queue %d: completion of SQID %d, CID %d has no command", self.qid, entry.sqid, entry.cid)
                continue
            self._sq_head = entry.sq_head % self.depth
            self._space.set()
            command.completion, command.completed_ps = entry, now_ps()
            command.done.set()
        if seen:
            await self._host.write_register(self._host.doorbell(2 * self.qid + 1), self._cq_head)


class NvmeHost:
    """NVMe host: enumerates the bus, enables the controller, creates queues, and reads and writes blocks.

    interrupts: use MSI-X or MSI if the controller has it; False: look into the completion queues every `poll_ns`
    timeout_ns: time that the host waits for a register, a state or a completion
    memory_bytes: host memory for queues, lists and data, a power of two
    """

    def __init__(
        self,
        root: RootComplex,
        *,
        interrupts: bool = True,
        poll_ns: int = 500,
        timeout_ns: int = 1_000_000,
        memory_bytes: int = 8 << 20,
    ) -> None:
        self.root, self.log = root, root.log.getChild("nvme")
        self.interrupts, self.poll_ns, self.timeout_ns = interrupts, poll_ns, timeout_ns
        self.memory = HostMemory(root, memory_bytes)
        self.device: Any = None
        self.admin: HostQueue | None = None
        self.queues: list[HostQueue] = []
        self.block_bytes = 512
        self.namespace_blocks: int | None = None
        self._bar = 0
        self._capabilities = 0
        self._vectors: list[Any] = []

    async def start(self, *, queues: int = 1, depth: int = 64, admin_depth: int = 32) -> None:
        """Enumerate the bus, enable the controller, identify namespace 1 and create I/O queues of `depth` entries."""
        await self.enumerate()
        await self.enable(depth=admin_depth)
        await self.identify_namespace(1)
        for _ in range(queues):
            await self.create_queue(depth)

    async def enumerate(self) -> None:
        """Find the first NVMe controller on the bus, give it addresses, and set up its interrupts. Raises HostError."""
        await self.root.enumerate()
        functions = list(_functions(self.root.host_bridge.bus))
        found = [function for function in functions if function.class_code == NVME_CLASS]
        if not found:
            classes = ", ".join(f"{function.class_code:06X}h" for function in functions) or "none"
            raise HostError(f"no NVMe controller (class {NVME_CLASS:06X}h) on the bus; its classes: {classes}")
        self.device = found[0]
        await self.device.enable_device()
        await self.device.set_master()
        self._bar = self.device.bar_addr[0]
        if self.interrupts:
            count = await self.device.alloc_irq_vectors(1, 32)
            if count < 1:
                raise HostError("the controller has neither MSI-X nor MSI: use NvmeHost(interrupts=False)")
            self._vectors = self.device.msi_vectors[:count]

    def vector(self, number: int) -> Any:
        """Return the message vector of that number."""
        return self._vectors[number]

    async def read_register(self, offset: int, length: int = 4) -> int:
        """Return a register, a little-endian number of `length` bytes. Raises HostTimeoutError."""
        try:
            data = await self.root.mem_read(self._bar + offset, length, timeout=self.timeout_ns)
        except Exception as error:
            raise HostTimeoutError(f"register {offset:X}h could not be read: {error}") from None
        return int.from_bytes(data, "little")

    async def write_register(self, offset: int, value: int, length: int = 4) -> None:
        """Write a register of `length` bytes."""
        await self.root.mem_write(self._bar + offset, value.to_bytes(length, "little"))

    def doorbell(self, index: int) -> int:
        """Return the offset of a doorbell. index: twice the QID, plus 1 for the completion queue's head."""
        return _DOORBELLS + index * (4 << (self._capabilities >> 32 & 0xF))

    async def enable(self, *, depth: int = 32) -> None:
        """Give the controller its admin queue and enable it; reset it first if it is enabled. Raises HostError."""
        if await self.read_register(_CC) & 1:
            await self.reset()
        self._capabilities = await self.read_register(_CAP, 8)
        depth = min(depth, (self._capabilities & 0xFFFF) + 1)
        self.admin = HostQueue(self, 0, depth, 0 if self._vectors else None)
        await self.write_register(_AQA, (depth - 1) << 16 | depth - 1)
        await self.write_register(_ASQ, self.admin.sq_address, 8)
        await self.write_register(_ACQ, self.admin.cq_address, 8)
        await self.write_register(_CC, _ENTRY_SIZES | 1)
        await self._ready(1)

    async def reset(self) -> None:
        """Disable the controller; its queues are gone. Raises HostError if it does not become idle."""
        await self.write_register(_CC, _ENTRY_SIZES)
        await self._ready(0)
        for queue in [*self.queues, *([self.admin] if self.admin else [])]:
            queue.close()
        self.queues, self.admin = [], None

    async def shut_down(self) -> None:
        """Delete the I/O queues and notify the controller of a normal shutdown. Raises HostError."""
        for queue in list(self.queues):
            await self.delete_queue(queue)
        await self.write_register(_CC, _ENTRY_SIZES | 1 << 14 | 1)
        await self._status(lambda status: status >> 2 & 3 == 2, "CSTS.SHST does not become 2 (shutdown complete)")

    async def _ready(self, state: int) -> None:
        await self._status(lambda status: status & 1 == state, f"CSTS.RDY does not become {state}")

    async def _status(self, wanted: Callable[[int], bool], failure: str) -> None:
        until_ps = now_ps() + 1000 * self.timeout_ns
        while not wanted(status := await self.read_register(_CSTS)):
            if status & 2:
                raise HostError(f"the controller reports a fatal error: CSTS is {status:08X}h")
            if now_ps() >= until_ps:
                raise HostTimeoutError(f"{failure} in {self.timeout_ns} ns: CSTS is {status:08X}h")
            await Timer(self.poll_ns, unit="ns")

    def _admin(self) -> HostQueue:
        if self.admin is None:
            raise HostError("the controller is not enabled: call enable() first")
        return self.admin

    async def identify(self, cns: int, nsid: int = 0) -> bytes:
        """Return the 4096 bytes of a structure: cns 0 a namespace, 1 the controller, 2 the list of namespaces."""
        buffer = self.map_data(PAGE_BYTES)
        try:
            entry = Submission(0x06, nsid=nsid, prp1=buffer.prp1, prp2=buffer.prp2, cdw10=cns)
            await self._admin().execute(entry)
            return self.data_of(buffer)
        finally:
            self.unmap(buffer)

    async def identify_namespace(self, nsid: int) -> None:
        """Take count and size of a namespace's blocks. Raises HostError if it has none."""
        data = await self.identify(0, nsid)
        blocks = int.from_bytes(data[:8], "little")
        if not blocks:
            raise HostError(f"namespace {nsid} has no blocks")
        formats = data[128 + 4 * (data[26] & 0xF) :]
        self.namespace_blocks, self.block_bytes = blocks, 1 << formats[2]

    async def create_queue(self, depth: int = 64, *, interrupt: bool = True) -> HostQueue:
        """Create an I/O submission queue and its completion queue of `depth` entries. Raises CommandError.

        interrupt: False: the host polls this queue though the controller has interrupts.
        """
        qid = 1 + max((queue.qid for queue in self.queues), default=0)
        vector = qid % len(self._vectors) if self._vectors and interrupt else None
        depth = min(depth, (self._capabilities & 0xFFFF) + 1)
        queue = HostQueue(self, qid, depth, vector)
        size = (depth - 1) << 16 | qid
        flags = 1 if vector is None else 3 | vector << 16
        try:
            await self._admin().execute(Submission(0x05, prp1=queue.cq_address, cdw10=size, cdw11=flags))
            await self._admin().execute(Submission(0x01, prp1=queue.sq_address, cdw10=size, cdw11=1 | qid << 16))
        except HostError:
            queue.close()
            raise
        self.queues.append(queue)
        return queue

    async def delete_queue(self, queue: HostQueue) -> None:
        """Delete an I/O submission queue, then its completion queue. Raises CommandError."""
        await self._admin().execute(Submission(0x00, cdw10=queue.qid))
        await self._admin().execute(Submission(0x04, cdw10=queue.qid))
        self.queues.remove(queue)
        queue.close()

    def map_data(self, length: int, *, offset: int = 0, sgl: bool = False) -> DataBuffer:
        """Take pages for `length` bytes, and make the data pointer for them.

        offset: bytes before the data in the first page, a multiple of 4
        sgl: make SGL descriptors, not PRPs
        """
        if not 0 <= offset < PAGE_BYTES or offset % 4:
            raise HostError(f"an offset of {offset} bytes is no multiple of 4 below {PAGE_BYTES}")
        pages = self.memory.take(-(-(offset + length) // PAGE_BYTES))
        lists, prp1, prp2 = self._sgl(pages, offset, length) if sgl else self._prps(pages, offset)
        return DataBuffer(pages, offset, length, lists, prp1, prp2)

    def _prps(self, pages: list[int], offset: int) -> tuple[list[int], int, int]:
        first, rest = pages[0] + offset, pages[1:]
        if len(rest) < 2:
            return [], first, rest[0] if rest else 0
        room = PAGE_BYTES // 8
        lists = self.memory.take(max(1, -(-(len(rest) - 1) // (room - 1))))
        for place, here in enumerate(lists):
            entries, rest = (rest, []) if len(rest) <= room else ([*rest[: room - 1], lists[place + 1]], rest[room - 1 :])
            self.memory.write(here, struct.pack(f"<{len(entries)}Q", *entries))
        return lists, first, lists[0]

    def _sgl(self, pages: list[int], offset: int, length: int) -> tuple[list[int], int, int]:
        blocks = list[tuple[int, int]]()
        for page in pages:
            size = min(length, PAGE_BYTES - offset)
            blocks.append(descriptor(0, page + offset, size))
            length, offset = length - size, 0
        if len(blocks) == 1:
            return [], *blocks[0]
        if len(blocks) > PAGE_BYTES // 16:
            raise HostError(f"{len(blocks)} SGL descriptors do not fit into one segment of {PAGE_BYTES // 16}")
        lists = self.memory.take(1)
        self.memory.write(lists[0], b"".join(struct.pack("<QQ", *block) for block in blocks))
        return lists, *descriptor(3, lists[0], 16 * len(blocks))

    def _pieces(self, buffer: DataBuffer) -> Iterable[tuple[int, int]]:
        left, offset = buffer.length, buffer.offset
        for page in buffer.pages:
            size = min(left, PAGE_BYTES - offset)
            yield page + offset, size
            left, offset = left - size, 0

    def data_of(self, buffer: DataBuffer) -> bytes:
        """Return the bytes of a buffer."""
        return b"".join(self.memory.read(*piece) for piece in self._pieces(buffer))

    def fill(self, buffer: DataBuffer, data: bytes) -> None:
        """Put bytes into a buffer."""
        at = 0
        for address, size in self._pieces(buffer):
            self.memory.write(address, data[at : at + size])
            at += size

    def unmap(self, buffer: DataBuffer) -> None:
        """Give the pages of a buffer back."""
        self.memory.give_back(buffer.pages + buffer.lists)

    def _queue(self, queue: HostQueue | None) -> HostQueue:
        if queue is None and not self.queues:
            raise HostError("there is no I/O queue: call create_queue() first")
        return queue or self.queues[0]

    async def read(
        self, slba: int, blocks: int, *, queue: HostQueue | None = None, nsid: int = 1, offset: int = 0, sgl: bool = False
    ) -> bytes:
        """Return the bytes of `blocks` blocks from block `slba`. Raises CommandError, HostTimeoutError.

        offset and sgl are for `map_data`. The data's pages hold a pattern before, so a block that the drive did not write is seen.
        """
        return await self._move(0x02, slba, bytes(blocks * self.block_bytes), queue, nsid, offset, sgl)

    async def write(
        self, slba: int, data: bytes, *, queue: HostQueue | None = None, nsid: int = 1, offset: int = 0, sgl: bool = False
    ) -> None:
        """Write whole blocks from block `slba`. Raises as `read` does."""
        await self._move(0x01, slba, data, queue, nsid, offset, sgl)

    async def _move(self, opcode: int, slba: int, data: bytes, queue: HostQueue | None, nsid: int, offset: int, sgl: bool) -> bytes:
        blocks, rest = divmod(len(data), self.block_bytes)
        if rest or not 1 <= blocks <= 0x10000:
            raise HostError(f"{len(data)} bytes are not 1 to 65536 blocks of {self.block_bytes} bytes")
        buffer = self.map_data(len(data), offset=offset, sgl=sgl)
        self.fill(buffer, data if opcode == 0x01 else b"\xa5" * len(data))
        entry = Submission(opcode, nsid=nsid, sgl=sgl, prp1=buffer.prp1, prp2=buffer.prp2)
        await self._queue(queue).execute(at_blocks(entry, slba, blocks))
        read = self.data_of(buffer)
        self.unmap(buffer)  # not after an error: the drive may still use the pages
        return read

    async def write_zeroes(self, slba: int, blocks: int, *, queue: HostQueue | None = None, nsid: int = 1) -> None:
        """Write zeroes to blocks; no data moves. Raises as `read` does."""
        await self._queue(queue).execute(at_blocks(Submission(0x08, nsid=nsid), slba, blocks))

    async def flush(self, *, queue: HostQueue | None = None, nsid: int = 1) -> None:
        """Flush a namespace. Raises as `read` does."""
        await self._queue(queue).execute(Submission(0x00, nsid=nsid))

    async def run(self, operations: Iterable[Coroutine[Any, Any, Result]], iodepth: int) -> list[Result]:
        """Run operations such as `host.read(0, 8)` with up to `iodepth` of them at a time; return their results in order.

        Raises the first error of an operation, after the others have ended.
        """
        waiting = iter(list(enumerate(operations)))
        results: dict[int, Result] = {}
        errors: list[HostError] = []

        async def work() -> None:
            for place, operation in waiting:
                if errors:
                    operation.close()
                    continue
                try:
                    results[place] = await operation
                except HostError as error:
                    errors.append(error)

        workers = [cocotb.start_soon(work()) for _ in range(iodepth)]
        for worker in workers:
            await worker
        if errors:
            raise errors[0]
        return [results[place] for place in sorted(results)]

    async def soon(self, event: Event) -> bool:
        """Return whether an event is set before `timeout_ns` have passed."""
        if not event.is_set():
            await First(event.wait(), Timer(self.timeout_ns, unit="ns"))
        return event.is_set()


def at_blocks(entry: Submission, slba: int, blocks: int) -> Submission:
    """Return an entry with the block address and the count of blocks of a read or a write."""
    return replace(entry, cdw10=slba & 0xFFFFFFFF, cdw11=slba >> 32, cdw12=blocks - 1)


def now_ps() -> int:
    """Return the time of the simulation in picoseconds."""
    return round(get_sim_time("ps"))


def _functions(bus: Any) -> Iterable[Any]:
    yield from bus.devices
    for child in bus.children:
        yield from _functions(child)
