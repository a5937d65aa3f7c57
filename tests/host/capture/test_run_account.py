"""The rig's reports about a run, matched by tick: streams written by hand, in the orders in which a line may deliver them."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest
from wattbell.capture import Capture, CaptureWriter

from tests.host.capture.streams import recorded, run
from tests.host.wire import encoder as e

FLUSH = 10_000_000
"""Ticks for which the rig may hold a block open, and the counter of command records it has lost: docs/wire-format.md."""
LOST_RECORDS = 80


def with_losses(block: bytes, lost_records: int) -> bytes:
    """A STATUS block in which the rig reports this many command records lost."""
    head, payload = block[:28], bytearray(block[28:-4])
    payload[LOST_RECORDS : LOST_RECORDS + 4] = struct.pack("<I", lost_records)
    return head + bytes(payload) + struct.pack("<I", zlib.crc32(head + bytes(payload)))


def counted(capture: Capture) -> list[tuple[int, int, int, str]]:
    """Gaps over the whole run: (first tick, last tick, count, reason)."""
    gaps = capture.gaps.collect()
    found = gaps.select("first_tick", "last_tick", "count", "reason").rows()
    return [row for row in found if "counted" in row[3]]


def three(first: int = 2) -> bytes:
    return e.commands(first, 10_000, [e.Command(10_000 + k) for k in range(3)])


@pytest.mark.parametrize(
    ("made", "lost", "missing"),
    [
        (3, (0, 0), 0),
        (5, (0, 2), 0),
        (5, (7, 9), 0),
        (5, (2**32 - 1, 1), 0),
        (5, (0, 0), 2),
        (5, (0, 1), 1),
        (2, (0, 0), -1),
        (3, (0, 1), -1),
    ],
)
def test_what_the_rig_counted_is_what_came_and_what_it_lost(tmp_path: Path, made: int, lost: tuple[int, int], missing: int) -> None:
    """`made` commands in the tap; three arrive; `lost`: the rig's counter, which wraps, at both ends of the run."""
    blocks = run(three(), commands=made, last=50_000)
    blocks[0], blocks[-1] = with_losses(blocks[0], lost[0]), with_losses(blocks[-1], lost[1])
    found = counted(recorded(tmp_path / "c", *blocks))
    reason = "more commands came than the rig counted" if missing < 0 else "the rig counted more commands than came"
    assert found == ([(500, 50_000 + FLUSH, missing, reason)] if missing else [])


def test_what_a_rig_says_at_its_first_tick_counts(tmp_path: Path) -> None:
    with CaptureWriter(tmp_path / "c") as writer:
        writer.feed(e.status(0, 0, run=1) + three(1))
        assert writer.stream.account.run == 1


def test_the_state_of_the_rig_is_what_it_said_last_and_not_what_came_last(tmp_path: Path) -> None:
    with CaptureWriter(tmp_path / "c") as writer:
        writer.feed(e.status(0, 500, run=1) + e.events(1, 600, [(600, 15, 1, 0, 0)]))
        assert writer.stream.account.run == 1 and writer.stream.account.has_run
        writer.feed(e.events(2, 9000, [(9000, 15, 0, 0, 0)]))
        assert writer.stream.account.run == 0
        writer.feed(e.status(3, 8000, run=1))  # made before the stop, sent after it
        assert writer.stream.account.run == 0
        writer.feed(e.status(4, 9000, run=1))  # within the same tick the event counts as later
        assert writer.stream.account.run == 0
        writer.feed(e.events(5, 9000, [(9000, 15, 1, 0, 0)]))
        assert writer.stream.account.run == 1
