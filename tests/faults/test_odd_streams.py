"""Streams with good CRCs that say impossible things: impossible parts are set aside and counted, and no loss is forgotten.

Each stream is a rig's run (faultstream.py) with blocks put between its own. The run alone determines the permitted content of the capture.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from wattbell.analysis import analyze
from wattbell.capture import Capture, CaptureWriter, open_capture

from tests.faults.faultoracle import judge, missing_records
from tests.faults.faultstream import STATUS, Block, make, parse

UTC = 1_700_000_000_000_000_000
COUNTERS = ("malformed", "unmatched", "lost_tlps", "lost_commands", "lost_records", "lost_events", "lost_samples", "lost_pages")
"""Counters of STATUS, from byte 64 on."""


def remade(block: bytes, *, sequence: int | None = None, tick: int | None = None, payload: bytes | None = None) -> bytes:
    """Return a block with other contents, and a good CRC."""
    head = bytearray(block[:28])
    if sequence is not None:
        struct.pack_into("<I", head, 8, sequence % 2**32)
    if tick is not None:
        struct.pack_into("<Q", head, 16, tick)
    data = bytes(head) + (block[28:-4] if payload is None else payload)
    return data + struct.pack("<I", zlib.crc32(data))


def kind(block: bytes) -> int:
    return block[5]


def tick(block: bytes) -> int:
    return int(struct.unpack_from("<Q", block, 16)[0])


def in_turn(blocks: Sequence[bytes]) -> list[bytes]:
    """Return the same blocks, numbered in this order."""
    (first,) = struct.unpack_from("<I", blocks[0], 8)
    return [remade(block, sequence=first + k) for k, block in enumerate(blocks)]


def counting(block: bytes, **counters: int) -> bytes:
    """Return a STATUS with these counters."""
    payload = bytearray(block[28:-4])
    for name, count in counters.items():
        struct.pack_into("<I", payload, 64 + 4 * COUNTERS.index(name), count)
    return remade(block, payload=bytes(payload))


def with_tick_ps(block: bytes, tick_ps: int) -> bytes:
    payload = bytearray(block[28:-4])
    struct.pack_into("<I", payload, 4, tick_ps)
    return remade(block, payload=bytes(payload))


def event(block: bytes, at: int, base: int) -> bytes:
    """Return an EVENTS block with one event, made from another block's header."""
    head = bytearray(block[:28])
    head[5] = 3
    struct.pack_into("<H", head, 6, 16)
    return remade(bytes(head) + bytes(4), tick=base, payload=struct.pack("<QBBHI", at, 7, 0, 0, 99))


@pytest.fixture(scope="module")
def run() -> list[Block]:
    return parse(make(np.random.default_rng(44), first_tick=5_000_000_000))


def recorded(blocks: Sequence[bytes], place: Path, *, killed: bool) -> Capture:
    """Record as a recorder that gets each block at its run's time. ``killed``: rebuilt from the journal."""
    writer = CaptureWriter(place, lba_size_bytes=512)
    began, now = tick(blocks[0]), 0
    for block in blocks:
        now = max(now, tick(block) - began) if tick(block) - began < 10**11 else now
        writer.feed(block, UTC + now)
    if killed:
        writer.save_meta()
        writer.abandon()
    else:
        writer.close()
    return open_capture(place)


def middle(run: Sequence[Block]) -> int:
    return len(run) // 2


def put(*made: Callable[[bytes], bytes]) -> Callable[[list[bytes]], list[bytes]]:
    """Insert blocks in the middle of a run, each made from the block before it."""

    def change(blocks: list[bytes]) -> list[bytes]:
        at = len(blocks) // 2
        return [*blocks[:at], *(make_one(blocks[at]) for make_one in made), *blocks[at:]]

    return change


def statuses(**counters: Sequence[int]) -> Callable[[list[bytes]], list[bytes]]:
    """Set counters of the first STATUS, of one in the middle, and of the last; -1 leaves a counter as it is."""

    def change(blocks: list[bytes]) -> list[bytes]:
        at = [k for k, block in enumerate(blocks) if kind(block) == STATUS]
        half = len(blocks) // 2
        first, last = blocks[at[0]], blocks[at[-1]]
        between = remade(first, tick=tick(blocks[half]))
        values = [{name: each[k] for name, each in counters.items()} for k in range(3)]
        blocks[at[0]], blocks[at[-1]] = counting(first, **values[0]), counting(last, **values[2])
        return [*blocks[:half], counting(between, **values[1]), *blocks[half:]]

    return change


IMPOSSIBLE: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "an event's block at 2^50": put(lambda b: event(b, 2**50, 2**50)),
    "an event at 2^50 in a block of now": put(lambda b: event(b, 2**50, tick(b))),
    "two blocks at 2^50": put(lambda b: event(b, 2**50, 2**50), lambda b: event(b, 2**50 + 9, 2**50 + 9)),
    "a block at 2^61 + 1": put(lambda b: event(b, 2**61 + 1, 2**61 + 1)),
    "two blocks at 2^61 + 1": put(lambda b: event(b, 2**61 + 1, 2**61 + 1), lambda b: event(b, 2**61 + 9, 2**61 + 9)),
    "a block at the last tick of all": put(lambda b: event(b, 2**64 - 1, 2**64 - 1)),
    "a block of the beginning": put(lambda b: event(b, 0, 0)),
    "a tick of 2^32 - 1 ps": lambda blocks: [*blocks[:-1], with_tick_ps(blocks[-1], 2**32 - 1)],
    "a tick that doubles": lambda blocks: [*blocks[:-1], with_tick_ps(blocks[-1], 2000)],
}


@pytest.mark.parametrize("killed", [False, True], ids=["ended", "killed"])
@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_what_is_impossible_is_set_aside_and_stretches_nothing(name: str, killed: bool, run: list[Block], tmp_path: Path) -> None:
    blocks = in_turn(IMPOSSIBLE[name]([block.data for block in run]))
    capture = recorded(blocks, tmp_path / "c", killed=killed)
    loss = capture.meta["loss"]
    assert not loss["lossless"] and loss["implausible_blocks"] + loss["malformed_blocks"] + loss["restarts"] > 0
    assert capture.tick_ps == 1000
    result = analyze(capture)
    lasted_s = (tick(run[-1].data) - tick(run[0].data)) * 1e-9
    assert result["capture"]["duration_s"] == pytest.approx(lasted_s, abs=0.05)
    assert result["warnings"]
    records = [record for block in run for record in block.records if record.kind != STATUS]
    assert len(missing_records(records, capture)) <= 2, "the run's own records are there"


LOST: dict[str, Any] = {
    "TLPs that no event tells of": statuses(lost_tlps=(0, 0, 9)),
    "TLPs, then the counter goes back": statuses(lost_tlps=(0, 9, 0)),
    "commands, from the first STATUS on, then none": statuses(lost_commands=(9, 9, 0)),
    "records": statuses(lost_records=(0, 3, 3)),
    "events": statuses(lost_events=(0, 3, 3)),
    "pages": statuses(lost_pages=(5, 5, 6)),
    "malformed TLPs": statuses(malformed=(0, 1, 1)),
    "TLPs that match nothing": statuses(unmatched=(3, 7, 9)),
}


@pytest.mark.parametrize("killed", [False, True], ids=["ended", "killed"])
@pytest.mark.parametrize("name", LOST)
def test_a_loss_that_the_rig_counted_is_not_forgotten(name: str, killed: bool, run: list[Block], tmp_path: Path) -> None:
    capture = recorded(in_turn(LOST[name]([block.data for block in run])), tmp_path / "c", killed=killed)
    assert not capture.meta["loss"]["lossless"]
    result = analyze(capture)
    assert result["warnings"]
    assert all(figure["lost"] > 0 for figure in result["rates"].values() if isinstance(figure, dict) and "lost" in figure)


@pytest.mark.parametrize("name", ["unmatched", "lost_tlps"])
def test_what_was_counted_before_the_run_is_no_loss_of_it(name: str, run: list[Block], tmp_path: Path) -> None:
    """Counters run from power-on. While the host enumerates, the tracker knows no queue, so unmatched TLPs of that time need no word."""
    change = statuses(**{name: (7, 7, 7)})
    blocks = in_turn(change([block.data for block in run]))
    capture = recorded(blocks, tmp_path / "c", killed=False)
    assert judge([record for block in parse(b"".join(blocks)) for record in block.records], capture, harmless=True).silent == []
    notes = " ".join(capture.meta["conditions"]["notes"])
    assert ("lost_tlps 7" in notes) == (name == "lost_tlps") and capture.meta["loss"]["rig"][name] == 0


def test_a_host_that_slept_for_an_hour_continues_the_same_run(run: list[Block], tmp_path: Path) -> None:
    """The rig was held up, and its ticks show it; the host's clock agrees."""
    blocks = [block.data for block in run]
    half, hour = len(blocks) // 2, 3600 * 10**9
    writer = CaptureWriter(tmp_path / "c", lba_size_bytes=512)
    later = [remade(block, tick=tick(block) + hour) for block in blocks[half:] if kind(block) != 3]
    stream = in_turn([*blocks[:half], *later])
    for k, block in enumerate(stream):
        writer.feed(block, UTC + tick(block) + (0 if k < half else 10**6))
    writer.save_meta()
    writer.abandon()
    capture = open_capture(tmp_path / "c")
    assert capture.meta["loss"]["restarts"] == 0 and len(capture.meta["journal"]["pauses"]) == 1
    assert not capture.meta["loss"]["lossless"], "an hour of silence is marked"
    assert 3600 < analyze(capture)["capture"]["duration_s"] < 3601
