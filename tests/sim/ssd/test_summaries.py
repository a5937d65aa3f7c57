"""Fast fidelity against the controller's TLPs: the same commands at the same picoseconds, the same energy."""

from __future__ import annotations

import csv
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

JOBS = """[global]
direct=1
size=4g
stonewall
[random-read]
rw=randread
bs=4k
iodepth=32
io_size=6m
[random-write]
rw=randwrite
bs=4k
iodepth=4
io_size=4m
fsync=64
[mixed]
rw=randrw
bs=16k
iodepth=4
numjobs=3
io_size=3m
[large]
rw=write
bs=256k
iodepth=2
io_size=16m
[sequential]
rw=read
bs=128k
iodepth=8
io_size=16m
[bursts]
rw=randread
bs=512
thinktime=120ms
thinktime_blocks=64
io_size=64k
"""
TRACE = """fio version 3 iolog
0 f add
0 f open
0 f write 4096 8192
3 f read 0 4096
3 f read 1048576 131072
4 f datasync 0 0
2000000 f read 512 512
2000004 f close
"""
PLAN = """[[step]]
fio = "jobs.fio"
apst = true
aspm = "l1.2"
[[step]]
trace = "t.iolog"
[[step]]
name = "a corner"
fill = { span = 0.00002, bs = "64k" }
[[step]]
name = "wake"
wake = { idle_s = 0.15 }
apst = true
"""


@pytest.fixture(scope="module", params=["intel-660p-1tb", "toshiba-rc100"])
def runs(request: pytest.FixtureRequest, sim_program: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folders = {}
    for name, extra in (("tlps", []), ("summaries", ["--summaries"])):
        folder = folders[name] = tmp_path_factory.mktemp(name)
        for file, text in (("jobs.fio", JOBS), ("t.iolog", TRACE), ("plan.toml", PLAN)):
            (folder / file).write_text(text)
        outputs = [f"--{o}={folder / o}" for o in ("trace", "truth", "truth-commands", "fio-json", "phases")]
        command = [sim_program("wattbell-ssd"), "run", "--plan", folder / "plan.toml", *outputs, *extra]
        subprocess.run([*command, "--profile", request.param], check=True)
    return folders


def commands(folder: Path) -> list[dict[str, str]]:
    with (folder / "truth-commands").open() as file:
        return list(csv.DictReader(file))


def test_every_command_has_the_same_instants(runs: dict[str, Path]) -> None:
    tlps, summaries = (commands(runs[name]) for name in ("tlps", "summaries"))
    assert len(tlps) > 3000
    assert sorted(map(str, tlps)) == sorted(map(str, summaries))


def test_lent_memory_has_the_same_traffic(runs: dict[str, Path]) -> None:
    tlps, summaries = (json.loads((runs[name] / "truth").read_text())["host_memory_buffer"] for name in ("tlps", "summaries"))
    assert tlps == summaries


def test_the_trace_carries_what_the_truth_says(sim_program: Callable[[str], Path], runs: dict[str, Path]) -> None:
    dump = subprocess.run([sim_program("wattbell-bus-dump"), runs["summaries"] / "trace"], capture_output=True, check=True)
    found = [e["summary"] for line in dump.stdout.splitlines() if "summary" in (e := json.loads(line))]
    keys = ("qid", "cid", "opcode", "slba", "blocks", "doorbell_ps", "fetch_ps", "cqe_ps", "cq_head_ps")
    want = [tuple(c[k] for k in keys) for c in commands(runs["summaries"]) if c["qid"] != "0"][:-1]  # the wake-up is TLPs

    def value(summary: dict[str, Any], key: str) -> str:
        return str(summary[key] if key in summary else summary["instants"][key])

    assert sorted(tuple(value(s, k) for k in keys) for s in found) == sorted(want)


def test_energy_and_phases_agree(runs: dict[str, Path]) -> None:
    tlps, summaries = (json.loads((runs[name] / "truth").read_text())["phases"] for name in ("tlps", "summaries"))
    for a, b in zip(tlps, summaries, strict=True):
        assert (a["name"], a["start_tick"], a["end_tick"]) == (b["name"], b["start_tick"], b["end_tick"])
        # At each end of the phase a step of 20 us may lie on both sides of it, or 1 ms of steps that differ by a tenth.
        ends_j = 2 * (20e-6 + 0.1 * 1e-3) * max(a["max_w"], b["max_w"])
        assert abs(a["energy_j"] - b["energy_j"]) < ends_j + 1e-4 * a["energy_j"]
    whole = [sum(p["energy_j"] for p in side) for side in (tlps, summaries)]
    assert whole[1] == pytest.approx(whole[0], rel=2e-3)
    phases = json.loads((runs["summaries"] / "phases").read_text())
    assert [p["kind"] for p in phases][-3:] == ["trace", "precondition", "wake"]
    assert [p["measured"] for p in phases][-3:] == [True, False, True]


def test_replay_cuts_idle_time_and_keeps_the_rest(runs: dict[str, Path]) -> None:
    truth = json.loads((runs["summaries"] / "truth").read_text())["phases"]
    trace = next(p for p in truth if p["name"] == "t")
    assert 0.025 < trace["duration_s"] < 0.035  # two seconds in the trace
    assert (trace["read"]["count"], trace["write"]["count"], trace["flushes"]) == (3, 1, 1)
