"""An encoder written by hand from docs/wire-format.md. It shares nothing with the decoder or with ``spec``."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass


def block(kind: int, sequence: int, first_tick: int, payload: bytes, dropped: int = 0, version: int = 2, run: int = 0) -> bytes:
    head = b"WBEL" + struct.pack("<BBHIIQI", version, kind, len(payload), sequence & 0xFFFFFFFF, dropped, first_tick & (2**64 - 1), run)
    body = head + payload
    return body + struct.pack("<I", zlib.crc32(body))


COMMAND = (
    ("cqe_offset", 32),
    ("doorbell_before", 32),
    ("fetch_before", 32),
    ("first_data_before", 32),
    ("last_data_before", 32),
    ("msix_after", 24),
    ("cq_head_after", 24),
    ("opcode", 8),
    ("qid", 7),
    ("interrupt_guessed", 1),
    ("cid", 16),
    ("status", 15),
    ("length_checked", 1),
    ("nsid", 16),
    ("blocks", 32),
    ("slba", 40),
    ("flags", 8),
)
"""Fields of a command record and their bits, the first in the lowest bits."""


@dataclass(frozen=True)
class Command:
    cqe_tick: int
    doorbell_before: int = 0xFFFFFFFF
    fetch_before: int = 0xFFFFFFFF
    first_data_before: int = 0xFFFFFFFF
    last_data_before: int = 0xFFFFFFFF
    msix_after: int = 0xFFFFFF
    cq_head_after: int = 0xFFFFFF
    opcode: int = 2
    qid: int = 1
    cid: int = 0
    status: int = 0
    nsid: int = 1
    blocks: int = 8
    slba: int = 0
    flags: int = 0
    length_checked: int = 0
    interrupt_guessed: int = 0

    def pack(self, first_tick: int) -> bytes:
        """Bytes of the record in a block of `first_tick`. OverflowError for a value that does not fit its field."""
        offset = self.cqe_tick - first_tick
        if not -(2**31) <= offset < 2**31:
            raise OverflowError(f"the CQE is {offset} ticks from its block's first tick")
        values, record, at = {**vars(self), "cqe_offset": offset & 0xFFFF_FFFF}, 0, 0
        for name, bits in COMMAND:
            if values[name] >> bits:
                raise OverflowError(f"{name} has {bits} bits, not room for {values[name]}")
            record |= values[name] << at
            at += bits
        return record.to_bytes(at // 8, "little")


def unpacked(payload: bytes, first_tick: int) -> list[Command]:
    """Records of a COMMANDS payload."""
    found = []
    size = sum(bits for _, bits in COMMAND) // 8
    for place in range(0, len(payload), size):
        record, fields = int.from_bytes(payload[place : place + size], "little"), {}
        for name, bits in COMMAND:
            fields[name], record = record & (1 << bits) - 1, record >> bits
        offset = fields.pop("cqe_offset")
        found.append(Command(cqe_tick=first_tick + offset - (offset >> 31 << 32), **fields))
    return found


def commands(sequence: int, first_tick: int, records: Iterable[Command], dropped: int = 0, run: int = 0) -> bytes:
    return block(1, sequence, first_tick, b"".join(r.pack(first_tick) for r in records), dropped, run=run)


def rail(
    sequence: int,
    first_tick: int,
    samples: Iterable[tuple[int, int]],
    *,
    interval: int = 1000,
    flags: int = 0,
    adc_index: int = 0,
    energy: int = 0,
    dropped: int = 0,
    run: int = 0,
) -> bytes:
    """`samples`: (voltage in 20 uV, current in 500 nA)."""
    body = b"".join(v.to_bytes(3, "little", signed=True) + c.to_bytes(3, "little", signed=True) for v, c in samples)
    payload = struct.pack("<IHHQQi", interval, len(body) // 6, flags, adc_index, energy & (2**64 - 1), energy >> 64) + body
    return block(2, sequence, first_tick, payload + bytes(-len(payload) % 4), dropped, run=run)


def events(sequence: int, first_tick: int, records: Iterable[tuple[int, ...]], dropped: int = 0, run: int = 0) -> bytes:
    """`records`: (tick, type, arg8, arg16, arg32)."""
    return block(3, sequence, first_tick, b"".join(struct.pack("<QBBHI", *r) for r in records), dropped, run=run)


def tlps(sequence: int, first_tick: int, records: Iterable[tuple[int, int, int, bytes]], dropped: int = 0, run: int = 0) -> bytes:
    """`records`: (tick, direction, flags, TLP bytes)."""
    payload = b""
    for tick, direction, flags, data in records:
        payload += struct.pack("<iHBB", tick - first_tick, len(data), direction, flags) + data + bytes(-len(data) % 4)
    return block(4, sequence, first_tick, payload, dropped, run=run)


def status(
    sequence: int,
    tick: int,
    *,
    run: int = 1,
    adc_period: int = 1000,
    decimation: int = 1,
    run_id: int = 0,
    commands: int = 0,
    unmatched: int = 0,
    later: bytes = b"",
) -> bytes:
    """A STATUS block; ``later``: what gateware of 2026-11-28 and newer has behind the first 104 bytes."""
    payload = struct.pack("<IIHHHHHBBIIIHH", 0x00010000, 1000, 4, 128, 64, 1024, 18, run, 0, 20, 500, adc_period, decimation, 0)
    payload += struct.pack("<QQQ", 0, 0, commands) + struct.pack("<9I", 0, 0, unmatched, *([0] * 6)) + struct.pack("<Q", 0)
    return block(5, sequence, tick, payload + later, run=run_id)
