"""Captures with commands as a host saw them: the same figures as a tap's, without the facts that only a tap knows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from wattbell.analysis import analyze
from wattbell.capture import Capture, CaptureWriter, blocks, open_capture
from wattbell.capture.hostcommands import HostCommands, command_table
from wattbell.capture.schema import SeenBy
from wattbell.clocks.map import ClockMap
from wattbell.hostlog.files import read_log
from wattbell.measure.source import Source

from tests.host.hostlog.recorded import unpacked

MS = 1_000_000


def capture(folder: Path, commands: HostCommands, first_ns: int, last_ns: int, rail: bool = True) -> Capture:
    """Those commands, 0.5 A at 3.3 V every 0.1 ms, and two phases between the markers."""
    clock = ClockMap(first_ns, 0, 0.0, 1e-6, "by hand", first_ns, last_ns)
    with CaptureWriter(folder, lba_size_bytes=512, journal=False, conditions={"virtual": False}) as writer:
        if rail:
            count = (last_ns - first_ns) // 100_000
            writer.add_rail_source(blocks(0, 100_000, np.full(count, 3.3, np.float32), np.full(count, 0.5, np.float32)))
        commands.onto(clock, 1000).put(writer)
        writer.meta["workload"]["phases"] = [{"phase": 1, "name": "mix", "kind": "fio"}]
    return open_capture(folder)


@pytest.fixture
def traced(tmp_path: Path) -> Capture:
    found = read_log(unpacked(tmp_path, "whole.txt"))
    return capture(tmp_path / "c", found, found.markers[0][0] - 100 * MS, found.markers[-1][0] + 100 * MS)


def test_figures_of_the_drivers_commands(traced: Capture) -> None:
    found = analyze(traced)
    (phase,) = found["phases"]
    by_opcode = phase["commands"]["by_opcode"]
    assert {name: entry["count"] for name, entry in by_opcode.items()} == {
        "read": 499,
        "write": 117,
        "dsm": 16,
        "flush": 4,
        "write_zeroes": 1,
    }
    assert by_opcode["read"]["bytes"] == 400 * 4096 + 99 * 16384 and by_opcode["dsm"]["bytes"] == 0
    assert phase["power"]["mean_w"]["value"] == pytest.approx(1.65, rel=1e-6)
    assert phase["efficiency"]["mb_per_j"]["value"] > 0
    latency = by_opcode["read"]["latency_s"]
    assert latency["from"] == "set-up" and latency["without_start"] == 0 and by_opcode["read"]["splits_s"] == {}
    assert latency["u"]["min"] == pytest.approx(2 * 500e-9 * (2 / 3) ** 0.5, rel=0.01)
    (warning,) = (text for text in found["warnings"] if "as the kernel's driver saw them" in text)
    assert "MB/J) are lower limits" in warning
    (set_to_1, set_to_0) = traced.events.collect().filter(pl.col("name") == "power_state")["arg8"].to_list()
    assert (set_to_1, set_to_0) == (1, 0)


def test_terminal_and_page_name_the_start(traced: Capture, tmp_path: Path) -> None:
    def run(*words: str) -> str:
        return subprocess.run([sys.executable, "-m", "wattbell", *words], capture_output=True, text=True, check=True).stdout

    said = run("analyze", str(traced.path))
    assert "set-up to CQE" in said and "as the kernel's driver saw them" in said
    run("report", str(traced.path), "--out", str(tmp_path / "r.html"))
    assert "Latency from set-up to CQE" in (tmp_path / "r.html").read_text()


def simple(source: SeenBy, u_ns: int, start: bool = True) -> HostCommands:
    done = np.arange(1, 101, dtype=np.int64) * MS
    columns: dict[str, Any] = {
        "cqe_tick": done,
        "opcode": np.full(100, 2, np.uint8),
        "qid": np.full(100, 1, np.uint8),
        "blocks": np.full(100, 8),
    }
    if start:
        columns["doorbell_tick"] = done - 80_000
    return HostCommands(command_table(columns, source, u_ns), source=source)


@pytest.mark.parametrize(
    ("source", "start", "u_s", "says"),
    [
        (SeenBy.TAP, "doorbell", 0.0, None),
        (SeenBy.BLKTRACE, "issue", 1e-3, "block layer saw them"),
        # how long an I/O took is fio's own measurement: only when it was is whole milliseconds
        (SeenBy.FIO_LOG, "submission", 0.0, "whole milliseconds"),
    ],
)
def test_how_good_the_instants_are_is_in_the_figures(tmp_path: Path, source: SeenBy, start: str, u_s: float, says: str | None) -> None:
    made = capture(tmp_path / "c", simple(source, 1_000_000), 0, 200 * MS, rail=False)
    found = analyze(made)
    latency = found["commands"]["by_opcode"]["read"]["latency_s"]
    assert latency["from"] == start and latency["p50"] == pytest.approx(80e-6)
    assert latency["u"]["max"] == pytest.approx(2 * u_s * (2 / 3) ** 0.5, abs=20e-9)
    notes = Source(made).seen
    assert len(notes) == (says is not None) and all(str(says) in note for note in notes)
    assert [warning for warning in found["warnings"] if "not the link" in warning or "not as the link" in warning] == notes


def test_commands_without_a_start_have_counts_and_no_latency(tmp_path: Path) -> None:
    found = analyze(capture(tmp_path / "c", simple(SeenBy.FIO_LOG, (1 << 32) - 1, start=False), 0, 200 * MS, rail=False))
    read = found["commands"]["by_opcode"]["read"]
    assert (read["count"], read["bytes"]) == (100, 100 * 4096)
    assert read["latency_s"]["n"] == 0 and read["latency_s"]["without_start"] == 100 and read["latency_s"]["p50"] is None
