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
ENTRIES, BLOCK = 16, 512
COMMANDS = 40
NS_A_TICK = 2
UNSEEN_24 = 0xFF_FFFF


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
        self._down: deque[bytes] = deque()
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
        self._down.append(struct.pack(">BBHHBBL", 0x40, 0, 1, 0, 0, 0x0F, BAR + offset) + struct.pack("<L", value))

    async def read_register(self, offset: int) -> int:
        """Send a memory read of 4 bytes and wait for its completion."""
        self._answers.pop(9, None)
        self._down.append(struct.pack(">BBHHBBL", 0x00, 0, 1, 0, 9, 0x0F, BAR + offset))
        while 9 not in self._answers:
            await RisingEdge(self.dut.clk)
        return int(struct.unpack("<L", self._answers.pop(9))[0])

    def _take(self, tlp: bytes) -> None:
        kind, length = tlp[0], (tlp[2] & 3) << 8 | tlp[3]
        if kind == 0x4A:
            self._answers[tlp[10]] = tlp[12 : 12 + 4 * length]
            return
        requester, tag, _enables, address = struct.unpack_from(">HBBL", tlp, 4)
        assert requester == DRIVE and kind in (0x00, 0x40), tlp.hex()
        if kind == 0x40:
            assert len(tlp) == 12 + 4 * length, f"{len(tlp)} bytes, length {length}"
            self.put(address, tlp[12:])
            return
        size = 4 * length
        for at in range(0, size, 128):
            piece = self.get(address + at, min(128, size - at))
            head = struct.pack(">BBHHHHBB", 0x4A, 0, len(piece) // 4, 0, size - at, requester, tag, (address + at) & 0x7F)
            self._down.append(head + piece)

    async def run(self) -> None:
        """Move a beat a clock in both directions, for ever."""
        dut, beats, coming = self.dut, deque[tuple[bytes, bool]](), bytearray()
        dut.up_ready.value = 1
        while True:
            if not beats and self._down:
                data = as_phy(self._down.popleft())
                beats.extend((data[at : at + 8], at + 8 >= len(data)) for at in range(0, len(data), 8))
            dut.down_valid.value = int(bool(beats))
            if beats:
                part, last = beats[0]
                dut.down_dat.value = int.from_bytes(part, "little")
                dut.down_be.value = (1 << len(part)) - 1
                dut.down_last.value = int(last)
            await ReadOnly()
            if beats and dut.down_ready.value:
                beats.popleft()
            if dut.up_valid.value:
                enabled = int(dut.up_be.value)
                part = int(dut.up_dat.value).to_bytes(8, "little")
                coming += part[: 8 if enabled >> 4 else 4]
                if dut.up_last.value:
                    self._take(as_phy(bytes(coming), 3))
                    coming = bytearray()
            self.messages += int(dut.msi.value)
            if dut.record_valid.value:
                names = ("cqe_tick", "qid", "cid", "opcode", "slba", "blocks", "status", "flags", "msix_after", "cq_head_after")
                names += ("doorbell_before", "fetch_before", "first_data_before", "last_data_before")
                self.records.append({name: int(getattr(dut, f"record_{name}").value) for name in names})
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


@cocotb.test()
async def records_are_what_the_host_did(dut: Any) -> None:
    Clock(dut.clk, 8, unit="ns").start()
    for name in ("down_valid", "down_last", "down_dat", "down_be", "attach_strobe", "attach_bar0"):
        getattr(dut, name).value = 0
    dut.rst.value = 1
    for _ in range(8):
        await RisingEdge(dut.clk)
    dut.rst.value = 0
    # The hard block answered the host's configuration requests, so the tap does not know BAR0.
    dut.attach_bar0.value = BAR
    dut.attach_strobe.value = int(not os.environ.get("NO_ATTACH"))
    await RisingEdge(dut.clk)
    dut.attach_strobe.value = 0
    host = Host(dut)
    cocotb.start_soon(host.run())
    assert await with_timeout(host.read_register(0), 10, "us") & 0xFFFF == ENTRIES - 1
    assert await with_timeout(host.read_register(4), 10, "us") == 0
    for offset, value in {0x24: (ENTRIES - 1) << 16 | ENTRIES - 1, 0x28: ASQ, 0x2C: 0, 0x30: ACQ, 0x34: 0, 0x14: 0x0046_0001}.items():
        host.write_register(offset, value)
    assert await with_timeout(host.read_register(0x1C), 10, "us") == 1
    done = []
    for opcode, place in ((5, CQ), (1, SQ)):
        await with_timeout(host.command(0, sqe(opcode, len(done), place, (ENTRIES - 1) << 16 | 1, 0x1_0001)), 20, "us")
        done.append((0, len(done), opcode, None, None))
    for number in range(COMMANDS):
        opcode, cid, slba = 1 + number % 2, 0x100 + number, 8 * number
        host.put(BUFFERS + BLOCK * number, bytes([number]) * BLOCK)
        await with_timeout(host.command(1, sqe(opcode, cid, BUFFERS + BLOCK * number, slba, 0, 0, nsid=1)), 20, "us")
        done.append((1, cid, opcode, slba, 1))
    for _ in range(2000):
        await RisingEdge(dut.clk)
    found = [(r["qid"], r["cid"], r["opcode"], r["slba"] if r["qid"] else None, r["blocks"] if r["qid"] else None) for r in host.records]
    Path(os.environ["RECORDS"]).write_text(json.dumps(host.records), encoding="utf-8")
    dut._log.info("%d records, %d messages, %d ns", len(found), host.messages, round(get_sim_time("ns")))
    assert found == done
    assert host.messages == len(done)
    for record in host.records:
        # Ages count back from the CQE. The hard block makes the messages, so none was on the streams.
        assert record["doorbell_before"] > record["fetch_before"] > 0 and record["cq_head_after"] > 0
        assert record["msix_after"] == UNSEEN_24 and record["flags"] == 0 and record["status"] == 0
        if record["qid"]:
            assert record["fetch_before"] > record["first_data_before"] > record["last_data_before"] > 0
