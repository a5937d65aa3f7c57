"""From a fio job to figures through the Verilated instrument, with the real programs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from wattbell.analysis.context import load
from wattbell.capture import open_capture
from wattbell.export import export_sigrok
from wattbell.export.sigrok import DECODERS

from tests.e2e.virtual import MARKS, finished, wattbell
from tests.patience import PATIENCE_S
from tests.sim.rig.rig_trace import encode, records, squeeze

pytestmark = MARKS
needs_sigrok = pytest.mark.needs("sigrok-cli")

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
    out, _ = finished(wattbell(folder, *arguments, "--keep-trace", "--keep-stream"))
    return folder, json.loads(out)


def sigrok(*words: object) -> list[tuple[int, int, str]]:
    """Return (first sample, last sample, text) of the annotations that sigrok-cli prints."""
    command = ["sigrok-cli", *map(str, words), "--protocol-decoder-samplenum"]
    environment = {**os.environ, "SIGROKDECODE_DIR": str(DECODERS)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    found = re.findall(r"^(\d+)-(\d+) \w+-1: (.*)$", done.stdout, flags=re.MULTILINE)
    return [(int(first), int(last), text) for first, last, text in found]


@needs_sigrok
def test_sigrok_decodes_the_instruments_stream(recorded: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    folder, _ = recorded
    stream = tmp_path / "part.wbs"
    stream.write_bytes((folder / "capture/stream.wbs").read_bytes()[-90_000:])  # begins in the middle of a block
    pins = "wattbell:" + ":".join(f"d{k}={k}" for k in range(8))
    said = [text for *_, text in sigrok("-i", stream, "-I", "binary:numchannels=8", "-P", pins, "-A", "wattbell=command:warning")]
    commands = [text for text in said if " cid " in text]
    wire = pl.read_parquet(folder / "capture/commands.parquet").tail(len(commands))
    assert len(commands) > 10
    for text, row in zip(commands, wire.iter_rows(named=True), strict=True):
        latency = f"{(row['cqe_tick'] - row['doorbell_tick']) / 1000:.3f} us"
        assert text.startswith(f"{'Read' if row['opcode'] == 2 else 'Write'} q1 cid {row['cid']} LBA {row['slba']} +") or row["qid"] == 0
        assert latency in text
    others = [text for text in said if " cid " not in text]
    assert len(others) == 1 and others[0].endswith("bytes belong to no block"), others


@needs_sigrok
def test_sigrok_sees_the_phases_of_commands(recorded: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    folder, _ = recorded
    wire = pl.read_parquet(folder / "capture/commands.parquet").filter(pl.col("opcode") == 1, pl.col("qid") == 1).sort("doorbell_tick")
    capture = open_capture(folder / "capture")
    zero = wire["doorbell_tick"][0] - 1_000_000
    first_tick = load(capture).first_tick
    made = export_sigrok(capture, tmp_path / "x.sr", start_s=(zero - first_tick) * 1e-9, samplerate_hz=10_000_000)
    pins = (
        "doorbell=DOORBELL",
        "cqe=CQE",
        "fetch=FETCH",
        "data=DATA",
        "clkreq=CLKREQ#",
        "perst=PERST#",
        "link0=LINK0",
        "link1=LINK1",
        "link2=LINK2",
        "busy=BUSY",
    )
    nvme = ["-i", made.path, "-P", ":".join(["nvme", *pins])]
    writes = [row for row in sigrok(*nvme, "-A", "nvme=command") if row[0] >= 9_999]
    assert len(writes) >= len(wire) == 8
    for (first, last, _), row in zip(writes, wire.iter_rows(named=True), strict=False):
        for sample, tick in ((first, row["doorbell_tick"]), (last, row["cqe_tick"])):
            assert abs(zero + sample * 100 - tick) <= 100
    transfers = [row for row in sigrok(*nvme, "-A", "nvme=transfer") if row[0] >= 9_999]
    for (first, last, _), row in zip(transfers, wire.iter_rows(named=True), strict=False):
        assert abs(zero + first * 100 - row["first_data_tick"]) <= 100
        assert abs(zero + last * 100 - row["last_data_tick"]) <= 200
    # the window begins among reads at depth 4
    assert [text for *_, text in sigrok(*nvme, "-A", "nvme=warning")] in (
        [],
        ["commands are in flight at the first sample: no latency before BUSY has been low"],
    )
    shown = subprocess.run(["sigrok-cli", "-i", made.path, "--show"], capture_output=True, text=True, check=True).stdout
    assert f"Analog sample count: {made.samples}" in shown


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
        deadline = time.monotonic() + PATIENCE_S
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
        rig.communicate()
    assert not (folder / "runtime" / "rigs" / "BENCH1.json").exists(), "it leaves the list when it is stopped"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_rig_started_by_a_job_that_ignores_ctrl_c_can_be_stopped(recorded: tuple[Path, dict[str, Any]], number: signal.Signals) -> None:
    """A CI job or a shell's `&` starts its children with SIGINT ignored; neither signal may leave a rig running."""
    folder, _ = recorded
    trace = folder / "capture" / "workload" / "trace.wbt"
    entry = folder / "runtime" / "rigs" / "BENCH2.json"
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        rig = wattbell(folder, "sim", "start", "--trace", trace, "--serial", "BENCH2")
    finally:
        signal.signal(signal.SIGINT, before)
    deadline = time.monotonic() + PATIENCE_S
    while not entry.exists():
        assert rig.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    rig.send_signal(number)
    try:
        rig.communicate()
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


def test_what_the_rig_warns_of_is_said_and_kept(tmp_path: Path) -> None:
    """The traffic exceeds the gateware's speed. Fast fidelity does not imitate the effect on the stream, and says so once."""
    trace, squeezed = tmp_path / "host.wbt", tmp_path / "squeezed.wbt"
    command = [sys.executable, "-m", "tests.sim.rig.host_trace", "5", "2", str(trace), str(tmp_path / "none.json"), "--polled"]
    subprocess.run(command, check=True, cwd=ROOT)
    for longest_us, told in ((0.1, 1), (1, 0)):
        squeezed.write_bytes(encode(squeeze(records(trace), longest_us)))
        arguments = ("sim", "replay", "--bus-trace", squeezed, "--fidelity", "fast", "--out", tmp_path / "capture", "--force")
        _, said = finished(wattbell(tmp_path, *arguments))
        assert said.count("warning: TLPs came faster than the tracker takes them") == told
        notes = json.loads((tmp_path / "capture" / "meta.json").read_text())["conditions"]["notes"]
        assert sum("the virtual rig warned: TLPs came faster" in note for note in notes) == told
