"""LINK blocks: from the bytes of a stream to the user's view."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import polars as pl
import pytest
from wattbell.analysis.link import describe, link, states
from wattbell.capture import open_capture
from wattbell.capture.meta import seal
from wattbell.capture.writer import CaptureWriter
from wattbell.measure.errormodel import error_model
from wattbell_spec.wire import LINK_COUNTERS, UNKNOWN32, EventType, LinkState

RECORD = struct.Struct("<BBBB21I" + "III" + "Q")
"""docs/wire-format.md, by hand."""


def block(sequence: int, tick: int, *records: bytes) -> bytes:
    payload = b"".join(records)
    whole = b"WBEL" + struct.pack("<BBHIIQI", 2, 6, len(payload), sequence, 0, tick, 0) + payload
    return whole + struct.pack("<I", zlib.crc32(whole))


def record(
    direction: int,
    counters: dict[str, int],
    *,
    state: int = 1,
    lanes: int = 0xF,
    rate: int = 3,
    acks: tuple[int, int, int, int] = (0, UNKNOWN32, 0, 0),
) -> bytes:
    return RECORD.pack(direction, state, lanes, rate, *(counters.get(name, 0) for name in LINK_COUNTERS), *acks)


@pytest.fixture
def capture_path(tmp_path: Path) -> Path:
    path = tmp_path / "capture"
    wrapped = 2**32 - 10
    with CaptureWriter(path) as writer:
        writer.feed(block(0, 1000, record(0, {"tlps": wrapped, "duplicates": 5}), record(1, {"tlps": 7})))
        writer.feed(block(1, 2000, record(0, {"tlps": 5, "duplicates": 5}, acks=(3, 80, 300, 600)), record(1, {"tlps": 7})))
        last = {"tlps": 1005, "duplicates": 8, "lost": 2, "bad_lcrc": 1}
        writer.feed(block(2, 3000, record(0, last, acks=(5, 80, 400, 1000)), record(1, {"tlps": 8}, state=3, lanes=0x11, rate=1)))
    return path


def test_counters_count_on_and_acks_have_a_mean(capture_path: Path) -> None:
    down, up = link(open_capture(capture_path))
    assert (down["direction"], down["lanes"], down["rate_gt_s"], down["state"]) == ("host to drive", 4, 8.0, "L0")
    assert down["counters"]["tlps"] == 1015 and down["counters"]["duplicates"] == 3
    assert down["ack_mean_s"].value == pytest.approx(200e-9)
    # A tick, and two clocks that each are within 6 ns: sqrt(1 + (2 * 6)^2 * 2 / 3) ns.
    assert down["ack_mean_s"].u == pytest.approx(9.849e-9, rel=1e-3)
    assert (up["direction"], up["lanes"], up["reversed"], up["rate_gt_s"], up["state"]) == ("drive to host", 1, True, 2.5, "L1")
    assert up["counters"]["tlps"] == 1 and up["ack_mean_s"].value is None
    assert describe(down) == (
        "x4, 8 GT/s, L0; 1\u202f015 TLPs, 3 replayed, 2 lost, 1 with a wrong LCRC; Acks after 200 ns (80.0 ns to 400 ns)"
    )


def test_a_virtual_rig_has_one_clock() -> None:
    virtual, board = error_model({"conditions": {"virtual": True}}), error_model({})
    assert virtual.clocks_u() == 0 and virtual.interval_u(1) == pytest.approx(2e-9 / 6**0.5)
    assert board.interval_u(0) == pytest.approx((96e-18 + 4e-18 / 6) ** 0.5)
    stated = error_model({"rig": {"error_model": {"instant_s": 4e-9}}})
    assert stated.clocks_u() == pytest.approx(8e-9 * (2 / 3) ** 0.5)


def test_a_rig_without_lanes_and_an_older_capture_have_none(tmp_path: Path) -> None:
    with CaptureWriter(tmp_path / "capture") as writer:
        writer.add_rows("commands", {"cqe_tick": [2000], "doorbell_tick": [1000], "opcode": [2], "blocks": [8]})
    assert link(open_capture(tmp_path / "capture")) == []
    (tmp_path / "capture" / "link.parquet").unlink()
    seal(tmp_path / "capture")
    assert link(open_capture(tmp_path / "capture")) == []


def events(*rows: tuple[int, EventType, int, int]) -> pl.DataFrame:
    """tick, type, arg8, arg16"""
    return pl.DataFrame(rows, schema=["tick", "type", "arg8", "arg16"], orient="row")


def test_the_link_is_awake_when_both_directions_are() -> None:
    """And its tick is the direction's own, not the one at which the instrument had seen both."""
    own, all_, s = EventType.LINK_STATE, EventType.LINK, LinkState
    seen = [(10, all_, s.L0, 0), (700, all_, s.L1, 0), (1000, all_, s.RECOVERY, 0), (1300, all_, s.L0, 0)]
    told = [
        (1, own, 0, s.L0),
        (2, own, 1, s.L0),
        (500, own, 0, s.L1),
        (600, own, 1, s.L1),
        (900, own, 1, s.RECOVERY),
        (950, own, 0, s.RECOVERY),
        (1100, own, 0, s.L0),
        (1200, own, 1, s.L0),
        (2000, own, 1, s.L0S),
        (3000, own, 0, s.L0S),
        (4000, own, 1, s.L0),
    ]
    ticks, both = states(events(*seen, *told))
    assert list(zip(ticks.tolist(), both.tolist(), strict=True)) == [
        (1, s.UNKNOWN),
        (2, s.L0),
        (500, s.L1),
        (600, s.L1),
        (900, s.RECOVERY),
        (950, s.RECOVERY),
        (1100, s.RECOVERY),
        (1200, s.L0),
        (2000, s.L0S),
        (3000, s.L0S),
        (4000, s.L0),
    ]
    # Reported for one direction only, or for none: what the instrument saw.
    for some in ([], told[:1]):
        ticks, both = states(events(*some, *seen))
        assert list(zip(ticks.tolist(), both.tolist(), strict=True)) == [(10, s.L0), (700, s.L1), (1000, s.RECOVERY), (1300, s.L0)]
