"""The bench: a host behind a simulated hard block. It creates queues, reads and writes, and compares the tap's records with what it did."""

from __future__ import annotations

import json
import os
import struct
from collections import deque
from pathlib import Path
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge, with_timeout
from cocotb.utils import get_sim_time

BIG = os.environ["ENDIANNESS"] == "big"
BAR, DRIVE = 0xF000_0000, 0x0100
ASQ, ACQ, SQ, CQ, BUFFERS = 0x1_0000, 0x2_0000, 0x3_0000, 0x4_0000, 0x10_0000
MESSAGE = 0xFEE0_0000
ENTRIES, BLOCK = 16, 512
COMMANDS = 40
UNSEEN_24 = 0xFF_FFFF
FIELDS = ("qid", "cid", "opcode", "slba", "blocks", "status", "flags", "interrupt_guessed", "cqe_tick", "doorbell_before", "fetch_before")
FIELDS += ("first_data_before", "last_data_before", "msix_after", "cq_head_after")
"""Fields of a record, ages in ticks of 2 ns."""


def swapped(data: bytes) -> bytes:
    """Reverse the bytes of each double word."""
    return b"".join(data[at : at + 4][::-1] for at in range(0, len(data), 4))


def as_phy(tlp: bytes, format_at: int = 0) -> bytes:
    """Put a TLP into LitePCIe's order of bytes, or back: headers are numbers; with big endianness, payloads are in the same order.

    format_at: byte that has the format now, 3 on the way back
    """
    header = 16 if tlp[format_at] & 0x20 else 12
    return swapped(tlp[:header]) + (swapped(tlp[header:]) if BIG else tlp[header:])


class Host:
    """Sends TLPs down, answers the drive's reads from its memory, and counts messages."""

    def __init__(self, dut: Any) -> None:
        self.dut = dut
        self.memory: dict[int, bytes] = {}
        """Double words by address."""
        self.records: list[dict[str, int]] = []
        self.messages = 0
        self.tail, self.head, self.phase = [0, 0], [0, 0], [1, 1]
        self.passed: list[tuple[str, int, int]] = []
        """Direction, address and tick of the first beat of each TLP that passed. A completion has the address of its data."""
        self._down: deque[tuple[bytes, int]] = deque()
        self._answers: dict[int, bytes] = {}

    def put(self, address: int, data: bytes) -> None:
        """Write memory."""
        for at in range(0, len(data), 4):
            self.memory[address + at] = data[at : at + 4]

    def get(self, address: int, size: int) -> bytes:
        """Read memory."""
        return b"".join(self.memory.get(address + at, bytes(4)) for at in range(0, size, 4))

    def write_register(self, offset: int, value: int) -> None:
        """Send a memory write of 4 bytes."""
        self._down.append((struct.pack(">BBHHBBL", 0x40, 0, 1, 0, 0, 0x0F, BAR + offset) + struct.pack("<L", value), BAR + offset))

    async def read_register(self, offset: int) -> int:
        """Send a memory read of 4 bytes and wait for its completion."""
        self._answers.pop(9, None)
        self._down.append((struct.pack(">BBHHBBL", 0x00, 0, 1, 0, 9, 0x0F, BAR + offset), BAR + offset))
        while 9 not in self._answers:
            await RisingEdge(self.dut.clk)
        return int(struct.unpack("<L", self._answers.pop(9))[0])

    def _take(self, tlp: bytes, tick: int) -> None:
        kind, length = tlp[0], (tlp[2] & 3) << 8 | tlp[3]
        if kind == 0x4A:
            self._answers[tlp[10]] = tlp[12 : 12 + 4 * length]
            return
        requester, tag, _enables, address = struct.unpack_from(">HBBL", tlp, 4)
        assert requester == DRIVE and kind in (0x00, 0x40), tlp.hex()
        self.passed.append(("up", address, tick))
        if kind == 0x40:
            assert len(tlp) == 12 + 4 * length, f"{len(tlp)} bytes, length {length}"
            self.put(address, tlp[12:])
            self.messages += address == MESSAGE
            return
        size = 4 * length
        for at in range(0, size, 128):
            piece = self.get(address + at, min(128, size - at))
            head = struct.pack(">BBHHHHBB", 0x4A, 0, len(piece) // 4, 0, size - at, requester, tag, (address + at) & 0x7F)
            self._down.append((head + piece, address + at))

    async def run(self) -> None:
        """Move a beat a clock in both directions, for ever."""
        dut, beats, coming = self.dut, deque[tuple[bytes, bool]](), bytearray()
        dut.up_ready.value = 1
        data, address, up_tick = b"", 0, 0
        while True:
            if not beats and self._down:
                tlp, address = self._down.popleft()
                data = as_phy(tlp)
                beats.extend((data[at : at + 8], at + 8 >= len(data)) for at in range(0, len(data), 8))
            dut.down_valid.value = int(bool(beats))
            if beats:
                part, last = beats[0]
                dut.down_dat.value = int.from_bytes(part, "little")
                dut.down_be.value = (1 << len(part)) - 1
                dut.down_last.value = int(last)
            await ReadOnly()
            if beats and dut.down_ready.value:
                if len(beats) == (len(data) + 7) // 8:
                    self.passed.append(("down", address, int(dut.tick.value)))
                beats.popleft()
            if dut.up_valid.value:
                up_tick = up_tick if coming else int(dut.tick.value)
                enabled = int(dut.up_be.value)
                part = int(dut.up_dat.value).to_bytes(8, "little")
                coming += part[: 8 if enabled >> 4 else 4]
                if dut.up_last.value:
                    self._take(as_phy(bytes(coming), 3), up_tick)
                    coming = bytearray()
            self.messages += int(dut.msi.value)
            if dut.record_valid.value:
                self.records.append({name: int(getattr(dut, f"record_{name}").value) for name in FIELDS})
            await RisingEdge(dut.clk)

    async def command(self, queue: int, entry: bytes) -> None:
        """Submit an SQE, wait for its CQE and release it."""
        base = (SQ if queue else ASQ) + 64 * self.tail[queue]
        self.put(base, entry)
        self.tail[queue] = (self.tail[queue] + 1) % ENTRIES
        self.write_register(0x1000 + 8 * queue, self.tail[queue])
        place = (CQ if queue else ACQ) + 16 * self.head[queue]
        while True:
            _dw0, _dw1, _sqhd, sqid, cid, status = struct.unpack("<LLHHHH", self.get(place, 16))
            if status & 1 == self.phase[queue]:
                break
            await RisingEdge(self.dut.clk)
        assert (sqid, cid, status >> 1) == (queue, struct.unpack_from("<H", entry, 2)[0], 0)
        self.head[queue] = (self.head[queue] + 1) % ENTRIES
        if not self.head[queue]:
            self.phase[queue] ^= 1
        self.write_register(0x1004 + 8 * queue, self.head[queue])


def sqe(opcode: int, cid: int, prp1: int, *cdw: int, nsid: int = 0) -> bytes:
    """Return an SQE with CDW10 and what follows."""
    return struct.pack("<BBHLQQQQ6L", opcode, 0, cid, nsid, 0, 0, prp1, 0, *cdw, *[0] * (6 - len(cdw)))


async def start(dut: Any, attach: bool) -> Host:
    """Reset everything, tell the tap BAR0 or not, and enable the controller."""
    Clock(dut.clk, 8, unit="ns").start()
    for name in ("down_valid", "down_last", "down_dat", "down_be", "attach_strobe", "attach_bar0"):
        getattr(dut, name).value = 0
    dut.rst.value = 1
    for _ in range(8):
        await RisingEdge(dut.clk)
    dut.rst.value = 0
    # The hard block answered the host's configuration requests, so the tap does not know BAR0.
    dut.attach_bar0.value = BAR
    dut.attach_strobe.value = int(attach)
    await RisingEdge(dut.clk)
    dut.attach_strobe.value = 0
    for _ in range(4000):
        await RisingEdge(dut.clk)
        if dut.attach_done.value == 1:
            break
    assert int(dut.attach_done.value) == attach
    host = Host(dut)
    cocotb.start_soon(host.run())
    assert await with_timeout(host.read_register(0), 10, "us") & 0xFFFF == ENTRIES - 1
    assert await with_timeout(host.read_register(4), 10, "us") == 0
    for offset, value in {0x24: (ENTRIES - 1) << 16 | ENTRIES - 1, 0x28: ASQ, 0x2C: 0, 0x30: ACQ, 0x34: 0, 0x14: 0x0046_0001}.items():
        host.write_register(offset, value)
    assert await with_timeout(host.read_register(0x1C), 10, "us") == 1
    return host


async def work(host: Host, count: int) -> list[dict[str, int]]:
    """Create the queues, read and write. Return the record that each command must give, in the order of submission."""
    creations = ((5, CQ), (1, SQ))
    commands = [(0, sqe(opcode, cid, place, (ENTRIES - 1) << 16 | 1, 0x1_0003)) for cid, (opcode, place) in enumerate(creations)]
    for number in range(count):
        opcode, place = 1 + number % 2, BUFFERS + BLOCK * number
        host.put(place, bytes([number]) * BLOCK)
        commands.append((1, sqe(opcode, 0x100 + number, place, 8 * number, 0, 0, nsid=1)))
    for queue, entry in commands:
        await with_timeout(host.command(queue, entry), 20, "us")
    for _ in range(2000):
        await RisingEdge(host.dut.clk)
    rung = [n for n, (_side, address, _tick) in enumerate(host.passed) if address in (BAR + 0x1000, BAR + 0x1008)]
    spans = zip(rung, [*rung[1:], len(host.passed)], strict=True)
    return [must_be(queue, entry, host.passed[begin:end]) for (queue, entry), (begin, end) in zip(commands, spans, strict=True)]


def must_be(queue: int, entry: bytes, passed: list[tuple[str, int, int]]) -> dict[str, int]:
    """Return the record of a command from its SQE and from what passed from its doorbell to the next."""

    def ticks(direction: str, place: int, size: int) -> list[int]:
        return [tick for side, address, tick in passed if side == direction and place <= address < place + size]

    opcode, cid, prp1 = entry[0], struct.unpack_from("<H", entry, 2)[0], struct.unpack_from("<Q", entry, 24)[0]
    cqe = ticks("up", CQ if queue else ACQ, 16 * ENTRIES)[0]
    made = {"qid": queue, "cid": cid, "opcode": opcode, "status": 0, "flags": 0, "interrupt_guessed": 1, "cqe_tick": cqe}
    made["doorbell_before"] = cqe - passed[0][2]
    made["fetch_before"] = cqe - ticks("up", SQ if queue else ASQ, 64 * ENTRIES)[0]
    made["cq_head_after"] = ticks("down", BAR + 0x1004 + 8 * queue, 4)[0] - cqe
    message = ticks("up", MESSAGE, 4)
    made["msix_after"] = message[0] - cqe if message else UNSEEN_24
    if queue:
        data = ticks("up" if opcode == 2 else "down", prp1, BLOCK)
        made |= {"slba": struct.unpack_from("<Q", entry, 40)[0], "blocks": 1}
        made |= {"first_data_before": cqe - data[0], "last_data_before": cqe - data[-1]}
    return made


@cocotb.test()
@cocotb.parametrize(messages=["pins", "writes"])
async def records_are_what_the_host_did(dut: Any, messages: str) -> None:
    """With messages by pins, none is on the streams. The drive's own are, and the tap learns them: who enabled them it did not see."""
    host = await start(dut, attach=True)
    if messages == "writes":
        host.write_register(0x2000, MESSAGE)
    expected = await work(host, COMMANDS)
    Path(os.environ["RECORDS"]).with_suffix(f".{messages}.json").write_text(json.dumps(host.records), encoding="utf-8")
    dut._log.info("%d records, %d messages, %d ns", len(host.records), host.messages, round(get_sim_time("ns")))
    assert host.messages == len(expected) == len(host.records) == COMMANDS + 2
    assert all((record["msix_after"] != UNSEEN_24) == (messages == "writes") for record in expected)
    for record, right in zip(host.records, expected, strict=True):
        wrong = {name: (record[name], value) for name, value in right.items() if record[name] != value}
        assert not wrong, f"CID {right['cid']:x}, (record, host): {wrong}"


@cocotb.test()
async def without_bar0_the_tap_finds_no_command(dut: Any) -> None:
    host = await start(dut, attach=False)
    await work(host, 4)
    assert host.records == []
