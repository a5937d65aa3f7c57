"""NVMe drive as coroutines over an endpoint of cocotbext-pcie, with a latency to choose and protocol faults to order by name.

    drive = NvmeDrive(latency_ns=lambda entry: 80_000 if entry.opcode == 2 else 20_000)
    device = Device()
    device.append_function(drive)
    drive.inject("wrong_cid", opcode=2)

The namespace is memory. Commands run at the same time, so they end in the order of their latencies.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import cocotb
from cocotb.triggers import Event, First, Lock, Timer
from cocotb.utils import get_sim_time
from cocotbext.pcie.core import MemoryEndpoint  # type: ignore[import-untyped]
from cocotbext.pcie.core.caps import MsixCapability  # type: ignore[import-untyped]

from .entries import COMPLETION_BYTES, PAGE_BYTES, SUBMISSION_BYTES, Completion, PointerError, Submission, data_pieces

_DOORBELLS, _TABLE, _PENDING, _BAR_BYTES = 0x1000, 0x2000, 0x3000, 0x4000
_MAXIMUM_ENTRIES = 1024
_VECTORS = 32


class DriveFault(StrEnum):
    """Protocol faults of the drive; each spoils one command.

    Section numbers refer to NVM Express 1.4.
    """

    WRONG_CID = "wrong_cid"
    """The completion has a CID that no command has (4.6)."""
    WRONG_SQID = "wrong_sqid"
    """The completion names another submission queue (4.6)."""
    WRONG_CQ = "wrong_cq"
    """The completion is written to another completion queue (4.6)."""
    WRONG_SQ_HEAD = "wrong_sq_head"
    """The completion's SQ head is past the entries that the host has rung for (4.6)."""
    STALE_PHASE = "stale_phase"
    """The completion's phase tag is not toggled, so the host does not see it (4.6)."""
    SKIPPED_SLOT = "skipped_slot"
    """The completion leaves a slot of the completion queue out (4.6)."""
    DOUBLE_COMPLETION = "double_completion"
    """Two completions answer one command (7.2.1)."""
    NO_COMPLETION = "no_completion"
    """No completion answers the command (7.2.1)."""
    EARLY_COMPLETION = "early_completion"
    """The completion comes before the data (7.2.1)."""
    SHORT_DATA = "short_data"
    """The last bytes of the data are not moved, though the status is 0 (4.3)."""
    OUTSIDE_WRITE = "outside_write"
    """64 bytes more are written, to an address that no command names (4.3)."""
    OUTSIDE_READ = "outside_read"
    """64 bytes more are read, from an address that no command names (4.3)."""
    REPEATED_DATA = "repeated_data"
    """The first piece of the data is moved twice (4.3)."""
    NO_INTERRUPT = "no_interrupt"
    """No interrupt follows the completion (7.5)."""
    EARLY_INTERRUPT = "early_interrupt"
    """The interrupt comes before the completion (7.5)."""


_NEEDS_DATA = {
    DriveFault.EARLY_COMPLETION,
    DriveFault.SHORT_DATA,
    DriveFault.OUTSIDE_WRITE,
    DriveFault.OUTSIDE_READ,
    DriveFault.REPEATED_DATA,
}


@dataclass(slots=True)
class FaultOrder:
    """A fault that waits for its command, and then the command that it spoiled.

    fault: name of the fault
    opcode: opcode of the command to spoil, None for any I/O command that the fault can spoil
    skip: commands to leave whole before
    at_ps: instant at which the command was fetched, None until then
    sqid: queue of the command, None until then
    cid: identifier of the command, None until then
    """

    fault: DriveFault
    opcode: int | None = None
    skip: int = 0
    at_ps: int | None = None
    sqid: int | None = None
    cid: int | None = None


@dataclass(slots=True)
class _CompletionQueue:
    qid: int
    base: int
    depth: int
    vector: int | None
    tail: int = 0
    head: int = 0
    phase: int = 1
    turn: Lock = field(default_factory=Lock)
    moved: Event = field(default_factory=Event)

    @property
    def full(self) -> bool:
        return (self.tail + 1) % self.depth == self.head

    def advance(self) -> None:
        """Go to the next slot, and toggle the phase tag after the last."""
        self.tail = (self.tail + 1) % self.depth
        if not self.tail:
            self.phase ^= 1


@dataclass(slots=True)
class _SubmissionQueue:
    qid: int
    base: int
    depth: int
    to: _CompletionQueue
    tail: int = 0
    head: int = 0


class _Life:
    """Time from CC.EN = 1 to CC.EN = 0: its queues, and the commands at work."""

    def __init__(self) -> None:
        self.ended, self.idle, self.work = Event(), Event(), Event()
        self.busy = 0
        self.sqs: dict[int, _SubmissionQueue] = {}
        self.cqs: dict[int, _CompletionQueue] = {}


class _EndedError(Exception):
    """The controller was disabled while a command was at work."""


class _StatusError(Exception):
    """A command ends with this status: code in 7:0, type in 10:8."""

    def __init__(self, status: int) -> None:
        super().__init__(f"{status:03X}h")
        self.status = status


INVALID_OPCODE, INVALID_FIELD, INVALID_NAMESPACE, OUT_OF_RANGE = 0x001, 0x002, 0x00B, 0x080
INVALID_CQ, INVALID_QID, INVALID_QUEUE_SIZE, INVALID_VECTOR, INVALID_DELETION = 0x100, 0x101, 0x102, 0x108, 0x10C


class NvmeDrive(MemoryEndpoint):  # type: ignore[misc]
    """NVMe controller with one namespace in memory.

    latency_ns: time between fetch and data of a command, or a function of its entry that returns it
    blocks: blocks of the namespace
    block_bytes: bytes of a block, a power of two from 512 to 4096
    queues: I/O queues that it allows
    fetch_at_most: entries that one read of a submission queue takes
    stray_address: where the faults "outside_write" and "outside_read" go; no command may name it
    orders: faults that wait or have happened, in order
    problems: one line for each thing that the host did wrong
    """

    def __init__(
        self,
        *,
        latency_ns: int | Callable[[Submission], int] = 10_000,
        blocks: int = 4096,
        block_bytes: int = 512,
        queues: int = 8,
        fetch_at_most: int = 4,
        stray_address: int = 0x40,
    ) -> None:
        super().__init__()
        if block_bytes not in (512, 1024, 2048, 4096):
            raise ValueError(f"a block of {block_bytes} bytes is none of 512, 1024, 2048 and 4096")
        self.class_code = 0x010802
        self.latency_ns, self.blocks, self.block_bytes = latency_ns, blocks, block_bytes
        self.queues, self.fetch_at_most, self.stray_address = queues, fetch_at_most, stray_address
        self.data = bytearray(blocks * block_bytes)
        self.orders: list[FaultOrder] = []
        self.problems: list[str] = []
        self._features: dict[int, int] = {}
        self._registers = bytearray(64)
        self._set(0x00, (_MAXIMUM_ENTRIES - 1) | 1 << 16 | 20 << 24 | 1 << 37, 8)  # CAP: MQES, CQR, TO 10 s, NVM command set
        self._set(0x08, 0x00010400)
        self._table = bytearray(b"\0\0\0\0" * 3 + b"\1\0\0\0") * _VECTORS
        self._life: _Life | None = None
        self._msix = MsixCapability()
        self._msix.msix_table_size = _VECTORS - 1
        self._msix.msix_table_offset, self._msix.msix_pba_offset = _TABLE, _PENDING
        self.register_capability(self._msix)
        self.add_region(_BAR_BYTES, self._read_bar, self._write_bar, ext=True)

    def inject(self, fault: DriveFault | str, *, opcode: int | None = None, skip: int = 0) -> FaultOrder:
        """Order a fault for the next I/O command, or the next with `opcode`, after `skip` others. Raises ValueError."""
        order = FaultOrder(DriveFault(fault), opcode, skip)
        self.orders.append(order)
        return order

    def _get(self, offset: int, length: int = 4) -> int:
        return int.from_bytes(self._registers[offset : offset + length], "little")

    def _set(self, offset: int, value: int, length: int = 4) -> None:
        self._registers[offset : offset + length] = value.to_bytes(length, "little")

    async def _read_bar(self, offset: int, length: int) -> bytes:
        page = bytearray(_BAR_BYTES)
        page[: len(self._registers)] = self._registers
        page[_TABLE : _TABLE + len(self._table)] = self._table
        return bytes(page[offset : offset + length])

    async def _write_bar(self, offset: int, data: bytes) -> None:
        """Take a write to the registers; it waits for nothing, because completions come behind it."""
        if _TABLE <= offset < _TABLE + len(self._table):
            self._table[offset - _TABLE : offset - _TABLE + len(data)] = data
        elif _DOORBELLS <= offset < _TABLE and len(data) == 4:
            self._doorbell((offset - _DOORBELLS) // 4, int.from_bytes(data, "little") & 0xFFFF)
        elif offset < len(self._registers):
            for at, byte in enumerate(data, offset):
                if 0x14 <= at < 0x18 or 0x24 <= at < 0x38:
                    self._registers[at] = byte
            if offset <= 0x14 < offset + len(data):
                self._configure()
        else:
            self._problem(f"write of {len(data)} bytes to {offset:X}h, where no register is")

    def _problem(self, text: str) -> None:
        self.problems.append(text)
        self.log.warning("%s", text)

    def _configure(self) -> None:
        wanted, status = self._get(0x14), self._get(0x1C)
        if wanted & 1 and self._life is None:
            if wanted >> 7 & 0xF or wanted >> 16 & 0xFF != 0x46:
                self._problem(f"CC {wanted:08X}h wants a page or an entry size that this drive does not have")
                self._set(0x1C, status | 2)
                return
            life = self._life = _Life()
            sizes = self._get(0x24)
            life.cqs[0] = _CompletionQueue(0, self._get(0x30, 8), (sizes >> 16 & 0xFFF) + 1, 0)
            life.sqs[0] = _SubmissionQueue(0, self._get(0x28, 8), (sizes & 0xFFF) + 1, life.cqs[0])
            cocotb.start_soon(self._serve(life))
        elif not wanted & 1 and self._life is not None:
            life, self._life = self._life, None
            life.ended.set()
            life.work.set()
            cocotb.start_soon(self._disable(life))
        shutdown = 2 if wanted >> 14 & 3 else 0
        self._set(0x1C, self._get(0x1C) & ~0xC | shutdown << 2)

    async def _disable(self, life: _Life) -> None:
        while life.busy:
            life.idle.clear()
            await life.idle.wait()
        self._set(0x1C, 0)

    def _doorbell(self, index: int, value: int) -> None:
        qid, is_head = divmod(index, 2)
        life = self._life
        queue = None if life is None else life.cqs.get(qid) if is_head else life.sqs.get(qid)
        if life is None or queue is None:
            self._problem(f"doorbell {index} of a queue that does not exist")
        elif value >= queue.depth:
            self._problem(f"doorbell {index}: {value} is past the last slot, {queue.depth - 1}")
        elif isinstance(queue, _CompletionQueue):
            queue.head = value
            queue.moved.set()
        else:
            queue.tail = value
            life.work.set()

    async def _serve(self, life: _Life) -> None:
        """Fetch entries of all queues in turn, until the controller is disabled."""
        await Timer(1, unit="us")
        if life.ended.is_set():
            return
        self._set(0x1C, 1)
        while not life.ended.is_set():
            waiting = [queue for queue in life.sqs.values() if queue.head != queue.tail]
            if not waiting:
                life.work.clear()
                await life.work.wait()
            for queue in waiting:
                last = queue.tail if queue.tail > queue.head else queue.depth
                count = min(last - queue.head, self.fetch_at_most)
                life.busy += 1
                data = await self.mem_read(queue.base + queue.head * SUBMISSION_BYTES, count * SUBMISSION_BYTES)
                queue.head = (queue.head + count) % queue.depth
                for at in range(0, len(data), SUBMISSION_BYTES):
                    entry = Submission.unpack(data[at : at + SUBMISSION_BYTES])
                    life.busy += 1
                    cocotb.start_soon(self._command(life, queue, entry, self._fault_of(queue, entry)))
                self._done(life)

    @staticmethod
    def _done(life: _Life) -> None:
        life.busy -= 1
        if not life.busy:
            life.idle.set()

    def _fault_of(self, queue: _SubmissionQueue, entry: Submission) -> DriveFault | None:
        if not queue.qid:
            return None
        for order in self.orders:
            fits = order.opcode == entry.opcode if order.opcode is not None else _can_spoil(order.fault, entry)
            if order.at_ps is not None or not fits:
                continue
            if order.skip:
                order.skip -= 1
                continue
            order.at_ps, order.sqid, order.cid = round(get_sim_time("ps")), queue.qid, entry.cid
            return order.fault
        return None

    async def _command(self, life: _Life, queue: _SubmissionQueue, entry: Submission, fault: DriveFault | None) -> None:
        try:
            if queue.qid:
                await self._io(life, queue, entry, fault)
            elif entry.opcode != 0x0C:  # asynchronous event requests wait for events, and this drive has none
                await self._complete(life, queue, entry, *await self._run(self._admin(life, entry)))
        except _EndedError:
            pass
        finally:
            self._done(life)

    async def _run(self, work: Awaitable[int]) -> tuple[int, int]:
        """Return dword 0 and status of a command's work."""
        try:
            return await work, 0
        except _StatusError as error:
            return 0, error.status
        except PointerError as error:
            self._problem(str(error))
            return 0, INVALID_FIELD

    async def _io(self, life: _Life, queue: _SubmissionQueue, entry: Submission, fault: DriveFault | None) -> None:
        wait_ns = self.latency_ns if isinstance(self.latency_ns, int) else self.latency_ns(entry)
        if wait_ns > 0:
            await First(Timer(wait_ns, unit="ns"), life.ended.wait())
        self._check(life)
        if fault is DriveFault.EARLY_COMPLETION:
            await self._complete(life, queue, entry, 0, 0)
            await self._run(self._transfer(life, entry, fault))
            return
        result, status = await self._run(self._transfer(life, entry, fault))
        await self._complete(life, queue, entry, result, status, fault)
        if fault is DriveFault.DOUBLE_COMPLETION:
            await self._complete(life, queue, entry, result, status)

    @staticmethod
    def _check(life: _Life) -> None:
        if life.ended.is_set():
            raise _EndedError

    async def _transfer(self, life: _Life, entry: Submission, fault: DriveFault | None) -> int:
        if entry.nsid != 1 and not (entry.opcode == 0x00 and entry.nsid == 0xFFFFFFFF):
            raise _StatusError(INVALID_NAMESPACE)
        if entry.opcode == 0x00:
            return 0
        if entry.opcode not in (0x01, 0x02, 0x08):
            raise _StatusError(INVALID_OPCODE)
        if entry.slba + entry.blocks > self.blocks:
            raise _StatusError(OUT_OF_RANGE)
        at, length = entry.slba * self.block_bytes, entry.blocks * self.block_bytes
        if entry.opcode == 0x08:
            self.data[at : at + length] = bytes(length)
            return 0
        pieces = await data_pieces(entry, length, self.mem_read)
        if fault is DriveFault.SHORT_DATA:
            pieces = _shorter(pieces, min(128, length // 2))
        if fault is DriveFault.REPEATED_DATA:
            await self._piece(entry.opcode, *pieces[0], at)
        if fault is DriveFault.OUTSIDE_READ:
            await self.mem_read(self.stray_address, 64)
        for address, size in pieces:
            self._check(life)
            await self._piece(entry.opcode, address, size, at)
            at += size
        if fault is DriveFault.OUTSIDE_WRITE:
            await self.mem_write(self.stray_address, b"\xee" * 64)
        return 0

    async def _piece(self, opcode: int, address: int, size: int, at: int) -> None:
        """Move one piece between host memory and the namespace's byte `at`."""
        if opcode == 0x01:
            self.data[at : at + size] = await self.mem_read(address, size)
        else:
            await self.mem_write(address, bytes(self.data[at : at + size]))

    async def _complete(
        self, life: _Life, queue: _SubmissionQueue, entry: Submission, dw0: int, status: int, fault: DriveFault | None = None
    ) -> None:
        if fault is DriveFault.NO_COMPLETION:
            return
        to = queue.to
        if fault is DriveFault.WRONG_CQ:
            to = next(other for other in reversed(life.cqs.values()) if other is not to)
        async with to.turn:
            while to.full:
                to.moved.clear()
                await First(to.moved.wait(), life.ended.wait())
                self._check(life)
            self._check(life)
            if fault is DriveFault.SKIPPED_SLOT:
                to.advance()
            completion = _spoilt(Completion(dw0, queue.head, queue.qid, entry.cid, status, to.phase), fault, queue)
            if fault is DriveFault.EARLY_INTERRUPT:
                await self._interrupt(to)
            slot = to.tail
            to.advance()
            await self.mem_write(to.base + slot * COMPLETION_BYTES, completion.pack())
            if fault not in (DriveFault.NO_INTERRUPT, DriveFault.EARLY_INTERRUPT):
                await self._interrupt(to)

    async def _interrupt(self, queue: _CompletionQueue) -> None:
        if queue.vector is None or not self._msix.msix_enable:
            return
        at = 16 * queue.vector
        address, data, control = (int.from_bytes(self._table[at + a : at + b], "little") for a, b in ((0, 8), (8, 12), (12, 16)))
        if control & 1 or self._msix.msix_function_mask:
            self._problem(f"vector {queue.vector} is masked: this drive keeps no pending bits, so its interrupt is lost")
        else:
            await self._msix.issue_msix_interrupt(address, data)

    async def _admin(self, life: _Life, entry: Submission) -> int:
        """Do an admin command; return dword 0 of its completion."""
        self._check(life)
        actions: dict[int, Callable[[_Life, Submission], Awaitable[int]]] = {
            0x00: self._delete_sq,
            0x01: self._create_sq,
            0x02: self._get_log,
            0x04: self._delete_cq,
            0x05: self._create_cq,
            0x06: self._identify,
            0x08: self._abort,
            0x09: self._set_features,
            0x0A: self._get_features,
        }
        if entry.opcode not in actions:
            raise _StatusError(INVALID_OPCODE)
        return await actions[entry.opcode](life, entry)

    def _new_queue(self, entry: Submission, taken: dict[int, Any]) -> tuple[int, int]:
        qid, depth = entry.cdw10 & 0xFFFF, (entry.cdw10 >> 16) + 1
        if not 1 <= qid <= self.queues or qid in taken:
            raise _StatusError(INVALID_QID)
        if not 2 <= depth <= _MAXIMUM_ENTRIES:
            raise _StatusError(INVALID_QUEUE_SIZE)
        if not entry.cdw11 & 1 or entry.prp1 % PAGE_BYTES:
            raise _StatusError(INVALID_FIELD)
        return qid, depth

    async def _create_cq(self, life: _Life, entry: Submission) -> int:
        qid, depth = self._new_queue(entry, life.cqs)
        vector = entry.cdw11 >> 16 if entry.cdw11 & 2 else None
        if vector is not None and vector >= _VECTORS:
            raise _StatusError(INVALID_VECTOR)
        life.cqs[qid] = _CompletionQueue(qid, entry.prp1, depth, vector)
        return 0

    async def _create_sq(self, life: _Life, entry: Submission) -> int:
        qid, depth = self._new_queue(entry, life.sqs)
        to = entry.cdw11 >> 16
        if to not in life.cqs or not to:
            raise _StatusError(INVALID_CQ)
        life.sqs[qid] = _SubmissionQueue(qid, entry.prp1, depth, life.cqs[to])
        return 0

    async def _delete_sq(self, life: _Life, entry: Submission) -> int:
        qid = entry.cdw10 & 0xFFFF
        if not qid or qid not in life.sqs:
            raise _StatusError(INVALID_QID)
        del life.sqs[qid]
        return 0

    async def _delete_cq(self, life: _Life, entry: Submission) -> int:
        qid = entry.cdw10 & 0xFFFF
        if not qid or qid not in life.cqs:
            raise _StatusError(INVALID_QID)
        if any(queue.to.qid == qid for queue in life.sqs.values()):
            raise _StatusError(INVALID_DELETION)
        del life.cqs[qid]
        return 0

    async def _identify(self, _life: _Life, entry: Submission) -> int:
        page = bytearray(PAGE_BYTES)

        def put(offset: int, value: int, length: int) -> None:
            page[offset : offset + length] = value.to_bytes(length, "little")

        kind = entry.cdw10 & 0xFF
        if kind == 0 and entry.nsid == 1:
            for offset in (0, 8, 16):
                put(offset, self.blocks, 8)
            put(128, (self.block_bytes.bit_length() - 1) << 16, 4)
        elif kind == 0:
            raise _StatusError(INVALID_NAMESPACE)
        elif kind == 1:
            put(0, self.vendor_id, 2)
            page[4:24], page[24:64], page[64:72] = b"0".ljust(20), b"cocotbext-nvmetap drive".ljust(40), b"1".ljust(8)
            put(80, 0x00010400, 4)
            put(512, 0x66, 1)
            put(513, 0x44, 1)
            put(516, 1, 4)
            put(520, 1 << 3, 2)  # write zeroes
            put(536, 1, 4)  # SGLs, without an alignment
        elif kind == 2:
            put(0, 1 if entry.nsid < 1 else 0, 4)
        else:
            raise _StatusError(INVALID_FIELD)
        await self._give(entry, bytes(page))
        return 0

    async def _get_log(self, _life: _Life, entry: Submission) -> int:
        await self._give(entry, bytes(4 * ((entry.cdw10 >> 16 | (entry.cdw11 & 0xFFFF) << 16) + 1)))
        return 0

    async def _give(self, entry: Submission, data: bytes) -> None:
        at = 0
        for address, size in await data_pieces(entry, len(data), self.mem_read):
            await self.mem_write(address, data[at : at + size])
            at += size

    async def _abort(self, _life: _Life, _entry: Submission) -> int:
        return 1  # not aborted

    async def _set_features(self, _life: _Life, entry: Submission) -> int:
        feature = entry.cdw10 & 0xFF
        self._features[feature] = (self.queues - 1) * 0x10001 if feature == 7 else entry.cdw11
        return self._features[feature] if feature == 7 else 0

    async def _get_features(self, _life: _Life, entry: Submission) -> int:
        feature = entry.cdw10 & 0xFF
        return self._features.get(feature, (self.queues - 1) * 0x10001 if feature == 7 else 0)


def _can_spoil(fault: DriveFault, entry: Submission) -> bool:
    if fault is DriveFault.OUTSIDE_WRITE:
        return entry.opcode == 0x02
    return fault not in _NEEDS_DATA or entry.opcode in (0x01, 0x02)


def _shorter(pieces: list[tuple[int, int]], less: int) -> list[tuple[int, int]]:
    """Return pieces that together have `less` bytes less."""
    left = sum(size for _, size in pieces) - less
    kept: list[tuple[int, int]] = []
    for address, size in pieces:
        if left > 0:
            kept.append((address, min(size, left)))
            left -= size
    return kept


def _spoilt(completion: Completion, fault: DriveFault | None, queue: _SubmissionQueue) -> Completion:
    changes: dict[DriveFault, dict[str, int]] = {
        DriveFault.WRONG_CID: {"cid": completion.cid ^ 0x8000},
        DriveFault.WRONG_SQID: {"sqid": completion.sqid + 1},
        DriveFault.WRONG_SQ_HEAD: {"sq_head": (queue.tail + 1) % queue.depth},
        DriveFault.STALE_PHASE: {"phase": completion.phase ^ 1},
    }
    return replace(completion, **changes[fault]) if fault in changes else completion
