"""From a fio job to figures through the Verilated instrument, with the real programs."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from virtual import MARKS, finished, wattbell
from wattbell.capture import open_capture

pytestmark = MARKS

ROOT = Path(__file__).parents[2]


JOB = """
[warm]
filename=/dev/nvme0n1
direct=1
rw=randread
bs=4k
iodepth=4
size=1g
io_size=1m
[cold]
stonewall
filename=/dev/nvme0n1
direct=1
rw=write
bs=128k
size=1m
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("run")
    (folder / "job.fio").write_text(JOB)
    arguments = ("run", folder / "job.fio", "--virtual", "intel-660p-1tb", "--out", folder / "capture", "--json")
    out, _ = finished(wattbell(folder, *arguments, "--keep-trace"))
    return folder, json.loads(out)


def test_the_wire_agrees_with_fio_and_with_the_models_truth(recorded: tuple[Path, dict[str, Any]]) -> None:
    _, result = recorded
    assert result["fio"]["equal"] is True
    by_opcode = result["commands"]["by_opcode"]
    assert (by_opcode["read"]["count"], by_opcode["read"]["bytes"]) == (256, 1 << 20)
    assert (by_opcode["write"]["count"], by_opcode["write"]["bytes"]) == (8, 1 << 20)
    truth = result["truth"]["commands"]
    assert truth["paired"] == truth["truth"] == truth["records"]
    assert truth["max_ticks"] <= 1
    for phase in result["truth"]["phases"]:  # the second one lasts 0.66 ms: the front end's delay shows there
        assert abs(phase["energy_error"]) <= 0.002


def test_the_capture_knows_drive_conditions_and_workload(recorded: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = recorded
    capture = open_capture(folder / "capture")
    assert capture.meta["loss"]["lossless"] is True
    assert capture.meta["drive"]["model"] == "INTEL SSDPEKNW010T8"
    assert len(capture.meta["drive"]["power_states"]) == 5
    assert capture.lba_size_known
    assert capture.meta["conditions"]["profile"] == "intel-660p-1tb"
    assert capture.meta["conditions"]["virtual"] is True
    assert [phase["kind"] for phase in capture.phases] == ["fio"] * len(capture.phases)
    kept = {path.name for path in capture.workload_dir.iterdir()}
    assert {"job.fio", "fio.json", "truth.json", "truth-commands.csv", "phases.json", "trace.wbt"} <= kept
    assert not (folder / "capture" / "stream.wbs").exists()


def test_a_replayed_trace_gives_the_same_commands(recorded: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = recorded
    trace = folder / "capture" / "workload" / "trace.wbt"
    arguments = ("sim", "replay", "--bus-trace", trace, "--out", folder / "again", "--decimation", 100, "--json")
    told = json.loads(finished(wattbell(folder, *arguments))[0])
    assert told["lossless"] is True
    first, again = open_capture(folder / "capture"), open_capture(folder / "again")
    assert first.commands.collect().equals(again.commands.collect())
    assert again.meta["rail"]["interval_ticks"] == 100_000


def test_a_rig_that_waits_is_listed_recorded_and_then_spent(recorded: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = recorded
    trace = folder / "capture" / "workload" / "trace.wbt"
    rig = wattbell(folder, "sim", "start", "--trace", trace, "--serial", "BENCH1")
    try:
        deadline = time.monotonic() + 60
        while not (folder / "runtime" / "rigs" / "BENCH1.json").exists():
            assert rig.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        listed = json.loads(finished(wattbell(folder, "rigs", "--json"))[0])
        assert [(port["serial"], port["virtual"]) for port in listed] == [("BENCH1", True)]
        assert "state=READY" in json.loads(finished(wattbell(folder, "info", "--rig", "BENCH1", "--json"))[0])["status"]
        record = ("record", "--rig", "BENCH1", "--out", folder / "third", "--decimation", 10)
        finished(wattbell(folder, *record))
        count = pl.len()
        whole = open_capture(folder / "capture").commands.select(count).collect().item()
        assert open_capture(folder / "third").commands.select(count).collect().item() == whole
        _, err = finished(wattbell(folder, "record", "--rig", "BENCH1", "--out", folder / "fourth"), 1)
        assert "start it again" in err
    finally:
        rig.send_signal(signal.SIGINT)
        rig.communicate(timeout=30)
    assert not (folder / "runtime" / "rigs" / "BENCH1.json").exists(), "it leaves the list when it is stopped"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_rig_started_by_a_job_that_ignores_ctrl_c_can_be_stopped(
    recorded: tuple[Path, dict[str, Any]], number: signal.Signals
) -> None:
    """A CI job or a shell's `&` starts its children with SIGINT ignored; neither signal may leave a rig behind."""
    folder, _ = recorded
    trace = folder / "capture" / "workload" / "trace.wbt"
    entry = folder / "runtime" / "rigs" / "BENCH2.json"
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        rig = wattbell(folder, "sim", "start", "--trace", trace, "--serial", "BENCH2")
    finally:
        signal.signal(signal.SIGINT, before)
    deadline = time.monotonic() + 60
    while not entry.exists():
        assert rig.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    rig.send_signal(number)
    try:
        rig.communicate(timeout=30)
    finally:
        rig.kill()
    assert not entry.exists()


def test_a_bad_job_is_told_in_the_models_words(recorded: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = recorded
    (folder / "bad.fio").write_text("[a]\nrw=read\nno_such_option=1\n")
    arguments = ("run", folder / "bad.fio", "--virtual", "intel-660p-1tb", "--out", folder / "bad")
    _, err = finished(wattbell(folder, *arguments), 1)
    assert "no_such_option" in err
    assert not (folder / "bad").exists()
