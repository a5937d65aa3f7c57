"""wattbell-ssd against third-party readers: cocotbext-pcie unpacks the TLPs, and this file integrates the rail."""

from __future__ import annotations

import csv
import json
import subprocess
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from cocotbext.pcie.core.tlp import Tlp, TlpType

JOB = """[global]
direct=1
size=1g
stonewall
[rand]
rw=randrw
rwmixread=70
bs=4k
iodepth=8
io_size=2m
fsync=64
[seq]
rw=write
bs=256k
iodepth=2
io_size=4m
[trim]
rw=trim
bs=1m
io_size=8m
"""
PLAN = """[[step]]
name = "jobs"
fio = "jobs.fio"
[[step]]
name = "idle"
idle_s = 0.2
apst = true
aspm = "l1.2"
[[step]]
name = "wake"
wake = { idle_s = 0.15 }
apst = true
aspm = "l1.2"
[[step]]
name = "asked for"
idle_s = 0.05
ps = 3
"""


@pytest.fixture(scope="module")
def binaries(sim_program: Callable[[str], Path]) -> Path:
    assert sim_program("wattbell-bus-dump").parent == sim_program("wattbell-ssd").parent
    return sim_program("wattbell-ssd").parent


def run(binaries: Path, folder: Path, *extra: str) -> None:
    (folder / "jobs.fio").write_text(JOB)
    (folder / "plan.toml").write_text(PLAN)
    outputs = [f"--{name}={folder / name}" for name in ("trace", "truth", "truth-commands", "fio-json", "phases")]
    command = [binaries / "wattbell-ssd", "run", "--plan", folder / "plan.toml", *outputs, *extra]
    subprocess.run(command, check=True)


@pytest.fixture(scope="module")
def folder(binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("run")
    run(binaries, path)
    return path


@pytest.fixture(scope="module")
def events(binaries: Path, folder: Path) -> list[dict[str, Any]]:
    dump = subprocess.run([binaries / "wattbell-bus-dump", folder / "trace"], capture_output=True, check=True).stdout
    return [json.loads(line) for line in dump.splitlines()]


def sqes(events: list[dict[str, Any]]) -> list[tuple[int, bytes]]:
    """Return (time of the completion in ps, SQE) of every 64-byte piece in completions of the drive's reads of n * 64 bytes."""
    asked: dict[int, Tlp] = {}
    tables = set()  # APST tables are fetched too, 256 bytes each
    data: dict[int, bytes] = {}
    found = []
    for event in events:
        if "tlp" not in event:
            continue
        tlp = Tlp.unpack(bytes.fromhex(event["tlp"]))
        if event["direction"] == "up" and tlp.fmt_type in (TlpType.MEM_READ, TlpType.MEM_READ_64):
            asked[tlp.tag], data[tlp.tag] = tlp, b""
        elif event["direction"] == "down" and tlp.fmt_type == TlpType.CPL_DATA and not event["left_out"]:
            data[tlp.tag] += bytes(tlp.get_data())
            request = asked[tlp.tag]
            whole = len(data[tlp.tag]) == 4 * request.length and request.length % 16 == 0
            if whole and request.address not in tables:
                entries = [data[tlp.tag][i : i + 64] for i in range(0, 4 * request.length, 64)]
                tables |= {int.from_bytes(e[24:32], "little") for e in entries if e[0] == 9 and e[40] == 0x0C}
                found += [(event["time_ps"], entry) for entry in entries]
    return found


def test_energy_of_each_phase_is_the_integral_of_the_trace(folder: Path, events: list[dict[str, Any]]) -> None:
    truth = json.loads((folder / "truth").read_text())
    rail = [(e["time_ps"], e["rail"]["current_na"] * e["rail"]["voltage_nv"]) for e in events if "rail" in e]
    rail.append((events[-1]["time_ps"], 0))
    assert len(truth["phases"]) == 6
    for phase in truth["phases"]:
        start, end = phase["start_tick"] * 1000, phase["end_tick"] * 1000
        energy = sum(power * max(0, min(until, end) - max(since, start)) for (since, power), (until, _) in pairwise(rail))
        assert phase["energy_j"] == pytest.approx(energy * 1e-30, rel=1e-12)


def test_phases_lie_between_their_markers_doorbells(folder: Path, events: list[dict[str, Any]]) -> None:
    phases = json.loads((folder / "phases").read_text())
    truth = json.loads((folder / "truth").read_text())["phases"]
    assert [(p["phase"], p["name"], p["kind"]) for p in phases] == [
        (1, "jobs/rand", "fio"),
        (2, "jobs/seq", "fio"),
        (3, "jobs/trim", "fio"),
        (4, "idle", "idle"),
        (5, "wake", "wake"),
        (6, "asked for", "idle"),
    ]
    markers = [(t, int.from_bytes(s[44:48], "little")) for t, s in sqes(events) if s[0] == 10 and s[40] == 0xD0]
    assert [value for _, value in markers] == [p["phase"] << 8 | which for p in phases for which in (1, 2)]
    doorbells = []
    for event in events:
        if event.get("direction") == "down":
            tlp = Tlp.unpack(bytes.fromhex(event["tlp"]))
            if tlp.fmt_type == TlpType.MEM_WRITE and tlp.address & 0x3FFF == 0x1000:
                doorbells.append(event["time_ps"])
    for index, (fetched, _) in enumerate(markers):
        doorbell = max(t for t in doorbells if t < fetched)
        key = ("start_tick", "end_tick")[index % 2]
        assert truth[index // 2][key] == doorbell // 1000


def test_fio_json_counts_what_is_on_the_wire(folder: Path, events: list[dict[str, Any]]) -> None:
    jobs = json.loads((folder / "fio-json").read_text())["jobs"]
    assert [j["jobname"] for j in jobs] == ["rand", "seq", "trim"]
    rand, seq, trim = jobs
    assert rand["read"]["total_ios"] + rand["write"]["total_ios"] == 512
    assert (seq["write"]["total_ios"], seq["write"]["io_bytes"]) == (16, 4 << 20)
    assert (trim["trim"]["total_ios"], trim["trim"]["io_bytes"]) == (8, 8 << 20)
    assert rand["sync"]["total_ios"] == rand["write"]["total_ios"] // 64
    io = [s for _, s in sqes(events) if s[4] == 1 and s[0] in (1, 2, 9)]
    count = {opcode: sum(s[0] == opcode for s in io) for opcode in (1, 2, 9)}
    blocks = {opcode: sum(int.from_bytes(s[48:50], "little") + 1 for s in io if s[0] == opcode) for opcode in (1, 2)}
    assert count[2] == rand["read"]["total_ios"] + 1  # and the read of the wake-up
    assert count[1] == rand["write"]["total_ios"] + 2 * 16  # 256 KiB are two commands of 128 KiB
    assert blocks[1] * 512 == rand["write"]["io_bytes"] + seq["write"]["io_bytes"]
    assert count[9] == 8


def test_truth_of_commands_has_every_completion(folder: Path, events: list[dict[str, Any]]) -> None:
    with (folder / "truth-commands").open() as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == len(sqes(events))
    ups = {e["time_ps"] for e in events if e.get("direction") == "up"}
    downs = {e["time_ps"] for e in events if e.get("direction") == "down"}
    for row in rows:
        assert int(row["doorbell_ps"]) in downs
        assert {int(row["fetch_ps"]), int(row["cqe_ps"])} <= ups
        if row["first_data_ps"]:
            assert {int(row["first_data_ps"]), int(row["last_data_ps"])} <= (downs if row["opcode"] in "19" else ups)


def test_a_seed_gives_the_same_bytes_and_another_seed_others(binaries: Path, folder: Path, tmp_path: Path) -> None:
    run(binaries, tmp_path)
    for name in ("truth", "truth-commands", "fio-json", "phases"):
        assert (tmp_path / name).read_text().replace(str(tmp_path), str(folder)) == (folder / name).read_text()
    assert (tmp_path / "trace").read_bytes() == (folder / "trace").read_bytes()
    run(binaries, tmp_path, "--seed=2")
    assert (tmp_path / "trace").read_bytes() != (folder / "trace").read_bytes()


def test_bad_input_is_one_line_that_says_where(binaries: Path, tmp_path: Path) -> None:
    job = tmp_path / "bad.fio"
    job.write_text("[a]\ndirect=1\nrw=read\nzonemode=zbd\n")
    for command in (["check", job], ["run", "--job", job, "--trace", tmp_path / "t"]):
        result = subprocess.run([binaries / "wattbell-ssd", *command], capture_output=True, text=True, check=False)
        assert result.returncode != 0
        assert f"{job}:4: option `zonemode`" in result.stderr
        assert len(result.stderr.splitlines()) == 1
        assert not (tmp_path / "t").exists()


def test_each_section_has_random_offsets_of_its_own(binaries: Path, tmp_path: Path) -> None:
    """fio seeds each job by its number. With equal offsets in the same order each job would overwrite the previous one's data."""
    sections = "".join(f"[qd{depth}]\niodepth={depth}\n" for depth in (1, 2, 4))
    job = f"[global]\ndirect=1\nstonewall\nrw=randwrite\nbs=4k\nsize=1g\nio_size=1m\n{sections}"
    (tmp_path / "jobs.fio").write_text(job)
    plan = '[[step]]\nname = "a"\nfio = "jobs.fio"\n[[step]]\nname = "b"\nfio = "jobs.fio"\n'
    (tmp_path / "plan.toml").write_text(plan)
    rows = {}
    for extra in ([], ["--summaries"]):
        outputs = [f"--{name}={tmp_path / name}" for name in ("trace", "truth-commands")]
        command = [binaries / "wattbell-ssd", "run", "--plan", tmp_path / "plan.toml", *outputs, *extra]
        subprocess.run(command, check=True)
        rows[bool(extra)] = (tmp_path / "truth-commands").read_text()
    assert rows[False] == rows[True], "the lean path is the same drive"
    writes = [int(r["slba"]) // 8 for r in csv.DictReader(rows[True].splitlines()) if r["qid"] != "0" and r["opcode"] == "1"]
    assert len(writes) == 6 * 256
    groups = [writes[k : k + 256] for k in range(0, len(writes), 256)]
    for one, other in pairwise(groups):
        assert len(set(one) & set(other)) < 8, "256 of 262 144 blocks, drawn twice: about one in common"


def test_a_plan_says_how_much_the_drive_holds(binaries: Path, tmp_path: Path) -> None:
    job = "[global]\ndirect=1\nstonewall\nrw=read\nbs=4k\nsize=1m\n[in]\noffset=0\n[behind]\noffset=1g\n"
    (tmp_path / "jobs.fio").write_text(job)
    plan = 'condition = "test-data"\ndata_bytes = 1073741824\n[[step]]\nname = "a"\nfio = "jobs.fio"\n'
    (tmp_path / "plan.toml").write_text(plan)
    outputs = [f"--{name}={tmp_path / name}" for name in ("trace", "truth")]
    subprocess.run([binaries / "wattbell-ssd", "run", "--plan", tmp_path / "plan.toml", *outputs], check=True)
    inside, behind = (p["read"]["lat_ns"]["max"] for p in json.loads((tmp_path / "truth").read_text())["phases"])
    assert inside > 30_000 > behind, "flash is read where there is data"
