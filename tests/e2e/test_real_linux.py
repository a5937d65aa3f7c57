"""Real Linux and real fio against the whole chain: drive, bus trace, Verilated gateware, recorder, analysis.

Truth is fio's JSON and fio's log of every I/O. Both ways run the same jobs: QEMU's own NVMe device (its trace log
becomes a bus trace) and our SSD model over vfio-user.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

ROOT = Path(__file__).resolve().parents[2]
GUEST = ROOT / "sim/guest"
JOBS = GUEST / "jobs"
DIRECTION = {"read": "read", "write": "write", "trim": "dsm", "sync": "flush"}
BLOCK = 512
TICK_S = 1e-9

pytestmark = [pytest.mark.xdist_group("real-linux"), pytest.mark.timeout(900)]


def call(*words: str | Path) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, words))}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@dataclass
class Run:
    """A guest run, its capture and the output of `wattbell analyze --json`."""

    folder: Path
    capture: Path
    analysis: dict[str, Any]

    def phases(self) -> list[dict[str, Any]]:
        return [p for p in json.loads((self.folder / "phases.json").read_text()) if p["kind"] == "fio"]

    def fio(self, phase: dict[str, Any]) -> dict[str, Any]:
        """fio's commands and bytes of a phase, by the opcode they become."""
        jobs = json.loads((self.folder / phase["fio"]).read_text())["jobs"]
        out = {}
        for direction, opcode in DIRECTION.items():
            count = sum(job[direction]["total_ios"] for job in jobs)
            if count:
                out[opcode] = (count, sum(job[direction].get("io_bytes", 0) for job in jobs))
        return out

    def analysed(self, phase: dict[str, Any]) -> dict[str, Any]:
        return next(p for p in self.analysis["phases"] if p["phase"] == phase["phase"])

    def wire(self, phase: dict[str, Any]) -> dict[str, Any]:
        found = self.analysed(phase)["commands"]["by_opcode"]
        return {name: (entry["count"], entry["bytes"]) for name, entry in found.items()}


def make(folder: Path, way: str, source: str, jobs: list[Path], *options: str) -> Run:
    run, capture = folder / "run", folder / "capture"
    call(sys.executable, GUEST / "run.py", "--drive", way, "--out", run, "--jobs", *jobs, *options)
    trace = run / ("qemu.log" if source == "--qemu-log" else "trace.wbt")
    cli = [sys.executable, "-m", "wattbell"]
    # 20 kSPS: power states last milliseconds, and simulating a million conversions per second would take minutes
    call(*cli, "sim", "replay", source, trace, "--workload", run, "--out", capture, "--interval", "0.00005")
    return Run(run, capture, json.loads(call(*cli, "analyze", capture, "--json")))


@pytest.fixture(scope="module")
def qemu(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make(tmp_path_factory.mktemp("qemu"), "qemu", "--qemu-log", [JOBS / "ci"], "--io-log")


@pytest.fixture(scope="module")
def vfio(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make(tmp_path_factory.mktemp("vfio"), "vfio", "--bus-trace", [JOBS / "ci", JOBS / "idle"], "--io-log")


@pytest.fixture(params=["qemu", "vfio"])
def either(request: pytest.FixtureRequest) -> Run:
    found: Run = request.getfixturevalue(request.param)
    return found


def test_commands_and_bytes_by_opcode_equal_fios_in_every_job(either: Run) -> None:
    differ = {p["name"]: (either.wire(p), either.fio(p)) for p in either.phases() if either.wire(p) != either.fio(p)}
    assert len(either.phases()) == 11
    assert differ == {}


def test_nothing_is_lost_on_the_way(either: Run) -> None:
    loss = either.analysis["loss"]
    assert loss["rig"] == {}
    assert loss["commands"] == 0
    assert loss["meta"].get("lossless") is True


@pytest.mark.parametrize(("name", "opcode"), [("randread-4k-qd1", 2), ("randwrite-4k-qd1", 1)])
def test_every_latency_at_queue_depth_1_is_at_most_fios_of_the_same_io(either: Run, name: str, opcode: int) -> None:
    phase = next(p for p in either.phases() if p["name"] == name)
    span = either.analysed(phase)
    commands = pl.read_parquet(either.capture / "commands.parquet").filter(
        (pl.col("qid") > 0) & pl.col("cqe_tick").is_between(span["first_tick"], span["last_tick"])
    )
    log = (either.folder / f"fio-{phase['phase']}_lat.1.log").read_text().splitlines()
    ios = [[int(word) for word in line.split(",")] for line in log]
    assert commands["opcode"].unique().to_list() == [opcode]
    assert (commands["slba"] * BLOCK).to_list() == [io[4] for io in ios]
    assert commands["doorbell_tick"].null_count() == 0
    bus_ns = ((commands["cqe_tick"] - commands["doorbell_tick"]) * TICK_S * 1e9).to_list()
    slower = [(bus, io[1]) for bus, io in zip(bus_ns, ios, strict=True) if bus > io[1]]
    assert len(bus_ns) == 300
    assert slower == []


def test_qemus_drive_has_no_rail_and_no_figure_of_power(qemu: Run) -> None:
    assert "absent" in qemu.analysis["power"]
    assert any("1 us" in warning for warning in qemu.analysis["warnings"])


def test_linux_itself_sends_our_drive_to_its_deepest_state(vfio: Run) -> None:
    """APST as the guest's kernel programmed it: the idle phase draws milliwatts, and the read after it waits."""
    apst = (vfio.folder / "apst.txt").read_text()
    assert "APSTE): Enabled" in apst
    idle = next(p for p in vfio.analysis["phases"] if p["kind"] == "idle")
    lowest = min(vfio.analysis["idle"]["levels"], key=lambda level: level["mean_w"]["value"])
    assert 0.009 < lowest["mean_w"]["value"] < 0.011  # the 10 mW of the review on which the profile is based
    assert idle["name"] in lowest["phases"]
    states = pl.read_parquet(vfio.capture / "commands.parquet").filter(pl.col("qid") == 0)
    # 54.8 ms in the profile; the host sees it only when it ends an idle period
    assert ((states["cqe_tick"] - states["doorbell_tick"]) * TICK_S).max() > 0.05  # type: ignore[operator]


def test_shadow_doorbells_are_told_and_latency_falls_back(tmp_path: Path) -> None:
    jobs = [JOBS / "ci" / f"{name}.fio" for name in ("10-randread-4k-qd1", "21-randwrite-4k-qd4", "50-trim")]
    run = make(tmp_path, "qemu", "--qemu-log", jobs, "--dbcs", "on")
    assert {p["name"]: run.wire(p) for p in run.phases()} == {p["name"]: run.fio(p) for p in run.phases()}
    assert any("shadow doorbells" in warning for warning in run.analysis["warnings"])
    for entry in run.analysis["commands"]["by_opcode"].values():
        assert entry["latency_s"]["from"] == "fetch"
