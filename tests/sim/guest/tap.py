"""A tap of our own for tests: decodes a bus trace with cocotbext-pcie's TLP codec and follows NVMe by the book.

It shares no code with the converter, the gateware or the host package, so tests can rely on it as a reference.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cocotbext.pcie.core.tlp import Tlp, TlpType

DOWN, UP = 1, 2


@dataclass
class Item:
    """A TLP or a sideband change of a trace: ``kind`` is 'tlp', 'rail' or 'side'."""

    time_ps: int
    kind: str
    direction: int = 0
    data: bytes = b""
    left_out: bool = False


@dataclass
class Command:
    """A command as the bus shows it; times in picoseconds, ``None`` where not seen."""

    sqid: int
    sqe: bytes
    doorbell_ps: int | None
    fetch_ps: int
    cqe_ps: int | None = None
    status: int | None = None
    ranges: list[tuple[int, int]] = field(default_factory=list)
    payload: bytearray = field(default_factory=bytearray)
    answer_ps: int | None = None  # first data of an Identify

    @property
    def opcode(self) -> int:
        return self.sqe[0]

    @property
    def cid(self) -> int:
        return struct.unpack_from("<H", self.sqe, 2)[0]

    @property
    def nsid(self) -> int:
        return struct.unpack_from("<I", self.sqe, 4)[0]

    def dword(self, n: int) -> int:
        return struct.unpack_from("<I", self.sqe, 4 * n)[0]

    @property
    def prp1(self) -> int:
        return struct.unpack_from("<Q", self.sqe, 24)[0]

    @property
    def slba(self) -> int:
        return struct.unpack_from("<Q", self.sqe, 40)[0]

    @property
    def blocks(self) -> int:
        return (self.dword(12) & 0xFFFF) + 1


def header_json(path: Path) -> bytes:
    """Return the JSON of a trace file."""
    raw = path.read_bytes()[: 1 << 20]
    assert raw[:4] == b"WBBT"
    assert struct.unpack_from("<I", raw, 4)[0] == 1
    return raw[12 : 12 + struct.unpack_from("<I", raw, 8)[0]]


def items(path: Path) -> Iterator[Item]:
    """Yield the trace's content in file order, with bursts expanded in place. Assert that record times never go back."""
    raw = path.read_bytes()
    at = 12 + struct.unpack_from("<I", raw, 8)[0]
    last, ended = 0, False
    while at < len(raw):
        kind, flags, length, time_ps = struct.unpack_from("<BBHQ", raw, at)
        body = raw[at + 12 : at + 12 + length]
        at += 12 + length
        assert len(body) == length, "a record is cut short"
        assert time_ps >= last, "time goes back"
        assert not ended, "a record behind END"
        last = time_ps
        if kind in (1, 2):
            yield Item(time_ps, "tlp", kind, body, bool(flags & 1))
        elif kind == 3:
            direction, hlen, count, step_ps, step = struct.unpack_from("<BBHII", body)
            head = bytearray(body[12 : 12 + hlen])
            for i in range(count):
                one = bytearray(head)
                if head[0] in (0x40, 0x60):
                    size = 4 if head[0] == 0x40 else 8
                    address = int.from_bytes(head[8 : 8 + size], "big") + i * step
                    one[8 : 8 + size] = address.to_bytes(size, "big")
                else:
                    owed = (int.from_bytes(head[6:8], "big") & 0xFFF or 4096) - i * step
                    one[6:8] = ((head[6] & 0xF0) << 8 | owed & 0xFFF).to_bytes(2, "big")
                    one[11] = head[11] & 0x80 | (head[11] + i * step) & 0x7F
                yield Item(time_ps + i * step_ps, "tlp", direction, bytes(one), True)
        elif kind == 4:
            yield Item(time_ps, "rail", 0, body)
        elif kind == 5:
            yield Item(time_ps, "side", body[0], body[1:2])
        else:
            assert kind == 6
            ended = True
    assert ended, "no END record"


def unpack(item: Item) -> Tlp:
    """Return the TLP of ``item``; an omitted payload is zeros."""
    data = item.data
    if item.left_out:
        probe = 12 if not data[0] & 0x20 else 16
        words = (data[2] & 3) << 8 | data[3] or 1024
        data = data[:probe] + bytes(4 * words)
    return Tlp.unpack(data)


class Tap:
    """Follows the bus of a trace: enumeration, controller, queues, commands, completions.

    ``commands`` holds every command in order of its fetch, ``lone_completions`` the CQEs of unknown commands,
    ``skipped`` the submission slots that were never fetched.
    """

    def __init__(self, path: Path) -> None:
        self.commands: list[Command] = []
        self.lone_completions = 0
        self.skipped = 0
        self.bar0 = 0
        self.enables = 0
        self.enabled = False
        self.msix = 0
        self.regs: dict[int, int] = {}
        self.sq: dict[int, tuple[int, int, int]] = {}  # address, size, cqid
        self.cq: dict[int, list[int]] = {}  # address, size, tail, phase, head
        self.tails: dict[int, int] = {}
        self.heads: dict[int, int] = {}
        self.doorbells: dict[tuple[int, int], int] = {}
        self.reads: dict[tuple[str, int], tuple[int, int, int]] = {}
        self.flight: dict[tuple[int, int], Command] = {}
        self.busy_ps = {DOWN: 0, UP: 0}
        self.side: list[tuple[int, int, int]] = []
        self.rail = 0
        expanded = sorted(items(path), key=lambda i: i.time_ps)
        for item in expanded:
            self.take(item)

    def take(self, item: Item) -> None:
        if item.kind == "side":
            self.side.append((item.time_ps, item.direction, item.data[0]))
            return
        if item.kind == "rail":
            self.rail += 1
            return
        tlp = unpack(item)
        assert item.time_ps >= self.busy_ps[item.direction], "TLPs of one direction overlap"
        # 8 GT/s x4: at least 0.25 ns per byte, 8 bytes of framing; the coding's 130/128 is left to the writer
        self.busy_ps[item.direction] = item.time_ps + (len(item.data if not item.left_out else tlp.pack()) + 8) * 250
        kind = tlp.fmt_type
        write = kind in (TlpType.MEM_WRITE, TlpType.MEM_WRITE_64)
        read = kind in (TlpType.MEM_READ, TlpType.MEM_READ_64)
        if item.direction == DOWN:
            if kind == TlpType.CFG_WRITE_0:
                value = int.from_bytes(tlp.data, "little")
                if tlp.address == 0x10 and value != 0xFFFFFFFF:
                    self.bar0 = value & ~0xF
            elif write:
                self.register(item.time_ps, tlp.address - self.bar0, bytes(tlp.data))
            elif kind == TlpType.CPL_DATA:
                self.completion(item.time_ps, tlp)
        elif read:
            self.reads[(str(tlp.requester_id), tlp.tag)] = (tlp.address, tlp.length * 4, item.time_ps)
        elif write:
            self.drive_writes(item.time_ps, tlp)

    def register(self, time_ps: int, offset: int, data: bytes) -> None:
        value = int.from_bytes(data, "little")
        if offset >= 0x1000 and offset < 0x2000:
            index, is_cq = divmod((offset - 0x1000) // 4, 2)
            if is_cq:
                assert index in self.cq, f"doorbell of unknown completion queue {index}"
                assert value < self.cq[index][1]
                self.cq[index][4] = value
                return
            assert index in self.sq, f"doorbell of unknown queue {index}"
            size = self.sq[index][1]
            assert value < size
            slot = self.tails[index]
            while slot != value:
                self.doorbells[(index, slot)] = time_ps
                slot = (slot + 1) % size
            self.tails[index] = value
        elif offset < 0x1000:
            for i in range(0, len(data), 4):
                self.regs[offset + i] = int.from_bytes(data[i : i + 4], "little")
            if offset == 0x14:
                was, self.enabled = self.enabled, bool(value & 1)
                if was and self.enabled:
                    return  # shutdown notification and the like
                self.sq.clear()
                self.cq.clear()
                self.tails.clear()
                self.flight.clear()
                self.doorbells.clear()
                if value & 1:
                    self.enables += 1
                    aqa = self.regs[0x24]
                    asq = self.regs[0x28] | self.regs.get(0x2C, 0) << 32
                    acq = self.regs[0x30] | self.regs.get(0x34, 0) << 32
                    self.add_sq(0, asq, (aqa & 0xFFF) + 1, 0)
                    self.cq[0] = [acq, (aqa >> 16 & 0xFFF) + 1, 0, 1, 0]

    def add_sq(self, sqid: int, address: int, size: int, cqid: int) -> None:
        self.sq[sqid] = (address, size, cqid)
        self.tails[sqid] = self.heads[sqid] = 0
        for key in [k for k in self.doorbells if k[0] == sqid]:
            del self.doorbells[key]

    def completion(self, time_ps: int, tlp: Tlp) -> None:
        key = (str(tlp.requester_id), tlp.tag)
        address, length, asked_ps = self.reads[key]
        assert time_ps >= asked_ps, "completion before its request"
        offset = length - tlp.byte_count
        data = bytes(tlp.data)
        if tlp.byte_count <= len(data):
            del self.reads[key]
        for sqid, (base, size, _) in self.sq.items():
            if base <= address < base + 64 * size:
                for i in range(0, len(data), 64):
                    self.fetched(asked_ps, sqid, (address + offset + i - base) // 64, data[i : i + 64])
                return
        for command in self.flight.values():
            by_prp = command.sqe[1] >> 6 == 0  # like the instrument, this tap does not follow SGLs
            if command.opcode == 9 and command.sqid and by_prp and address & ~0xFFF == command.prp1 & ~0xFFF:
                command.payload += data
                count = min(len(command.payload) // 16, (command.dword(10) & 0xFF) + 1)
                command.ranges = [struct.unpack_from("<4xIQ", command.payload, 16 * i)[::-1] for i in range(count)]
                return

    def fetched(self, time_ps: int, sqid: int, slot: int, sqe: bytes) -> None:
        self.skipped += (slot - self.heads[sqid]) % self.sq[sqid][1]
        self.heads[sqid] = (slot + 1) % self.sq[sqid][1]
        command = Command(sqid, sqe, self.doorbells.pop((sqid, slot), None), time_ps)
        assert (sqid, command.cid) not in self.flight, "CID in use"
        self.flight[(sqid, command.cid)] = command
        self.commands.append(command)

    def drive_writes(self, time_ps: int, tlp: Tlp) -> None:
        address, data = tlp.address, bytes(tlp.data)
        if address >> 20 == 0xFEE:
            self.msix += 1
            return
        for cqid, cq in self.cq.items():
            base, size, tail, phase, _ = cq
            if base <= address < base + 16 * size:
                assert (address - base) // 16 == tail, "CQ slots are written in order"
                head_now, sqid, cid, status = struct.unpack("<8xHHHH", data)
                assert status & 1 == phase, "phase tag"
                cq[2] = (tail + 1) % size
                cq[3] ^= cq[2] == 0
                command = self.flight.pop((sqid, cid), None)
                if command is None:
                    self.lone_completions += 1
                    return
                assert self.sq[sqid][2] == cqid
                # the drive may have fetched more entries since it built this one, or have requested entries that have not returned
                size = self.sq[sqid][1]
                assert (self.heads[sqid] - head_now + 8) % size <= len(self.flight) + 9
                command.cqe_ps, command.status = time_ps, status >> 1
                if sqid == 0 and command.status == 0:
                    self.admin_done(command)
                return
        for command in self.flight.values():
            if command.opcode == 6 and command.sqid == 0 and not len(command.payload) >= 4096:
                command.payload += data
                command.answer_ps = command.answer_ps or time_ps

    def admin_done(self, command: Command) -> None:
        qid, size = command.dword(10) & 0xFFFF, (command.dword(10) >> 16) + 1
        if command.opcode == 1:
            self.add_sq(qid, command.prp1, size, command.dword(11) >> 16)
        elif command.opcode == 5:
            self.cq[qid] = [command.prp1, size, 0, 1, 0]
        elif command.opcode == 0:
            self.sq.pop(qid, None)
        elif command.opcode == 4:
            self.cq.pop(qid, None)
