"""One run seen twice: by a tap, and by a host with a clock that began elsewhere and is 40 ppm slow."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from wattbell.analysis import analyze
from wattbell.capture import CaptureWriter, open_capture
from wattbell.capture.check import check
from wattbell.capture.hostcommands import command_table
from wattbell.capture.schema import SeenBy
from wattbell.errors import CaptureError
from wattbell.hostlog.derived import better_clock, without_tap

COUNT, EVERY, LATENCY = 200, 1_000_000, 80_000
ORIGIN, SLOW = 77_000_000_000, 40e-6


def recorded(folder: Path, log: bool = True) -> Path:
    """200 reads, one every ms, between the markers of phase 3; the host sees each 5 us early and 7 us late."""
    tick = 10_000_000 + EVERY * np.arange(COUNT + 2)
    qid = np.where((np.arange(COUNT + 2) % (COUNT + 1)) == 0, 0, 1)
    opcode = np.where(qid, 2, 10)
    slba = np.where(qid, 8 * np.arange(COUNT + 2), 0xD0)
    blocks = np.where(qid, 8, 0)
    blocks[0], blocks[-1] = 0x301, 0x302
    same = {"opcode": opcode, "qid": qid, "slba": slba, "blocks": blocks, "cid": np.arange(COUNT + 2) % 64}
    phases = [{"phase": 3, "name": "reads", "kind": "fio"}]
    with CaptureWriter(folder, conditions={"host_log": {"source": "trace"}}, journal=False, lba_size_bytes=512) as writer:
        rows = {"doorbell_tick": tick, "cqe_tick": tick + LATENCY, **same}
        writer.add_rows("commands", {name: column.tolist() for name, column in rows.items()})
        writer.add_markers([(int(tick[0]), 0x301), (int(tick[-1]), 0x302)])
        power = np.where(np.arange(300) % 7 < 3, 1.0, 0.25).astype(np.float32)
        writer.add_rail(0, EVERY, np.full(300, 3.3, np.float32), power)
        writer.meta["workload"] = {"source": "fio", "phases": phases}
        writer.meta["conditions"]["host_log"] |= {"commands": COUNT + 2, "clock_map": {"bound_s": 31e-3, "method": "markers"}}
        if log:

            def host(ticks: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
                return ORIGIN + np.rint(ticks * (1 - SLOW)).astype(np.int64)

            types = {"opcode": np.uint8, "qid": np.uint8, "slba": np.uint64, "blocks": np.uint32, "cid": np.uint16}
            columns = {name: column.astype(types[name]) for name, column in same.items()}
            seen = {"doorbell_tick": host(tick - 5000), "cqe_tick": host(tick + LATENCY + 7000), **columns}
            pq.write_table(command_table(seen, SeenBy.TRACEPOINT, 1), writer.path / "host_commands.parquet")
    return folder


def test_both_say_the_same_of_the_work(tmp_path: Path) -> None:
    source = recorded(tmp_path / "tap")
    clock = without_tap(source, tmp_path / "host")
    assert 0 < clock.bound_s < 12e-6 and clock.drift == pytest.approx(SLOW, abs=SLOW)
    capture = open_capture(tmp_path / "host")
    commands = capture.commands.collect()
    assert set(commands["source"]) == {int(SeenBy.TRACEPOINT)} and not (tmp_path / "host/host_commands.parquet").exists()
    early = commands["doorbell_tick"].to_numpy() - open_capture(source).commands.collect()["doorbell_tick"].to_numpy()
    assert abs(early + 5000).max() <= clock.bound_s * 1e9
    tap, host = (json.loads(json.dumps(analyze(open_capture(tmp_path / name))))["phases"] for name in ("tap", "host"))
    assert [p["name"] for p in host] == ["reads"]
    (tap,), (host,) = tap, host
    for key in ("count", "bytes"):
        assert host["commands"]["all"][key] == tap["commands"]["all"][key] > 0
    one, other = (p["power"]["energy_j"] for p in (tap, host))
    assert abs(one["value"] - other["value"]) <= one["u"] + other["u"] and other["conditions"]["edge_u_s"] == clock.bound_s


def test_a_capture_without_a_log(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="--commands trace"):
        without_tap(recorded(tmp_path / "tap", log=False), tmp_path / "host")
    assert not (tmp_path / "host").exists()


def test_a_live_sessions_map_by_markers_gives_way_to_one_by_all_commands(tmp_path: Path) -> None:
    folder = recorded(tmp_path / "tap")
    better_clock(folder)
    capture = open_capture(folder)
    found = capture.meta["conditions"]["host_log"]["clock_map"]
    assert found["method"] == f"{COUNT + 2} commands in both logs" and 0 < found["bound_s"] < 12e-6
    assert not check(capture.path).damaged
    better_clock(folder)  # none is better than itself
    assert open_capture(folder).meta["conditions"]["host_log"]["clock_map"] == found
