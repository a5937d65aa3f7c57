"""The real recorder process against a serial port (a pty) that misbehaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from wattbell.capture import open_capture

from tests.e2e import stream_maker as maker
from tests.patience import PATIENCE_S

HERE = Path(__file__).parent


class Bench:
    """Starts feeders and recorders in one runtime folder, and stops them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {**os.environ, "WATTBELL_RUNTIME": str(folder / "runtime")}
        self.processes: list[subprocess.Popen[str]] = []

    def feeder(self, stream: bytes, *options: str, serial: str = "FEED1") -> subprocess.Popen[str]:
        path = self.folder / f"{serial}.wbs"
        path.write_bytes(stream)
        command = [sys.executable, str(HERE / "feeder.py"), "--stream", str(path), "--serial", serial, *options]
        process = self.start(command)
        registered = self.folder / "runtime" / "rigs" / f"{serial}.json"
        wait_for(registered.exists, "the feeder")
        return process

    def start(self, command: list[str]) -> subprocess.Popen[str]:
        process = subprocess.Popen(command, env=self.env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        self.processes.append(process)
        return process

    def wattbell(self, *arguments: str) -> subprocess.Popen[str]:
        return self.start([sys.executable, "-m", "wattbell", *arguments])

    def end(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.communicate()


def wait_for(condition: Any, what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited too long for {what}"
        time.sleep(0.02)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.end()


def finished(process: subprocess.Popen[str]) -> tuple[str, str]:
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert "Traceback" not in err
    return out, err


def test_a_whole_run_is_recorded_exactly(bench: Bench, tmp_path: Path) -> None:
    blocks = maker.stream(2000)
    bench.feeder(b"".join(blocks))
    out, _ = finished(bench.wattbell("record", "--out", str(tmp_path / "cap"), "--json"))
    told = json.loads(out)
    assert told["ended"] == "the rig stopped"
    assert told["lossless"] is True
    assert told["commands"] == 2000 * maker.COMMANDS_A_BLOCK
    capture = open_capture(tmp_path / "cap")
    assert capture.state == "complete"
    assert capture.meta["rig"]["model"] == "feeder"
    assert capture.meta["conditions"]["virtual"] is True
    commands = capture.commands.collect()
    assert commands["cqe_tick"][0] == 1900
    assert commands["doorbell_tick"][0] == 1100
    assert commands["cq_head_tick"][0] == 1990
    assert commands["slba"][-1] == 1999 * 80 + 72
    rail = capture.rail
    assert rail is not None
    assert rail.samples == 2000 * maker.SAMPLES_A_BLOCK
    wave = rail.read()
    assert np.isfinite(wave.power).all()
    assert wave.voltage[0] == pytest.approx(3.3, rel=1e-6)
    assert wave.current[-1] == pytest.approx((1000 + 1999 % 500) * 500e-9, rel=1e-6)
    assert capture.gaps.collect().is_empty()
    assert not (tmp_path / "cap" / "stream.wbs").exists()


def test_a_run_that_begins_and_ends_in_one_piece_of_data_ends_the_recording(bench: Bench, tmp_path: Path) -> None:
    bench.feeder(b"".join(maker.stream(1)))
    told = json.loads(finished(bench.wattbell("record", "--out", str(tmp_path / "cap"), "--json"))[0])
    assert told["ended"] == "the rig stopped"
    assert told["commands"] == maker.COMMANDS_A_BLOCK


def test_stop_by_ctrl_c_completes_the_capture(bench: Bench, tmp_path: Path) -> None:
    blocks = maker.stream(3000)
    tail = len(blocks[-1]) + len(blocks[-2])
    bench.feeder(b"".join(blocks), "--rate", "200000", "--tail", str(tail))
    recorder = bench.wattbell("record", "--out", str(tmp_path / "cap"), "--keep-stream")
    journal = tmp_path / "cap" / "stream.wbs"
    wait_for(lambda: journal.exists() and journal.stat().st_size > 50_000, "data")
    recorder.send_signal(signal.SIGINT)
    finished(recorder)
    capture = open_capture(tmp_path / "cap")
    assert capture.state == "complete"
    assert capture.commands.select(pl.len()).collect().item() > 0
    assert capture.events.collect()["name"].to_list() == ["run", "run"]
    assert journal.exists()


@pytest.mark.parametrize("limit", ["duration", "marker"])
def test_limits_end_the_recording(bench: Bench, tmp_path: Path, limit: str) -> None:
    blocks = maker.stream(3000)
    tail = len(blocks[-1]) + len(blocks[-2])
    if limit == "marker":  # takes the place of a COMMANDS block, so that the sequence stays intact
        tick = 1000 + 300 * maker.SAMPLES_A_BLOCK * 1000
        blocks[2 + 600] = maker.encoder.events(602, tick, [(tick, 7, 0, 0, 0x102)])
    bench.feeder(b"".join(blocks), "--rate", "300000", "--tail", str(tail))
    options = ["--duration", "0.02"] if limit == "duration" else ["--until-marker", "0x102"]
    out, _ = finished(bench.wattbell("record", "--out", str(tmp_path / "cap"), "--json", *options))
    told = json.loads(out)
    assert ("0.02 s" if limit == "duration" else "0x102") in told["ended"]
    assert 0.02 <= told["seconds"] < 0.3


def test_kill_9_loses_nothing_that_had_been_on_disk_for_half_a_second(bench: Bench, tmp_path: Path) -> None:
    stream = b"".join(maker.stream(20_000))
    sent = tmp_path / "sent"
    bench.feeder(stream, "--rate", "400000", "--sent", str(sent))
    recorder = bench.wattbell("record", "--out", str(tmp_path / "cap"))
    wait_for(lambda: sent.exists() and int(sent.read_text() or 0) > 600_000, "data")
    before = int(sent.read_text())
    time.sleep(0.5)
    recorder.kill()
    recorder.communicate()
    assert json.loads((tmp_path / "cap" / "meta.json").read_text())["state"] == "recording"
    info = bench.wattbell("info", str(tmp_path / "cap"), "--json")
    told = json.loads(finished(info)[0])
    assert told["state"] == "recovered"
    assert told["loss"]["bytes_in"] >= before
    capture = open_capture(tmp_path / "cap")
    whole = maker.COMMANDS_A_BLOCK * ((before - 1000) * 20_000 // len(stream))
    commands = capture.commands.collect()
    assert len(commands) >= whole
    wanted = [k * 80 + i * 8 for k in range(len(commands) // 10 + 1) for i in range(10)]
    assert commands["slba"].to_list() == wanted[: len(commands)]
    assert capture.rail is not None
    assert np.isfinite(capture.rail.read().power).all()
    assert told["clock"]["utc_anchor"] is not None


def test_unplug_and_replug_leaves_a_gap_and_goes_on(bench: Bench, tmp_path: Path) -> None:
    blocks = maker.stream(1000)
    cut = sum(map(len, blocks[:800])) + 33  # in the middle of a block
    skip = sum(map(len, blocks[800:900])) - 33 + 40  # comes back in the middle of another
    bench.feeder(b"".join(blocks), "--cut-at", str(cut), "--cut-skip", str(skip))
    recorder = bench.wattbell("record", "--out", str(tmp_path / "cap"), "--json")
    out, err = finished(recorder)
    told = json.loads(out)
    assert "is gone" in err
    assert "is back" in err
    assert told["lossless"] is False
    assert told["loss"]["missing_blocks"] == 101  # 800 .. 899, and 900, whose start was lost
    assert told["loss"]["restarts"] == 0
    capture = open_capture(tmp_path / "cap")
    rows = {row["kind"]: row for row in capture.gaps.collect().iter_rows(named=True)}
    assert rows["ANY"]["count"] == 101
    assert rows["RAIL"]["count"] == 50 * maker.SAMPLES_A_BLOCK
    commands = capture.commands.collect()
    assert len(commands) == (1000 - 51) * maker.COMMANDS_A_BLOCK
    assert capture.rail is not None
    power = capture.rail.read().power
    assert int(np.isnan(power).sum()) == rows["RAIL"]["count"]
    first = capture.rail.sample_at(rows["RAIL"]["first_tick"])
    assert np.isnan(power[first : first + rows["RAIL"]["count"]]).all()


def test_a_rig_that_restarts_while_unplugged_begins_a_new_epoch(bench: Bench, tmp_path: Path) -> None:
    first, second = maker.stream(500, stop=False), maker.stream(300)
    cut = sum(map(len, first))
    bench.feeder(b"".join(first + second), "--cut-at", str(cut))
    told = json.loads(finished(bench.wattbell("record", "--out", str(tmp_path / "cap"), "--json"))[0])
    assert told["loss"]["restarts"] == 1
    assert told["loss"]["missing_blocks"] == 0
    capture = open_capture(tmp_path / "cap")
    ticks = capture.commands.collect()["cqe_tick"]
    assert len(ticks) == 800 * maker.COMMANDS_A_BLOCK
    assert ticks.is_sorted()
    assert ticks[5000] - ticks[4999] > 100_000_000  # the plug was out for longer than that
    assert any("restarted" in note for note in capture.meta["conditions"]["notes"])
    assert "the rig restarted" in capture.gaps.collect()["reason"].to_list()


def test_damage_on_the_line_is_counted_and_survived(bench: Bench, tmp_path: Path) -> None:
    blocks = maker.stream(1000)
    damaged = bytearray(b"".join(blocks))
    offsets = np.cumsum([0] + [len(b) for b in blocks])
    for index in (100, 101, 500, 777):
        damaged[offsets[index] + 30] ^= 0x10
    bench.feeder(bytes(damaged))
    told = json.loads(finished(bench.wattbell("record", "--out", str(tmp_path / "cap"), "--json"))[0])
    loss = told["loss"]
    assert loss["bad_crc"] == 4
    assert loss["missing_blocks"] == 4
    assert loss["skipped_bytes"] == sum(len(blocks[i]) for i in (100, 101, 500, 777))


def test_two_recorders_on_one_rig_is_an_error_that_says_so(bench: Bench, tmp_path: Path) -> None:
    bench.feeder(b"".join(maker.stream(3000)), "--rate", "100000")
    bench.wattbell("record", "--out", str(tmp_path / "one"))
    wait_for(lambda: (tmp_path / "one" / "stream.wbs").exists(), "the first recorder")
    second = bench.wattbell("record", "--out", str(tmp_path / "two"))
    _, err = second.communicate()
    assert second.returncode == 1
    assert "another program" in err
    assert "Traceback" not in err


def test_opening_a_capture_that_is_being_recorded_is_refused(bench: Bench, tmp_path: Path) -> None:
    bench.feeder(b"".join(maker.stream(3000)), "--rate", "100000")
    bench.wattbell("record", "--out", str(tmp_path / "cap"))
    wait_for(lambda: (tmp_path / "cap" / "stream.wbs").exists(), "the recorder")
    info = bench.wattbell("info", str(tmp_path / "cap"))
    _, err = info.communicate()
    assert info.returncode == 1
    assert "still being recorded" in err


def test_rigs_lists_what_runs_and_errors_tell_what_to_do(bench: Bench, tmp_path: Path) -> None:
    nothing = bench.wattbell("record", "--out", str(tmp_path / "cap"))
    _, err = nothing.communicate()
    assert nothing.returncode == 1
    assert "No rig found" in err
    assert not (tmp_path / "cap").exists()
    bench.feeder(b"", serial="A1")
    bench.feeder(b"", serial="B2")
    listed = json.loads(finished(bench.wattbell("rigs", "--json"))[0])
    assert [port["serial"] for port in listed] == ["A1", "B2"]
    both = bench.wattbell("record", "--out", str(tmp_path / "cap"))
    _, err = both.communicate()
    assert both.returncode == 1
    assert "--rig" in err
    told = json.loads(finished(bench.wattbell("info", "--rig", "B2", "--json"))[0])
    assert told["serial"] == "B2"
