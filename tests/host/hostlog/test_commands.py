"""A host log put onto a capture's clock, and captures from before there were such logs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st
from wattbell.capture import Capture, CaptureWriter, open_capture
from wattbell.capture.hostcommands import HostCommands, command_table, ticks_of
from wattbell.capture.schema import SeenBy
from wattbell.clocks.map import ClockMap
from wattbell.wire.decode import Gap
from wattbell_spec.wire import BlockContent

BOOT = 1_000_000_000_000_000
MAP = ClockMap(BOOT, 5_000, 0.0, 1e-6, "made by hand", BOOT, BOOT + 10**9)


def log() -> HostCommands:
    columns = {
        "doorbell_tick": np.array([BOOT + 100, BOOT + 50, BOOT + 300]),
        "cqe_tick": np.array([BOOT + 900, BOOT + 800, BOOT + 1000]),
        "opcode": np.array([2, 1, 9], np.uint8),
        "qid": np.array([1, 1, 0], np.uint8),
        "slba": np.array([7, 8, 2], np.uint64),
        "blocks": np.array([8, 16, 3], np.uint32),
    }
    lost = [Gap(BlockContent.COMMANDS, BOOT + 10, BOOT + 20, 4, "the kernel's buffer overran")]
    return HostCommands(command_table(columns, SeenBy.TRACEPOINT, 1), [(BOOT + 60, 0x101)], lost)


def test_a_log_becomes_rows_events_and_gaps_of_a_capture(tmp_path: Path) -> None:
    with CaptureWriter(tmp_path / "c", journal=False) as writer:
        log().onto(MAP, 1000).put(writer)
    capture = open_capture(tmp_path / "c")
    rows = capture.commands.collect()
    assert rows.select("doorbell_tick", "cqe_tick", "slba").rows() == [(5050, 5800, 8), (5100, 5900, 7), (5300, 6000, 2)]
    assert rows["fetch_tick"].null_count() == 3
    assert rows["source"].to_list() == [1, 1, 1] and rows["instant_u_ns"].to_list() == [1, 1, 1]
    # the marker at its start; power state 3, which Set Features 02h set, at its completion
    assert capture.events.collect().select("tick", "name", "arg8", "arg32").rows() == [
        (5060, "marker", 0, 0x101),
        (6000, "power_state", 3, 0),
    ]
    assert capture.gaps.collect().select("kind", "first_tick", "last_tick", "count").rows() == [("COMMANDS", 5010, 5020, 4)]


def test_ticks_of_another_length(tmp_path: Path) -> None:
    placed = log().onto(MAP, 4000)
    assert placed.table()["doorbell_tick"].to_pylist() == [5050 // 4, 5100 // 4, 5300 // 4]


@given(st.integers(-(1 << 61), 1 << 61), st.integers(1, 1_000_000_000))
def test_the_tick_of_an_instant_is_exact(ns: int, tick_ps: int) -> None:
    if abs(ns * 1000 // tick_ps) < 1 << 62:
        assert int(ticks_of(np.array([ns]), tick_ps)[0]) == ns * 1000 // tick_ps


def test_a_capture_without_the_columns_reads_as_a_taps(tmp_path: Path) -> None:
    with CaptureWriter(tmp_path / "c", journal=False) as writer:
        writer.add_rows("commands", {"cqe_tick": [2000], "doorbell_tick": [1000], "opcode": [2], "blocks": [8]})
    path = tmp_path / "c" / "commands.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["source", "instant_u_ns"]), path)
    capture = Capture(tmp_path / "c", {"state": "complete"}, verify=False)
    assert capture.commands.select("cqe_tick", "source", "instant_u_ns").collect().rows() == [(2000, 0, 0)]
    assert [piece.rows() for piece in capture.command_pieces(0, 5000, ["source", "cqe_tick"], 10)] == [[(0, 2000)]]
