"""Streams as a rig sends them, with the contents of each block.

The maker uses ``tests/host/wire/encoder.py``, and the parser is written by hand from docs/wire-format.md. Neither shares a line
with the decoder under test.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.host.wire import encoder

HEADER = struct.Struct("<4sBBHIIQI")
COMMANDS, RAIL, EVENTS, TLP, STATUS, LINK = range(1, 7)
_COMMAND, _EVENT = 44, 16
_FLUSH = 10_000_000
"""Ticks after which a rig sends an incomplete block."""
_NEVER = 0xFFFFFFFF


@dataclass(frozen=True)
class Sent:
    """One record (for RAIL: one block's samples), with its identity ``key`` and its ticks."""

    kind: int
    key: tuple[int, ...]
    first_tick: int
    last_tick: int
    run: int
    """Index of the run in the stream, from 0."""
    start_tick: int = 0
    """Start of a command: its doorbell, else the beginning of the record. A phase takes the commands that begin in it."""


@dataclass
class Block:
    """A block on the wire and the records in it."""

    data: bytes
    records: list[Sent] = field(default_factory=list)


def parse(stream: bytes, run: int = 0) -> list[Block]:
    """Return the blocks of an undamaged stream."""
    blocks, at = [], 0
    while at < len(stream):
        magic, _, kind, length, _, _, tick, _ = HEADER.unpack_from(stream, at)
        assert magic == b"WBEL"
        end = at + HEADER.size + length + 4
        blocks.append(Block(stream[at:end], list(_records(kind, tick, stream[at + HEADER.size : end - 4], run))))
        at = end
    return blocks


def _records(kind: int, base: int, payload: bytes, run: int) -> Iterable[Sent]:
    if kind == COMMANDS:
        for at in range(0, len(payload), _COMMAND):
            offset, doorbell, fetch = struct.unpack_from("<iII", payload, at)
            opcode, qid, cid, status, _, blocks = struct.unpack_from("<BBHHHI", payload, at + 26)
            slba = int.from_bytes(payload[at + 38 : at + 43], "little")
            cqe = base + offset
            start = cqe - doorbell if doorbell < _NEVER - 1 else cqe - fetch if fetch < _NEVER - 1 else cqe
            key = (cid, opcode, qid, status, blocks, slba, cqe - start)
            yield Sent(kind, key, min(start, cqe), cqe, run, start)
    elif kind == RAIL:
        interval, count, _, adc_index, energy, high = struct.unpack_from("<IHHQQi", payload)
        last = base + (count - 1) * interval
        yield Sent(kind, (adc_index, energy, high, count), base, last, run, base)
    elif kind == EVENTS:
        for tick, *rest in struct.iter_unpack("<QBBHI", payload):
            yield Sent(kind, tuple(rest), tick, tick, run, tick)
    elif kind == TLP:
        at = 0
        while at < len(payload):
            offset, length, direction, flags = struct.unpack_from("<iHBB", payload, at)
            key = (direction, flags, *payload[at + 8 : at + 8 + length])
            yield Sent(kind, key, base + offset, base + offset, run, base + offset)
            at += 8 + (length + 3) // 4 * 4
    elif kind == STATUS:
        yield Sent(kind, (payload[18], *struct.unpack_from("<QQQ", payload, 36)), base, base, run, base)


class _Out:
    """Sends blocks as a rig does: a full block, or a block 10 ms after its first record."""

    def __init__(self, run_id: int, sequence: int) -> None:
        self.run_id, self.sequence = run_id, sequence
        self.data: list[bytes] = []
        self.commands: list[Any] = []
        self.events: list[tuple[int, ...]] = []

    def put(self, make: Any, tick: int, content: Any, **more: Any) -> None:
        self.data.append(make(self.sequence, tick, content, run=self.run_id, **more))
        self.sequence += 1

    def flush(self, now: int, everything: bool = False) -> None:
        old = self.commands and self.commands[0].cqe_tick <= now - _FLUSH
        if self.commands and (everything or old or len(self.commands) >= 40):
            self.put(encoder.commands, self.commands[0].cqe_tick, self.commands)
            self.commands = []
        if self.events and (everything or self.events[0][0] <= now - _FLUSH or len(self.events) >= 100):
            self.put(encoder.events, self.events[0][0], self.events)
            self.events = []


@dataclass
class _Counts:
    """STATUS, which counts since power-on."""

    tlps_down: int = 0
    tlps_up: int = 0
    commands: int = 0

    def status(self, out: _Out, tick: int, running: int, interval: int) -> None:
        self.tlps_down += 1  # makes every block different
        payload = struct.pack("<IIHHHHHBBIIIHH", 0x00010000, 1000, 4, 128, 64, 1024, 18, running, 0, 20, 500, interval, 1, 0)
        payload += struct.pack("<QQQ", self.tlps_down, self.tlps_up, self.commands) + bytes(36 + 8)
        out.data.append(encoder.block(STATUS, out.sequence, tick, payload, run=out.run_id))
        out.sequence += 1


def make(rng: np.random.Generator, *, run: int = 0, run_id: int | None = None, first_tick: int | None = None, scale: float = 1.0) -> bytes:
    """Return a run of the rig from RUN 1 to RUN 0.

    It lasts some tens of milliseconds, with up to two phases of commands, idle time between them, and a different rail power in
    each. No two records are equal, nor are any of another ``run``.
    """
    start = int(rng.integers(1_000, 1 << 29)) if first_tick is None else first_tick
    interval = int(rng.choice([2_000, 5_000, 20_000]))
    a_block = int(rng.integers(24, 300))
    counts = _Counts(*(int(n) for n in rng.integers(0, 10_000, 3)))
    sequence = int(rng.choice([0, 0, 1, 2**32 - 40, int(rng.integers(0, 2**32))]))
    out = _Out(int(rng.integers(1, 2**32)) if run_id is None else run_id, sequence)
    uid = run * 1_000_000 + 1

    counts.status(out, start, 1, interval)
    out.events.append((start, 15, 1, 0, 0))
    # actions: (tick, kind, argument); the rail is cut into its own blocks below
    happens: list[tuple[int, str, Any]] = []
    powers: list[tuple[int, int]] = [(start, int(rng.integers(10_000, 100_000)))]
    tick = start + int(rng.integers(50_000, 3_000_000))
    for phase in range(1, 1 + int(rng.integers(0, 3))):
        happens.append((tick, "marker", phase << 8 | 1))
        powers.append((tick, int(rng.integers(200_000, 2_000_000))))
        tick += 30_000
        for _ in range(max(2, int(rng.integers(5, 120) * scale))):
            happens.append((tick, "command", None))
            tick += int(rng.integers(1_000, 120_000))
        tick += 200_000
        happens.append((tick, "marker", phase << 8 | 2))
        powers.append((tick, int(rng.integers(10_000, 100_000))))
        tick += int(rng.choice([400_000, 30_000_000])) if scale >= 1 else 400_000
        if rng.random() < 0.3:
            happens.append((tick, "status", None))
            tick += 100_000
    end = tick + int(rng.integers(100_000, 4_000_000))
    happens += [(int(t), "event", None) for t in rng.integers(start, end, int(rng.integers(0, 6)))]
    happens += [(int(t), "tlp", None) for t in rng.integers(start, end, int(rng.integers(0, 3)))]
    happens += [(int(t), "status", None) for t in rng.integers(start, end, int(rng.integers(0, 3)))]
    sample = start + interval
    while sample + a_block * interval < end:
        happens.append((sample + (a_block - 1) * interval, "rail", (sample, a_block)))
        sample += a_block * interval
    last_samples = max(1, (end - sample) // interval)
    happens.append((end, "rail", (sample, int(last_samples))))
    happens.sort(key=lambda item: item[0])

    adc = energy = 0
    if rng.random() < 0.5:  # the rig has been on for a while, possibly until the lower 64 bits wrap
        adc, energy = int(rng.integers(0, 1 << 40)), int(rng.integers(0, 1 << 62)) * int(rng.choice([1, 8]))
    for now, what, argument in happens:
        out.flush(now)
        if what == "command":
            age = int(rng.integers(5_000, 28_000))
            ages = (age, age - 500, age - 2_000, 1_500, 300, 700)
            kind, length = int(rng.integers(1, 3)), int(rng.choice([8, 8, 64]))
            out.commands.append(encoder.Command(now + age, *ages, opcode=kind, cid=uid & 0xFFFF, blocks=length, slba=uid * 8))
            counts.commands += 1
        elif what == "marker":
            out.events.append((now, 7, 0, uid & 0xFFFF, argument))
            marker = encoder.Command(now + 9_000, 9_000, 8_500, opcode=0x0A, qid=0, cid=uid & 0xFFFF, blocks=argument, slba=0xD0)
            out.commands.append(marker)
            counts.commands += 1
        elif what == "event":
            out.events.append((now, 1, 1, 0, uid))
        elif what == "tlp":
            out.put(encoder.tlps, now, [(now, 1, 2, struct.pack(">IIII", 0x4A000001, 4, 0, uid))])
        elif what == "status":
            counts.status(out, now, 1, interval)
        elif what == "rail":
            first, number = argument
            index = np.searchsorted([t for t, _ in powers], first, side="right") - 1
            current = powers[int(index)][1] + uid % 97
            voltage = 165_000
            adc += number
            energy += number * voltage * current
            out.put(encoder.rail, first, [(voltage, current)] * number, interval=interval, adc_index=adc, energy=energy)
        counts.tlps_up += 1
        uid += 1
    out.events.append((end, 15, 0, 0, 0))
    out.flush(end, everything=True)
    counts.status(out, end, 0, interval)
    return b"".join(out.data)
